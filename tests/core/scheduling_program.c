/* SPDX-License-Identifier: Apache-2.0 */
/* Says where its tasks and actors run, and what becomes of those that can run nowhere
 * (test_scheduling.py).
 *     scheduling_program infeasible FAIL RESOURCES   a task and an actor with these options
 *     scheduling_program waits FAIL RESOURCES        the same, of which no end is expected
 *     scheduling_program gpus AMOUNT COUNT           COUNT tasks with so many GPUs each, and an
 *     actor with as
 *                                                    many that lives meanwhile
 *     scheduling_program where COUNT STRATEGY NODE SOFT SELECTOR FALLBACK   the node of each of
 *     COUNT tasks that run at a
 *                                                    time, and of as many actors; "-" is none
 *     scheduling_program on RESOURCES                the node of a task, and of an actor, that need
 *     these scheduling_program locality NODE OTHER BYTES   where tasks run whose argument was made
 *     on NODE, or on
 *                                                    the other one, if the driver is on NODE
 *     scheduling_program threads CPUS                a task says how many threads its BLAS was told
 *     scheduling_program policies                    a task and an actor say how their threads are
 *     scheduled */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <crt.h>

#define WAIT_MS 1500  /* for what does not come */
#define DONE_MS 60000 /* for what does, however busy the machine is */

/* Stands for the function of a BLAS: the worker calls the one that the program has. */
static int blas_threads = 1;

__attribute__((visibility("default"))) void openblas_set_num_threads(int threads);
void openblas_set_num_threads(int threads)
{
    blas_threads = threads;
}

static crt_status_t threads_run(crt_call_t *call)
{
    return crt_return(call, blas_threads);
}
static const crt_task_t threads_task = CRT_TASK(.name = "threads", .run = threads_run);

#ifdef __SANITIZE_THREAD__
#    define SANITIZER_THREADS 1 /* behind the main thread */
#else
#    define SANITIZER_THREADS 0
#endif

/* Of every thread of this process, in words. */
static crt_status_t say_policies(crt_call_t *call)
{
    DIR *threads = opendir("/proc/self/task");
    char text[200] = "";
    size_t length = 0;
    int number = 0;

    if (!threads)
        return crt_fail(call, CRT_ERR_IO, "/proc/self/task");
    for (const struct dirent *entry; (entry = readdir(threads)) != NULL;)
        if (*entry->d_name != '.' && length < sizeof(text) &&
            (number++ == 0 || number > 1 + SANITIZER_THREADS))
            length += (size_t)snprintf(
                text + length, sizeof(text) - length, " %s",
                sched_getscheduler(atoi(entry->d_name)) == SCHED_BATCH ? "batch"
                                                                       : "other");
    closedir(threads);
    return crt_return(call, (const char *)text);
}

static crt_status_t policies_run(crt_call_t *call)
{
    return say_policies(call);
}
static const crt_task_t policies_task = CRT_TASK(.name = "policies", .run = policies_run);

static crt_status_t method_policies_run(void *self, crt_call_t *call)
{
    return say_policies(call);
}
static const crt_method_t method_policies =
    CRT_METHOD(.name = "policies", .run = method_policies_run, .signature = "");
static const crt_actor_class_t scheduled_class =
    CRT_ACTOR_CLASS(.name = "Scheduled", .methods = CRT_METHODS(&method_policies));

/* "IDS VISIBLE BEGAN ENDED": what it has, and when, in ms */
static void say_gpus(char *text, size_t size, int nap_ms)
{
    struct timespec began, ended;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    clock_gettime(CLOCK_MONOTONIC, &began);
    nanosleep(&(struct timespec){0, nap_ms * 1000000L}, NULL);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    snprintf(text, size, "%s %s %.1f %.1f", *crt_gpu_ids() ? crt_gpu_ids() : "none",
             visible ? visible : "unset",
             (double)began.tv_sec * 1e3 + (double)began.tv_nsec * 1e-6,
             (double)ended.tv_sec * 1e3 + (double)ended.tv_nsec * 1e-6);
}

static crt_status_t gpus_run(crt_call_t *call)
{
    char text[200];

    say_gpus(text, sizeof(text), 200);
    return crt_return(call, (const char *)text);
}
static const crt_task_t gpus_task = CRT_TASK(.name = "gpus", .run = gpus_run);

static crt_status_t where_run(crt_call_t *call)
{
    nanosleep(&(struct timespec){1, 0},
              NULL); /* so that none of them takes the place of another */
    return crt_return(call, crt_node_id());
}
static const crt_task_t where_task = CRT_TASK(.name = "where", .run = where_run);

