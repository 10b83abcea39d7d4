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

static crt_status_t open_numbered(crti_feed_t *feed, const crti_feed_spec_t *spec)
{
    feed->seed = spec->seed;
    feed->size = spec->batch;
    feed->ahead = spec->ahead;
    if (!*spec->format)
        return CRT_OK;
    feed->format = crt_image_format(spec->format);
    return feed->format ? CRT_OK
                        : crt_raise(CRT_ERR_INVALID, "no format of images is called '%s'",
                                    spec->format);
}

crt_status_t crti_feed_batch(crti_feed_t *feed, uint64_t number, uint64_t stride,
                             const crt_batch_t **batch_out)
{
    crt_status_t status = CRT_OK;

    if (stride != feed->stride) {
        crt_image_batches_drop(&feed->numbered);
        status = crt_image_batches_new(
            feed->format, feed->all,
            CRT_IMAGE_BATCHES_OPTIONS(.batch_size = feed->size, .seed = feed->seed,
                                      .training = true, .ahead = feed->ahead,
                                      .stride = stride),
            &feed->numbered);
        feed->stride = status == CRT_OK ? stride : 0;
    }
    if (status != CRT_OK)
        return status;
    crt_image_batches_seek(feed->numbered, number);
    *batch_out = crt_image_batches_next(feed->numbered);
    return CRT_OK;
}

crt_status_t crti_feed_init(crti_feed_t *feed, const crti_feed_spec_t *spec,
                            const crt_model_t *model)
{
    crt_status_t status = open_data(feed, spec, model);

    if (status == CRT_OK && spec->is_numbered)
        return open_numbered(feed, spec);
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
    crt_image_batches_drop(&feed->numbered);
    crt_dataset_drop(&feed->shard);
    crt_dataset_drop(&feed->all);
    crt_ref_drop(&feed->features);
    crt_ref_drop(&feed->labels);
}
