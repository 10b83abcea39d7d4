/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets: a flat gradient, averaged over a group piece by piece while it is computed.
 *
 * Where it sits
 *     backward pass -> crt_buckets_seen -> [ actors/buckets.c ] -> crt_group_post
 *         -> crt_buckets_finish -> the optimizer
 * Layout
 *     |bucket 3 | bucket 2 | bucket 1 | bucket 0 |pad|      floats are final from the right
 *     Buckets are cut from the end, where the backward pass begins. With `scatter` every bucket is
 *     a multiple of 16 floats for each member, and the buffer is padded with zeros to that.
 * Ownership
 *     The buckets own their buffers (crt_group_alloc) and the operations under way; a gradient on a
 *     GPU is its model's.
 * Failure
 *     The first failed operation is kept; finish waits for all the others all the same, so that no
 *     operation still writes into the buffers when it returns.
 */
#include <stdlib.h>
#include <string.h>

#include "actors/replica.h"
#include "runtime/base/copy_struct.h"
#include "runtime/base/half.h"
#include <crt_actors.h>

#define UNIT         16 /* floats: a cache line */
#define BUCKET_BYTES ((size_t)1 << 20)
#define SHARE_BYTES  ((size_t)64 << 10)
/* On a GPU a sum costs little beside its comparison, which is a message of the hosts. */
#define GPU_BYTES ((size_t)16 << 20)

typedef struct bucket {
    size_t at, count; /* in the padded buffer */
    crt_operation_t *operation;
} bucket_t;

struct crt_buckets {
    crt_group_t *group;
    crt_buckets_options_t options;
    size_t count, padded;
    float *gradients;
    bool is_borrowed; /* the gradient, not to be freed */
    uint16_t *halves; /* with bfloat16: what travels */
    float *staging;   /* with scatter: what crt_buckets_gather gathers into */
    crt_tensor_t view;
    bucket_t *buckets; /* in the order in which they become final */
    size_t bucket_count, posted;
    crt_part_t *parts;
    size_t part_count;
    crt_status_t failed; /* of a post */
    char *failure;
};

/* ---------------------------------------------------------------- making */

/* Small enough that the last one is soon through, large enough that each member's share of it is
 * worth a message: on 16 hosts an update with 1 MiB took 140 ms, with 0.5 or 2 MiB 144 to 146. */
static size_t default_bytes(const crt_buckets_t *b, size_t members)
{
    size_t bytes = members * SHARE_BYTES;

    if (crt_tensor_gpu(&b->view) != CRT_NO_GPU)
        return GPU_BYTES;
    return bytes > BUCKET_BYTES ? bytes : BUCKET_BYTES;
}

static void cut(crt_buckets_t *b)
{
    size_t members = (size_t)crt_group_size(b->group);
    size_t unit = b->options.scatter ? UNIT * members : UNIT;
    size_t bytes =
        b->options.bucket_bytes ? b->options.bucket_bytes : default_bytes(b, members);
    size_t size = bytes / sizeof(float) / unit * unit, end;

    size = size ? size : unit;
    b->padded = b->options.scatter ? (b->count + unit - 1) / unit * unit : b->count;
    for (end = b->padded; end > 0; b->bucket_count++) {
        size_t at = end > size ? end - size : 0;

        if (b->buckets)
            b->buckets[b->bucket_count] = (bucket_t){.at = at, .count = end - at};
        end = at;
    }
}

/* What this member has of each bucket, without the padding. */
static void assign_parts(crt_buckets_t *b)
{
    size_t members = (size_t)crt_group_size(b->group);
    size_t rank = (size_t)crt_group_rank(b->group);

    if (!b->options.scatter) {
        b->parts[0] = (crt_part_t){0, b->count};
        b->part_count = 1;
        return;
    }
    for (size_t i = 0; i < b->bucket_count; i++) {
        size_t share = b->buckets[i].count / members;
        size_t first = b->buckets[i].at + rank * share, end = first + share;

        end = end < b->count ? end : b->count;
        b->parts[i] =
            (crt_part_t){first < end ? first : end, first < end ? end - first : 0};
    }
    b->part_count = b->bucket_count;
}

