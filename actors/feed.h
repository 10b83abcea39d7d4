/* SPDX-License-Identifier: Apache-2.0 */
/* Feed: the batches of one actor, from its shard of a data set that lies in the store. */
#ifndef CRTI_ACTORS_FEED_H
#define CRTI_ACTORS_FEED_H

#include <crt_actors.h>

typedef struct crti_feed {
    crt_ref_t *features, *labels; /* keep what `all` points into */
    crt_dataset_t *all, *shard;
    crt_batches_t *batches;
} crti_feed_t;

/* The arguments of the actor; the refs are borrowed. */
typedef struct crti_feed_spec {
    crt_ref_t *features, *labels;
    int classes, shard, shards, batch;
    uint64_t seed;
} crti_feed_spec_t;

/* Waits for the data and maps them. `model` must fit them. After a failure, too, it is to be
 * ended. */
crt_status_t crti_feed_init(crti_feed_t *feed, const crti_feed_spec_t *spec,
                            const crt_model_t *model);
void crti_feed_fini(crti_feed_t *feed);

#endif
