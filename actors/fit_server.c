/* SPDX-License-Identifier: Apache-2.0 */
/* Fit with a parameter server: members compute gradients of its weights, which it averages.
 *
 * Where it sits
 *     fit.c -> [ actors/fit_server.c ] -> image_worker.c, parameter_server.c
 * How
 *     A step has as many batches as there are members, times `accumulate`. Batch numbers follow
 *     from the step, so a gradient that was lost with its member is computed again by the process
 *     that the runtime starts in its place.
 * Failure
 *     A server that died begins again at the last checkpoint, or at the beginning.
 */
#include <stdlib.h>

#include "actors/fit.h"
#include "actors/image_worker.h"
#include "actors/replica.h"

typedef struct crew {
    crt_actor_t *server, *workers[CRTI_FIT_MEMBERS_MAX];
    int count;
    crt_ref_t *weights; /* the newest, and the statistics of batch norms behind them */
    crt_ref_t **told, **gradients; /* of each batch of a step */
} crew_t;

/* ---------------------------------------------------------------- beginning */

static void start_server(crti_fit_t *f)
{
    crew_t *c = f->state;
    crt_optimizer_options_t optimizer = f->optimizer;

    optimizer.global_clip = f->o.clip > 0 ? f->o.clip : optimizer.global_clip;
    c->server = crt_parameter_server_new(CRT_ACTOR_OPTIONS(.max_restarts = -1), &f->spec,
                                         &optimizer);
}

static void start_workers(crti_fit_t *f)
{
    crew_t *c = f->state;
    crt_actor_options_t options = crti_fit_actor(f);
    const crt_image_worker_spec_t spec =
        CRT_IMAGE_WORKER_SPEC(.features = f->train.features, .labels = f->train.labels,
                              .classes = f->train.classes, .format = f->format,
                              .batch_size = f->o.batch_size, .ahead = f->o.ahead,
                              .stride = f->o.devices,
                              .compression = f->o.bfloat16 ? "bfloat16" : "none",
                              .precision = *f->precision ? f->precision : NULL);

    options.max_restarts = -1;
    for (c->count = 0; c->count < f->o.devices; c->count++)
        c->workers[c->count] = crt_image_worker_new(&options, &f->spec, &spec);
}

/* The server's weights; false when it died meanwhile. */
static crt_status_t fetch_weights(crti_fit_t *f, bool *lives_out)
{
    crew_t *c = f->state;
    crt_status_t status;

    crt_ref_drop(&c->weights);
    c->weights = crt_call(c->server, crt_parameter_server_get_weights());
    status = crt_get(c->weights, NULL);
    *lives_out = status == CRT_OK;
    if (!crti_fit_is_death(crt_ref_error(c->weights)))
        return status;
    return crti_fit_count_death(f, "parameter server", crt_ref_error(c->weights));
}

/* Of `path`; NULL: of the server as it was started. */
static crt_status_t restore(crti_fit_t *f, const char *path, bool *lives_out)
{
    crew_t *c = f->state;
    crt_ref_t *done;
    crt_status_t status;

    f->step = 0;
    *lives_out = true;
    if (path) {
        done = crt_call(c->server, crt_parameter_server_restore(), path, f->name);
        status = crt_get(done, &f->step);
        *lives_out = status == CRT_OK;
        if (crti_fit_is_death(crt_ref_error(done)))
            status = crti_fit_count_death(f, "parameter server", crt_ref_error(done));
        crt_ref_drop(&done);
        if (status != CRT_OK || !*lives_out)
            return status;
    }
    return fetch_weights(f, lives_out);
}

/* There is one copy of the weights; statistics behind them do not count. */
static crt_status_t hash_weights(crti_fit_t *f)
{
    const crt_tensor_t *weights;
    crt_status_t status = crt_get(((crew_t *)f->state)->weights, &weights);

    if (status == CRT_OK)
        f->result.hash = crti_replica_hash_floats(weights, f->parameters);
    return status;
}

static crt_status_t go_on_from(crti_fit_t *f, const char *path)
{
    crt_checkpoint_t checkpoint = CRT_CHECKPOINT(.step = 0);
    bool lives = false;
    crt_status_t status = CRT_OK;

    if (path)
        status = crt_checkpoint_read(path, f->name, NULL, NULL, sizeof(checkpoint),
                                     &checkpoint);
    while (status == CRT_OK && !lives)
        status = restore(f, path, &lives);
    f->batches = checkpoint.batches;
    if (f->batches == 0) /* older ones do not tell */
        f->batches = f->step * (uint64_t)f->o.devices * (uint64_t)f->o.accumulate;
    f->devices = f->o.devices;
    return status == CRT_OK ? hash_weights(f) : status;
}

