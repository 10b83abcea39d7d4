/* SPDX-License-Identifier: Apache-2.0 */
/* Fit, before anything is started: options, model, data and cluster must fit each other. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <crt_ml_gpu.h>
#include <crt_networks.h>

#include "actors/fit.h"
#include "actors/spec.h"
#include "runtime/base/copy_struct.h"

#define LIMIT_MS      60000
#define LIMIT_MS_MOST 1000000000 /* of a group */

/* ---------------------------------------------------------------- names */

crt_status_t crt_fit_strategy_parse(const char *name, crt_fit_strategy_t *strategy_out)
{
    static const char *const names[] = {[CRT_FIT_ALLREDUCE] = "allreduce",
                                        [CRT_FIT_SHARDED] = "sharded",
                                        [CRT_FIT_SERVER] = "server"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0) {
            *strategy_out = (crt_fit_strategy_t)i;
            return CRT_OK;
        }
    return crt_raise(CRT_ERR_INVALID, "strategy '%s', not server, allreduce or sharded",
                     name);
}

crt_status_t crt_accelerator_parse(const char *name, crt_accelerator_t *accelerator_out)
{
    static const char *const names[] = {[CRT_ACCELERATOR_CPU] = "cpu",
                                        [CRT_ACCELERATOR_GPU] = "gpu",
                                        [CRT_ACCELERATOR_AUTO] = "auto"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0) {
            *accelerator_out = (crt_accelerator_t)i;
            return CRT_OK;
        }
    return crt_raise(CRT_ERR_INVALID, "accelerator '%s', not cpu, gpu or auto", name);
}

/* ---------------------------------------------------------------- options */

static crt_status_t check_numbers(const crt_fit_options_t *o)
{
    if (!o->model || !o->train)
        return crt_raise(CRT_ERR_INVALID, "a training needs `model` and `train`");
    if (o->batch_size < 1 || o->accumulate < 1 || o->epochs < 0 || o->ahead < 0)
        return crt_raise(CRT_ERR_INVALID,
                         "batches of %d samples, %d in each step, %d epochs, %d ahead",
                         o->batch_size, o->accumulate, o->epochs, o->ahead);
    if (!(o->validation_part >= 0 && o->validation_part < 1))
        return crt_raise(CRT_ERR_INVALID, "a validation part of %g, not 0 to 1",
                         o->validation_part);
    if (!(o->clip >= 0) || !(o->cpus > 0) || !(o->gpus > 0 && o->gpus <= 1))
        return crt_raise(CRT_ERR_INVALID,
                         "members of %g CPUs and %g of a GPU, gradients clipped to %g",
                         o->cpus, o->gpus, o->clip);
    if (o->devices < 0 || o->devices_most < 0 || o->devices > CRTI_FIT_MEMBERS_MAX ||
        o->devices_most > CRTI_FIT_MEMBERS_MAX ||
        (o->devices_most > 0 && o->devices_most < o->devices))
        return crt_raise(CRT_ERR_INVALID, "%d to %d devices, of at most %d", o->devices,
                         o->devices_most, CRTI_FIT_MEMBERS_MAX);
    if (o->limit_ms < 1 || o->limit_ms > LIMIT_MS_MOST)
        return crt_raise(CRT_ERR_INVALID, "a limit of %lld ms, not 1 to %d",
                         (long long)o->limit_ms, LIMIT_MS_MOST);
    if (o->format && !crt_image_format(o->format))
        return crt_raise(CRT_ERR_INVALID, "no format of images is called '%s'",
                         o->format);
    return CRT_OK;
}

static crt_status_t check_strategy(const crt_fit_options_t *o)
{
    if (o->strategy > CRT_FIT_SERVER || o->accelerator > CRT_ACCELERATOR_AUTO)
        return crt_raise(CRT_ERR_INVALID, "strategy %d, accelerator %d", (int)o->strategy,
                         (int)o->accelerator);
    if (o->strategy == CRT_FIT_SERVER && o->devices_most > o->devices)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "a number of devices that changes, with a parameter server");
    if (o->strategy == CRT_FIT_SERVER && o->sync_norms)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "batch norms over all members, with a parameter server");
    return CRT_OK;
}

