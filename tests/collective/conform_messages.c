/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two members, as each member sees them: what is sent in which order arrives in
 * that order, whatever goes on beside it. */
#include "conform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "periodic.h"

#define MOST    1100000 /* elements: more than buffers and pieces of any backend */
#define SEVERAL 3       /* messages of one to another */
#define PERIOD  251     /* elements */

typedef struct place {
    crt_group_t *group;
    crt_call_t *call;
    int size, rank;
    bool is_nccl;
    float *in, *out;
} place_t;

/* Inline, in a cell, more than a piece, with a short last piece. */
static const size_t lengths[] = {1, 0, 200, 1500, 20001, 300007, MOST};

static float value(int from, int to, size_t i)
{
    return (float)(from * 1000 + to * 10) + (float)(i % PERIOD);
}

static void put(const place_t *p, float *to, int peer, size_t count)
{
    for (size_t i = 0; i < first_period(count, PERIOD); i++)
        to[i] = value(p->rank, peer, i);
    repeat_period(to, PERIOD * sizeof(*to), count * sizeof(*to));
}

static crt_status_t expect(const place_t *p, const float *from, int peer, size_t count)
{
    bool repeats = is_repeated(from, PERIOD * sizeof(*from), count * sizeof(*from));
    size_t checked = repeats ? first_period(count, PERIOD) : count;

    for (size_t i = 0; i < checked; i++)
        if (from[i] != value(peer, p->rank, i))
            return crt_fail(p->call, CRT_ERR_USER,
                            "element %zu of %zu from rank %d at rank %d is %g, not %g", i,
                            count, peer, p->rank, (double)from[i],
                            (double)value(peer, p->rank, i));
    return CRT_OK;
}

/* Round the ring, at once; from one neighbour, and to the other. */
static crt_status_t sendrecv(const place_t *p, size_t count)
{
    int next = (p->rank + 1) % p->size, before = (p->rank + p->size - 1) % p->size;
    crt_tensor_t out = crt_tensor_floats(p->out, count),
                 in = crt_tensor_floats(p->in, count);

    put(p, p->out, next, count);
    memset(p->in, 0, count * sizeof(float));
    CRT_TRY(crt_group_sendrecv(p->group, &out, next, &in, before));
    CRT_TRY(expect(p, p->in, before, count));
    /* A row: its ends have one neighbour. */
    memset(p->in, 0, count * sizeof(float));
    if (p->rank == 0)
        return crt_group_sendrecv(p->group, &out, next, NULL, 0);
    if (p->rank == p->size - 1)
        CRT_TRY(crt_group_sendrecv(p->group, NULL, 0, &in, before));
    else
        CRT_TRY(crt_group_sendrecv(p->group, &out, next, &in, before));
    return expect(p, p->in, before, count);
}

/* It would keep the other waiting, which could copy at the same time: what was sent before is
 * copied by the wait. */
static crt_status_t posts_copy_nothing_large(const place_t *p)
{
    size_t count = 20001;
    int other = 1 - p->rank;
    crt_operation_t *operations[2] = {0};
    crt_tensor_t out = crt_tensor_floats(p->out, count),
                 in = crt_tensor_floats(p->in, count);
    bool is_copied;

    put(p, p->out, other, count);
    memset(p->in, 0, count * sizeof(float));
    CRT_TRY(crt_group_isend(p->group, &out, other, &operations[0]));
    CRT_TRY(crt_group_barrier(p->group)); /* both are there */
    CRT_TRY(crt_group_irecv(p->group, &in, other, &operations[1]));
    is_copied = p->in[count - 1] != 0;
    CRT_TRY(crt_operation_wait_all(operations, 2));
    if (is_copied)
        return crt_fail(p->call, CRT_ERR_USER, "a post has copied the message");
    return expect(p, p->in, other, count);
}

/* Everybody sends to both neighbours, and then receives. */
static crt_status_t all_send_first(const place_t *p, size_t count)
{
    int next = (p->rank + 1) % p->size, before = (p->rank + p->size - 1) % p->size;
    float *other = p->out + count;
    crt_tensor_t up = crt_tensor_floats(p->out, count),
                 down = crt_tensor_floats(other, count),
                 in = crt_tensor_floats(p->in, count);

    put(p, p->out, next, count);
    put(p, other, before, count);
    CRT_TRY(crt_group_send(p->group, &up, next));
    CRT_TRY(crt_group_send(p->group, &down, before));
    CRT_TRY(crt_group_recv(p->group, &in, before));
    CRT_TRY(expect(p, p->in, before, count));
    CRT_TRY(crt_group_recv(p->group, &in, next));
    return expect(p, p->in, next, count);
}

/* Several to and from everybody, posted in another order on each member. */
static size_t post_all(const place_t *p, crt_operation_t **operations, size_t count,
                       crt_status_t *status)
{
    size_t posted = 0, room = count + SEVERAL;

    for (int step = 1; step < p->size; step++)
        for (int k = 0; k < SEVERAL; k++) {
            int to = (p->rank + step) % p->size,
                from = (p->rank + p->size - step) % p->size;
            float *in = p->in + ((size_t)from * SEVERAL + (size_t)k) * room,
                  *out = p->out + ((size_t)to * SEVERAL + (size_t)k) * room;
            crt_tensor_t send = crt_tensor_floats(out, count + (size_t)k),
                         receive = crt_tensor_floats(in, count + (size_t)k);

            put(p, out, to + k, count + (size_t)k);
            if (*status == CRT_OK)
                *status = crt_group_isend(p->group, &send, to, &operations[posted]);
            posted += *status == CRT_OK;
            if (*status == CRT_OK)
                *status = crt_group_irecv(p->group, &receive, from, &operations[posted]);
            posted += *status == CRT_OK;
        }
    return posted;
}

