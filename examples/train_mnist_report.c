/* SPDX-License-Identifier: Apache-2.0 */
/* What train_mnist shows while it trains. */
#include <math.h>
#include <stdlib.h>

#include "train_mnist.h"

#define LOSS_IMAGES 1000

/* Mean cross entropy of some test images. */
static double test_loss(crt_model_t *model, const crt_tensor_t *weights,
                        const crt_dataset_t *test)
{
    const crt_tensor_t *features = crt_dataset_features(test);
    const unsigned char *pixels = features->data,
                        *labels = crt_dataset_labels(test)->data;
    int64_t width = crt_dataset_width(test), classes = crt_dataset_classes(test);
    int64_t rows = (int64_t)crt_dataset_count(test);
    float *inputs, *outputs;
    double sum = 0;

    if (features->dtype != CRT_DTYPE_UINT8)
        return NAN;
    rows = rows < LOSS_IMAGES ? rows : LOSS_IMAGES;
    inputs = malloc((size_t)(rows * (width + classes)) * sizeof(float));
    if (!inputs)
        check(CRT_ERR_NO_MEMORY, "evaluation");
    outputs = inputs + rows * width;
    for (int64_t i = 0; i < rows * width; i++)
        inputs[i] = (float)pixels[i] / 255;
    crt_tensor_t in =
        crt_tensor_view(CRT_DTYPE_FLOAT32, 2, ((int64_t[]){rows, width}), inputs);
    crt_tensor_t out =
        crt_tensor_view(CRT_DTYPE_FLOAT32, 2, ((int64_t[]){rows, classes}), outputs);

    check(crt_model_predict(model, weights, &in, &out), "evaluation");
    for (int64_t i = 0; i < rows; i++)
        sum -= log(fmax((double)outputs[i * classes + labels[i]], 1e-30));
    free(inputs);
    return sum / (double)rows;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double report_median(double *values, size_t count)
{
    qsort(values, count, sizeof(double), compare_doubles);
    return count ? values[count / 2] : 0;
}

void report_open(report_t *t)
{
    check(show_open(&t->show, "images"), "metrics");
    check(show_staleness(&t->staleness), "metrics");
    if (!options.csv)
        return;
    t->csv = fopen(options.csv, "we");
    if (!t->csv || fprintf(t->csv, "update,seconds,loss,accuracy,images_per_s,"
                                   "staleness\n") < 0) {
        perror(options.csv);
        exit(1);
    }
}

void report_late(report_t *t, int updates)
{
    crt_histogram_observe(t->staleness, updates);
    t->late += updates;
    t->late_count++;
}

void report_update(report_t *t, crt_model_t *model, const crt_tensor_t *weights,
                   const crt_dataset_t *test, int update, double accuracy, double trained)
{
    double made = update - t->row_update, loss = test_loss(model, weights, test);
    double images = made * options.batch * (options.mode == ASYNC ? 1 : options.workers);
    double per_second = made > 0 ? images / (trained - t->row_s) : NAN;
    int all = options.iterations * (options.mode == ASYNC ? options.workers : 1);

    check(show_row(&t->show, update, loss, accuracy, per_second), "curves");
    if (t->csv && (fprintf(t->csv, "%d,%.4f,%.6f,%.6f,%.1f,%.3f\n", update, trained, loss,
                           accuracy, made > 0 ? per_second : 0,
                           t->late_count ? t->late / t->late_count : 0) < 0 ||
                   fflush(t->csv) != 0)) {
        perror(options.csv);
        exit(1);
    }
    t->row_update = update;
    t->row_s = trained;
    t->late = t->late_count = 0;
    if (!options.json)
        show_progress(update + 1, all, t->began);
}

void report_close(report_t *t)
{
    if (options.svg)
        check(show_write(&t->show, options.svg), "--svg");
    if (t->csv && fclose(t->csv) != 0) {
        perror(options.csv);
        exit(1);
    }
    show_close(&t->show);
}