static crt_status_t read_options(crti_fit_t *f, const crt_fit_options_t *options)
{
    crt_fit_options_t *o = &f->o;
    crt_status_t status = CRTI_COPY_STRUCT(o, options, "CRT_FIT");

    if (status != CRT_OK)
        return status;
    o->accumulate = o->accumulate ? o->accumulate : 1;
    o->cpus = o->cpus != 0 ? o->cpus : 1;
    o->gpus = o->gpus != 0 ? o->gpus : 1;
    o->limit_ms = o->limit_ms != 0 ? o->limit_ms : LIMIT_MS;
    o->epochs = o->epochs || o->steps ? o->epochs : 1;
    f->format = o->format ? o->format : "";
    status = check_numbers(o);
    if (status == CRT_OK)
        status = check_strategy(o);
    if (status == CRT_OK)
        status = crti_spec_copy(&f->spec, o->model);
    f->optimizer = crt_adam_options(0.001);
    if (status == CRT_OK && o->optimizer)
        status = CRTI_COPY_STRUCT(&f->optimizer, o->optimizer,
                                  "crt_adam_options and its like");
    f->name = o->name ? o->name : f->spec.network ? f->spec.network : "model";
    f->strategy = o->strategy == CRT_FIT_SERVER ? &crti_fit_server : &crti_fit_group;
    return status;
}

/* ---------------------------------------------------------------- the cluster */

/* The number of devices, where the program leaves it open, and whether there are so many. */
static crt_status_t count_devices(crti_fit_t *f, const char *what, double each,
                                  crt_status_t status)
{
    crt_fit_options_t *o = &f->o;
    double total = 0, unused = 0;
    crt_status_t asked = crt_resource_total(what, &total, &unused);

    if (asked != CRT_OK)
        return asked;
    if (o->devices == 0) {
        o->devices = (int)floor(unused / each + 1e-6);
        o->devices = o->devices < 1 ? 1 : o->devices;
        o->devices =
            o->devices < CRTI_FIT_MEMBERS_MAX ? o->devices : CRTI_FIT_MEMBERS_MAX;
        if (o->devices_most > 0 && o->devices > o->devices_most)
            o->devices = o->devices_most;
    }
    if (o->devices * each > total + 1e-6)
        return crt_raise(status, "%d devices of %g %s: the cluster has %g %s", o->devices,
                         each, what, total, what);
    o->devices_most = o->devices_most ? o->devices_most : o->devices;
    return CRT_OK;
}

/* Gradients are summed where they lie, by NCCL, which wants a whole GPU for each member and no
 * parts of an optimizer. All else goes by way of the host. */
static crt_status_t check_group_on_gpus(crti_fit_t *f)
{
    const crt_fit_options_t *o = &f->o;

    f->by_host = o->strategy == CRT_FIT_SHARDED || o->gpus < 1;
    if (o->sync_norms)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "batch norms over all members, on GPUs: they compute them there "
                         "of their own batches; accelerator cpu has them over all");
    if (o->bfloat16 && !f->by_host)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "gradients that are sent as bfloat16 by GPUs, with strategy "
                         "allreduce: NCCL sums float32; strategies server and sharded "
                         "send bfloat16");
    return CRT_OK;
}

static crt_status_t use_gpus(crti_fit_t *f)
{
    crt_fit_options_t *o = &f->o;

    f->precision = o->precision ? o->precision : "float32";
    if (o->strategy != CRT_FIT_SERVER)
        CRT_TRY(check_group_on_gpus(f));
    return count_devices(f, "GPU", o->gpus, CRT_ERR_UNSUPPORTED);
}

static crt_status_t use_cpus(crti_fit_t *f)
{
    crt_fit_options_t *o = &f->o;

    if (o->accelerator == CRT_ACCELERATOR_AUTO)
        crti_fit_tell(f, "accelerator auto: no node of the cluster has a GPU; members "
                         "compute on CPUs, in float32");
    else if (o->precision && strcmp(o->precision, "float32") != 0)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "precision %s with accelerator cpu: CPUs compute in float32",
                         o->precision);
    return count_devices(f, "CPU", o->cpus, CRT_ERR_UNSCHEDULABLE);
}