static crt_status_t expect_all(const place_t *p, size_t count)
{
    size_t room = count + SEVERAL;

    for (int from = 0; from < p->size; from++)
        for (int k = 0; k < SEVERAL && from != p->rank; k++) {
            const float *in = p->in + ((size_t)from * SEVERAL + (size_t)k) * room;
            size_t length = count + (size_t)k;
            bool repeats = is_repeated(in, PERIOD * sizeof(*in), length * sizeof(*in));
            size_t checked = repeats ? first_period(length, PERIOD) : length;

            for (size_t i = 0; i < checked; i++)
                if (in[i] != value(from, p->rank + k, i))
                    return crt_fail(p->call, CRT_ERR_USER,
                                    "message %d of rank %d at rank %d is wrong", k, from,
                                    p->rank);
        }
    return CRT_OK;
}

enum { ALL, ANY, TEST, AROUND, BEHIND, WAYS };

static crt_status_t end_all(const place_t *p, crt_operation_t **operations, size_t count,
                            int way)
{
    float one = 1;
    crt_tensor_t view = crt_tensor_floats(&one, 1);

    if (way == ANY) {
        for (size_t left = count, index; left; left--)
            CRT_TRY(crt_operation_wait_any(operations, count, &index));
        return CRT_OK;
    }
    if (way == AROUND) /* an operation of all comes before their end */
        CRT_TRY(crt_group_allreduce(p->group, &view, &view, CRT_REDUCE_SUM));
    for (size_t i = 0; i < count && way == TEST && !p->is_nccl; i++) {
        crt_status_t status;

        while ((status = crt_operation_test(operations[i])) == CRT_IN_PROGRESS)
            continue;
        CRT_TRY(status);
    }
    return crt_operation_wait_all(operations, count);
}

static crt_status_t everybody(const place_t *p, size_t count, int way)
{
    crt_operation_t *operations[64 * SEVERAL] = {0}, *before = NULL;
    float sum = 1;
    crt_tensor_t view = crt_tensor_floats(&sum, 1);
    crt_status_t status = CRT_OK, ended;
    size_t posted;

    memset(p->in, 0, (size_t)p->size * SEVERAL * (count + SEVERAL) * sizeof(float));
    if (way == BEHIND)
        CRT_TRY(crt_group_post(p->group,
                               CRT_COLLECTIVE(.kind = CRT_COLLECTIVE_ALLREDUCE,
                                              .input = &view, .output = &view,
                                              .reduction = CRT_REDUCE_SUM),
                               &before));
    posted = post_all(p, operations, count, &status);
    if (status == CRT_OK)
        status = end_all(p, operations, posted, way);
    else
        (void)crt_operation_wait_all(operations, posted);
    ended = before ? crt_operation_wait(&before) : CRT_OK;
    if (status == CRT_OK)
        status = ended;
    if (status == CRT_OK && way == BEHIND && sum != (float)p->size)
        status = crt_fail(p->call, CRT_ERR_USER, "the sum is %g", (double)sum);
    return status == CRT_OK ? expect_all(p, count) : status;
}

static crt_status_t run_all(const place_t *p)
{
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        CRT_TRY(sendrecv(p, lengths[i]));
        if (!p->is_nccl && lengths[i] <= MOST / 2)
            CRT_TRY(all_send_first(p, lengths[i]));
        if (lengths[i] > (size_t)(MOST / p->size / SEVERAL - SEVERAL))
            continue;
        for (int way = 0; way < WAYS; way++)
            CRT_TRY(everybody(p, lengths[i], way));
    }
    if (p->size == 2 && strcmp(crt_group_backend(p->group), "shm") == 0)
        CRT_TRY(posts_copy_nothing_large(p));
    return crt_group_barrier(p->group);
}

crt_status_t conform_messages(crt_group_t *group, crt_call_t *call, bool is_shared)
{
    place_t p = {.group = group,
                 .call = call,
                 .size = crt_group_size(group),
                 .rank = crt_group_rank(group),
                 .is_nccl = strcmp(crt_group_backend(group), "nccl") == 0};
    void *in = NULL, *out = NULL;
    crt_status_t status = CRT_OK;

    if (p.size == 1)
        return CRT_OK;
    if (is_shared)
        status = crt_group_alloc(MOST * sizeof(float), &out);
    else
        out = malloc(MOST * sizeof(float));
    in = malloc(MOST * sizeof(float));
    p.in = in;
    p.out = out;
    if (status == CRT_OK)
        status = in && out ? run_all(&p) : crt_fail(call, CRT_ERR_NO_MEMORY, "no memory");
    free(in);
    if (is_shared)
        crt_group_free(out);
    else
        free(out);
    return status;
}
