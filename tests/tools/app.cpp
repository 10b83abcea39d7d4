// SPDX-License-Identifier: Apache-2.0
// A program in C++ that uses every macro of the public headers; it is compiled, not run.
#include <crt_actors.h>
#include <crt_collective.h>

#include <cstdio>

static crt_status_t add_run(crt_call_t *call)
{
    int64_t a;
    double b;

    CRT_TRY(crt_args(call, &a, &b));
    CRT_TRY(crt_arg_at(call, 0, &a));
    return crt_return(call, b + (double)a);
}
static const crt_task_t add =
    CRT_TASK(.name = "add", .run = add_run, .signature = "int, float");

static crt_status_t total_run(void *self, crt_call_t *call)
{
    crt_group_t *group;

    CRT_TRY(
        crt_group_join(2, 0, CRT_GROUP_OPTIONS(.limit_ms = 1000), &group));
    crt_group_drop(&group);
    return crt_return(call, *static_cast<int *>(self));
}
static const crt_method_t total =
    CRT_METHOD(.name = "total", .run = total_run, .signature = "");
static const crt_actor_class_t counter =
    CRT_ACTOR_CLASS(.name = "Counter", .size = sizeof(int),
                    .methods = CRT_METHODS(&total));

// Constant as in C: nothing runs before main.
static constexpr crt_task_t constant = CRT_TASK(.signature = "int", .name = "constant");
static_assert(constant.struct_size == sizeof(crt_task_t), "set by CRT_TASK");
static_assert(CRT_METHODS(&total)[1] == nullptr, "ended by NULL");

static int driver(int, char **)
{
    crt_actor_t *actor =
        crt_actor_new(&counter, CRT_ACTOR_OPTIONS(.name = "c", .max_restarts = 1));
    crt_ref_t *refs[] = {
        crt_submit(&add, CRT_TASK_OPTIONS(.num_cpus = 1, .max_attempts = 3), 1, 2.5),
        crt_submit(&add, nullptr, 1, 2.5f), crt_call(actor, &total),
        crt_call_with(actor, &total, CRT_CALL_OPTIONS(.try_only = true)),
        crt_put("text")};
    crt_object_t *object;
    crt_tensor_t view;
    const int64_t shape[] = {4};
    double sum;

    CRT_CHECK(crt_object_create(CRT_DTYPE_FLOAT32, 1, shape, &object, &view));
    CRT_CHECK(crt_tell(actor, &total, object, &view, refs[0], actor, true, 1u, 2L, 3ULL,
                       'c', nullptr, crt_bytes_t{nullptr, 0}));
    CRT_CHECK(crt_get(refs[0], &sum));
    CRT_CHECK(crt_get_for(refs[1], 1000, &sum));
    CRT_CHECK(crt_tell(actor, &total));
    crt_refs_drop(refs, 5);
    crt_actor_drop(&actor);
    std::printf("%g\n", sum);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.classes = CRT_CLASSES(&counter), .tasks = CRT_TASKS(&add)), driver);
}
