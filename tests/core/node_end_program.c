/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that waits for ends of nodes, and does what it is told, a line each (test_node_ends.py).
 * The answer begins with the name of the status.
 *     node           where the driver is
 *     watch NODE     its end is waited for
 *     follow NODE    all that becomes of it
 *     actor NODE RESTARTS    one is made there, which is followed
 *     fall           its process dies
 *     call           where it answers
 *     hear NODE      an actor here is told of the node by calls
 *     heard          how often, and what last
 *     task NODE FILE a task there, which does not end by itself, is waited for; it makes FILE
 *     next MS        the next event: its kind, its status, NODE; of actors how many
 *                    restarts it tells of, and there were */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crt_watch.h>

/* Says in `file` that it has begun. */
static crt_status_t endless_run(crt_call_t *call)
{
    const char *name;
    FILE *file;

    CRT_TRY(crt_args(call, &name));
    file = fopen(name, "w");
    if (!file || fclose(file) != 0)
        return crt_fail(call, CRT_ERR_IO, "%s can't be written", name);
    while (!crt_cancelled(call))
        usleep(10000);
    return CRT_OK;
}
static const crt_task_t endless =
    CRT_TASK(.name = "endless", .run = endless_run, .signature = "string");

/* Dies when it is told so; hears of nodes. */
struct member {
    int64_t times;
    char last[100];
};

CRT_DEFINE_ACTOR(member, struct member)
{
    *self = (struct member){.times = 0};
    return CRT_OK;
}

CRT_DEFINE_METHOD(member, where)
{
    return crt_return(call, crt_node_id());
}

CRT_DEFINE_METHOD(member, fall)
{
    raise(SIGKILL);
    return CRT_OK;
}

CRT_DEFINE_METHOD(member, hear, (crt_notice_t, notice, crt_notice_t_type))
{
    self->times++;
    snprintf(self->last, sizeof(self->last), "%s %s",
             notice.kind == CRT_EVENT_NODE_DRAIN ? "drain"
             : notice.kind == CRT_EVENT_NODE_END ? "end"
                                                 : "?",
             notice.node_id);
    return CRT_OK;
}

CRT_DEFINE_METHOD(member, heard)
{
    char text[160];

    snprintf(text, sizeof(text), "%lld %s", (long long)self->times, self->last);
    return crt_return(call, text);
}

/* ---------------------------------------------------------------- in the driver */

static crt_waitset_t *set;
static char names[8][40]; /* of nodes that something is waited for of */
static int name_count;
static crt_actor_t *actor, *ear;

static char *keep(const char *node)
{
    char *name = names[name_count++ % 8];

    snprintf(name, sizeof(names[0]), "%s", node);
    return name;
}

static void say(crt_status_t status, const char *text)
{
    printf("%s %s\n", crt_status_name(status), text);
    fflush(stdout);
}

static void next(int64_t wait_ms)
{
    const char *kinds[] = {"none", "ref",     "item",  "stream",     "actor",
                           "node", "restart", "moves", "node-drains"};
    crt_event_t event = CRT_EVENT_INIT;
    crt_status_t status = crt_waitset_next(set, wait_ms, &event);
    char text[200], counts[60] = "";

    if (event.actor)
        snprintf(counts, sizeof(counts), " %llu %llu", (unsigned long long)event.count,
                 (unsigned long long)event.restarts);
    snprintf(text, sizeof(text), "%s %s %s%s", kinds[event.kind],
             crt_status_name(event.status), event.user ? (char *)event.user : "", counts);
    say(status, text);
    crt_event_drop(&event);
}

static void follow_actor(const char *node, int64_t restarts)
{
    actor = member_new(CRT_ACTOR_OPTIONS(.scheduling = CRT_SCHEDULE_NODE_AFFINITY,
                                         .node_id = node, .node_is_soft = true,
                                         .max_restarts = restarts));
    CRT_CHECK(crt_actor_ready(actor, CRT_FOREVER));
    say(crt_waitset_add_actor_watch(set, actor, keep(node)), "");
}

static void answer_of(crt_ref_t *ref)
{
    const char *text = "";
    crt_status_t status = crt_get_for(ref, 30000, &text);

    say(status, status == CRT_OK ? text : "");
    crt_ref_drop(&ref);
}

static void fall(void)
{
    crt_ref_t *ref = member_fall_call(actor, NULL);

    say(crt_get_for(ref, 30000, NULL), "");
    crt_ref_drop(&ref);
}

static void hear(const char *node)
{
    ear = member_new(CRT_ACTOR_OPTIONS(.scheduling = CRT_SCHEDULE_NODE_AFFINITY,
                                       .node_id = crt_node_id()));
    say(crt_node_watch(node, ear, &member_hear), "");
}

static void task(const char *node, const char *file)
{
    crt_ref_t *ref = crt_submit(&endless,
                                CRT_TASK_OPTIONS(.scheduling = CRT_SCHEDULE_NODE_AFFINITY,
                                                 .node_id = node, .max_attempts = 1),
                                file);

    say(crt_waitset_add_ref(set, ref, keep(node)), "");
    crt_ref_drop(&ref);
}

static void obey(const char *line)
{
    char verb[20] = "", word[64] = "", file[128] = "";

    (void)sscanf(line, "%19s %63s %127s", verb, word, file);
    if (strcmp(verb, "node") == 0)
        say(CRT_OK, crt_node_id());
    else if (strcmp(verb, "watch") == 0)
        say(crt_waitset_add_node_end(set, word, keep(word)), "");
    else if (strcmp(verb, "follow") == 0)
        say(crt_waitset_add_node_watch(set, word, keep(word)), "");
    else if (strcmp(verb, "actor") == 0)
        follow_actor(word, atoi(file));
    else if (strcmp(verb, "fall") == 0)
        fall();
    else if (strcmp(verb, "call") == 0)
        answer_of(member_where_call(actor, NULL));
    else if (strcmp(verb, "hear") == 0)
        hear(word);
    else if (strcmp(verb, "heard") == 0)
        answer_of(member_heard_call(ear, NULL));
    else if (strcmp(verb, "task") == 0)
        task(word, file);
    else if (strcmp(verb, "next") == 0)
        next(atoi(word));
    else
        say(CRT_ERR_INVALID, "unknown");
}

static int driver(int argc, char **argv)
{
    char line[200];

    CRT_CHECK(crt_waitset_new(&set));
    while (fgets(line, sizeof(line), stdin))
        obey(line);
    crt_actor_drop(&actor);
    crt_actor_drop(&ear);
    crt_waitset_drop(&set);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&endless)), driver);
}
