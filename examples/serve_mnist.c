/* SPDX-License-Identifier: Apache-2.0 */
/* A model behind HTTP: trains a small network on digits (or reads one that was saved), and serves
 * it as the actor "digits" of the namespace "serve" until it is ended.
 *
 *     crt start --head
 *     ./serve_mnist [--data DIR] [--model FILE] [--public] &
 *     ./serve_mnist --example 7 > seven.json             a drawing of a digit, as the arguments of
 *     a call curl -H "Authorization: Bearer $(crt token)" -H "Accept: text/plain" --data
 *     @seven.json $URL/api/actors/serve/digits/draw curl -H "Authorization: Bearer $(crt token)"
 *     --data @seven.json $URL/api/actors/serve/digits/predict
 *
 * draw answers with a text to look at, predict with the probabilities of the classes of each row,
 * look_at with what it sees, line by line, as server-sent events (Accept: text/event-stream). Many
 * rows may be asked for at once; raw floats are quicker than JSON: Content-Type:
 * application/octet-stream, X-CRT-Dtype: float32, X-CRT-Shape: ROWS,784.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crt.h"
#include "crt_ml.h"

enum { SIDE = 28, WIDTH = SIDE * SIDE, CLASSES = 10, BATCH = 64, ROWS_MAX = 4096 };

typedef struct digits {
    crt_model_t *model;
} digits_t;

/* ---------------------------------------------------------------- the model */

static crt_status_t train(crt_model_t *model, const char *source, int64_t steps)
{
    crt_dataset_t *set;
    crt_batches_t *batches;
    crt_optimizer_t *adam;

    CRT_TRY(strcmp(source, "builtin") == 0
                ? crt_dataset_new_digits(8000, 1, &set)
                : crt_dataset_open(source, CRT_SPLIT_TRAIN, &set));
    CRT_TRY(crt_batches_new(set, BATCH, 1, &batches));
    CRT_TRY(crt_adam_new(model, 1e-3, &adam));
    for (int64_t i = 0; i < steps; i++) {
        const crt_batch_t *batch = crt_batches_next(batches);

        CRT_TRY(crt_model_compute_gradients(model, NULL, batch, NULL, NULL));
        CRT_TRY(crt_optimizer_step(adam, model));
    }
    crt_optimizer_drop(&adam);
    crt_batches_drop(&batches);
    crt_dataset_drop(&set);
    return CRT_OK;
}

/* create(file of a model or "", source of training data, steps) */
static crt_status_t digits_create(void *self, crt_call_t *call)
{
    digits_t *d = self;
    const char *file, *source;
    int64_t steps;

    CRT_TRY(crt_args(call, &file, &source, &steps));
    crt_ml_set_threads(1);
    CRT_TRY(crt_mlp_new((const int[]){WIDTH, 128, CLASSES, 0}, 0, 1, &d->model));
    return *file ? crt_model_load(d->model, file) : train(d->model, source, steps);
}

static void digits_destroy(void *self)
{
    crt_model_drop(&((digits_t *)self)->model);
}

/* Any number of drawings, one row each: (rows, 784), or one of 784 or of 28 x 28. */
static crt_status_t read_rows(crt_call_t *call, crt_tensor_t *rows_out)
{
    const crt_tensor_t *t;
    int64_t rows;

    CRT_TRY(crt_args(call, &t));
    rows = (int64_t)(crt_tensor_count(t) / WIDTH);
    if (t->dtype != CRT_DTYPE_FLOAT32 || crt_tensor_count(t) % WIDTH || rows < 1 ||
        rows > ROWS_MAX)
        return crt_fail(call, CRT_ERR_INVALID,
                        "1 to %d drawings of %d float32 are wanted, not %zu %s", ROWS_MAX,
                        WIDTH, crt_tensor_count(t), crt_dtype_name(t->dtype));
    *rows_out =
        crt_tensor_view(CRT_DTYPE_FLOAT32, 2, (const int64_t[]){rows, WIDTH}, t->data);
    return CRT_OK;
}

static crt_status_t probabilities(digits_t *d, crt_call_t *call, crt_tensor_t *rows,
                                  float *to)
{
    crt_tensor_t answer;

    CRT_TRY(read_rows(call, rows));
    answer = crt_tensor_view(CRT_DTYPE_FLOAT32, 2,
                             (const int64_t[]){rows->shape[0], CLASSES}, to);
    return crt_model_predict(d->model, NULL, rows, &answer);
}

static crt_status_t digits_predict(void *self, crt_call_t *call)
{
    static float answer[ROWS_MAX * CLASSES];
    crt_tensor_t rows, view;

    CRT_TRY(probabilities(self, call, &rows, answer));
    view = crt_tensor_view(CRT_DTYPE_FLOAT32, 2,
                           (const int64_t[]){rows.shape[0], CLASSES}, answer);
    return crt_return(call, &view);
}

static int best_of(const float *row)
{
    int best = 0;

    for (int i = 1; i < CLASSES; i++)
        best = row[i] > row[best] ? i : best;
    return best;
}

static void draw_line(const float *pixels, char *text)
{
    static const char shades[] = " .:-=+*#%@";

    for (int x = 0; x < SIDE; x++) {
        int shade = (int)(pixels[x] * 9.99f);

        text[x] = shades[shade < 0 ? 0 : shade > 9 ? 9 : shade];
    }
    text[SIDE] = '\0';
}

