/* SPDX-License-Identifier: Apache-2.0 */
/* Fit: the phases of a training.
 *
 * Where it sits
 *     crt_fit -> [ actors/fit.c ] -> fit_group.c, fit_server.c
 *     begin -> (train ... train -> validate -> save) for each epoch -> test -> weights
 * How
 *     Members train in stretches of about a second, so that there is something to tell, and a group
 *     may grow. Only at the end of a phase the weights of all are compared.
 * Failure
 *     When all members died the strategy begins again at the last checkpoint: steps and batches are
 *     lower then, and the loop goes on from there.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crt_ml_gpu.h>

#include "actors/fit.h"
#include "actors/members.h"
#include "runtime/base/clock.h"
#include "runtime/base/copy_struct.h"

#define STRETCH_S     1.0
#define FRUITLESS_MAX 10 /* deaths of members, and two more of each, without a step */

/* ---------------------------------------------------------------- what is told */

static uint64_t last_batch(const crti_fit_t *f)
{
    return (uint64_t)f->o.epochs * f->per_pass;
}

static uint64_t batches_of_step(const crti_fit_t *f)
{
    return (uint64_t)f->devices * (uint64_t)f->o.accumulate;
}

/* Steps at the end, if nothing changes. */
static uint64_t last_step(const crti_fit_t *f)
{
    uint64_t each = batches_of_step(f), steps = UINT64_MAX;

    if (f->o.epochs > 0 && each > 0 && f->batches < last_batch(f))
        steps = f->step + (last_batch(f) - f->batches + each - 1) / each;
    else if (f->o.epochs > 0)
        steps = f->step;
    return f->o.steps > 0 && f->o.steps < steps ? f->o.steps : steps;
}

static crt_fit_progress_t progress_of(const crti_fit_t *f, crt_fit_phase_t phase)
{
    double left = NAN;

    if (f->trained > 0 && f->step > 0 && f->samples > 0)
        left = (double)(last_step(f) - f->step) * (double)batches_of_step(f) *
               (double)f->o.batch_size * f->trained / (double)f->samples;
    return (crt_fit_progress_t){
        .struct_size = sizeof(crt_fit_progress_t),
        .phase = phase,
        .devices = f->devices,
        .step = f->step,
        .steps = f->per_pass ? last_step(f) : 0,
        .epoch = f->per_pass ? (double)f->batches / (double)f->per_pass : 0,
        .epochs = f->o.epochs,
        .loss = NAN,
        .accuracy = NAN,
        .samples_per_s = NAN,
        .seconds = f->trained,
        .seconds_left = left};
}

static void tell(const crti_fit_t *f, const crt_fit_progress_t *progress)
{
    if (f->o.report)
        f->o.report(f->o.context, progress);
}

void crti_fit_tell(crti_fit_t *f, const char *format, ...)
{
    char text[1024];
    crt_fit_progress_t p = progress_of(f, CRT_FIT_EVENT);
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    p.text = text;
    tell(f, &p);
}

crt_status_t crti_fit_count_death(crti_fit_t *f, const char *who,
                                  const crt_error_t *error)
{
    const char *why = error ? error->text : crt_error_detail();

    f->deaths++;
    crti_fit_tell(f, "a %s died at step %llu: %s", who, (unsigned long long)f->step, why);
    if (++f->fruitless <= FRUITLESS_MAX + 2 * f->o.devices)
        return CRT_OK;
    return crt_raise(CRT_ERR_ACTOR_DIED, "%d deaths without a step; the last one: %s",
                     f->fruitless, why);
}

/* ---------------------------------------------------------------- help for strategies */

crt_actor_options_t crti_fit_actor(const crti_fit_t *f)
{
    return (crt_actor_options_t){.struct_size = sizeof(crt_actor_options_t),
                                 .num_cpus = f->o.cpus,
                                 .num_gpus = *f->precision ? f->o.gpus : 0,
                                 .if_infeasible = CRT_INFEASIBLE_WAITS};
}

bool crti_fit_is_death(const crt_error_t *error)
{
    return error && error->status <= CRT_ERR_ACTOR_DIED &&
           error->status > CRT_ERR_HEAD_LOST;
}

crt_status_t crti_fit_wait(crt_ref_t *ref)
{
    crt_status_t status = crt_get(ref, NULL);

    return crt_ref_error(ref) ? CRT_OK : status;
}

crt_status_t crti_fit_not_there(const crti_fit_t *f, const char *format, ...)
{
    char what[200];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    return crti_members_missing(what, f->o.cpus, *f->precision ? f->o.gpus : 0,
                                f->o.limit_ms);
}

