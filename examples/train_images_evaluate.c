/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluator of train_images: a process of its own that watches a folder of checkpoints.
 *
 * It needs no cluster, and the training does not know of it: a file appears whole, under a name
 * that sorts.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "train_images.h"

#define BATCH   500
#define TOP     5
#define POLL_MS 100

typedef struct scores {
    double loss, top1, top5; /* sums, then means */
    size_t count;
} scores_t;

/* How many classes are more probable than that of the label. */
static int rank_of(const float *p, int classes, int label)
{
    int rank = 0;

    for (int i = 0; i < classes; i++)
        rank += p[i] > p[label] || (i < label && p[i] == p[label]);
    return rank;
}

static void add_batch(scores_t *s, const crt_tensor_t *probabilities,
                      const uint8_t *labels)
{
    int classes = (int)probabilities->shape[1];
    const float *p = probabilities->data;

    for (int64_t i = 0; i < probabilities->shape[0]; i++, p += classes) {
        int rank = rank_of(p, classes, labels[i]);

        s->loss -= log(fmax((double)p[labels[i]], 1e-30));
        s->top1 += rank == 0;
        s->top5 += rank < TOP;
        s->count++;
    }
}

static scores_t evaluate(crt_model_t *model, crt_image_batches_t *batches)
{
    static float memory[BATCH * 256];
    scores_t s = {.count = 0};

    crt_image_batches_seek(batches, 0);
    for (uint64_t i = 0; i < crt_image_batches_per_pass(batches); i++) {
        const crt_batch_t *batch = crt_image_batches_next(batches);
        int64_t shape[2] = {batch->inputs.shape[0], crt_model_outputs(model)};
        crt_tensor_t out = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, memory);

        check(crt_model_predict(model, NULL, &batch->inputs, &out), "evaluation");
        add_batch(&s, &out, batch->labels.data);
    }
    s.loss /= (double)s.count;
    s.top1 /= (double)s.count;
    s.top5 /= (double)s.count;
    return s;
}

/* Waits for a checkpoint after `step`; false when none came for too long. */
static bool wait_for(int64_t step, char *path, size_t room)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};

    for (int64_t waited = 0; waited < settings.patience_s * 1000; waited += POLL_MS) {
        crt_status_t status =
            step < 0 ? crt_checkpoint_after(settings.folder, 0, path, room)
                     : crt_checkpoint_after(settings.folder, (uint64_t)step, path, room);

        if (status == CRT_OK)
            return true;
        if (status != CRT_ERR_NOT_FOUND)
            check(status, "checkpoints.folder");
        nanosleep(&pause, NULL);
    }
    return false;
}

#define HEADER "step,loss,top1,top5\n"

static void fail_csv(void)
{
    perror(settings.evaluation_csv);
    exit(1);
}

/* The lines that an evaluator has written before it died: the last step of them. What it did not
 * end is cut off. */
static uint64_t read_lines(FILE *csv, curve_t *curve)
{
    char line[128];
    unsigned long long step = 0;
    double loss, top1, top5;
    long whole = 0;

    while (fgets(line, sizeof(line), csv) && strchr(line, '\n')) {
        if (sscanf(line, "%llu,%lf,%lf,%lf", &step, &loss, &top1, &top5) == 4) {
            if (!curve_add(curve, (double)step, 100 * top1))
                check(CRT_ERR_NO_MEMORY, "curve");
        } else if (strcmp(line, HEADER) != 0) {
            fprintf(stderr, "train_images: %s is no table of an evaluation\n",
                    settings.evaluation_csv);
            exit(1);
        }
        whole = ftell(csv);
    }
    if (fseek(csv, whole, SEEK_SET) != 0 || ftruncate(fileno(csv), whole) != 0)
        fail_csv();
    return step;
}

