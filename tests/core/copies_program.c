/* SPDX-License-Identifier: Apache-2.0 */
/* A driver whose values have copies on several nodes, and which does what it is told, a line each
 * (test_copies.py). The answer begins with the name of the status.
 *     node           where the driver is
 *     put N          N large values with two copies each
 *     plain N        N large values that say nothing of copies: what the job says
 *     plain_make N NODE  likewise N results
 *     one N          N large values with one copy each
 *     make N NODE    N results with two copies each of a task that runs there, and only once
 *     check          every value, read on this node
 *     read NODE      every value, by a task that runs there
 *     drop           all of them */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crt.h>

#define BYTES      (200 << 10)
#define VALUES_MAX 1000

static void fill(char *bytes, int64_t number)
{
    for (int i = 0; i < BYTES; i++)
        bytes[i] = (char)(number * 31 + i % 251);
}

static bool is_whole(crt_bytes_t bytes, int64_t number)
{
    char *expected = malloc(BYTES);
    bool is_so = expected && bytes.size == BYTES;

    if (is_so) {
        fill(expected, number);
        is_so = memcmp(bytes.data, expected, BYTES) == 0;
    }
    free(expected);
    return is_so;
}

static crt_status_t make_run(crt_call_t *call)
{
    int64_t number;
    crt_status_t status;
    char *bytes = malloc(BYTES);

    CRT_TRY(crt_args(call, &number));
    if (!bytes)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "no memory");
    fill(bytes, number);
    status = crt_return(call, ((crt_bytes_t){bytes, BYTES}));
    free(bytes);
    return status;
}
static const crt_task_t make =
    CRT_TASK(.name = "make", .run = make_run, .signature = "int");

static crt_status_t test_run(crt_call_t *call)
{
    crt_bytes_t bytes;
    int64_t number;

    CRT_TRY(crt_args(call, &bytes, &number));
    return crt_return(call, is_whole(bytes, number));
}
static const crt_task_t test =
    CRT_TASK(.name = "test", .run = test_run, .signature = "bytes, int");

/* ---------------------------------------------------------------- in the driver */

static crt_ref_t *values[VALUES_MAX];
static int value_count;

static void say(crt_status_t status, const char *text)
{
    printf("%s %s\n", crt_status_name(status),
           status == CRT_OK ? text : crt_error_detail());
    fflush(stdout);
}

/* `copies` 0: what the job says. */
static void put_values(int count, int64_t copies)
{
    crt_status_t status = CRT_OK;
    char *bytes = malloc(BYTES);

    for (int i = 0; i < count && status == CRT_OK; i++, value_count++) {
        fill(bytes, value_count);
        values[value_count] = crt_put_with(((crt_bytes_t){bytes, BYTES}),
                                           CRT_PUT_OPTIONS(.copies = copies));
        status = crt_ref_error(values[value_count]) ? CRT_ERR_IO : CRT_OK;
    }
    free(bytes);
    say(status, "");
}

static void make_values(int count, const char *node, int64_t copies)
{
    int first = value_count;

    for (int i = 0; i < count; i++, value_count++)
        values[value_count] = crt_submit(
            &make,
            CRT_TASK_OPTIONS(.scheduling = CRT_SCHEDULE_NODE_AFFINITY, .node_id = node,
                             .max_attempts = 1, .copies = copies),
            value_count);
    say(crt_refs_wait(values + first, (size_t)count,
                      CRT_REFS_WAIT_OPTIONS(.no_fetch = true), -1, NULL),
        "");
}

static void check_here(void)
{
    for (int i = 0; i < value_count; i++) {
        crt_bytes_t bytes = {0};
        crt_status_t status = crt_get(values[i], &bytes);

        if (status != CRT_OK || !is_whole(bytes, i)) {
            say(status, "a value is wrong");
            return;
        }
    }
    say(CRT_OK, "whole");
}

static void check_there(const char *node)
{
    for (int i = 0; i < value_count; i++) {
        crt_ref_t *answer = crt_submit(
            &test,
            CRT_TASK_OPTIONS(.scheduling = CRT_SCHEDULE_NODE_AFFINITY, .node_id = node),
            values[i], i);
        bool is_so = false;
        crt_status_t status = crt_get(answer, &is_so);

        crt_ref_drop(&answer);
        if (status != CRT_OK || !is_so) {
            say(status, "a value is wrong");
            return;
        }
    }
    say(CRT_OK, "whole");
}

static void drop_values(void)
{
    while (value_count)
        crt_ref_drop(&values[--value_count]);
}

static void obey(const char *line)
{
    char verb[20] = "", first[64] = "", second[64] = "";

    (void)sscanf(line, "%19s %63s %63s", verb, first, second);
    if (strcmp(verb, "node") == 0) {
        say(CRT_OK, crt_node_id());
    } else if (strcmp(verb, "put") == 0) {
        put_values(atoi(first), 2);
    } else if (strcmp(verb, "plain") == 0) {
        put_values(atoi(first), 0);
    } else if (strcmp(verb, "one") == 0) {
        put_values(atoi(first), 1);
    } else if (strcmp(verb, "plain_make") == 0) {
        make_values(atoi(first), second, 0);
    } else if (strcmp(verb, "make") == 0) {
        make_values(atoi(first), second, 2);
    } else if (strcmp(verb, "check") == 0) {
        check_here();
    } else if (strcmp(verb, "read") == 0) {
        check_there(first);
    } else if (strcmp(verb, "drop") == 0) {
        drop_values();
        say(CRT_OK, "");
    } else {
        say(CRT_ERR_INVALID, "");
    }
}

static int driver(int argc, char **argv)
{
    char line[200];

    while (fgets(line, sizeof(line), stdin))
        obey(line);
    drop_values();
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&make, &test)), driver);
}
