/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that does what the lines of its input say, and answers each with one line. For
 * test_placement_groups.py:
 *     new GROUP STRATEGY BUNDLES [fail] [detached] [NAME]   bundles "CPU=1;GPU=1@zone=a"
 *     wait GROUP MS | ready GROUP MS | remove GROUP | drop GROUP | count GROUP
 *     find GROUP NAME | get GROUP ID | id GROUP | node       of the driver
 *     task GROUP BUNDLE CPUS         where it runs, and in which group; BUNDLE -1: any
 *     task_beside GROUP BUNDLE CPUS  the same while a task of bundle 0, which waits, times out
 *     child GROUP BUNDLE CAPTURES    the same of a task that this one makes
 *     hold GROUP BUNDLE              a task that runs, from then on until it is cancelled; its end
 *     with "held" actor GROUP BUNDLE RESOURCES RESTARTS, then call   the same of an actor, the last
 *     one create COUNT BUNDLE            makes and removes so many groups, one after the other and
 *     at a time
 * The answer begins with the name of the status. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <crt.h>

#define GROUPS  10
#define BUNDLES 16
#define WAIT_MS 20000

static crt_placement_group_t *groups[GROUPS];
static crt_ref_t *held;
static crt_actor_t *actor;

/* ---------------------------------------------------------------- in the workers */

static crt_status_t answer(crt_call_t *call)
{
    crt_placement_group_t *group = crt_placement_group_current();
    char text[200];

    snprintf(text, sizeof(text), "%s %s %s", crt_node_id(),
             group ? crt_placement_group_id(group) : "none",
             *crt_gpu_ids() ? crt_gpu_ids() : "none");
    crt_placement_group_drop(&group);
    return crt_return(call, (const char *)text);
}

static crt_status_t where_run(crt_call_t *call)
{
    return answer(call);
}
static const crt_task_t where_task = CRT_TASK(.name = "where", .run = where_run);

static crt_status_t parent_run(crt_call_t *call)
{
    crt_ref_t *ref = crt_submit(&where_task, CRT_TASK_OPTIONS(.no_cpus = true));
    const char *text;
    crt_status_t status = crt_get_for(ref, WAIT_MS, &text);

    if (status == CRT_OK)
        status = crt_return(call, text);
    crt_ref_drop(&ref);
    return status;
}
static const crt_task_t parent_task = CRT_TASK(.name = "parent", .run = parent_run);

static crt_status_t hold_run(crt_call_t *call)
{
    const char *path;
    int fd;

    CRT_TRY(crt_args(call, &path));
    fd = open(path, O_WRONLY | O_CLOEXEC); /* its end tells the driver */
    close(fd);
    while (!crt_cancelled(call))
        usleep(1000);
    return CRT_OK;
}
static const crt_task_t hold_task =
    CRT_TASK(.name = "hold", .run = hold_run, .signature = "string");

typedef struct idle {
    int unused;
} idle_t;

static crt_status_t idle_where_run(void *self, crt_call_t *call)
{
    return answer(call);
}
static const crt_method_t idle_where =
    CRT_METHOD(.name = "where", .run = idle_where_run, .signature = NULL);
static const crt_actor_class_t idle_class =
    CRT_ACTOR_CLASS(.name = "Idle", .size = sizeof(idle_t),
                    .methods = CRT_METHODS(&idle_where));

/* ---------------------------------------------------------------- the driver */

static void say(crt_status_t status, const char *text)
{
    printf("%s %s\n", crt_status_name(status),
           status == CRT_OK ? text : crt_error_detail());
    fflush(stdout);
}

static void say_ref(crt_ref_t **ref)
{
    const char *text = "";
    crt_status_t status = crt_get_for(*ref, WAIT_MS, &text);

    say(status, text);
    crt_ref_drop(ref);
}

static crt_placement_group_t **group_of(const char *word)
{
    return &groups[atoi(word) % GROUPS];
}