/* A batch may take as long as it likes, when there is a process that computes it. */
crt_status_t crti_fit_wait_for(const crti_fit_t *f, crt_actor_t *member, int number,
                               crt_ref_t *ref)
{
    crt_status_t status = CRT_ERR_TIMED_OUT;
    size_t ready;

    while (status == CRT_ERR_TIMED_OUT) {
        status = crt_wait(&ref, 1, 1, f->o.limit_ms, NULL, &ready);
        if (status == CRT_ERR_TIMED_OUT &&
            crt_actor_ready(member, 0) == CRT_ERR_TIMED_OUT)
            return crti_fit_not_there(f, "member %d of %d died and was not started again",
                                      number + 1, f->o.devices);
    }
    return status;
}

crt_status_t crti_fit_add_score(crt_ref_t *ref, crti_fit_sums_t *sums)
{
    const crt_value_t *list;
    double loss;
    uint64_t right, count;
    crt_status_t status = crt_get(ref, &list);

    if (status == CRT_OK)
        status = crt_value_read(crt_value_at(list, 0), &loss);
    if (status == CRT_OK)
        status = crt_value_read(crt_value_at(list, 1), &right);
    if (status == CRT_OK)
        status = crt_value_read(crt_value_at(list, 2), &count);
    if (status != CRT_OK)
        return status;
    sums->loss += loss;
    sums->right += right;
    sums->count += count;
    return CRT_OK;
}

/* ---------------------------------------------------------------- phases */

static bool is_done(const crti_fit_t *f)
{
    return (f->o.epochs > 0 && f->batches >= last_batch(f)) ||
           (f->o.steps > 0 && f->step >= f->o.steps);
}

/* The next step after which something else than training follows. */
static uint64_t end_of_phase(const crti_fit_t *f)
{
    uint64_t each = batches_of_step(f);
    uint64_t left = f->per_pass - f->batches % f->per_pass;
    uint64_t end = f->step + (left + each - 1) / each;

    if (*f->folder && f->o.every > 0 && f->step + f->o.every - f->step % f->o.every < end)
        end = f->step + f->o.every - f->step % f->o.every;
    return f->o.steps > 0 && f->o.steps < end ? f->o.steps : end;
}

static void tell_training(crti_fit_t *f, const crti_fit_sums_t *sums, double seconds)
{
    crt_fit_progress_t p = progress_of(f, CRT_FIT_TRAIN);

    p.loss = sums->loss / (double)sums->count;
    p.samples_per_s = (double)sums->samples / seconds;
    tell(f, &p);
}

/* Loss and accuracy of data; NaN when all members died meanwhile. */
static crt_status_t score(crti_fit_t *f, const crti_fit_data_t *data,
                          crt_fit_phase_t phase, double *loss_out, double *accuracy_out)
{
    crti_fit_sums_t sums = {.count = 0};
    crt_status_t status = f->strategy->evaluate(f, data, &sums);
    crt_fit_progress_t p = progress_of(f, phase);

    if (status != CRT_OK)
        return status;
    *loss_out = p.loss = sums.count ? sums.loss / (double)sums.count : NAN;
    *accuracy_out = p.accuracy =
        sums.count ? (double)sums.right / (double)sums.count : NAN;
    if (sums.count)
        tell(f, &p);
    return CRT_OK;
}

static crt_status_t save(crti_fit_t *f)
{
    crti_fit_sums_t sums = {.count = 0};
    uint64_t step = f->step;
    bool is_saved = false;
    crt_status_t status = f->strategy->save(f, is_done(f), &is_saved);

    while (status == CRT_OK && !is_saved && f->step == step) {
        status = f->strategy->train(f, step, true, &sums);
        if (status == CRT_OK && f->step == step)
            status = f->strategy->save(f, is_done(f), &is_saved);
    }
    return status;
}

/* What follows a stretch that ended a phase. */
static crt_status_t end_phase(crti_fit_t *f, bool is_epoch)
{
    uint64_t step = f->step;
    crt_status_t status = CRT_OK;

    if (is_epoch && f->validation.count > 0)
        status = score(f, &f->validation, CRT_FIT_VALIDATE, &f->result.validation_loss,
                       &f->result.validation_accuracy);
    if (status == CRT_OK && *f->folder && f->step == step &&
        (is_epoch || is_done(f) || (f->o.every > 0 && step % f->o.every == 0)))
        status = save(f);
    return status;
}