static crt_status_t make_run(crt_call_t *call)
{
    crt_object_t *object;
    crt_tensor_t view;
    int64_t size;

    CRT_TRY(crt_args(call, &size));
    CRT_TRY(crt_object_create(CRT_DTYPE_UINT8, 1, &size, &object, &view));
    return crt_return(call, object);
}
static const crt_task_t make_task =
    CRT_TASK(.name = "make", .run = make_run, .signature = "int");

static crt_status_t look_run(crt_call_t *call)
{
    return crt_return(call, crt_node_id());
}
static const crt_task_t look_task =
    CRT_TASK(.name = "look", .run = look_run, .signature = "any");

static crt_status_t nothing_run(crt_call_t *call)
{
    return CRT_OK;
}
static const crt_task_t nothing = CRT_TASK(.name = "nothing", .run = nothing_run);

typedef struct idle {
    int unused;
} idle_t;

static crt_status_t idle_nothing_run(void *self, crt_call_t *call)
{
    return CRT_OK;
}
static const crt_method_t idle_nothing =
    CRT_METHOD(.name = "nothing", .run = idle_nothing_run, .signature = NULL);

static crt_status_t idle_gpus_run(void *self, crt_call_t *call)
{
    char text[200];

    say_gpus(text, sizeof(text), 0);
    return crt_return(call, (const char *)text);
}
static crt_status_t idle_where_run(void *self, crt_call_t *call)
{
    return crt_return(call, crt_node_id());
}
static const crt_method_t idle_where =
    CRT_METHOD(.name = "where", .run = idle_where_run, .signature = NULL);

static const crt_method_t idle_gpus =
    CRT_METHOD(.name = "gpus", .run = idle_gpus_run, .signature = NULL);
static const crt_actor_class_t idle_class =
    CRT_ACTOR_CLASS(.name = "Idle", .size = sizeof(idle_t),
                    .methods = CRT_METHODS(&idle_nothing, &idle_gpus, &idle_where));

/* "task -21 what the error says" */
static void tell(const char *what, crt_ref_t *ref, int timeout_ms)
{
    crt_status_t status = crt_get_for(ref, timeout_ms, NULL);
    const crt_error_t *error = crt_ref_error(ref);

    printf("%s %d %s\n", what, (int)status, error ? error->text : "");
    crt_ref_drop(&ref);
}

static int infeasible(crt_infeasible_t if_infeasible, const char *resources,
                      int timeout_ms)
{
    crt_actor_t *actor;

    tell("task",
         crt_submit(&nothing, CRT_TASK_OPTIONS(.resources = resources,
                                               .if_infeasible = if_infeasible)),
         timeout_ms);
    /* After the task: it may take all that there is. */
    actor = crt_actor_new(&idle_class, CRT_ACTOR_OPTIONS(.resources = resources,
                                                         .if_infeasible = if_infeasible));
    tell("actor", crt_call(actor, &idle_nothing), timeout_ms);
    crt_actor_drop(&actor);
    return 0;
}

static void tell_gpus(const char *what, crt_ref_t *ref)
{
    const char *text;

    if (crt_get_for(ref, DONE_MS, &text) == CRT_OK)
        printf("%s %s\n", what, text);
    else
        printf("%s failed: %s\n", what, crt_error_detail());
    crt_ref_drop(&ref);
}

static int gpus(double amount, int count)
{
    crt_actor_t *actor =
        crt_actor_new(&idle_class, CRT_ACTOR_OPTIONS(.num_gpus = amount));
    crt_ref_t *refs[16];

    tell_gpus("actor-gpus", crt_call(actor, &idle_gpus));
    for (int i = 0; i < count && i < 16; i++)
        refs[i] =
            crt_submit(&gpus_task, CRT_TASK_OPTIONS(.no_cpus = true, .num_gpus = amount));
    for (int i = 0; i < count && i < 16; i++)
        tell_gpus("task-gpus", refs[i]);
    tell_gpus("actor-gpus", crt_call(actor, &idle_gpus));
    crt_actor_drop(&actor);
    tell_gpus("none-gpus", crt_submit(&gpus_task, NULL));
    return 0;
}

static void tell_where(const char *what, crt_ref_t *ref)
{
    const char *node;

    if (crt_get_for(ref, DONE_MS, &node) == CRT_OK)
        printf("%s-at %s\n", what, node);
    else
        printf("%s-failed %s\n", what, crt_error_detail());
    crt_ref_drop(&ref);
}