/* Cuts the text at the bundles, which it is borrowed by. */
static size_t read_bundles(char *text, crt_bundle_t bundles[BUNDLES])
{
    size_t count = 0;
    char *rest = NULL;

    for (char *at = strtok_r(text, ";", &rest); at && count < BUNDLES;
         at = strtok_r(NULL, ";", &rest)) {
        char *selector = strchr(at, '@');

        if (selector)
            *selector++ = '\0';
        bundles[count++] =
            CRT_BUNDLE(.resources = *at == '-' ? NULL : at, .label_selector = selector);
    }
    return count;
}

static crt_placement_strategy_t read_strategy(const char *word)
{
    static const char *const names[] = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"};

    for (int i = 0; i < 4; i++)
        if (strcmp(word, names[i]) == 0)
            return (crt_placement_strategy_t)i;
    return (crt_placement_strategy_t)99;
}

static void new_group(char **words)
{
    crt_placement_group_t **group = group_of(words[1]);
    crt_placement_group_options_t options = {.struct_size = sizeof(options),
                                             .strategy = read_strategy(words[2])};
    crt_bundle_t bundles[BUNDLES];
    size_t count = read_bundles(words[3], bundles);

    for (char **word = words + 4; *word; word++)
        if (strcmp(*word, "fail") == 0)
            options.if_infeasible = CRT_INFEASIBLE_FAILS;
        else if (strcmp(*word, "detached") == 0)
            options.detached = true;
        else
            options.name = *word;
    crt_placement_group_drop(group);
    *group = crt_placement_group_new(bundles, count, &options);
    say(CRT_OK, crt_placement_group_id(*group));
}

static void ready(char **words)
{
    crt_ref_t *ref = crt_placement_group_ready(*group_of(words[1]));
    bool is_true = false;
    crt_status_t status = crt_get_for(ref, atoi(words[2]), &is_true);

    say(status, is_true ? "true" : "false");
    crt_ref_drop(&ref);
}

static void run_task(const crt_task_t *task, char **words, double cpus, bool captures)
{
    int bundle = atoi(words[2]);
    crt_ref_t *ref = crt_submit(
        task, CRT_TASK_OPTIONS(.placement_group = *group_of(words[1]), .num_cpus = cpus,
                               .bundle_plus_one = bundle + 1, .max_attempts = 1,
                               .capture_child_tasks = captures));

    say_ref(&ref);
}

/* The timer fires for another reason before it is time to ask the next bundle. */
static void run_task_beside(char **words)
{
    crt_ref_t *other =
        crt_submit(&where_task, CRT_TASK_OPTIONS(CRT_IN_BUNDLE(*group_of(words[1]), 0),
                                                 .num_cpus = 1, .limit_ms = 5));

    run_task(&where_task, words, atof(words[3]), false);
    crt_ref_drop(&other);
}

static void hold(char **words)
{
    char dir[] = "/tmp/crt_hold_XXXXXX", path[64];
    int bundle = atoi(words[2]);
    struct pollfd started = {.events = POLLIN};
    bool is_started;

    if (!mkdtemp(dir))
        abort();
    snprintf(path, sizeof(path), "%s/started", dir);
    if (mkfifo(path, 0600) != 0)
        abort();
    started.fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    crt_ref_drop(&held);
    held = crt_submit(&hold_task,
                      CRT_TASK_OPTIONS(.max_attempts = 1,
                                       .placement_group = *group_of(words[1]),
                                       .num_cpus = 1, .bundle_plus_one = bundle + 1),
                      (const char *)path);
    is_started = poll(&started, 1, WAIT_MS) == 1;
    close(started.fd);
    unlink(path);
    rmdir(dir);
    say(is_started ? CRT_OK : CRT_ERR_TIMED_OUT, "");
}

static void make_actor(char **words)
{
    int bundle = atoi(words[2]);

    crt_actor_drop(&actor);
    actor = crt_actor_new(&idle_class,
                          CRT_ACTOR_OPTIONS(.placement_group = *group_of(words[1]),
                                            .bundle_plus_one = bundle + 1,
                                            .resources = words[3],
                                            .max_restarts = atoi(words[4])));
    say(CRT_OK, crt_actor_id(actor));
}