static crt_status_t train(crti_fit_t *f)
{
    crti_fit_sums_t epoch = {.count = 0};
    uint64_t pace = 1;
    crt_status_t status = CRT_OK;

    while (status == CRT_OK && !is_done(f)) {
        crti_fit_sums_t sums = {.count = 0};
        uint64_t end = end_of_phase(f), before = f->step;
        uint64_t pass = f->batches / f->per_pass;
        uint64_t to = f->step + pace < end ? f->step + pace : end;
        double start = crti_now_s(), seconds;

        status = f->strategy->train(f, to, to == end, &sums);
        seconds = crti_now_s() - start;
        if (status != CRT_OK || f->step <= before)
            continue;
        f->trained += seconds;
        f->samples += sums.samples;
        pace = (uint64_t)((double)(f->step - before) * STRETCH_S / seconds);
        pace = pace > 0 ? pace : 1;
        epoch.loss += sums.loss;
        epoch.count += sums.count;
        f->result.train_loss = epoch.loss / (double)epoch.count;
        tell_training(f, &sums, seconds);
        if (to == end)
            status = end_phase(f, f->batches / f->per_pass > pass);
        if (f->batches / f->per_pass > pass)
            epoch = (crti_fit_sums_t){.count = 0};
    }
    return status;
}

/* ---------------------------------------------------------------- the call */

static crt_status_t take_weights(crti_fit_t *f)
{
    crt_ref_t *ref = NULL;
    const crt_tensor_t *all;
    crt_status_t status;

    if (!f->o.into)
        return CRT_OK;
    status = f->strategy->fetch(f, &ref);
    if (status == CRT_OK)
        status = crt_get(ref, &all);
    if (status == CRT_OK) {
        size_t count = crt_model_parameters(f->o.into);
        crt_tensor_t statistics = *crt_model_statistics(f->o.into);
        size_t more = crt_tensor_count(&statistics);
        crt_tensor_t weights = crt_tensor_floats(all->data, count), behind;

        if (crt_tensor_count(all) != count + more)
            status = crt_raise(CRT_ERR_INVALID, "`into` has other layers");
        behind = crt_tensor_floats((float *)all->data + count, more);
        if (status == CRT_OK)
            status = crt_model_set_weights(f->o.into, &weights);
        if (status == CRT_OK && more > 0)
            status = crt_model_copy_tensor(f->o.into, &behind, &statistics);
    }
    crt_ref_drop(&ref);
    return status;
}

/* To the end; once more when all members died after the last step. */
static crt_status_t run(crti_fit_t *f)
{
    crt_status_t status = CRT_OK;

    do {
        status = train(f);
        if (status == CRT_OK && f->test.count > 0)
            status = score(f, &f->test, CRT_FIT_TEST, &f->result.test_loss,
                           &f->result.test_accuracy);
    } while (status == CRT_OK && !is_done(f));
    return status == CRT_OK ? take_weights(f) : status;
}

static void give_result(crti_fit_t *f, size_t size, crt_fit_result_t *result_out)
{
    crt_fit_result_t *r = &f->result;

    r->struct_size = size;
    r->steps = f->step;
    r->epochs = (double)f->batches / (double)f->per_pass;
    r->seconds = f->trained;
    r->samples_per_s = f->trained > 0 ? (double)f->samples / f->trained : NAN;
    r->devices = f->devices;
    r->deaths = f->deaths;
    r->joined = f->joined;
    crti_give_struct(result_out, size, r, sizeof(*r));
}

static crt_status_t fit(crti_fit_t *f, const crt_fit_options_t *options)
{
    char path[4096];
    crt_status_t status = crti_fit_check(f, options);

    if (status == CRT_OK && f->o.resume)
        status = crt_checkpoint_latest(f->folder, path, sizeof(path));
    if (status == CRT_OK && f->o.resume)
        status = crti_fit_check_checkpoint(f, path);
    if (status == CRT_OK)
        status = crti_fit_open_data(f);
    if (status == CRT_OK)
        status = f->strategy->begin(f, f->o.resume ? path : NULL);
    if (status == CRT_OK && f->o.resume)
        crti_fit_tell(f, "goes on from %s", path);
    return status == CRT_OK ? run(f) : status;
}

crt_status_t crt_fit(const crt_fit_options_t *options, size_t result_size,
                     crt_fit_result_t *result_out)
{
    crti_fit_t *f;
    char text[1024];
    crt_status_t status;

    if (result_out && result_size < CRTI_SIZE_TO(crt_fit_result_t, hash))
        return crt_raise(CRT_ERR_INVALID,
                         "a crt_fit_result_t of %zu bytes: give sizeof of it",
                         result_size);
    f = calloc(1, sizeof(*f));
    if (!f)
        return crt_raise(CRT_ERR_NO_MEMORY, "a training");
    f->result.train_loss = f->result.validation_loss = f->result.validation_accuracy =
        f->result.test_loss = f->result.test_accuracy = NAN;
    status = fit(f, options);
    snprintf(text, sizeof(text), "%s", crt_error_detail());
    if (f->strategy)
        f->strategy->end(f);
    crti_fit_close_data(f);
    if (status == CRT_OK && result_out)
        give_result(f, result_size, result_out);
    free(f);
    return status == CRT_OK ? CRT_OK : crt_raise(status, "%s", text);
}
