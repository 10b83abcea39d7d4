/* SPDX-License-Identifier: Apache-2.0 */
#include "member.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "collective/group.h"
#include "conform.h"
#include "device.h"

#define PATIENCE_MS 500000

struct member {
    crt_group_t *groups[MEMBER_GROUPS];
};

static void member_destroy(void *self)
{
    struct member *m = self;

    for (int i = 0; i < MEMBER_GROUPS; i++)
        crt_group_drop(&m->groups[i]);
}

static crt_group_t **slot_of(void *self, int slot)
{
    return &((struct member *)self)->groups[slot % MEMBER_GROUPS];
}

static crt_status_t join_run(void *self, crt_call_t *call)
{
    const char *name, *backend;
    int slot, size, rank;
    int64_t timeout_ms;
    char host[32];

    CRT_TRY(crt_args(call, &slot, &name, &backend, &size, &rank, &timeout_ms));
    /* NCCL wants a GPU for each member, unless they are on different hosts. */
    snprintf(host, sizeof(host), "%d", (int)getpid());
    setenv("NCCL_HOSTID", host, 0);
    return crt_group_join(
        size, rank,
        CRT_GROUP_OPTIONS(.name = name, .backend = backend, .limit_ms = timeout_ms),
        slot_of(self, slot));
}
const crt_method_t member_join =
    CRT_METHOD(.name = "join", .run = join_run,
               .signature = "int, string, string, int, int, int");

static crt_status_t find_run(void *self, crt_call_t *call)
{
    const char *name;
    int slot;

    CRT_TRY(crt_args(call, &slot, &name));
    return crt_group_find(name, slot_of(self, slot));
}
const crt_method_t member_find =
    CRT_METHOD(.name = "find", .run = find_run, .signature = "int, string");

static crt_status_t leave_run(void *self, crt_call_t *call)
{
    int slot;

    CRT_TRY(crt_args(call, &slot));
    crt_group_drop(slot_of(self, slot));
    return CRT_OK;
}
const crt_method_t member_leave =
    CRT_METHOD(.name = "leave", .run = leave_run, .signature = "int");

static crt_status_t split_run(void *self, crt_call_t *call)
{
    int slot, color, key, to;

    CRT_TRY(crt_args(call, &slot, &color, &key, &to));
    if (to < 0)
        return crt_group_split(*slot_of(self, slot), color, key, NULL);
    return crt_group_split(*slot_of(self, slot), color, key, slot_of(self, to));
}
const crt_method_t member_split =
    CRT_METHOD(.name = "split", .run = split_run, .signature = "int, int, int, int");

/* What a child of this process gets; it lets go of its copy, too. */
static crt_status_t fork_run(void *self, crt_call_t *call)
{
    crt_operation_t *operation = NULL;
    crt_collective_t barrier = {.struct_size = sizeof(barrier),
                                .kind = CRT_COLLECTIVE_BARRIER};
    crt_group_t **group;
    int slot, how;
    pid_t pid;

    CRT_TRY(crt_args(call, &slot));
    group = slot_of(self, slot);
    CRT_TRY(crt_group_post(*group, &barrier, &operation));
    pid = fork();
    if (pid == 0) {
        bool is_refused = crt_group_barrier(*group) == CRT_ERR_FORKED &&
                          crt_group_rebuild(*group, 0) == CRT_ERR_FORKED &&
                          crt_group_settle(*group) == CRT_ERR_FORKED &&
                          crt_operation_test(operation) == CRT_ERR_FORKED &&
                          crt_operation_wait(&operation) == CRT_ERR_FORKED &&
                          crt_group_post(*group, &barrier, &operation) == CRT_ERR_FORKED;

        crt_group_drop(group);
        _exit(is_refused ? 0 : 1);
    }
    if (pid < 0 || waitpid(pid, &how, 0) != pid || how != 0)
        return crt_fail(call, CRT_ERR_USER, "the child used the group");
    return crt_operation_wait(&operation);
}
const crt_method_t member_fork =
    CRT_METHOD(.name = "fork", .run = fork_run, .signature = "int");

static crt_status_t rebuild_run(void *self, crt_call_t *call)
{
    int slot, size;

    CRT_TRY(crt_args(call, &slot, &size));
    CRT_TRY(crt_group_rebuild(*slot_of(self, slot), size));
    return crt_return(call, crt_group_incarnation(*slot_of(self, slot)));
}
const crt_method_t member_rebuild =
    CRT_METHOD(.name = "rebuild", .run = rebuild_run, .signature = "int, int");