static crt_status_t choose_devices(crti_fit_t *f)
{
    crt_fit_options_t *o = &f->o;
    crt_precision_t precision;
    double gpus = 0;

    f->precision = "";
    if (o->precision)
        CRT_TRY(crt_precision_parse(o->precision, &precision));
    if (o->accelerator != CRT_ACCELERATOR_CPU)
        CRT_TRY(crt_resource_total("GPU", &gpus, NULL));
    if (gpus > 0)
        return use_gpus(f);
    if (o->accelerator == CRT_ACCELERATOR_GPU)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "accelerator gpu: no node of the cluster has a GPU; nodes have "
                         "those of CUDA_VISIBLE_DEVICES, or all that the driver tells");
    return use_cpus(f);
}

/* ---------------------------------------------------------------- model and data */

/* A NaN may not show in the outputs: ReLU makes 0 of it. */
static crt_status_t check_finite(const crt_dataset_t *set, const char *what)
{
    const crt_tensor_t *features = crt_dataset_features(set);
    size_t width = (size_t)crt_dataset_width(set), count = crt_tensor_count(features);
    const float *x = features->data;

    for (size_t i = 0; features->dtype == CRT_DTYPE_FLOAT32 && i < count; i++)
        if (!isfinite(x[i]))
            return crt_raise(CRT_ERR_INVALID,
                             "feature %zu of sample %zu of the %s data is %g", i % width,
                             i / width, what, (double)x[i]);
    return CRT_OK;
}

static crt_status_t check_data(const crt_model_t *model, const crt_dataset_t *set,
                               const char *what)
{
    if (!set)
        return CRT_OK;
    if (crt_dataset_width(set) != crt_model_inputs(model))
        return crt_raise(CRT_ERR_INVALID,
                         "the %s data have samples of %d features, the model %d inputs",
                         what, crt_dataset_width(set), crt_model_inputs(model));
    if (crt_dataset_classes(set) > crt_model_outputs(model))
        return crt_raise(CRT_ERR_INVALID,
                         "the %s data have %d classes, the model %d outputs", what,
                         crt_dataset_classes(set), crt_model_outputs(model));
    return check_finite(set, what);
}

static crt_status_t make_model(const crti_fit_t *f, crt_model_t **model_out)
{
    const crt_model_spec_t *s = &f->spec;
    const int *w = s->widths;
    crt_input_t input = CRT_INPUT(.channels = 1);

    if (s->layers)
        return crt_model_new(s->input, s->layers, s->layer_count, s->seed, model_out);
    if (!s->network)
        return crt_mlp_new(w, s->dropout, s->seed, model_out);
    for (int i = 0; i < 4; i++)
        if (w[i] < 1)
            return crt_raise(CRT_ERR_INVALID, "a network by name needs height, width, "
                                              "channels and classes");
    input = CRT_INPUT(.height = w[0], .width = w[1], .channels = w[2]);
    return crt_network_by_name(s->network, &input, w[3], s->seed, model_out);
}

static crt_status_t check_model(crti_fit_t *f)
{
    const crt_fit_options_t *o = &f->o;
    crt_model_t *model;
    crt_optimizer_t *optimizer;
    crt_status_t status = make_model(f, &model);

    if (status != CRT_OK)
        return status;
    f->parameters = crt_model_parameters(model);
    status = check_data(model, o->train, "training");
    if (status == CRT_OK)
        status = check_data(model, o->validation, "validation");
    if (status == CRT_OK)
        status = check_data(model, o->test, "test");
    if (status == CRT_OK && o->into &&
        crt_model_parameters(o->into) != crt_model_parameters(model))
        status = crt_raise(CRT_ERR_INVALID,
                           "`into` has %zu parameters, the model that is trained %zu",
                           crt_model_parameters(o->into), crt_model_parameters(model));
    if (status == CRT_OK) {
        status = crt_optimizer_new(model, &f->optimizer, &optimizer);
        if (status == CRT_OK)
            crt_optimizer_drop(&optimizer);
    }
    crt_model_drop(&model);
    return status;
}

