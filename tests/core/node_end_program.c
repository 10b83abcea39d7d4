/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that waits for ends of nodes, and does what it is told, a line each (test_node_ends.py).
 * The answer begins with the name of the status.
 *     node           where the driver is
 *     watch NODE     its end is waited for
 *     task NODE FILE a task there, which does not end by itself, is waited for; it makes FILE
 *     next MS        the next event: its kind, its status, NODE */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crt.h>

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

/* ---------------------------------------------------------------- in the driver */

static crt_waitset_t *set;
static char names[8][40]; /* of nodes that something is waited for of */
static int name_count;

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
    const char *kinds[] = {"none", "ref", "item", "stream", "actor", "node"};
    crt_event_t event = CRT_EVENT_INIT;
    crt_status_t status = crt_waitset_next(set, wait_ms, &event);
    char text[200];

    snprintf(text, sizeof(text), "%s %s %s", kinds[event.kind],
             crt_status_name(event.status), event.user ? (char *)event.user : "");
    say(status, text);
    crt_event_drop(&event);
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
    crt_waitset_drop(&set);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&endless)), driver);
}
