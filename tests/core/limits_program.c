/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that makes calls with many arguments of 60,000 bytes, which are small enough to go in
 * the message (test_limits.py). It does what it is told, a line each; the answer begins with the
 * name of the status.
 *     send N    a call of an actor with N of them: how many bytes came
 *     pass N    the same call, made by a task */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crt.h>

#define BYTES    60000
#define MOST     75
#define NO_TOTAL (-1)

static crt_status_t sink_add_run(void *self, crt_call_t *call)
{
    int64_t total = 0;

    for (size_t i = 0; i < crt_arg_count(call); i++) {
        crt_bytes_t bytes;

        CRT_TRY(crt_arg_at(call, i, &bytes));
        total += (int64_t)bytes.size;
    }
    return crt_return(call, total);
}
static const crt_method_t sink_add =
    CRT_METHOD(.name = "add", .run = sink_add_run, .signature = "bytes...");
static const crt_actor_class_t sink_class =
    CRT_ACTOR_CLASS(.name = "Sink", .size = 1, .methods = CRT_METHODS(&sink_add));

static crt_status_t send(crt_actor_t *sink, int64_t count, int64_t *total_out)
{
    static char data[BYTES];
    crt_arg_t args[MOST];
    crt_status_t status;
    crt_ref_t *answer;

    for (int64_t i = 0; i < count; i++)
        args[i] = crt_arg_bytes(crt_bytes(data, sizeof(data)));
    answer = crt_call_v(sink, &sink_add, NULL, args, (size_t)count);
    status = crt_get(answer, total_out);
    crt_ref_drop(&answer);
    return status;
}

/* Returns the total, or the status below it. */
static crt_status_t pass_run(crt_call_t *call)
{
    int64_t count, total = NO_TOTAL;
    crt_actor_t *sink;
    crt_status_t status;

    CRT_TRY(crt_args(call, &sink, &count));
    status = send(sink, count, &total);
    return crt_return(call, status == CRT_OK ? total : (int64_t)status);
}
static const crt_task_t pass =
    CRT_TASK(.name = "pass", .run = pass_run, .signature = "actor, int");

/* ---------------------------------------------------------------- in the driver */

static crt_status_t let_pass(crt_actor_t *sink, int64_t count, int64_t *total_out)
{
    crt_ref_t *answer = crt_submit(&pass, NULL, sink, count);
    crt_status_t status = crt_get(answer, total_out);

    crt_ref_drop(&answer);
    return status == CRT_OK && *total_out < 0 ? (crt_status_t)*total_out : status;
}

static int driver(int argc, char **argv)
{
    crt_actor_t *sink = crt_actor_new(&sink_class, NULL);
    char line[100], verb[20];
    int count;

    while (fgets(line, sizeof(line), stdin) &&
           sscanf(line, "%19s %d", verb, &count) == 2 && count <= MOST) {
        int64_t total = 0;
        crt_status_t status = strcmp(verb, "pass") == 0 ? let_pass(sink, count, &total)
                                                        : send(sink, count, &total);

        if (status == CRT_OK)
            printf("CRT_OK %lld\n", (long long)total);
        else
            printf("%s %s\n", crt_status_name(status), crt_error_detail());
        fflush(stdout);
    }
    crt_actor_drop(&sink);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.tasks = CRT_TASKS(&pass), .classes = CRT_CLASSES(&sink_class)),
        driver);
}