/* As if one operation more had succeeded here than on the others. */
static crt_status_t ahead_run(void *self, crt_call_t *call)
{
    int slot;

    CRT_TRY(crt_args(call, &slot));
    ++(*slot_of(self, slot))->done;
    return CRT_OK;
}
const crt_method_t member_ahead =
    CRT_METHOD(.name = "ahead", .run = ahead_run, .signature = "int");

static crt_status_t settle_run(void *self, crt_call_t *call)
{
    int slot;

    CRT_TRY(crt_args(call, &slot));
    CRT_TRY(crt_group_settle(*slot_of(self, slot)));
    return crt_return(call, crt_group_settled(*slot_of(self, slot)));
}
const crt_method_t member_settle =
    CRT_METHOD(.name = "settle", .run = settle_run, .signature = "int");

static crt_status_t state_run(void *self, crt_call_t *call)
{
    const crt_group_t *group;
    char text[80];
    int slot;

    CRT_TRY(crt_args(call, &slot));
    group = *slot_of(self, slot);
    if (!group)
        return crt_return(call, "none");
    snprintf(text, sizeof(text), "%d/%d %s %d", crt_group_rank(group),
             crt_group_size(group), crt_group_backend(group),
             (int)crt_group_incarnation(group));
    return crt_return(call, (const char *)text);
}
const crt_method_t member_state =
    CRT_METHOD(.name = "state", .run = state_run, .signature = "int");

static crt_status_t error_run(void *self, crt_call_t *call)
{
    const crt_group_error_t *error;
    char text[1200] = "";
    int slot;

    CRT_TRY(crt_args(call, &slot));
    error = crt_group_last_error(*slot_of(self, slot));
    if (error)
        snprintf(text, sizeof(text), "%d %s %s", error->rank, error->actor, error->text);
    return crt_return(call, (const char *)text);
}
const crt_method_t member_error =
    CRT_METHOD(.name = "error", .run = error_run, .signature = "int");

static crt_status_t conform_run(void *self, crt_call_t *call)
{
    int slot, large;

    CRT_TRY(crt_args(call, &slot, &large));
    CRT_TRY(conform_all(*slot_of(self, slot), call, large));
    return conform_pairs(*slot_of(self, slot), call, large);
}
const crt_method_t member_conform =
    CRT_METHOD(.name = "conform", .run = conform_run, .signature = "int, int");

static crt_status_t messages_run(void *self, crt_call_t *call)
{
    int slot, large;

    CRT_TRY(crt_args(call, &slot, &large));
    return conform_messages(*slot_of(self, slot), call, large);
}
const crt_method_t member_messages =
    CRT_METHOD(.name = "messages", .run = messages_run, .signature = "int, int");

/* As in a container that does not allow it, until this process ends. */
static crt_status_t forbid_run(void *self, crt_call_t *call)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(rules) / sizeof(*rules), .filter = rules};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
        return crt_fail(call, CRT_ERR_USER, "a filter: %s", strerror(errno));
    return CRT_OK;
}
const crt_method_t member_forbid = CRT_METHOD(.name = "forbid", .run = forbid_run);

static crt_status_t post_run(void *self, crt_call_t *call)
{
    int slot;

    CRT_TRY(crt_args(call, &slot));
    return conform_posted(*slot_of(self, slot), call);
}
const crt_method_t member_post =
    CRT_METHOD(.name = "post", .run = post_run, .signature = "int");

/* Operations of two groups in turn; one of them posted while the other runs. */
static crt_status_t two_groups_run(void *self, crt_call_t *call)
{
    crt_group_t *a, *b;
    crt_operation_t *operation;
    float x, y;
    crt_tensor_t vx = crt_tensor_floats(&x, 1), vy = crt_tensor_floats(&y, 1);
    int first, second;

    CRT_TRY(crt_args(call, &first, &second));
    a = *slot_of(self, first);
    b = *slot_of(self, second);
    for (int i = 0; i < 50; i++) {
        crt_collective_t what = {.struct_size = sizeof(what),
                                 .kind = CRT_COLLECTIVE_ALLREDUCE,
                                 .input = &vx,
                                 .output = &vx,
                                 .reduction = CRT_REDUCE_SUM};

        x = y = (float)(i + 1);
        CRT_TRY(crt_group_post(a, &what, &operation));
        CRT_TRY(crt_group_allreduce(b, &vy, &vy, CRT_REDUCE_MAX));
        CRT_TRY(crt_operation_wait(&operation));
        if (x != (float)((i + 1) * crt_group_size(a)) || y != (float)(i + 1))
            return crt_fail(call, CRT_ERR_USER, "round %d: %g and %g", i, (double)x,
                            (double)y);
    }
    return CRT_OK;
}
const crt_method_t member_two_groups =
    CRT_METHOD(.name = "two_groups", .run = two_groups_run, .signature = "int, int");