static crt_status_t begin(crti_fit_t *f, const char *checkpoint)
{
    size_t batches = (size_t)f->o.devices * (size_t)f->o.accumulate;
    crew_t *c = calloc(1, sizeof(*c));
    crt_status_t status = CRT_OK;

    f->state = c;
    if (c) {
        c->told = calloc(batches, sizeof(*c->told));
        c->gradients = calloc(batches, sizeof(*c->gradients));
    }
    if (!c || !c->told || !c->gradients)
        return crt_raise(CRT_ERR_NO_MEMORY, "members of a training");
    start_server(f);
    start_workers(f);
    status = crt_members_ready(c->workers, c->count, f->o.cpus,
                               *f->precision ? f->o.gpus : 0, f->o.limit_ms);
    return status == CRT_OK ? go_on_from(f, checkpoint) : status;
}

/* The server died, and with it what it had. */
static crt_status_t begin_again(crti_fit_t *f)
{
    char path[4096];
    bool is_there =
        *f->folder && crt_checkpoint_latest(f->folder, path, sizeof(path)) == CRT_OK;

    crti_fit_tell(f, "the weights are lost: the training goes on from %s",
                  is_there ? path : "its beginning");
    return go_on_from(f, is_there ? path : NULL);
}

/* ---------------------------------------------------------------- a step */

static void call_batch(crti_fit_t *f, size_t index)
{
    crew_t *c = f->state;
    crt_ref_t *refs[2];

    crt_call_returns(refs, 2, c->workers[index % (size_t)c->count],
                     crt_image_worker_compute_step(), NULL, f->batches + index,
                     c->weights);
    c->told[index] = refs[0];
    c->gradients[index] = refs[1];
}

static void drop_batch(crew_t *c, size_t index)
{
    crt_ref_drop(&c->told[index]);
    crt_ref_drop(&c->gradients[index]);
}

/* Loss and samples of a batch. */
static crt_status_t read_batch(crt_ref_t *told, crti_fit_sums_t *sums)
{
    const crt_value_t *list;
    double loss;
    uint64_t samples;
    crt_status_t status = crt_get(told, &list);

    if (status == CRT_OK)
        status = crt_value_read(crt_value_at(list, 0), &loss);
    if (status == CRT_OK)
        status = crt_value_read(crt_value_at(list, 5), &samples);
    if (status != CRT_OK)
        return status;
    sums->loss += loss;
    sums->samples += samples;
    sums->count++;
    return CRT_OK;
}

static crt_status_t wait_for(crti_fit_t *f, int worker, crt_ref_t *ref)
{
    return crti_fit_wait_for(f, ((crew_t *)f->state)->workers[worker], worker, ref);
}

/* All gradients of a step. A member that died computes again when it was started again. */
static crt_status_t collect(crti_fit_t *f, size_t batches, crti_fit_sums_t *sums)
{
    crew_t *c = f->state;
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < batches; i++)
        call_batch(f, i);
    for (size_t i = 0; i < batches && status == CRT_OK;) {
        const crt_error_t *error;

        status = wait_for(f, (int)(i % (size_t)c->count), c->told[i]);
        if (status != CRT_OK)
            return status;
        error = crt_ref_error(c->told[i]);
        if (crti_fit_is_death(error) && error->status != CRT_ERR_OBJECT_LOST) {
            status = crti_fit_count_death(f, "member", error);
            drop_batch(c, i);
            call_batch(f, i);
            continue;
        }
        status = read_batch(c->told[i++], sums);
    }
    return status;
}

