/* SPDX-License-Identifier: Apache-2.0 */
/* More objects than the store holds, beside the bare disk.
 *
 *     spill [--store MIB] [--object-bytes N] [--objects N] [--dir DIR] [--only crt|plain]
 *           [--warm]
 *
 * Objects of --object-bytes (8 MiB), by default four times as many as the store (1024 MiB) holds,
 * are put, and then read in random order, each one checked and dropped. The daemon writes what does
 * not fit to DIR (/var/tmp). Beside it: the same bytes written to a file there by write(2), until
 * fdatasync is through, and read in the same order. Before both are read, the page cache is told to
 * forget them. Another thread calls an actor all the time, a call each ms.
 *
 * With --warm the page cache keeps the files of the daemon: then it is seen what each of many small
 * objects costs, and not what a disk says to that.
 *
 * p99 of the calls stands beside the quiet one, and beside three others, which say what the machine
 * makes of it: while one or two threads of this process do nothing but fill and copy objects in
 * memory, and while this process writes and reads the bare file.
 *
 * Ratios are of bytes that really went to the disk or came from it in that time: what stays in the
 * store is put and read at memory's speed and would flatter them.
 */
#include <crt.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options.h"
#include "own_cluster.h"
#include "spill.h"
#include "timing.h"

#define MIB       1048576.0
#define QUIET_US  3e6
#define PAUSE_NS  1000000
#define CALLS_MAX 1000000

static struct {
    double store_mib, object_bytes, objects;
    const char *directory, *only;
    bool is_warm;
} options = {1024, 8 * MIB, 0, "/var/tmp", "", false};

static spill_load_t load;
static char directory[4096];

_Noreturn void spill_die(const char *what)
{
    fprintf(stderr, "spill: %s: %s\n", load.directory, what);
    exit(1);
}

double spill_total(const spill_load_t *l)
{
    return (double)l->objects * (double)l->object_bytes;
}

static uint64_t word_of(uint64_t number, size_t at)
{
    return (number << 32) + at;
}

void spill_fill(void *bytes, size_t size, uint64_t number)
{
    uint64_t *words = bytes;

    for (size_t i = 0; i < size / 8; i++)
        words[i] = word_of(number, i);
}

bool spill_is_right(const void *bytes, size_t size, uint64_t number)
{
    const uint64_t *words = bytes;
    uint64_t wrong = 0;

    for (size_t i = 0; i < size / 8; i++)
        wrong |= words[i] ^ word_of(number, i);
    return wrong == 0;
}

/* ---------------------------------------------------------------- small calls */

static crt_status_t echo_run(void *self, crt_call_t *call)
{
    int64_t number;

    CRT_TRY(crt_args(call, &number));
    return crt_return(call, number);
}
static const crt_method_t echo =
    CRT_METHOD(.name = "echo", .run = echo_run, .signature = "int");
static const crt_actor_class_t echo_class =
    CRT_ACTOR_CLASS(.name = "Echo", .methods = CRT_METHODS(&echo));

static struct {
    pthread_t thread;
    atomic_bool is_over;
    double *took;
    int count;
} calls;

static void *call_all(void *user)
{
    crt_actor_t *actor = user;

    while (!calls.is_over && calls.count < CALLS_MAX) {
        double start = now_us();
        crt_ref_t *ref = crt_call(actor, &echo, calls.count);
        int64_t number;

        CRT_CHECK(crt_get(ref, &number));
        crt_ref_drop(&ref);
        calls.took[calls.count++] = now_us() - start;
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    }
    return NULL;
}

static void begin_calls(crt_actor_t *actor)
{
    calls.is_over = false;
    calls.count = 0;
    if (pthread_create(&calls.thread, NULL, call_all, actor) != 0)
        spill_die("no thread");
}

/* The 99th percentile in us. */
static double end_calls(const char *what)
{
    double p99;

    calls.is_over = true;
    pthread_join(calls.thread, NULL);
    if (calls.count == 0)
        return 0;
    p99 = median(calls.took, calls.count); /* sorted */
    printf("calls  %-16s %7d calls: median %.0f us, p99 %.0f us, p99.9 %.0f us\n", what,
           calls.count, p99, calls.took[calls.count * 99LL / 100],
           calls.took[calls.count * 999LL / 1000]);
    return calls.took[calls.count * 99LL / 100];
}

/* ---------------------------------------------------------------- copying beside them */

#define COPYING_MAX 2

static atomic_bool is_copied;

static void *copy_all(void *user)
{
    void *from = malloc(load.object_bytes), *to = malloc(load.object_bytes);

    for (uint64_t i = 0; from && to && !is_copied; i++) {
        spill_fill(from, load.object_bytes, i);
        memcpy(to, from, load.object_bytes);
        if (!spill_is_right(to, load.object_bytes, i))
            spill_die("wrong bytes");
    }
    free(from);
    free(to);
    return NULL;
}