/* The first drawing and what it is taken for, as a text. */
static crt_status_t digits_draw(void *self, crt_call_t *call)
{
    static float answer[ROWS_MAX * CLASSES];
    char text[SIDE * (SIDE + 1) + 80], *at = text;
    crt_tensor_t rows;
    int best;

    CRT_TRY(probabilities(self, call, &rows, answer));
    for (int y = 0; y < SIDE; y++) {
        draw_line((const float *)rows.data + y * SIDE, at);
        at += SIDE;
        *at++ = '\n';
    }
    best = best_of(answer);
    snprintf(at, 80, "a %d (%.1f %%)\n", best, 100.0 * (double)answer[best]);
    return crt_return(call, text);
}

/* The same line by line, for who reads events. */
static crt_status_t digits_look_at(void *self, crt_call_t *call)
{
    static float answer[ROWS_MAX * CLASSES];
    char line[SIDE + 1];
    crt_tensor_t rows;

    CRT_TRY(probabilities(self, call, &rows, answer));
    for (int y = 0; y < SIDE; y++) {
        draw_line((const float *)rows.data + y * SIDE, line);
        CRT_TRY(crt_yield(call, (const char *)line));
    }
    return crt_yield(call, best_of(answer));
}

static const crt_method_t predict =
    CRT_METHOD(.name = "predict", .run = digits_predict, .signature = "tensor");
static const crt_method_t draw =
    CRT_METHOD(.name = "draw", .run = digits_draw, .signature = "tensor");
static const crt_method_t look_at =
    CRT_METHOD(.name = "look_at", .run = digits_look_at, .signature = "tensor");
/* With the cluster's token; */
static const crt_actor_class_t digits =
    CRT_ACTOR_CLASS(.name = "Digits", .size = sizeof(digits_t), .create = digits_create,
                    .signature = "string, string, int", .destroy = digits_destroy,
                    .methods = CRT_METHODS(&predict, &draw, &look_at), .http = true);
/* for everybody who reaches the dashboard's port. */
static const crt_actor_class_t public_digits =
    CRT_ACTOR_CLASS(.name = "PublicDigits", .size = sizeof(digits_t),
                    .create = digits_create, .signature = "string, string, int",
                    .destroy = digits_destroy,
                    .methods = CRT_METHODS(&predict, &draw, &look_at),
                    .http_public = true);

/* ---------------------------------------------------------------- the program */

typedef struct settings {
    const char *data, *model;
    long steps, example;
    bool is_public;
} settings_t;

static int usage(void)
{
    fprintf(stderr, "usage: serve_mnist [--data DIR] [--model FILE] [--steps N] "
                    "[--public] | --example DIGIT\n");
    return 2;
}

static bool parse(int argc, char **argv, settings_t *s)
{
    *s = (settings_t){.data = "builtin", .model = "", .steps = 600, .example = -1};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (strcmp(argv[i], "--public") == 0) {
            s->is_public = true;
            continue;
        }
        if (!value)
            return false;
        if (strcmp(argv[i], "--data") == 0)
            s->data = value;
        else if (strcmp(argv[i], "--model") == 0)
            s->model = value;
        else if (strcmp(argv[i], "--steps") == 0)
            s->steps = strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--example") == 0)
            s->example = strtol(value, NULL, 10);
        else
            return false;
        i++;
    }
    return s->steps >= 0 && s->example < CLASSES;
}

/* A drawing that the model has not seen, as JSON. */
static int print_example(long digit)
{
    crt_dataset_t *set;
    const uint8_t *pixels, *labels;
    size_t i = 0;

    CRT_CHECK(crt_dataset_new_digits(200, 99, &set));
    labels = crt_dataset_labels(set)->data;
    while (i < 199 && labels[i] != digit)
        i++;
    pixels = (const uint8_t *)crt_dataset_features(set)->data + i * WIDTH;
    printf("[[");
    for (int p = 0; p < WIDTH; p++)
        printf("%s%.3g", p ? "," : "", pixels[p] / 255.0);
    printf("]]\n");
    crt_dataset_drop(&set);
    return 0;
}

static int driver(int argc, char **argv)
{
    crt_actor_t *actor;
    settings_t s;
    sigset_t end;
    int signal;

    if (!parse(argc, argv, &s))
        return usage();
    sigemptyset(&end);
    sigaddset(&end, SIGINT);
    sigaddset(&end, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &end, NULL);
    actor = crt_actor_new(s.is_public ? &public_digits : &digits,
                          CRT_ACTOR_OPTIONS(.name = "digits", .max_restarts = -1),
                          s.model, s.data, (int64_t)s.steps);
    CRT_CHECK(crt_actor_ready(actor, -1));
    printf("POST /api/actors/%s/digits/predict\n", crt_namespace());
    fflush(stdout);
    sigwait(&end, &signal);
    crt_actor_drop(&actor);
    return 0;
}

int main(int argc, char **argv)
{
    settings_t s;

    if (parse(argc, argv, &s) && s.example >= 0)
        return print_example(s.example); /* it needs no cluster */
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&digits, &public_digits),
                                .name_space = "serve"),
                    driver);
}