/* One update with all of them. False: the server died. */
static crt_status_t update(crti_fit_t *f, size_t batches, bool *made_out)
{
    crew_t *c = f->state;
    crt_ref_t *weights = crt_call(c->server, crt_parameter_server_apply_step(), f->step,
                                  crt_arg_each(c->gradients, batches));
    crt_status_t status = crt_get(weights, NULL);
    const crt_error_t *error = crt_ref_error(weights);

    *made_out = status == CRT_OK;
    if (crti_fit_is_death(error)) {
        status = crti_fit_count_death(f, "parameter server", error);
        crt_ref_drop(&weights);
    }
    if (!*made_out) {
        crt_ref_drop(&weights);
        return status;
    }
    crt_ref_drop(&c->weights);
    c->weights = weights;
    f->step++;
    f->batches += batches;
    if (f->step > f->furthest) {
        f->furthest = f->step;
        f->fruitless = 0;
    }
    return CRT_OK;
}

static crt_status_t train(crti_fit_t *f, uint64_t steps, bool compares,
                          crti_fit_sums_t *sums)
{
    size_t batches = (size_t)f->o.devices * (size_t)f->o.accumulate;
    crew_t *c = f->state;
    crt_status_t status = CRT_OK;

    while (status == CRT_OK && f->step < steps) {
        bool made = false;

        status = collect(f, batches, sums);
        if (status == CRT_OK)
            status = update(f, batches, &made);
        else if (status == CRT_ERR_OBJECT_LOST)
            status = CRT_OK; /* the weights, with the server */
        for (size_t i = 0; i < batches; i++)
            drop_batch(c, i);
        if (status == CRT_OK && !made)
            return begin_again(f);
    }
    return status == CRT_OK && compares ? hash_weights(f) : status;
}

/* ---------------------------------------------------------------- the rest */

static crt_status_t evaluate(crti_fit_t *f, const crti_fit_data_t *data,
                             crti_fit_sums_t *sums)
{
    crew_t *c = f->state;
    crt_ref_t *refs[CRTI_FIT_MEMBERS_MAX];
    int parts = c->count < (int)data->count ? c->count : (int)data->count;
    crt_status_t status = CRT_OK;

    for (int i = 0; i < parts; i++)
        refs[i] = crt_call(c->workers[i], crti_image_worker_evaluate(), c->weights,
                           data->features, data->labels, data->classes, i, parts);
    for (int i = 0; i < parts && status == CRT_OK;) {
        status = wait_for(f, i, refs[i]);
        if (status == CRT_OK)
            status = crti_fit_add_score(refs[i], sums);
        if (!crti_fit_is_death(crt_ref_error(refs[i]))) {
            i++;
            continue;
        }
        status = crti_fit_count_death(f, "member", crt_ref_error(refs[i]));
        crt_ref_drop(&refs[i]);
        refs[i] = crt_call(c->workers[i], crti_image_worker_evaluate(), c->weights,
                           data->features, data->labels, data->classes, i, parts);
    }
    crt_refs_drop(refs, (size_t)parts);
    return status;
}

static crt_status_t save(crti_fit_t *f, bool is_last, bool *is_saved_out)
{
    crew_t *c = f->state;
    crt_ref_t *done =
        crt_call(c->server, crt_parameter_server_save(), (const char *)f->folder, f->name,
                 f->step, f->spec.seed, is_last, f->o.keep, f->batches, f->o.batch_size);
    crt_status_t status = crt_get(done, NULL);

    *is_saved_out = status == CRT_OK;
    if (crti_fit_is_death(crt_ref_error(done))) {
        status = crti_fit_count_death(f, "parameter server", crt_ref_error(done));
        if (status == CRT_OK)
            status = begin_again(f);
    }
    crt_ref_drop(&done);
    return status;
}

static crt_status_t fetch(crti_fit_t *f, crt_ref_t **weights_out)
{
    *weights_out = crt_ref_keep(((crew_t *)f->state)->weights);
    return CRT_OK;
}

static void end_actor(crt_actor_t **actor)
{
    if (*actor)
        (void)crt_actor_kill(*actor, NULL);
    crt_actor_drop(actor);
}

static void end(crti_fit_t *f)
{
    crew_t *c = f->state;

    if (!c)
        return;
    for (size_t i = 0;
         c->told && c->gradients && i < (size_t)f->o.devices * (size_t)f->o.accumulate;
         i++)
        drop_batch(c, i);
    for (int i = 0; i < c->count; i++)
        end_actor(&c->workers[i]);
    end_actor(&c->server);
    crt_ref_drop(&c->weights);
    free(c->told);
    free(c->gradients);
    free(c);
    f->state = NULL;
}

const crti_fit_strategy_t crti_fit_server = {begin, train, evaluate, save, fetch, end};