/* How many samples are trained with, and how many steps that makes. */
static crt_status_t check_counts(crti_fit_t *f)
{
    const crt_fit_options_t *o = &f->o;
    size_t count = crt_dataset_count(o->train), kept = 0;

    if (!o->validation && o->validation_part > 0) {
        kept = (size_t)((double)count * o->validation_part);
        if (kept == 0 || kept == count)
            return crt_raise(CRT_ERR_INVALID,
                             "a validation part of %g: %zu of %zu samples, which leaves "
                             "nothing to %s with",
                             o->validation_part, kept, count,
                             kept == 0 ? "validate" : "train");
    }
    f->validation.count = o->validation ? crt_dataset_count(o->validation) : kept;
    f->train.count = count - kept;
    f->per_pass = (f->train.count + (size_t)o->batch_size - 1) / (size_t)o->batch_size;
    if (f->per_pass < (uint64_t)o->devices)
        return crt_raise(CRT_ERR_INVALID,
                         "%d devices, and %zu training samples are only %llu batches of "
                         "%d: take fewer devices or smaller batches",
                         o->devices, f->train.count, (unsigned long long)f->per_pass,
                         o->batch_size);
    if (f->per_pass < (uint64_t)o->devices * (uint64_t)o->accumulate)
        return crt_raise(
            CRT_ERR_INVALID,
            "%d batches of %d devices in each step, and %zu training samples "
            "are only %llu batches of %d: accumulate fewer",
            o->accumulate, o->devices, f->train.count, (unsigned long long)f->per_pass,
            o->batch_size);
    return CRT_OK;
}

/* ---------------------------------------------------------------- checkpoints */

static crt_status_t open_folder(crti_fit_t *f)
{
    const crt_fit_options_t *o = &f->o;
    char path[sizeof(f->folder)], whole[PATH_MAX];
    struct stat info;

    if (!o->folder && o->resume)
        return crt_raise(CRT_ERR_INVALID, "a training that resumes needs `folder`");
    if (!o->folder)
        return CRT_OK;
    if ((mkdir(o->folder, 0777) != 0 && errno != EEXIST) ||
        access(o->folder, W_OK) != 0 || !realpath(o->folder, whole))
        return crt_raise(errno == ENOENT   ? CRT_ERR_NOT_FOUND
                         : errno == EACCES ? CRT_ERR_PERMISSION
                                           : CRT_ERR_IO,
                         "%s: %s", o->folder, strerror(errno));
    if (stat(whole, &info) != 0 || !S_ISDIR(info.st_mode))
        return crt_raise(CRT_ERR_IO, "%s: %s", o->folder, strerror(ENOTDIR));
    if (strlen(whole) >= sizeof(f->folder))
        return crt_raise(CRT_ERR_INVALID, "the name of a folder of %zu bytes",
                         strlen(whole));
    memcpy(f->folder, whole, strlen(whole) + 1);
    if (!o->resume && crt_checkpoint_latest(f->folder, path, sizeof(path)) == CRT_OK)
        return crt_raise(CRT_ERR_EXISTS,
                         "%s has checkpoints; a training that resumes goes on from them",
                         f->folder);
    return CRT_OK;
}

/* The seed says which samples are only validated with; seed and size, what is in each batch. */
crt_status_t crti_fit_check_checkpoint(const crti_fit_t *f, const char *path)
{
    crt_checkpoint_t c;
    uint64_t size = (uint64_t)f->o.batch_size;

    CRT_TRY(crt_checkpoint_read(path, f->name, NULL, NULL, sizeof(c), &c));
    if (c.seed != f->spec.seed)
        return crt_raise(
            CRT_ERR_INVALID,
            "%s: of a training with seed %llu, not %llu: it would train with "
            "samples in another order, and with those it validates with",
            path, (unsigned long long)c.seed, (unsigned long long)f->spec.seed);
    if (c.batch_size > 0 && c.batch_size != size)
        return crt_raise(CRT_ERR_INVALID,
                         "%s: of a training with batches of %llu samples, not %llu", path,
                         (unsigned long long)c.batch_size, (unsigned long long)size);
    return CRT_OK;
}

crt_status_t crti_fit_check(crti_fit_t *f, const crt_fit_options_t *options)
{
    CRT_TRY(read_options(f, options));
    CRT_TRY(check_model(f));
    CRT_TRY(choose_devices(f));
    CRT_TRY(check_counts(f));
    return open_folder(f);
}