static crt_status_t sum_run(void *self, crt_call_t *call)
{
    int slot, rounds;
    int64_t count;
    float *data;
    crt_tensor_t view;
    crt_group_t *group;
    crt_status_t status = CRT_OK;
    float last;

    CRT_TRY(crt_args(call, &slot, &count, &rounds));
    group = *slot_of(self, slot);
    CRT_TRY(crt_group_alloc((size_t)count * sizeof(float), (void **)&data));
    view = crt_tensor_floats(data, (size_t)count);
    for (int k = 0; k < rounds && status == CRT_OK; k++) {
        for (int64_t i = 0; i < count; i++)
            data[i] = (float)(crt_group_rank(group) + 1);
        status = crt_group_allreduce(group, &view, &view, CRT_REDUCE_SUM);
    }
    last = count ? data[count - 1] : 0;
    crt_group_free(data);
    return status == CRT_OK ? crt_return(call, (double)last) : status;
}
const crt_method_t member_sum =
    CRT_METHOD(.name = "sum", .run = sum_run, .signature = "int, int, int");

static crt_status_t operate_run(void *self, crt_call_t *call)
{
    int slot, kind, dtype, reduction, root;
    int64_t count, timeout_ms;
    crt_operation_t *operation;
    crt_tensor_t in, out;
    int64_t more;
    void *memory;
    crt_status_t status;

    CRT_TRY(crt_args(call, &slot, &kind, &dtype, &count, &reduction, &root, &timeout_ms));
    memory = calloc((size_t)count * 8 + 8, 8);
    more = kind == CRT_COLLECTIVE_ALLGATHER ? count * crt_group_size(*slot_of(self, slot))
                                            : count;
    in = crt_tensor_view((crt_dtype_t)(dtype % 100), 1, &count, memory);
    if (dtype / 100)
        in.device = crt_device_gpu(dtype / 100 - 1);
    out = crt_tensor_view((crt_dtype_t)(dtype % 100), 1, &more,
                          kind == CRT_COLLECTIVE_ALLREDUCE ? memory
                                                           : calloc((size_t)more + 1, 8));
    status = crt_group_post(*slot_of(self, slot),
                            CRT_COLLECTIVE(.kind = (crt_collective_kind_t)kind,
                                           .input = &in, .output = &out,
                                           .reduction = (crt_reduction_t)reduction,
                                           .peer = root, .limit_ms = timeout_ms),
                            &operation);
    if (status == CRT_OK)
        status = crt_operation_wait(&operation);
    if (out.data != memory)
        free(out.data);
    free(memory);
    return status;
}
const crt_method_t member_operate =
    CRT_METHOD(.name = "operate", .run = operate_run,
               .signature = "int, int, int, int, int, int, int");

static crt_status_t any_kind(crt_group_t *group, unsigned round, const crt_tensor_t *a,
                             const crt_tensor_t *b)
{
    int size = crt_group_size(group), rank = crt_group_rank(group);
    int64_t n = (int64_t)crt_tensor_count(a);
    int64_t part = n / size;
    crt_tensor_t all = *b, each;

    all.shape[0] = part * size;
    each = crt_tensor_view(CRT_DTYPE_FLOAT32, 1, &part, a->data);
    switch (round % 8) {
    case 0: return crt_group_allreduce(group, a, a, CRT_REDUCE_SUM);
    case 1: return crt_group_reduce(group, a, b, (int)round % size, CRT_REDUCE_MAX);
    case 2: return crt_group_broadcast(group, a, (int)round % size);
    case 3: return crt_group_allgather(group, &each, &all);
    case 4:
        each.data = b->data;
        all.data = a->data;
        return crt_group_reducescatter(group, &all, &each, CRT_REDUCE_SUM);
    case 5:
        all.data = a->data;
        {
            crt_tensor_t out = all;

            out.data = b->data;
            return crt_group_alltoall(group, &all, &out);
        }
    case 6: /* around a ring, even ranks send first */
        for (int turn = 0; turn < 2; turn++) {
            bool sends = (rank % 2 == 0) == (turn == 0);

            if (size % 2 && rank == size - 1)
                break; /* it has no partner */
            CRT_TRY(sends ? crt_group_send(group, a, rank ^ 1)
                          : crt_group_recv(group, b, rank ^ 1));
        }
        return CRT_OK;
    default: /* to the next, at once */
        if (size > 1)
            CRT_TRY(crt_group_sendrecv(group, a, (rank + 1) % size, b,
                                       (rank + size - 1) % size));
        return crt_group_barrier(group);
    }
}

