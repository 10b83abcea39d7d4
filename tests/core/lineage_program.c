/* SPDX-License-Identifier: Apache-2.0 */
/* A driver whose values lie on other nodes, and which does what it is told, a line each
 * (test_lineage.py). The answer begins with the name of the status.
 *     node           where the driver is
 *     chain N        a large value, and N tasks one behind the other; only the last ref is kept
 *     pieces N       N large values, all kept, made from numbers
 *     puts N         the same, made from large values that were put and are not kept
 *     stream N       the same, items of a stream that has ended
 *     open N         ... that goes on
 *     fewer N FILE   ... whose task yields 3 fewer when it runs again
 *     once N         ... whose task may run once
 *     at I           the byte of a piece, read by this process
 *     sum            of what the pieces were made from, by a task for each and one for all
 *     lent NODE      an actor there has the ref of the chain
 *     read           what that actor reads
 *     value          what this process reads: a byte and the milliseconds that it took */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <crt.h>

#define BYTES      (100 << 10) /* lies in the store */
#define PIECES_MAX 1000

static crt_status_t give_bytes(crt_call_t *call, int byte, bool is_yielded)
{
    char *bytes = malloc(BYTES);
    crt_status_t status;

    if (!bytes)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "no memory");
    memset(bytes, byte, BYTES);
    status = is_yielded ? crt_yield(call, ((crt_bytes_t){bytes, BYTES}))
                        : crt_return(call, ((crt_bytes_t){bytes, BYTES}));
    free(bytes);
    return status;
}

static crt_status_t return_bytes(crt_call_t *call, int byte)
{
    return give_bytes(call, byte, false);
}

static crt_status_t base_run(crt_call_t *call)
{
    int64_t number;

    CRT_TRY(crt_args(call, &number));
    return return_bytes(call, (int)(number % 100));
}
static const crt_task_t base =
    CRT_TASK(.name = "base", .run = base_run, .signature = "int");

static crt_status_t next_run(crt_call_t *call)
{
    crt_bytes_t before;

    CRT_TRY(crt_args(call, &before));
    return return_bytes(call, *(const char *)before.data + 1);
}
static const crt_task_t next =
    CRT_TASK(.name = "next", .run = next_run, .signature = "bytes");

/* The first byte. */
static crt_status_t first_run(crt_call_t *call)
{
    crt_bytes_t bytes;

    CRT_TRY(crt_args(call, &bytes));
    return crt_return(call, (int64_t) * (const char *)bytes.data);
}
static const crt_task_t first =
    CRT_TASK(.name = "first", .run = first_run, .signature = "bytes");

/* Yields so many; then, without an end, more. */
static crt_status_t items_run(crt_call_t *call)
{
    int64_t count;
    bool has_end;

    CRT_TRY(crt_args(call, &count, &has_end));
    for (int64_t i = 0; i < count || !has_end; i++)
        CRT_TRY(give_bytes(call, (int)(i % 100), true));
    return CRT_OK;
}
static const crt_task_t yields =
    CRT_TASK(.name = "yields", .run = items_run, .signature = "int, bool");

/* It has run before when the file is there. */
static crt_status_t fewer_run(crt_call_t *call)
{
    const char *path;
    int64_t count;
    FILE *file;

    CRT_TRY(crt_args(call, &count, &path));
    file = fopen(path, "wxe");
    if (file)
        fclose(file);
    else
        count -= 3;
    for (int64_t i = 0; i < count; i++)
        CRT_TRY(give_bytes(call, (int)(i % 100), true));
    return CRT_OK;
}
static const crt_task_t fewer =
    CRT_TASK(.name = "fewer", .run = fewer_run, .signature = "int, string");

static crt_status_t reader_keep_run(void *self, crt_call_t *call)
{
    const crt_value_t *list;

    CRT_TRY(crt_args(call, &list));
    CRT_TRY(crt_value_read(crt_value_at(list, 0), (crt_ref_t **)self));
    *(crt_ref_t **)self = crt_ref_keep(*(crt_ref_t **)self);
    return CRT_OK;
}
static const crt_method_t reader_keep =
    CRT_METHOD(.name = "keep", .run = reader_keep_run, .signature = "list");

static crt_status_t reader_read_run(void *self, crt_call_t *call)
{
    crt_bytes_t bytes;

    CRT_TRY(crt_get(*(crt_ref_t **)self, &bytes));
    return crt_return(call, (int64_t) * (const char *)bytes.data);
}
static const crt_method_t reader_read =
    CRT_METHOD(.name = "read", .run = reader_read_run, .signature = "");

static const crt_actor_class_t reader_class =
    CRT_ACTOR_CLASS(.name = "Reader", .size = sizeof(crt_ref_t *),
                    .methods = CRT_METHODS(&reader_keep, &reader_read));

/* ---------------------------------------------------------------- in the driver */

static crt_ref_t *last, *pieces[PIECES_MAX];
static int piece_count;
static crt_stream_t *stream;
static crt_actor_t *reader;

static void say(crt_status_t status, const char *text)
{
    printf("%s %s\n", crt_status_name(status), text);
    fflush(stdout);
}

static void say_number(crt_status_t status, int64_t number)
{
    char text[32];

    snprintf(text, sizeof(text), "%lld", (long long)number);
    say(status, status == CRT_OK ? text : crt_error_detail());
}

/* Its bytes stay where they are. */
static crt_status_t read_there(crt_ref_t *ref, int64_t *byte_out)
{
    crt_ref_t *answer = crt_submit(&first, NULL, ref);
    crt_status_t status = crt_get(answer, byte_out);

    crt_ref_drop(&answer);
    return status;
}

