/* SPDX-License-Identifier: Apache-2.0 */
/* See inline_group.h. */
#include "inline_group.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS 16

struct crt_operation {
    crt_group_t *group;
    crt_collective_t what;
    crt_tensor_t input, output;
    struct crt_operation *next;
};

struct crt_group {
    int rank, operations;
    bool is_dead;
    crt_operation_t *first; /* posted, not yet carried out */
    uint64_t settled;       /* of the world's, what this member knows */
    crt_group_error_t error;
    char text[128];
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int size;
    crt_group_t *members[MEMBERS];
    const crt_operation_t *slots[MEMBERS];
    int arrived, rebuilding, newcomers;
    uint64_t generation, incarnation, settled,
        torn; /* the operation that only even ranks saw done */
    bool failed;
    int culprit;
    struct {
        int operation;
        bool torn, planned;
    } deaths[MEMBERS];
} world = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

void inline_group_kill(int rank, int operation, bool torn)
{
    world.deaths[rank].operation = operation;
    world.deaths[rank].torn = torn;
    world.deaths[rank].planned = true;
}

bool inline_group_is_dead(const crt_group_t *group)
{
    return group->is_dead;
}

int inline_group_operations(const crt_group_t *group)
{
    return group->operations;
}

void inline_group_reset(void)
{
    memset(world.deaths, 0, sizeof(world.deaths));
    world.failed = false;
    world.size = world.arrived = world.rebuilding = world.newcomers = 0;
    world.generation = world.incarnation = world.settled = world.torn = 0;
    memset(world.members, 0, sizeof(world.members));
}

/* ---------------------------------------------------------------- joining */

static void wait_for(bool (*is_so)(uint64_t since), uint64_t since)
{
    while (!is_so(since))
        pthread_cond_wait(&world.changed, &world.lock);
}

static bool is_next_incarnation(uint64_t since)
{
    return world.incarnation != since;
}

static int living(void)
{
    int count = 0;

    for (int i = 0; i < MEMBERS; i++)
        count += world.members[i] && !world.members[i]->is_dead;
    return count;
}

/* The last one that was waited for begins the next incarnation. */
static void begin_incarnation(void)
{
    world.failed = false;
    world.arrived = world.rebuilding = world.newcomers = 0;
    world.incarnation++;
    pthread_cond_broadcast(&world.changed);
}

crt_status_t crt_group_declare(crt_actor_t *const *actors, const int *ranks, int size,
                               const crt_group_options_t *options)
{
    return CRT_OK; /* nobody dies before it joins */
}

crt_status_t crt_group_join(int size, int rank, const crt_group_options_t *options,
                            crt_group_t **group_out)
{
    crt_group_t *group = calloc(1, sizeof(*group));
    uint64_t since;

    pthread_mutex_lock(&world.lock);
    since = world.incarnation;
    group->rank = rank;
    if (rank == CRT_RANK_ANY) {
        world.newcomers++;
        for (int i = 0; i < world.size; i++)
            if (!world.members[i] || world.members[i]->is_dead)
                group->rank = i;
    }
    group->settled = world.settled;
    world.deaths[group->rank].planned &= rank != CRT_RANK_ANY;
    world.members[group->rank] = group;
    world.size = size;
    if (rank == CRT_RANK_ANY
            ? living() == size && world.rebuilding + world.newcomers == size
            : living() == size)
        begin_incarnation();
    wait_for(is_next_incarnation, since);
    pthread_mutex_unlock(&world.lock);
    *group_out = group;
    return CRT_OK;
}

void crt_group_drop(crt_group_t **group_take)
{
    crt_group_t *group = *group_take;

    *group_take = NULL;
    if (!group)
        return;
    pthread_mutex_lock(&world.lock);
    if (world.members[group->rank] == group)
        world.members[group->rank] = NULL;
    pthread_mutex_unlock(&world.lock);
    free(group);
}

/* Survivors close ranks, in their order. */
static void shrink(void)
{
    int count = 0;

    for (int i = 0; i < MEMBERS; i++) {
        crt_group_t *member = world.members[i];

        world.members[i] = NULL;
        if (member && !member->is_dead) {
            world.members[count] = member;
            member->rank = count++;
        }
    }
    world.size = count;
}

crt_status_t crt_group_rebuild(crt_group_t *group, int size)
{
    uint64_t since;
    bool is_settled;

    pthread_mutex_lock(&world.lock);
    since = world.incarnation;
    world.rebuilding++;
    if (world.settled == group->settled &&
        world.rebuilding + world.newcomers == (size ? size : living())) {
        if (size == 0)
            shrink();
        begin_incarnation();
    }
    while (world.incarnation == since && world.settled == group->settled)
        pthread_cond_wait(&world.changed, &world.lock);
    is_settled = world.incarnation == since;
    world.rebuilding -= is_settled;
    group->settled = world.settled;
    pthread_mutex_unlock(&world.lock);
    if (is_settled)
        return crt_raise(CRT_ERR_EXISTS, "settled by another member");
    group->error.status = CRT_OK;
    return CRT_OK;
}

