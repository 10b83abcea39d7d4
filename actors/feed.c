/* SPDX-License-Identifier: Apache-2.0 */
#include "actors/feed.h"

/* The whole data set, in place. */
static crt_status_t open_data(crti_feed_t *feed, const crti_feed_spec_t *spec,
                              const crt_model_t *model)
{
    const crt_tensor_t *x, *y;
    crt_status_t status;

    feed->features = crt_ref_keep(spec->features);
    feed->labels = crt_ref_keep(spec->labels);
    status = crt_get(feed->features, &x);
    if (status == CRT_OK)
        status = crt_get(feed->labels, &y);
    if (status == CRT_OK)
        status = crt_dataset_new(x, y, spec->classes, &feed->all);
    if (status != CRT_OK)
        return status;
    if (crt_dataset_width(feed->all) != crt_model_inputs(model))
        return crt_raise(CRT_ERR_INVALID,
                         "samples of %d features, the model has %d inputs",
                         crt_dataset_width(feed->all), crt_model_inputs(model));
    if (spec->classes > crt_model_outputs(model))
        return crt_raise(CRT_ERR_INVALID, "%d classes, the model has %d outputs",
                         spec->classes, crt_model_outputs(model));
    return CRT_OK;
}

crt_status_t crti_feed_init(crti_feed_t *feed, const crti_feed_spec_t *spec,
                            const crt_model_t *model)
{
    crt_status_t status = open_data(feed, spec, model);

    if (status == CRT_OK)
        status =
            crt_dataset_new_shard(feed->all, spec->shard, spec->shards, &feed->shard);
    if (status == CRT_OK)
        status = crt_batches_new(feed->shard, spec->batch, spec->seed, &feed->batches);
    return status;
}

void crti_feed_fini(crti_feed_t *feed)
{
    crt_batches_drop(&feed->batches);
    crt_dataset_drop(&feed->shard);
    crt_dataset_drop(&feed->all);
    crt_ref_drop(&feed->features);
    crt_ref_drop(&feed->labels);
}
