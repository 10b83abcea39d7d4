/* SPDX-License-Identifier: Apache-2.0 */
/* A program of C11 and of C++17 that uses each public macro which check_misuse.py does not use
 * itself, and sets more than 16 members at once. The program is compiled, not run. */
#include <crt_actors.h>
#include <crt_define.h>
#include <crt_dlpack.h>
#include <crt_images.h>

#if CRT_VERSION < CRT_MAKE_VERSION(0, 2, 0)
#    error "headers of an older version"
#endif

static crt_status_t act(void *self, crt_call_t *call);
static crt_status_t act(void *self, crt_call_t *call)
{
    bool flag;

    (void)self;
    CRT_TRY(crt_args(call, &flag));
    CRT_TRY(crt_arg_at(call, 0, &flag));
    CRT_TRY(crt_return_at(call, 1, flag));
    return flag ? crt_raise(CRT_ERR_INVALID, "argument %d", 0) : crt_return(call, flag);
}
static const crt_method_t method = CRT_METHOD(.name = "act", .run = act, .http = true);
static const crt_task_t task = CRT_TASK(.name = "task", .max_calls = 1);
static const crt_concurrency_group_t threads =
    CRT_CONCURRENCY_GROUP(.name = "threads", .max_concurrency = 2,
                          .methods = CRT_METHODS(&method));
static const crt_actor_class_t actor_class =
    CRT_ACTOR_CLASS(.name = "Class", .size = 8, .methods = CRT_METHODS(&method),
                    .concurrency_groups = CRT_CONCURRENCY_GROUPS(&threads));

CRT_DEPRECATED("use act") void formatted(const char *format, ...) CRT_PRINTF(1, 2);

/* 21 members. */
static crt_ref_t *submitted(crt_placement_group_t *group)
{
    return crt_submit(&task,
                      CRT_TASK_OPTIONS(.num_cpus = 1, .no_cpus = false, .num_gpus = 0.5,
                                       .resources = "disk=1", .try_only = true,
                                       .max_attempts = CRT_UNLIMITED,
                                       .if_infeasible = CRT_INFEASIBLE_FAILS,
                                       .scheduling = CRT_SCHEDULE_NODE_AFFINITY,
                                       .node_id = crt_node_id(), .node_is_soft = true,
                                       .label_selector = "a=b", .fallback_selectors = "*",
                                       CRT_IN_BUNDLE(group, 0),
                                       .capture_child_tasks = true, .name = "one",
                                       .limit_ms = 1, .retry_exceptions = CRT_RETRY_ALL,
                                       .generator_backpressure_num_objects = 5),
                      1);
}

/* 26 members. */
static crt_actor_t *made(crt_placement_group_t *group)
{
    return crt_actor_new(
        &actor_class,
        CRT_ACTOR_OPTIONS(.num_cpus = 1, .num_gpus = 1, .resources = "disk=1",
                          .name = "name", .detached = true, .max_restarts = 1,
                          .max_task_retries = 1, .fenced = true, .max_concurrency = 2,
                          .max_pending_calls = 3, .get_if_exists = true,
                          .if_infeasible = CRT_INFEASIBLE_WAITS,
                          .scheduling = CRT_SCHEDULE_SPREAD, .node_id = NULL,
                          .node_is_soft = true, .label_selector = "a=b",
                          .fallback_selectors = "*", CRT_IN_BUNDLE(group, 1),
                          .capture_child_tasks = true, .name_space = "space",
                          .allow_out_of_order_execution = true),
        "text");
}

static crt_ref_t *called(crt_actor_t *actor)
{
    return crt_call_with(
        actor, &method,
        CRT_CALL_OPTIONS(.try_only = true, .concurrency_group = &threads, .name = "call",
                         .limit_ms = 1, .max_attempts = 2,
                         .retry_exceptions = CRT_STATUSES(CRT_ERR_IO, CRT_ERR_USER),
                         .generator_backpressure_num_objects = 2),
        2.5);
}

static void calls(crt_actor_t *actor)
{
    crt_ref_t *refs[3] = {crt_put(1), crt_put_with(1, CRT_PUT_OPTIONS(.copies = 2)),
                          crt_call(actor, &method)};
    crt_stream_t *streams[2] = {crt_submit_stream(&task, NULL, 1),
                                crt_call_stream(actor, &method, NULL)};
    const crt_arg_t one = CRT_ARG(1);
    crt_event_t event = CRT_EVENT_INIT;
    const crt_value_t *value;
    int64_t number;

    crt_refs_drop(refs, 3);
    crt_submit_returns(refs, 2, &task, NULL, one);
    CRT_CHECK(crt_get_v(refs[0], CRT_FOREVER, CRT_OUT(&value)));
    CRT_CHECK(crt_value_read(value, &number));
    CRT_CHECK(crt_get_for(refs[1], 10, &number));
    crt_refs_drop(refs, 2);
    crt_call_returns(refs, 2, actor, &method, NULL, refs[0]);
    CRT_CHECK(
        crt_refs_wait(refs, 2, CRT_REFS_WAIT_OPTIONS(.past_errors = true), 1, NULL));
    CRT_CHECK(crt_tell(actor, &method, crt_bytes("x", 1)));
    CRT_CHECK(
        crt_cancel(refs[0], CRT_CANCEL_OPTIONS(.force = true, .not_recursive = true)));
    CRT_CHECK(crt_actor_kill(actor, CRT_KILL_OPTIONS(.restart = true)));
    crt_event_drop(&event);
    crt_stream_drop(&streams[0]);
    crt_stream_drop(&streams[1]);
    crt_refs_drop(refs, 2);
}