/* The table, NULL when none is wanted, and the last step in it. */
static FILE *open_csv(curve_t *curve, uint64_t *step_out)
{
    FILE *csv = NULL;

    *step_out = 0;
    check_curve(settings.evaluation_svg);
    if (!settings.evaluation_csv)
        return NULL;
    if (settings.resume)
        csv = fopen(settings.evaluation_csv, "r+e");
    if (csv)
        *step_out = read_lines(csv, curve);
    else
        csv = fopen(settings.evaluation_csv, "we");
    if (!csv ||
        (*step_out == 0 && (fseek(csv, 0, SEEK_SET) != 0 || fputs(HEADER, csv) < 0)))
        fail_csv();
    return csv;
}

/* Whether the table was whole already: it ends with the last checkpoint of the training. */
static bool is_done(crt_model_t *model, uint64_t step)
{
    crt_checkpoint_t c;
    char path[4096];

    return step > 0 &&
           crt_checkpoint_latest(settings.folder, path, sizeof(path)) == CRT_OK &&
           crt_checkpoint_read(path, settings.network, model, NULL, sizeof(c), &c) ==
               CRT_OK &&
           c.is_last && c.step == step;
}

/* One that is damaged is named, and the next one awaited. */
static bool pass_over(const char *path, uint64_t *step)
{
    const char *name = strrchr(path, '/');

    fprintf(stderr, "train_images: %s; it is passed over\n", crt_error_detail());
    return name && sscanf(name, "/step-%" SCNu64, step) == 1;
}

/* One checkpoint after the other; returns the program's exit status. */
static int follow(crt_model_t *model, crt_image_batches_t *batches)
{
    curve_t curve = {.title = "accuracy of the test images (%) by step"};
    crt_checkpoint_t c = CRT_CHECKPOINT(.step = 0);
    FILE *csv = open_csv(&curve, &c.step);
    char path[4096];

    c.is_last = is_done(model, c.step);
    while (!c.is_last) {
        crt_status_t status;
        scores_t s;

        if (!wait_for((int64_t)c.step, path, sizeof(path))) {
            fprintf(stderr, "train_images: no new checkpoint in %s for %lld s\n",
                    settings.folder, (long long)settings.patience_s);
            return 1;
        }
        status = crt_checkpoint_read(path, settings.network, model, NULL, sizeof(c), &c);
        if (status == CRT_ERR_NOT_FOUND)
            continue; /* it was replaced by newer ones meanwhile */
        if (status == CRT_ERR_CORRUPT && pass_over(path, &c.step))
            continue;
        check(status, "checkpoint");
        s = evaluate(model, batches);
        printf("step %llu: loss %.4f, Prec@1: %.2f, Prec@5: %.2f\n",
               (unsigned long long)c.step, s.loss, 100 * s.top1, 100 * s.top5);
        fflush(stdout);
        if (!curve_add(&curve, (double)c.step, 100 * s.top1))
            check(CRT_ERR_NO_MEMORY, "curve");
        if (csv && (fprintf(csv, "%llu,%.6f,%.6f,%.6f\n", (unsigned long long)c.step,
                            s.loss, s.top1, s.top5) < 0 ||
                    fflush(csv) != 0))
            fail_csv();
    }
    if (csv && fclose(csv) != 0)
        fail_csv();
    save_curve(&curve, settings.evaluation_svg);
    return 0;
}

int evaluate_checkpoints(void)
{
    int result;
    crt_dataset_t *test;
    crt_image_batches_t *batches;
    crt_model_t *model;

    if (!settings.folder) {
        fprintf(stderr, "train_images: evaluate needs --checkpoints.folder\n");
        return 2;
    }
    check(crt_images_open(settings.format, settings.source, CRT_SPLIT_TEST,
                          (size_t)settings.test_limit, &test),
          "test data");
    check(crt_image_batches_new(settings.format, test,
                                CRT_IMAGE_BATCHES_OPTIONS(.batch_size = BATCH), &batches),
          "test data");
    model = make_model();
    result = follow(model, batches);
    crt_model_drop(&model);
    crt_image_batches_drop(&batches);
    crt_dataset_drop(&test);
    return result;
}