static crt_status_t make_buffers(crt_buckets_t *b)
{
    crt_status_t status;

    if (b->is_borrowed)
        return CRT_OK;
    status = crt_group_alloc(b->padded * sizeof(float), (void **)&b->gradients);
    if (status == CRT_OK && b->options.bfloat16)
        status = crt_group_alloc(b->padded * sizeof(uint16_t), (void **)&b->halves);
    if (status == CRT_OK && b->options.scatter)
        status = crt_group_alloc(b->padded * sizeof(float), (void **)&b->staging);
    if (status == CRT_OK)
        b->view = crt_tensor_floats(b->gradients, b->count);
    return status;
}

/* In memory of their own; in that of `gradients`, when it is given. */
static crt_status_t make(crt_group_t *group, size_t count, const crt_tensor_t *gradients,
                         const crt_buckets_options_t *options,
                         crt_buckets_t **buckets_out)
{
    crt_buckets_t *b = calloc(1, sizeof(*b));
    crt_status_t status;

    if (!b)
        return crt_raise(CRT_ERR_NO_MEMORY, "buckets");
    b->group = group;
    b->count = count;
    b->options = *options;
    if (gradients) {
        b->is_borrowed = true;
        b->gradients = gradients->data;
        b->view = *gradients;
    }
    cut(b);
    b->buckets = calloc(b->bucket_count, sizeof(*b->buckets));
    b->parts = calloc(b->bucket_count, sizeof(*b->parts));
    status = b->buckets && b->parts
                 ? make_buffers(b)
                 : crt_raise(CRT_ERR_NO_MEMORY, "%zu buckets", b->bucket_count);
    if (status != CRT_OK) {
        crt_buckets_drop(&b);
        return status;
    }
    b->bucket_count = 0;
    cut(b);
    assign_parts(b);
    *buckets_out = b;
    return CRT_OK;
}

crt_status_t crt_buckets_new(crt_group_t *group, size_t count,
                             const crt_buckets_options_t *options,
                             crt_buckets_t **buckets_out)
{
    crt_buckets_options_t mine;

    if (count == 0)
        return crt_raise(CRT_ERR_INVALID, "buckets for a gradient of 0 floats");
    CRT_TRY(CRTI_COPY_STRUCT(&mine, options, "CRT_BUCKETS_OPTIONS"));
    return make(group, count, NULL, &mine, buckets_out);
}

crt_status_t crti_buckets_new_at(crt_group_t *group, const crt_tensor_t *gradients,
                                 const crt_buckets_options_t *options,
                                 crt_buckets_t **buckets_out)
{
    crt_buckets_options_t mine;

    CRT_TRY(CRTI_COPY_STRUCT(&mine, options, "CRT_BUCKETS_OPTIONS"));
    if (mine.bfloat16 || mine.scatter)
        return crt_raise(CRT_ERR_UNSUPPORTED, "gradients of a GPU travel whole and as "
                                              "float32: neither bfloat16 nor sharded");
    return make(group, crt_tensor_count(gradients), gradients, &mine, buckets_out);
}

const crt_tensor_t *crt_buckets_gradients(crt_buckets_t *b)
{
    return &b->view;
}

const crt_part_t *crt_buckets_parts(const crt_buckets_t *b, size_t *count_out)
{
    *count_out = b->part_count;
    return b->parts;
}

void crti_buckets_set_at_end(crt_buckets_t *b, bool at_end)
{
    b->options.at_end = at_end;
}

/* ---------------------------------------------------------------- operations */

static void keep_failure(crt_buckets_t *b, crt_status_t status)
{
    if (status == CRT_OK || b->failed != CRT_OK)
        return;
    b->failed = status;
    free(b->failure);
    b->failure = strdup(crt_error_detail());
}

/* The failure since the last call, raised in this thread. */
static crt_status_t take_failure(crt_buckets_t *b)
{
    crt_status_t status = b->failed;

    b->failed = CRT_OK;
    return status == CRT_OK ? CRT_OK
                            : crt_raise(status, "%s", b->failure ? b->failure : "");
}