crt_status_t crt_group_settle(crt_group_t *group)
{
    pthread_mutex_lock(&world.lock);
    world.settled += world.settled == group->settled;
    group->settled++;
    pthread_cond_broadcast(&world.changed);
    pthread_mutex_unlock(&world.lock);
    return CRT_OK;
}

uint64_t crt_group_settled(const crt_group_t *group)
{
    return group->settled;
}

int crt_group_rank(const crt_group_t *group)
{
    return group->rank;
}

int crt_group_size(const crt_group_t *group)
{
    int size;

    pthread_mutex_lock(&world.lock);
    size = world.size;
    pthread_mutex_unlock(&world.lock);
    return size;
}

const char *crt_group_backend(const crt_group_t *group)
{
    return "inline";
}

uint64_t crt_group_incarnation(const crt_group_t *group)
{
    uint64_t incarnation;

    pthread_mutex_lock(&world.lock);
    incarnation = world.incarnation;
    pthread_mutex_unlock(&world.lock);
    return incarnation;
}

const crt_group_error_t *crt_group_last_error(const crt_group_t *group)
{
    return group->error.status == CRT_OK ? NULL : &group->error;
}

crt_status_t crt_group_alloc(size_t bytes, void **memory_out)
{
    *memory_out = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    memset(*memory_out, 0, bytes);
    return CRT_OK;
}

void crt_group_free(void *memory)
{
    free(memory);
}

/* ---------------------------------------------------------------- arithmetic */

static double get(const crt_tensor_t *t, size_t i)
{
    uint32_t bits;
    float value;

    switch (t->dtype) {
    case CRT_DTYPE_FLOAT32: return (double)((const float *)t->data)[i];
    case CRT_DTYPE_FLOAT64: return ((const double *)t->data)[i];
    case CRT_DTYPE_BFLOAT16:
        bits = (uint32_t)((const uint16_t *)t->data)[i] << 16;
        memcpy(&value, &bits, sizeof(value));
        return (double)value;
    default: abort();
    }
}

static void set(const crt_tensor_t *t, size_t i, double to)
{
    float value = (float)to;
    uint32_t bits;

    switch (t->dtype) {
    case CRT_DTYPE_FLOAT32: ((float *)t->data)[i] = value; break;
    case CRT_DTYPE_FLOAT64: ((double *)t->data)[i] = to; break;
    case CRT_DTYPE_BFLOAT16:
        memcpy(&bits, &value, sizeof(bits));
        bits += 0x7fff + (bits >> 16 & 1);
        ((uint16_t *)t->data)[i] = (uint16_t)(bits >> 16);
        break;
    default: abort();
    }
}

/* outputs[k][i] = inputs[all][first of k + i], reduced */
static void reduce(size_t count, bool scatter)
{
    size_t share = scatter ? count / (size_t)world.size : count;
    double *sums = calloc(count, sizeof(*sums));

    for (int k = 0; k < world.size; k++)
        for (size_t i = 0; i < count; i++)
            sums[i] += get(&world.slots[k]->input, i);
    for (int k = 0; k < world.size; k++) {
        double divisor =
            world.slots[k]->what.reduction == CRT_REDUCE_AVERAGE ? world.size : 1;

        for (size_t i = 0; i < share && world.slots[k]->output.data; i++)
            set(&world.slots[k]->output, i,
                sums[(scatter ? (size_t)k * share : 0) + i] / divisor);
    }
    free(sums);
}

static void gather(size_t bytes)
{
    char *all = malloc(bytes * (size_t)world.size);

    for (int k = 0; k < world.size; k++)
        memcpy(all + (size_t)k * bytes, world.slots[k]->input.data, bytes);
    for (int k = 0; k < world.size; k++)
        memcpy(world.slots[k]->output.data, all, bytes * (size_t)world.size);
    free(all);
}

static void carry_out(void)
{
    const crt_operation_t *one = world.slots[0];

    for (int k = 1; k < world.size; k++)
        if (world.slots[k]->what.kind != one->what.kind ||
            crt_tensor_count(&world.slots[k]->input) != crt_tensor_count(&one->input))
            abort(); /* members that call different things */
    switch (one->what.kind) {
    case CRT_COLLECTIVE_REDUCE: /* only the root reads it */
    case CRT_COLLECTIVE_ALLREDUCE: reduce(crt_tensor_count(&one->input), false); break;
    case CRT_COLLECTIVE_REDUCESCATTER: reduce(crt_tensor_count(&one->input), true); break;
    case CRT_COLLECTIVE_ALLGATHER: gather(crt_tensor_bytes(&one->input)); break;
    case CRT_COLLECTIVE_BROADCAST:
        for (int k = 0; k < world.size; k++)
            if (k != one->what.peer)
                memcpy(world.slots[k]->input.data,
                       world.slots[one->what.peer]->input.data,
                       crt_tensor_bytes(&one->input));
        break;
    default: abort();
    }
}