/* "OK RATE": groups made and removed per second. */
static void create(char **words)
{
    enum { AT_A_TIME = 100 };
    int count = atoi(words[1]);
    crt_status_t status = CRT_OK;
    struct timespec began, ended;
    char text[64];

    clock_gettime(CLOCK_MONOTONIC, &began);
    for (int done = 0; status == CRT_OK && done < count; done += AT_A_TIME) {
        crt_placement_group_t *made[AT_A_TIME];
        crt_bundle_t bundle = CRT_BUNDLE(.resources = words[2]);

        for (int i = 0; i < AT_A_TIME; i++)
            made[i] = crt_placement_group_new(&bundle, 1, NULL);
        for (int i = 0; i < AT_A_TIME && status == CRT_OK; i++)
            status = crt_placement_group_wait(made[i], WAIT_MS);
        for (int i = 0; i < AT_A_TIME; i++) {
            if (status == CRT_OK)
                status = crt_placement_group_remove(made[i]);
            crt_placement_group_drop(&made[i]);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    snprintf(text, sizeof(text), "%.0f",
             count / ((double)(ended.tv_sec - began.tv_sec) +
                      (double)(ended.tv_nsec - began.tv_nsec) * 1e-9));
    say(status, text);
}

static void carry_out(char **words)
{
    const char *verb = words[0];
    char text[32];

    if (strcmp(verb, "new") == 0)
        new_group(words);
    else if (strcmp(verb, "wait") == 0)
        say(crt_placement_group_wait(*group_of(words[1]), atoi(words[2])), "");
    else if (strcmp(verb, "ready") == 0)
        ready(words);
    else if (strcmp(verb, "remove") == 0)
        say(crt_placement_group_remove(*group_of(words[1])), "");
    else if (strcmp(verb, "drop") == 0) {
        crt_placement_group_drop(group_of(words[1]));
        say(CRT_OK, "");
    } else if (strcmp(verb, "count") == 0) {
        snprintf(text, sizeof(text), "%zu",
                 crt_placement_group_count(*group_of(words[1])));
        say(CRT_OK, text);
    } else if (strcmp(verb, "find") == 0)
        say(words[3] ? crt_placement_group_find(words[2],
                                                CRT_FIND_OPTIONS(.name_space = words[3]),
                                                group_of(words[1]))
                     : crt_placement_group_find(words[2], NULL, group_of(words[1])),
            "");
    else if (strcmp(verb, "get") == 0)
        say(crt_placement_group_by_id(words[2], group_of(words[1])), "");
    else if (strcmp(verb, "id") == 0)
        say(CRT_OK, crt_placement_group_id(*group_of(words[1])));
    else if (strcmp(verb, "task") == 0)
        run_task(&where_task, words, atof(words[3]), false);
    else if (strcmp(verb, "task_beside") == 0)
        run_task_beside(words);
    else if (strcmp(verb, "child") == 0)
        run_task(&parent_task, words, 1, atoi(words[3]) != 0);
    else if (strcmp(verb, "hold") == 0)
        hold(words);
    else if (strcmp(verb, "held") == 0)
        say_ref(&held);
    else if (strcmp(verb, "actor") == 0)
        make_actor(words);
    else if (strcmp(verb, "node") == 0)
        say(CRT_OK, crt_node_id());
    else if (strcmp(verb, "create") == 0)
        create(words);
    else if (strcmp(verb, "call") == 0) {
        crt_ref_t *ref = crt_call(actor, &idle_where);

        say_ref(&ref);
    } else
        printf("unknown\n");
}

static int driver(int argc, char **argv)
{
    char line[1000];

    while (fgets(line, sizeof(line), stdin)) {
        char *words[12] = {NULL}, *rest = NULL;
        int count = 0;

        for (char *at = strtok_r(line, " \n", &rest); at && count < 11;
             at = strtok_r(NULL, " \n", &rest))
            words[count++] = at;
        if (count)
            carry_out(words);
    }
    for (int i = 0; i < GROUPS; i++)
        crt_placement_group_drop(&groups[i]);
    crt_actor_drop(&actor);
    crt_ref_drop(&held);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&where_task, &parent_task, &hold_task),
                                .classes = CRT_CLASSES(&idle_class),
                                .name_space = "groups"),
                    driver);
}
