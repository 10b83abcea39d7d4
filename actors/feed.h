/* SPDX-License-Identifier: Apache-2.0 */
/* Feed: the batches of one actor, from its shard of a data set that lies in the store. */
#ifndef CRTI_ACTORS_FEED_H
#define CRTI_ACTORS_FEED_H

#include <crt_actors.h>

typedef struct crti_feed {
    crt_ref_t *features, *labels; /* keep what `all` points into */
    crt_dataset_t *all, *shard;
    crt_batches_t *batches;
    crt_image_batches_t
        *numbered; /* of a feed by numbers, when the first was asked for */
    uint64_t stride, seed;
    const crt_image_format_t *format;
    int size, ahead;
} crti_feed_t;

/* The arguments of the actor; the refs are borrowed. */
typedef struct crti_feed_spec {
    crt_ref_t *features, *labels;
    int classes, shard, shards, batch;
    uint64_t seed;
    /* By numbers: of all samples, in an order that only the seed determines. */
    bool is_numbered;
    const char
        *format; /* then: a name of crt_image_format, or "" for samples as they are */
    int ahead;   /* and batches that a thread makes ahead */
} crti_feed_spec_t;

/* Waits for the data and maps them. `model` must fit them. After a failure, too, it is to be
 * ended. */
crt_status_t crti_feed_init(crti_feed_t *feed, const crti_feed_spec_t *spec,
                            const crt_model_t *model);
/* Batch `number` of a feed by numbers. `stride` is the distance to the next one that will be asked
 * for. The batch is valid until the next call. */
crt_status_t crti_feed_batch(crti_feed_t *feed, uint64_t number, uint64_t stride,
                             const crt_batch_t **batch_out);

void crti_feed_fini(crti_feed_t *feed);

#endif