/* The p99 of calls while so many threads copy. */
static double beside_copying(crt_actor_t *actor, int count)
{
    pthread_t threads[COPYING_MAX];
    char what[40];
    double p99;

    snprintf(what, sizeof(what), "beside %d copying", count);
    is_copied = false;
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, copy_all, NULL) != 0)
            spill_die("no thread");
    begin_calls(actor);
    nanosleep(&(struct timespec){(time_t)(QUIET_US / 1e6), 0}, NULL);
    p99 = end_calls(what);
    is_copied = true;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return p99;
}

static double beside_plain(crt_actor_t *actor)
{
    begin_calls(actor);
    (void)spill_plain(&load);
    return end_calls("beside the file");
}

/* ---------------------------------------------------------------- objects */

static double put_all(crt_ref_t **refs)
{
    double start = now_us();

    for (size_t i = 0; i < load.objects; i++) {
        spill_fill(load.buffer, load.object_bytes, i);
        refs[i] = crt_put(((crt_bytes_t){load.buffer, load.object_bytes}));
        if (crt_ref_error(refs[i]))
            CRT_CHECK(crt_get(refs[i], NULL));
    }
    return now_us() - start;
}

static double read_all(crt_ref_t **refs)
{
    double start = now_us();

    for (size_t i = 0; i < load.objects; i++) {
        crt_bytes_t bytes;

        CRT_CHECK(crt_get(refs[load.order[i]], &bytes));
        if (bytes.size != load.object_bytes ||
            !spill_is_right(bytes.data, bytes.size, load.order[i]))
            spill_die("wrong bytes");
        crt_ref_drop(&refs[load.order[i]]);
    }
    return now_us() - start;
}

/* The files go when the daemon hears that the last object is gone. */
static spill_io_t wait_until_empty(pid_t node)
{
    double end = now_us() + 60e6;
    spill_io_t io;

    do {
        nanosleep(&(struct timespec){0, 10 * PAUSE_NS}, NULL);
        io = spill_io(&load, node);
    } while (io.files > 0 && now_us() < end);
    return io;
}

typedef struct crt_side {
    double put_us, read_us, quiet, p99_put, p99_read;
    double p99_copying[COPYING_MAX], p99_plain;
    spill_io_t start, full, cold, end;
} crt_side_t;

static crt_side_t run_crt(void)
{
    crt_ref_t **refs = calloc(load.objects, sizeof(*refs));
    crt_actor_t *actor = crt_actor_new(&echo_class, NULL);
    pid_t node = spill_node();
    crt_side_t side;

    if (!refs)
        spill_die("no memory");
    CRT_CHECK(crt_actor_ready(actor, CRT_FOREVER));
    begin_calls(actor);
    nanosleep(&(struct timespec){(time_t)(QUIET_US / 1e6), 0}, NULL);
    side.quiet = end_calls("in quiet");
    for (int i = 0; i < COPYING_MAX; i++)
        side.p99_copying[i] = beside_copying(actor, i + 1);
    side.p99_plain = beside_plain(actor);
    side.start = spill_io(&load, node);
    begin_calls(actor);
    side.put_us = put_all(refs);
    side.p99_put = end_calls("while put");
    side.full = spill_io(&load, node);
    if (!options.is_warm)
        spill_forget_pages(&load, node);
    side.cold = spill_io(&load, node);
    begin_calls(actor);
    side.read_us = read_all(refs);
    side.p99_read = end_calls("while read");
    side.end = wait_until_empty(node);
    crt_actor_drop(&actor);
    free(refs);
    return side;
}

/* ---------------------------------------------------------------- report */

static void tell_plain(const spill_plain_t *plain)
{
    double total = spill_total(&load);

    printf("plain  write %.0f MB/s (%.0f until the last write), read %.0f MB/s; %.2f and "
           "%.2f us each\n",
           total / plain->settle_us, total / plain->write_us, total / plain->read_us,
           plain->settle_us / (double)load.objects,
           plain->read_us / (double)load.objects);
}

static void tell_way(const char *way, double us, double moved)
{
    printf(
        "crt    %-4s %.0f MB/s, %.0f MiB through the disk at %.0f MB/s; %.2f us each\n",
        way, spill_total(&load) / us, moved / MIB, moved / us, us / (double)load.objects);
}