static const char *or_none(const char *word)
{
    return strcmp(word, "-") == 0 ? NULL : word;
}

static int where(char **words)
{
    int count = atoi(words[0]);
    crt_scheduling_t scheduling = (crt_scheduling_t)atoi(words[1]);
    const char *node = or_none(words[2]), *selector = or_none(words[4]),
               *fallback = or_none(words[5]);
    bool soft = atoi(words[3]);
    crt_ref_t *refs[16];
    crt_actor_t *actors[16];

    for (int i = 0; i < count && i < 16; i++)
        refs[i] =
            crt_submit(&where_task,
                       CRT_TASK_OPTIONS(.scheduling = scheduling, .node_id = node,
                                        .node_is_soft = soft, .label_selector = selector,
                                        .fallback_selectors = fallback));
    for (int i = 0; i < count && i < 16; i++)
        tell_where("task", refs[i]);
    for (int i = 0; i < count && i < 16; i++)
        actors[i] = crt_actor_new(&idle_class,
                                  CRT_ACTOR_OPTIONS(.scheduling = scheduling,
                                                    .node_id = node, .node_is_soft = soft,
                                                    .label_selector = selector,
                                                    .fallback_selectors = fallback));
    for (int i = 0; i < count && i < 16; i++) {
        tell_where("actor", crt_call(actors[i], &idle_where));
        crt_actor_drop(&actors[i]);
    }
    return 0;
}

static int on(const char *resources)
{
    crt_actor_t *actor =
        crt_actor_new(&idle_class, CRT_ACTOR_OPTIONS(.resources = resources));

    tell_where("task",
               crt_submit(&look_task, CRT_TASK_OPTIONS(.resources = resources), 0));
    tell_where("actor", crt_call(actor, &idle_where));
    crt_actor_drop(&actor);
    return 0;
}

static int locality(const char *node, const char *other, int64_t bytes)
{
    crt_ref_t *made;

    if (strcmp(node, crt_node_id()) == 0)
        node = other;
    printf("made-at %s\n", node);
    made = crt_submit(
        &make_task,
        CRT_TASK_OPTIONS(.scheduling = CRT_SCHEDULE_NODE_AFFINITY, .node_id = node),
        bytes);
    for (int i = 0; i < 4; i++)
        tell_where("task", crt_submit(&look_task, NULL, made));
    crt_ref_drop(&made);
    return 0;
}

static int threads(double cpus)
{
    crt_ref_t *ref = crt_submit(&threads_task, CRT_TASK_OPTIONS(.num_cpus = cpus));
    int64_t count;

    if (crt_get(ref, &count) != CRT_OK)
        return 1;
    printf("threads %lld\n", (long long)count);
    crt_ref_drop(&ref);
    return 0;
}

static int policies(void)
{
    crt_actor_t *actor = crt_actor_new(&scheduled_class, NULL);
    crt_ref_t *refs[] = {crt_submit(&policies_task, NULL),
                         crt_call(actor, &method_policies)};
    const char *const names[] = {"task", "actor"};
    int failed = 0;

    for (int i = 0; i < 2; i++) {
        const char *text = "";

        failed |= crt_get(refs[i], &text) != CRT_OK;
        printf("%s%s\n", names[i], text);
        crt_ref_drop(&refs[i]);
    }
    crt_actor_drop(&actor);
    return failed;
}

static int driver(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 4 && strcmp(argv[1], "infeasible") == 0)
        return infeasible(atoi(argv[2]), argv[3], DONE_MS);
    if (argc == 4 && strcmp(argv[1], "waits") == 0)
        return infeasible(atoi(argv[2]), argv[3], WAIT_MS);
    if (argc == 3 && strcmp(argv[1], "on") == 0)
        return on(argv[2]);
    if (argc == 4 && strcmp(argv[1], "gpus") == 0)
        return gpus(atof(argv[2]), atoi(argv[3]));
    if (argc == 8 && strcmp(argv[1], "where") == 0)
        return where(argv + 2);
    if (argc == 5 && strcmp(argv[1], "locality") == 0)
        return locality(argv[2], argv[3], atoll(argv[4]));
    if (argc == 3 && strcmp(argv[1], "threads") == 0)
        return threads(atof(argv[2]));
    if (argc == 2 && strcmp(argv[1], "policies") == 0)
        return policies();
    return 2;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&nothing, &gpus_task, &threads_task,
                                                   &policies_task, &where_task,
                                                   &make_task, &look_task),
                                .classes = CRT_CLASSES(&idle_class, &scheduled_class)),
                    driver);
}