static crt_status_t any_run(void *self, crt_call_t *call)
{
    static const int64_t counts[] = {4, 3000, 200000};
    crt_group_t *group;
    void *a, *b;
    int slot;

    CRT_TRY(crt_args(call, &slot));
    group = *slot_of(self, slot);
    CRT_TRY(crt_group_alloc(200000 * sizeof(float), &a));
    b = calloc(200000, sizeof(float));
    for (unsigned round = 0;; round++) {
        crt_tensor_t va = crt_tensor_view(CRT_DTYPE_FLOAT32, 1, &counts[round / 8 % 3],
                                          round & 64 ? b : a);
        crt_tensor_t vb = crt_tensor_view(CRT_DTYPE_FLOAT32, 1, &counts[round / 8 % 3],
                                          round & 64 ? a : b);

        if (any_kind(group, round, &va, &vb) != CRT_OK)
            break;
    }
    crt_group_free(a);
    free(b);
    return crt_return(call, crt_group_last_error(group)->rank);
}
const crt_method_t member_any =
    CRT_METHOD(.name = "any", .run = any_run, .signature = "int");

/* The input is still on its way to the device when the operation is called. */
static crt_status_t stream_run(void *self, crt_call_t *call)
{
    float numbers[1000], result[1000];
    crt_tensor_t tensor = crt_tensor_floats(numbers, 1000);
    crt_group_t *group;
    int slot;

    CRT_TRY(crt_args(call, &slot));
    group = *slot_of(self, slot);
    for (int i = 0; i < 1000; i++) {
        numbers[i] = (float)(crt_group_rank(group) + i);
        result[i] = -1;
    }
    tensor.device = crt_device_gpu(0);
    tensor.data = device_copy_of(result, sizeof(result));
    if (!tensor.data || !device_fill_later(tensor.data, numbers, sizeof(numbers)))
        return crt_fail(call, CRT_ERR_USER, "no device memory");
    CRT_TRY(crt_group_allreduce(group, &tensor, &tensor, CRT_REDUCE_SUM));
    if (!device_take_back(result, tensor.data, sizeof(result)))
        return crt_fail(call, CRT_ERR_USER, "device memory can't be read");
    for (int i = 0; i < 1000; i++)
        if (result[i] != (float)(2 * i + 1))
            return crt_fail(call, CRT_ERR_USER, "element %d is %g, not %d", i,
                            (double)result[i], 2 * i + 1);
    return CRT_OK;
}
const crt_method_t member_stream =
    CRT_METHOD(.name = "stream", .run = stream_run, .signature = "int");

/* Rank 1 makes a wrong call after each sum: gives how many of the sums failed here. */
static crt_status_t later_run(void *self, crt_call_t *call)
{
    float x[4] = {1, 1, 1, 1}, y[4 * MEMBERS];
    crt_tensor_t four = crt_tensor_floats(x, 4), sum = crt_tensor_floats(y, 4), all;
    int slot, rounds, failed = 0;
    crt_group_t *group;

    CRT_TRY(crt_args(call, &slot, &rounds));
    group = *slot_of(self, slot);
    all = crt_tensor_floats(y, (size_t)(crt_group_rank(group) == 1 ? 2 : 4) *
                                   (size_t)crt_group_size(group));
    for (int i = 0; i < rounds; i++) {
        crt_status_t status = crt_group_allreduce(group, &four, &sum, CRT_REDUCE_SUM);

        if (status != CRT_OK || y[3] != (float)crt_group_size(group))
            failed++;
        else if (crt_group_allgather(group, &four, &all) != CRT_ERR_INVALID ||
                 !strstr(crt_error_detail(), "(operation 2)"))
            return crt_fail(call, CRT_ERR_USER, "the wrong call gave: %s",
                            crt_error_detail());
        CRT_TRY(crt_group_rebuild(group, 0));
    }
    return crt_return(call, failed);
}
const crt_method_t member_later =
    CRT_METHOD(.name = "later", .run = later_run, .signature = "int, int");

