/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that does what it is told, a line each (test_drain.py). The answer begins with the name
 * of the status.
 *     node                       where the driver is
 *     task                       where a task runs
 *     actor NODE RESTARTS        makes one there     where    where it answers
 *     put NODE BYTES             a task there returns an object     check    whether all of it is
 *     there slow NODE MS RETRIES       a task there takes so long     result    where it ended */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <crt.h>

#define WAIT_MS 60000

static crt_status_t where_run(crt_call_t *call)
{
    return crt_return(call, crt_node_id());
}
static const crt_task_t where_task = CRT_TASK(.name = "where", .run = where_run);

static crt_status_t slow_run(crt_call_t *call)
{
    int64_t ms;

    CRT_TRY(crt_args(call, &ms));
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
    return crt_return(call, crt_node_id());
}
static const crt_task_t slow_task =
    CRT_TASK(.name = "slow", .run = slow_run, .signature = "int");

static crt_status_t make_run(crt_call_t *call)
{
    crt_object_t *object;
    crt_tensor_t view;
    int64_t size;

    CRT_TRY(crt_args(call, &size));
    CRT_TRY(crt_object_create(CRT_DTYPE_UINT8, 1, &size, &object, &view));
    memset(view.data, 7, (size_t)size);
    return crt_return(call, object);
}
static const crt_task_t make_task =
    CRT_TASK(.name = "make", .run = make_run, .signature = "int");

static crt_status_t member_where_run(void *self, crt_call_t *call)
{
    return crt_return(call, crt_node_id());
}
static const crt_method_t member_where =
    CRT_METHOD(.name = "where", .run = member_where_run, .signature = "");
static const crt_actor_class_t member_class =
    CRT_ACTOR_CLASS(.name = "Member", .methods = CRT_METHODS(&member_where));

/* ---------------------------------------------------------------- in the driver */

static crt_actor_t *actor;
static crt_ref_t *object, *slow;

static void say(crt_status_t status, const char *text)
{
    printf("%s %s\n", crt_status_name(status),
           status == CRT_OK ? text : crt_error_detail());
    fflush(stdout);
}

static void say_text(crt_ref_t **ref)
{
    const char *text = "";
    crt_status_t status = crt_get_for(*ref, WAIT_MS, &text);

    say(status, text);
    crt_ref_drop(ref);
}

static const crt_task_options_t *on(const char *node, int64_t max_attempts)
{
    static crt_task_options_t options;

    options = *CRT_TASK_OPTIONS(.scheduling = CRT_SCHEDULE_NODE_AFFINITY, .node_id = node,
                                .node_is_soft = true, .max_attempts = max_attempts);
    return &options;
}

static void check(void)
{
    const crt_tensor_t *tensor;
    crt_status_t status = crt_get_for(object, WAIT_MS, &tensor);
    char text[40] = "whole";

    if (status == CRT_OK)
        for (int64_t i = 0; i < tensor->shape[0]; i++)
            if (((const unsigned char *)tensor->data)[i] != 7)
                snprintf(text, sizeof(text), "byte %lld is wrong", (long long)i);
    say(status, text);
}

static void make_actor(const char *node, int64_t restarts)
{
    crt_actor_drop(&actor);
    actor = crt_actor_new(&member_class,
                          CRT_ACTOR_OPTIONS(.scheduling = CRT_SCHEDULE_NODE_AFFINITY,
                                            .node_id = node, .node_is_soft = true,
                                            .max_restarts = restarts,
                                            .max_task_retries = restarts ? -1 : 0));
    say(crt_actor_ready(actor, WAIT_MS), "");
}

static void obey(char *line)
{
    char verb[20] = "", node[40] = "";
    long long amount = 0, retries = 0;
    crt_ref_t *ref;
    size_t ready, count;

    sscanf(line, "%19s %39s %lld %lld", verb, node, &amount, &retries);
    if (strcmp(verb, "node") == 0) {
        say(CRT_OK, crt_node_id());
    } else if (strcmp(verb, "task") == 0) {
        ref = crt_submit(&where_task, NULL);
        say_text(&ref);
    } else if (strcmp(verb, "actor") == 0) {
        make_actor(node, amount);
    } else if (strcmp(verb, "where") == 0) {
        ref = crt_call(actor, &member_where);
        say_text(&ref);
    } else if (strcmp(verb, "put") == 0) {
        crt_ref_drop(&object);
        object = crt_submit(&make_task, on(node, 1), (int64_t)amount);
        say(crt_wait(&object, 1, 1, WAIT_MS, &ready, &count), "");
    } else if (strcmp(verb, "check") == 0) {
        check();
    } else if (strcmp(verb, "slow") == 0) {
        crt_ref_drop(&slow);
        slow = crt_submit(&slow_task, on(node, retries + 1), (int64_t)amount);
        say(CRT_OK, "");
    } else if (strcmp(verb, "result") == 0) {
        say_text(&slow);
    } else {
        printf("unknown\n");
        fflush(stdout);
    }
}

static int driver(int argc, char **argv)
{
    char line[200];

    while (fgets(line, sizeof(line), stdin))
        obey(line);
    crt_actor_drop(&actor);
    crt_ref_drop(&object);
    crt_ref_drop(&slow);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&where_task, &slow_task, &make_task),
                                .classes = CRT_CLASSES(&member_class)),
                    driver);
}