static void objects(void)
{
    const int64_t shape[] = {1};
    crt_object_t *object;
    crt_tensor_t view;
    crt_ref_t *ref;

    CRT_CHECK(crt_object_create(CRT_DTYPE_INT8, 1, shape, &object, &view));
    ref = crt_object_seal(&object);
    crt_ref_drop(&ref);
}

static void groups(void)
{
    crt_bundle_t bundles[] = {CRT_BUNDLE(.num_cpus = 1, .resources = "disk=1"),
                              CRT_BUNDLE(.num_gpus = 1, .label_selector = "a=b")};
    crt_placement_group_t *group = crt_placement_group_new(
        bundles, 2,
        CRT_PLACEMENT_GROUP_OPTIONS(.strategy = CRT_PLACEMENT_SPREAD, .name = "group"));
    crt_ref_t *ref = submitted(group);
    crt_actor_t *actor = made(group);
    crt_ref_t *result = called(actor);
    crt_operation_t *operation;
    crt_group_t *all;
    crt_replica_t *replica;
    crt_buckets_t *buckets;

    calls(actor);
    CRT_CHECK(crt_group_join(2, CRT_RANK_ANY,
                             CRT_GROUP_OPTIONS(.name = "g", .limit_ms = 1), &all));
    CRT_CHECK(
        crt_group_post(all, CRT_COLLECTIVE(.kind = CRT_COLLECTIVE_BARRIER), &operation));
    CRT_CHECK(crt_operation_wait(&operation));
    CRT_CHECK(crt_buckets_new(all, 1, CRT_BUCKETS_OPTIONS(.at_end = true), &buckets));
    CRT_CHECK(crt_replica_new(all, NULL, CRT_REPLICA_OPTIONS(.clip = 1), &replica));
    crt_ref_drop(&ref);
    crt_ref_drop(&result);
    crt_actor_drop(&actor);
    crt_placement_group_drop(&group);
}

static void images(const crt_image_format_t *format, const crt_dataset_t *set)
{
    crt_image_batches_t *batches;

    CRT_CHECK(crt_image_batches_new(
        format, set, CRT_IMAGE_BATCHES_OPTIONS(.batch_size = 32, .training = true),
        &batches));
    crt_image_batches_drop(&batches);
}

static int layers(void)
{
    const crt_layer_t all[] = {
        CRT_DENSE(10),
        CRT_DENSE_ZERO(10),
        CRT_RELU(),
        CRT_DROPOUT(0.5),
        CRT_HASH_EMBED(96, 5000, 8, 0, 1),
        CRT_MAXOUT(96, 3),
        CRT_EXPAND_WINDOW(1),
        CRT_LAYER_NORM(),
        CRT_ADD(2),
        CRT_CONCATENATE(2),
        CRT_CONVOLUTION(16, 3, 1, 1),
        CRT_CONVOLUTION_PLAIN(16, 3, 1, 1),
        CRT_MAX_POOL(2, 2),
        CRT_AVERAGE_POOL(2, 2),
        CRT_GLOBAL_POOL(),
        CRT_BATCH_NORM(),
        CRT_FLATTEN(),
        CRT_GELU(),
        CRT_MISH(),
        CRT_ATTENTION(4, 0.1),
        CRT_PATCHES(4),
        CRT_TOKEN(),
        CRT_POSITIONS(),
        CRT_PARAMETERS(4, 4),
    };

    return (int)(sizeof(all) / sizeof(all[0])) + all[0].width;
}

int main(int argc, char **argv)
{
    static const char *const environment[] = {"A=b", NULL};
    char id[CRT_JOB_ID_SIZE];

    CRT_CHECK(crt_context_start(CRT_CONTEXT_OPTIONS(.cluster = "local:2x1", .argc = argc,
                                                    .argv = argv, .num_cpus = 1,
                                                    .resources = "disk=1",
                                                    .object_store_memory = 1)));
    CRT_CHECK(crt_init(
        argc, argv,
        CRT_OPTIONS(.classes = CRT_CLASSES(&actor_class), .tasks = CRT_TASKS(&task),
                    .address = NULL, .num_cpus = 1, .resources = "disk=1",
                    .object_store_memory = 1, .no_log_to_driver = true, .priority = 1,
                    .max_share = 1, .name_space = "space", .dedup_logs = true,
                    .execute_workers = true, .worker_start = NULL, .random_seed = 7,
                    .copies = 2, .cluster = NULL)));
    CRT_CHECK(crt_job_submit("true", CRT_JOB_OPTIONS(.environment = environment), id,
                             sizeof(id)));
    objects();
    groups();
    images(NULL, NULL);
    return layers() + CRT_VERSION + CRT_VERSION_MAJOR + CRT_VERSION_MINOR +
           CRT_VERSION_PATCH + CRT_NO_GPU + (int)sizeof(CRT_VERSION_TEXT);
}