static void tell_crt(const crt_side_t *side)
{
    double read = side->end.read - side->cold.read;

    tell_way("put", side->put_us, side->full.written - side->start.written);
    tell_way("read", side->read_us, read);
    printf("       from the page cache %.0f %%; daemon's own memory %.1f MiB more when "
           "all is "
           "put, %.0f bytes for each object\n",
           100 * (1 - (side->end.disk_read - side->cold.disk_read) / (read + 1)),
           (side->full.own_memory - side->start.own_memory) / MIB,
           (side->full.own_memory - side->start.own_memory) / (double)load.objects);
    printf("       files %.0f with %.0f MiB of the disk; left at the end: %.0f with %.0f "
           "bytes\n",
           side->full.files, side->full.file_bytes / MIB, side->end.files,
           side->end.file_bytes);
    printf(
        "calls  p99 beside the quiet one: %.2f while put, %.2f while read; %.2f and %.2f "
        "beside one and two threads that copy, %.2f beside the bare file\n",
        side->p99_put / side->quiet, side->p99_read / side->quiet,
        side->p99_copying[0] / side->quiet, side->p99_copying[1] / side->quiet,
        side->p99_plain / side->quiet);
}

static void tell_ratios(const crt_side_t *side, const spill_plain_t *plain)
{
    double total = spill_total(&load);

    printf(
        "ratio  %.2f put, %.2f read; of bytes that went through the disk %.2f and %.2f\n",
        plain->settle_us / side->put_us, plain->read_us / side->read_us,
        (side->full.written - side->start.written) / side->put_us * plain->settle_us /
            total,
        (side->end.read - side->cold.read) / side->read_us * plain->read_us / total);
}

static void shuffle(void)
{
    uint64_t random = 1;

    for (size_t i = 0; i < load.objects; i++)
        load.order[i] = (uint32_t)i;
    for (size_t i = load.objects; i-- > 1;) {
        size_t other;
        uint32_t one = load.order[i];

        random = random * 6364136223846793005u + 1442695040888963407u;
        other = (size_t)((random >> 33) % (i + 1));
        load.order[i] = load.order[other];
        load.order[other] = one;
    }
}

static void prepare(void)
{
    load = (spill_load_t){.directory = directory,
                          .objects = (size_t)options.objects,
                          .object_bytes = (size_t)options.object_bytes / 8 * 8};
    load.order = calloc(load.objects, sizeof(*load.order));
    load.buffer = malloc(load.object_bytes);
    calls.took = calloc(CALLS_MAX, sizeof(*calls.took));
    if (!load.order || !load.buffer || !calls.took)
        spill_die("no memory");
    shuffle();
}

static int driver(int argc, char **argv)
{
    bool has_crt = strcmp(options.only, "plain") != 0;
    bool has_plain = strcmp(options.only, "crt") != 0;
    spill_plain_t plain = {0};
    crt_side_t side = {0};

    prepare();
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%zu objects of %zu bytes, %.0f MiB; store %.0f MiB; %s\n", load.objects,
           load.object_bytes, spill_total(&load) / MIB, options.store_mib,
           options.directory);
    if (has_plain) {
        plain = spill_plain(&load);
        tell_plain(&plain);
    }
    if (has_crt) {
        side = run_crt();
        tell_crt(&side);
    }
    if (has_crt && has_plain)
        tell_ratios(&side, &plain);
    return has_crt && side.end.files > 0;
}

/* ---------------------------------------------------------------- start */

/* The daemon spills below its state directory: that is one in DIR. A worker runs main, too, and
 * makes none. */
static void make_directory(void)
{
    const char *made = getenv("CRT_BENCH_SPILL");

    if (made)
        return;
    snprintf(directory, sizeof(directory), "%s/crt-bench-spill-XXXXXX",
             options.directory);
    if (!mkdtemp(directory)) {
        fprintf(stderr, "spill: no directory can be made in %s\n", options.directory);
        exit(1);
    }
    setenv("CRT_BENCH_SPILL", directory, 1);
    setenv("CRT_STATE_DIR", directory, 1);
}

int main(int argc, char **argv)
{
    int status;

    use_own_cluster();
    TAKE_OPTIONS(argc, argv, OPTION("store", options.store_mib, 1, 1e9),
                 OPTION("object-bytes", options.object_bytes, 8, 1e15),
                 OPTION("objects", options.objects, 1, 1e9),
                 OPTION("dir", options.directory, 0, 0),
                 OPTION("only", options.only, 0, 0),
                 OPTION("warm", options.is_warm, 0, 0));
    if (options.objects < 1)
        options.objects = 4 * options.store_mib * MIB / options.object_bytes;
    make_directory();
    status =
        crt_main(argc, argv,
                 CRT_OPTIONS(.classes = CRT_CLASSES(&echo_class), .num_cpus = 2,
                             .object_store_memory = (uint64_t)(options.store_mib * MIB)),
                 driver);
    if (*directory && rmdir(directory) != 0) {
        fprintf(stderr, "spill: something is left in %s\n", directory);
        status = 1;
    }
    return status;
}
