/* SPDX-License-Identifier: Apache-2.0 */
/* train_images by crt_fit: any strategy, CPUs or GPUs, a number of members that may change. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "show.h"
#include "train_images.h"

typedef struct fitting {
    FILE *csv;
    curve_t curve;
    show_t show;
} fitting_t;

static const char *phase_name(crt_fit_phase_t phase)
{
    return phase == CRT_FIT_TRAIN      ? "train"
           : phase == CRT_FIT_VALIDATE ? "validate"
                                       : "test";
}

static void report(void *context, const crt_fit_progress_t *p)
{
    fitting_t *f = context;

    crt_fit_print(NULL, p);
    if (p->phase == CRT_FIT_EVENT)
        return;
    if (f->csv && fprintf(f->csv, "%s,%" PRIu64 ",%.4f,%.6f,%.6f,%.1f,%.3f,%d\n",
                          phase_name(p->phase), p->step, p->epoch, p->loss, p->accuracy,
                          p->samples_per_s, p->seconds, p->devices) < 0) {
        perror(settings.csv);
        exit(1);
    }
    if (p->phase == CRT_FIT_TRAIN && !curve_add(&f->curve, (double)p->step, p->loss))
        check(CRT_ERR_NO_MEMORY, "curve");
    check(show_row(&f->show, (double)p->step, p->loss, p->accuracy, p->samples_per_s),
          "metrics");
}

static void open_output(fitting_t *f)
{
    f->curve.title = "loss by step";
    check_curve(settings.svg);
    check(show_open(&f->show, "images"), "metrics");
    if (!settings.csv)
        return;
    f->csv = fopen(settings.csv, "we");
    if (!f->csv) {
        perror(settings.csv);
        exit(1);
    }
    fprintf(f->csv, "phase,step,epoch,loss,accuracy,images_per_s,seconds,devices\n");
}

static void close_output(fitting_t *f)
{
    if (f->csv && fclose(f->csv) != 0) {
        perror(settings.csv);
        exit(1);
    }
    save_curve(&f->curve, settings.svg);
    show_close(&f->show);
}

static crt_dataset_t *open_images(crt_split_t split, int64_t limit)
{
    crt_dataset_t *set;

    check(crt_images_open(settings.format, settings.source, split, (size_t)limit, &set),
          split == CRT_SPLIT_TRAIN ? "training data" : "test data");
    return set;
}

/* A dash for what was not measured. */
static const char *number(double x, int digits, const char *unit, char text[32])
{
    if (isfinite(x))
        snprintf(text, 32, "%.*f%s", digits, x, unit);
    else
        snprintf(text, 32, "-");
    return text;
}

static void print_result(const crt_fit_result_t *r)
{
    char speed[32], loss[32], validation[32], test[32];

    printf("%" PRIu64 " steps in %.3f s (%s images/s), %.2f epochs, devices: %d, "
           "deaths: %d, loss: %s, validation: %s, test: %s, weights: %016" PRIx64 "\n",
           r->steps, r->seconds, number(r->samples_per_s, 1, "", speed), r->epochs,
           r->devices, r->deaths, number(r->train_loss, 4, "", loss),
           number(100 * r->validation_accuracy, 2, " %", validation),
           number(100 * r->test_accuracy, 2, " %", test), r->hash);
}

int fit_images(int argc, char **argv)
{
    static fitting_t f;
    const struct settings *s = &settings;
    int widths[LAYERS_MAX + 3];
    crt_model_spec_t spec;
    crt_dataset_t *train, *test;
    crt_fit_result_t result;

    crt_ml_set_threads(1);
    fill_spec(&spec, widths);
    train = open_images(CRT_SPLIT_TRAIN, s->limit);
    test = s->tests ? open_images(CRT_SPLIT_TEST, s->test_limit) : NULL;
    open_output(&f);
    check(
        crt_fit(CRT_FIT(.model = &spec, .train = train, .test = test,
                        .validation_part = s->validation, .format = s->format->name,
                        .strategy = s->strategy, .accelerator = s->accelerator,
                        .precision = s->fit_precision, .devices = (int)s->devices,
                        .devices_most = (int)s->devices_most, .gpus = s->num_gpus,
                        .batch_size = (int)s->batch, .accumulate = (int)s->accumulate,
                        .ahead = (int)s->ahead, .epochs = (int)s->epochs,
                        .steps = (uint64_t)s->steps, .optimizer = &s->optimizer,
                        .limit_ms = (int64_t)(s->limit_s * 1000), .clip = s->clip,
                        .sync_norms = s->sync_norms, .bfloat16 = s->bfloat16,
                        .folder = s->folder, .every = s->folder ? (uint64_t)s->every : 0,
                        .keep = (int)s->keep, .resume = s->resume, .name = s->network,
                        .report = report, .context = &f),
                sizeof(result), &result),
        "training");
    close_output(&f);
    print_result(&result);
    crt_dataset_drop(&train);
    crt_dataset_drop(&test);
    return 0;
}