/* `from` and `to` of `count` and, where the kind says so, `part` elements. */
static void post(crt_buckets_t *b, bucket_t *bucket, crt_collective_kind_t kind,
                 const crt_tensor_t *from, const crt_tensor_t *to)
{
    if (b->failed == CRT_OK)
        keep_failure(
            b, crt_group_post(b->group,
                              CRT_COLLECTIVE(.kind = kind, .input = from, .output = to,
                                             .reduction = CRT_REDUCE_AVERAGE),
                              &bucket->operation));
}

static crt_tensor_t view_of(const crt_buckets_t *b, size_t at, size_t count)
{
    int64_t shape = (int64_t)count;

    if (b->halves)
        return crt_tensor_view(CRT_DTYPE_BFLOAT16, 1, &shape, b->halves + at);
    return crti_replica_part(&b->view, at, count);
}

static void post_sum(crt_buckets_t *b, bucket_t *bucket)
{
    crt_tensor_t whole = view_of(b, bucket->at, bucket->count), part;
    size_t share = bucket->count / (size_t)crt_group_size(b->group);

    if (b->halves)
        crti_bfloat16_from(b->halves + bucket->at, b->gradients + bucket->at,
                           bucket->count);
    if (!b->options.scatter) {
        post(b, bucket, CRT_COLLECTIVE_ALLREDUCE, &whole, &whole);
        return;
    }
    part = view_of(b, bucket->at + share * (size_t)crt_group_rank(b->group), share);
    post(b, bucket, CRT_COLLECTIVE_REDUCESCATTER, &whole, &part);
}

static void wait_all(crt_buckets_t *b)
{
    for (size_t i = 0; i < b->bucket_count; i++)
        if (b->buckets[i].operation)
            keep_failure(b, crt_operation_wait(&b->buckets[i].operation));
}

void crt_buckets_seen(void *buckets, size_t first)
{
    crt_buckets_t *b = buckets;

    if (b->options.at_end && first > 0)
        return;
    while (b->posted < b->bucket_count && b->buckets[b->posted].at >= first)
        post_sum(b, &b->buckets[b->posted++]);
}

crt_status_t crt_buckets_finish(crt_buckets_t *b)
{
    crt_buckets_seen(b, 0);
    b->posted = 0;
    wait_all(b);
    if (b->failed == CRT_OK && b->halves)
        for (size_t i = 0; i < b->part_count; i++)
            crti_bfloat16_to(b->gradients + b->parts[i].first,
                             b->halves + b->parts[i].first, b->parts[i].count);
    return take_failure(b);
}

/* ---------------------------------------------------------------- gathering */

crt_status_t crt_buckets_gather(crt_buckets_t *b, const crt_tensor_t *values)
{
    float *flat = values->data;
    crt_status_t status;

    if (values->dtype != CRT_DTYPE_FLOAT32 || !crt_tensor_is_dense(values) ||
        crt_tensor_count(values) != b->count)
        return crt_raise(CRT_ERR_INVALID, "%zu values for buckets of %zu floats",
                         crt_tensor_count(values), b->count);
    if (!b->options.scatter)
        return CRT_OK;
    for (size_t i = 0; i < b->part_count; i++)
        memcpy(b->staging + b->parts[i].first, flat + b->parts[i].first,
               b->parts[i].count * sizeof(float));
    for (size_t i = 0; i < b->bucket_count; i++) {
        bucket_t *bucket = &b->buckets[i];
        size_t share = bucket->count / (size_t)crt_group_size(b->group);
        size_t at = bucket->at + share * (size_t)crt_group_rank(b->group);
        crt_tensor_t part = crt_tensor_floats(b->staging + at, share);
        crt_tensor_t whole = crt_tensor_floats(b->staging + bucket->at, bucket->count);

        post(b, bucket, CRT_COLLECTIVE_ALLGATHER, &part, &whole);
    }
    wait_all(b);
    status = take_failure(b);
    if (status == CRT_OK)
        memcpy(flat, b->staging, b->count * sizeof(float));
    return status;
}

void crt_buckets_drop(crt_buckets_t **dropped)
{
    crt_buckets_t *b = *dropped;

    if (!b)
        return;
    if (b->buckets)
        wait_all(b);
    crt_group_free(b->staging);
    crt_group_free(b->halves);
    if (!b->is_borrowed)
        crt_group_free(b->gradients);
    free(b->failure);
    free(b->parts);
    free(b->buckets);
    free(b);
    *dropped = NULL;
}