/* ---------------------------------------------------------------- operations */

static crt_status_t fail(crt_group_t *group)
{
    bool again = group->error.status != CRT_OK;

    snprintf(group->text, sizeof(group->text), "rank %d died", world.culprit);
    group->error = (crt_group_error_t){.status = CRT_ERR_ACTOR_DIED,
                                       .rank = world.culprit,
                                       .actor = "",
                                       .node = "",
                                       .text = group->text};
    return crt_raise(again ? CRT_ERR_CANCELLED : CRT_ERR_ACTOR_DIED, "%s", group->text);
}

static crt_status_t die(crt_group_t *group)
{
    if (!group->is_dead) {
        group->is_dead = true;
        world.failed = true;
        world.culprit = group->rank;
        pthread_cond_broadcast(&world.changed);
    }
    return crt_raise(CRT_ERR_ACTOR_DIED, "this member is dead");
}

static bool is_over(uint64_t since)
{
    return world.generation != since || world.failed;
}

static crt_status_t run_locked(crt_group_t *group, const crt_operation_t *operation)
{
    uint64_t since = world.generation;
    bool is_next = world.deaths[group->rank].operation == group->operations++;
    bool dies = world.deaths[group->rank].planned && is_next;
    bool torn = dies && world.deaths[group->rank].torn;

    if (group->is_dead || (dies && !torn))
        return die(group);
    if (world.failed)
        return fail(group);
    world.slots[group->rank] = operation;
    if (++world.arrived == world.size) {
        carry_out();
        world.arrived = 0;
        world.generation++;
        pthread_cond_broadcast(&world.changed);
    } else {
        wait_for(is_over, since);
    }
    if (world.generation == since) { /* it failed */
        world.arrived = 0;
        return torn ? die(group) : fail(group);
    }
    if (torn) {
        world.torn = since + 1;
        return die(group);
    }
    return CRT_OK;
}

/* Those with an odd rank learn of a torn operation's failure: they wait for the one that dies. */
static crt_status_t run(crt_group_t *group, const crt_operation_t *operation)
{
    crt_status_t status;
    bool is_torn = false;

    pthread_mutex_lock(&world.lock);
    for (int i = 0; i < world.size; i++)
        if (world.members[i] && !world.members[i]->is_dead && world.deaths[i].planned &&
            world.deaths[i].torn && world.deaths[i].operation == group->operations)
            is_torn = i != group->rank && group->rank % 2 == 1;
    status = run_locked(group, operation);
    if (status == CRT_OK && is_torn) {
        while (!world.failed)
            pthread_cond_wait(&world.changed, &world.lock);
        status = fail(group);
    }
    pthread_mutex_unlock(&world.lock);
    return status;
}

crt_status_t crt_group_post(crt_group_t *group, const crt_collective_t *what,
                            crt_operation_t **operation_out)
{
    crt_operation_t *operation = calloc(1, sizeof(*operation));

    operation->group = group;
    operation->what = *what;
    operation->input = *what->input;
    if (what->output)
        operation->output = *what->output;
    *operation_out = operation;
    return CRT_OK;
}

/* Waited for in the order in which they were posted, as crt_buckets_t does. */
crt_status_t crt_operation_wait(crt_operation_t **operation_take)
{
    crt_operation_t *operation = *operation_take;
    crt_status_t status = run(operation->group, operation);

    *operation_take = NULL;
    free(operation);
    return status;
}

static crt_status_t call(crt_group_t *group, crt_collective_kind_t kind,
                         const crt_tensor_t *input, const crt_tensor_t *output, int peer,
                         crt_reduction_t reduction)
{
    crt_collective_t what = {.kind = kind,
                             .input = input,
                             .output = output,
                             .peer = peer,
                             .reduction = reduction};
    crt_operation_t *operation;

    crt_group_post(group, &what, &operation);
    return crt_operation_wait(&operation);
}

crt_status_t crt_group_allreduce(crt_group_t *group, const crt_tensor_t *input,
                                 const crt_tensor_t *output, crt_reduction_t reduction)
{
    return call(group, CRT_COLLECTIVE_ALLREDUCE, input, output, 0, reduction);
}

crt_status_t crt_group_reduce(crt_group_t *group, const crt_tensor_t *input,
                              const crt_tensor_t *output, int root,
                              crt_reduction_t reduction)
{
    return call(group, CRT_COLLECTIVE_REDUCE, input, output, root, reduction);
}

crt_status_t crt_group_broadcast(crt_group_t *group, const crt_tensor_t *tensor, int root)
{
    return call(group, CRT_COLLECTIVE_BROADCAST, tensor, NULL, root, CRT_REDUCE_SUM);
}

crt_status_t crt_group_allgather(crt_group_t *group, const crt_tensor_t *input,
                                 const crt_tensor_t *output)
{
    return call(group, CRT_COLLECTIVE_ALLGATHER, input, output, 0, CRT_REDUCE_SUM);
}