static void chain(int count)
{
    crt_status_t status;
    int64_t byte = 0;

    crt_ref_drop(&last);
    last = crt_submit(&base, NULL, 0);
    for (int i = 0; i < count; i++) {
        crt_ref_t *before = last;

        last = crt_submit(&next, NULL, before);
        crt_ref_drop(&before);
    }
    status = read_there(last, &byte);
    say_number(status, byte);
}

static void make_pieces(int count, bool are_put)
{
    crt_status_t status = CRT_OK;
    int64_t byte;

    for (int i = 0; i < count; i++) {
        char bytes[BYTES];

        memset(bytes, i % 100, BYTES);
        pieces[i] = are_put ? crt_submit(&next, NULL, ((crt_bytes_t){bytes, BYTES}))
                            : crt_submit(&base, NULL, i);
    }
    piece_count = count;
    for (int i = 0; i < count && status == CRT_OK; i++)
        status = read_there(pieces[i], &byte);
    say_number(status, count);
}

static void take_items(int count)
{
    crt_status_t status = CRT_OK;

    for (piece_count = 0; piece_count < count && status == CRT_OK; piece_count++)
        status = crt_stream_next(stream, CRT_FOREVER, &pieces[piece_count]);
    say_number(status, count);
}

static void at(int index)
{
    crt_bytes_t bytes = {"", 0};
    crt_status_t status = crt_get(pieces[index], &bytes);

    say_number(status, status == CRT_OK ? *(const char *)bytes.data : 0);
}

static void sum(void)
{
    crt_ref_t *parts[PIECES_MAX];
    crt_status_t status = CRT_OK;
    int64_t total = 0, byte;

    for (int i = 0; i < piece_count; i++)
        parts[i] = crt_submit(&first, NULL, pieces[i]);
    for (int i = 0; i < piece_count; i++) {
        if (status == CRT_OK)
            status = crt_get(parts[i], &byte);
        total += byte;
    }
    say_number(status, total);
    for (int i = 0; i < piece_count; i++)
        crt_ref_drop(&parts[i]);
}

static void lend(const char *node)
{
    crt_arg_t items[] = {CRT_ARG(last)};
    crt_ref_t *kept;

    reader = crt_actor_new(
        &reader_class,
        CRT_ACTOR_OPTIONS(.scheduling = CRT_SCHEDULE_NODE_AFFINITY, .node_id = node));
    kept = crt_call(reader, &reader_keep, crt_list(items, 1));
    say_number(crt_get(kept, NULL), 0);
    crt_ref_drop(&kept);
}

static void read_lent(void)
{
    crt_ref_t *answer = crt_call(reader, &reader_read);
    int64_t byte = 0;
    crt_status_t status = crt_get(answer, &byte);

    say_number(status, byte);
    crt_ref_drop(&answer);
}

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void value(void)
{
    double begin = now_ms();
    crt_bytes_t bytes;
    crt_status_t status = crt_get(last, &bytes);
    char text[64];

    if (status == CRT_OK)
        snprintf(text, sizeof(text), "%d %.0f", *(const char *)bytes.data,
                 now_ms() - begin);
    say(status, status == CRT_OK ? text : crt_error_detail());
}

/* False: the verb is none of these. */
static bool begin_stream(const char *verb, int count, const char *path)
{
    if (strcmp(verb, "stream") == 0)
        stream = crt_submit_stream(&yields, NULL, count, true);
    else if (strcmp(verb, "once") == 0)
        stream =
            crt_submit_stream(&yields, CRT_TASK_OPTIONS(.max_attempts = 1), count, true);
    else if (strcmp(verb, "open") == 0)
        stream = crt_submit_stream(
            &yields, CRT_TASK_OPTIONS(.generator_backpressure_num_objects = 5), count,
            false);
    else if (strcmp(verb, "fewer") == 0)
        stream = crt_submit_stream(&fewer, NULL, count, path);
    else
        return false;
    return true;
}

static void obey(const char *line)
{
    char verb[20] = "", word[64] = "", path[300] = "";

    (void)sscanf(line, "%19s %63s %299s", verb, word, path);
    if (strcmp(verb, "node") == 0)
        say(CRT_OK, crt_node_id());
    else if (strcmp(verb, "chain") == 0)
        chain(atoi(word));
    else if (strcmp(verb, "pieces") == 0)
        make_pieces(atoi(word), false);
    else if (strcmp(verb, "puts") == 0)
        make_pieces(atoi(word), true);
    else if (begin_stream(verb, atoi(word), path))
        take_items(atoi(word));
    else if (strcmp(verb, "at") == 0)
        at(atoi(word));
    else if (strcmp(verb, "sum") == 0)
        sum();
    else if (strcmp(verb, "lent") == 0)
        lend(word);
    else if (strcmp(verb, "read") == 0)
        read_lent();
    else if (strcmp(verb, "value") == 0)
        value();
    else
        say(CRT_ERR_INVALID, "unknown");
}

static int driver(int argc, char **argv)
{
    char line[200];

    while (fgets(line, sizeof(line), stdin))
        obey(line);
    for (int i = 0; i < piece_count; i++)
        crt_ref_drop(&pieces[i]);
    crt_ref_drop(&last);
    crt_stream_drop(&stream);
    crt_actor_drop(&reader);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&base, &next, &first, &yields, &fewer),
                                .classes = CRT_CLASSES(&reader_class)),
                    driver);
}