static crt_status_t setenv_run(void *self, crt_call_t *call)
{
    const char *name, *value;

    CRT_TRY(crt_args(call, &name, &value));
    return (*value ? setenv(name, value, 1) : unsetenv(name)) == 0
               ? CRT_OK
               : crt_fail(call, CRT_ERR_USER, "%s can't be set", name);
}
const crt_method_t member_setenv =
    CRT_METHOD(.name = "setenv", .run = setenv_run, .signature = "string, string");

static crt_status_t errors_to_run(void *self, crt_call_t *call)
{
    const char *path;

    CRT_TRY(crt_args(call, &path));
    return freopen(path, "ae", stderr) ? CRT_OK : crt_fail(call, CRT_ERR_IO, "%s", path);
}
const crt_method_t member_errors_to =
    CRT_METHOD(.name = "errors_to", .run = errors_to_run, .signature = "string");

static crt_status_t pid_run(void *self, crt_call_t *call)
{
    return crt_return(call, (int)getpid());
}
const crt_method_t member_pid =
    CRT_METHOD(.name = "pid", .run = pid_run, .signature = "");

static crt_status_t descriptors_run(void *self, crt_call_t *call)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return crt_return(call, count);
}
const crt_method_t member_descriptors =
    CRT_METHOD(.name = "descriptors", .run = descriptors_run, .signature = "");

const crt_actor_class_t member_class =
    CRT_ACTOR_CLASS(.name = "Member", .size = sizeof(struct member),
                    .destroy = member_destroy,
                    .methods = CRT_METHODS(
                        &member_join, &member_find, &member_leave, &member_split,
                        &member_rebuild, &member_ahead, &member_settle, &member_state,
                        &member_error, &member_conform, &member_post, &member_two_groups,
                        &member_sum, &member_operate, &member_any, &member_pid,
                        &member_descriptors, &member_stream, &member_setenv, &member_fork,
                        &member_later, &member_messages, &member_forbid,
                        &member_errors_to));

/* ------------------------------------------------------------------ in the driver */

void expect_all_ok(crt_ref_t **refs, int count)
{
    char text[4000] = "";

    for (int i = 0; i < count; i++) {
        const crt_error_t *error;
        size_t ready;

        if (crt_wait(&refs[i], 1, 1, PATIENCE_MS, NULL, &ready) != CRT_OK)
            snprintf(text, sizeof(text), "member %d: %s", i, crt_error_detail());
        error = crt_ref_error(refs[i]);
        if (error)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "member %d: %s. ",
                     i, error->text);
        crt_ref_drop(&refs[i]);
    }
    if (text[0])
        fail_msg("%s", text);
}

crt_status_t failure_of(crt_ref_t **ref, const char **text)
{
    static char kept[1200];
    const crt_error_t *error;
    crt_status_t status = CRT_OK;
    size_t ready;

    kept[0] = '\0';
    if (crt_wait(ref, 1, 1, PATIENCE_MS, NULL, &ready) != CRT_OK)
        fail_msg("no answer: %s", crt_error_detail());
    error = crt_ref_error(*ref);
    if (error) {
        status = error->status;
        snprintf(kept, sizeof(kept), "%s", error->text);
    }
    crt_ref_drop(ref);
    if (text)
        *text = kept;
    return status;
}

void members_start(crt_actor_t **members, int count)
{
    /* One CPU each fills one node after the other. */
    double cpus = getenv("CRT_TEST_CPUS") ? atof(getenv("CRT_TEST_CPUS")) : 0;

    for (int i = 0; i < count; i++)
        members[i] = crt_actor_new(&member_class, CRT_ACTOR_OPTIONS(.num_cpus = cpus));
    for (int i = 0; i < count; i++)
        assert_int_equal(crt_actor_ready(members[i], PATIENCE_MS), CRT_OK);
}

void members_stop(crt_actor_t **members, int count)
{
    for (int i = 0; i < count; i++) {
        assert_int_equal(crt_actor_kill(members[i], NULL), CRT_OK);
        crt_actor_drop(&members[i]);
    }
}

void members_join(crt_actor_t **members, int count, int slot, const char *name,
                  const char *backend)
{
    crt_ref_t *refs[MEMBERS];

    for (int i = 0; i < count; i++)
        refs[i] =
            crt_call(members[i], &member_join, slot, name, backend, count, i, 60000);
    expect_all_ok(refs, count);
}

void members_leave(crt_actor_t **members, int count, int slot)
{
    crt_ref_t *refs[MEMBERS];

    for (int i = 0; i < count; i++)
        refs[i] = crt_call(members[i], &member_leave, slot);
    expect_all_ok(refs, count);
}
