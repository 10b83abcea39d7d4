/* SPDX-License-Identifier: Apache-2.0 */
/* Image batches: images in random order, cropped, flipped and normalised, made ahead by a thread.
 *
 * Where it sits
 *     data set -> [ ml/image_batches.c ] -> crt_model_compute_gradients
 * How
 *     Batch n is a function of the seed and n: the order of a pass comes from the seed and the
 *     pass, the crop of an image from the seed, n and its row. Slots form a ring; batch n lies in
 *     slot n / stride modulo their number.
 * Threads
 *     `lock` guards `next`, `made`, `jumps` and `ends`. Whoever makes batches (the thread, or
 *     without one the caller) is the only user of `order`, and of slots that are not made.
 * Invariants
 *     next <= made <= next + ahead * stride. There is one slot more than `ahead`, which the caller
 *     still reads from.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "ml/dataset.h"
#include "ml/images.h"
#include "ml/model.h"
#include "runtime/base/copy_struct.h"

#define AHEAD_MAX 64

typedef struct slot {
    float *inputs;
    uint8_t *labels;
    crt_batch_t batch;
} slot_t;

struct crt_image_batches {
    crt_image_format_t format;
    const crt_dataset_t *set;
    size_t count, pixels, size; /* of the set; of an image; images of a batch */
    uint64_t seed, per_pass;
    bool is_training, has_thread, is_plain; /* plain: without a format */
    float scale[CRT_IMAGE_CHANNELS_MAX], offset[CRT_IMAGE_CHANNELS_MAX];
    /* The order of a pass; UINT64_MAX: none was drawn. */
    uint64_t pass;
    uint32_t *order;

    uint64_t next, made; /* numbers: of the next batch to hand out, and to make */
    uint64_t stride;     /* between numbers */
    uint64_t jumps;      /* seeks: a batch that was begun before one is thrown away */
    bool ends;
    uint64_t slot_count, ahead;
    slot_t *slots;
    pthread_mutex_t lock;
    pthread_cond_t wake_maker, wake_taker;
    pthread_t thread;
};

static uint64_t mixed(uint64_t seed, uint64_t number)
{
    uint64_t state = seed ^ number * 0xd1342543de82ef95u;

    return crti_random_mix(&state);
}

/* ---------------------------------------------------------------- one batch */

/* Fisher and Yates, from the order of the set on. */
static void draw_order(crt_image_batches_t *b, uint64_t pass)
{
    crti_random_t r = crti_random(mixed(b->seed, pass), CRTI_STREAM_BATCHES);

    for (size_t i = 0; i < b->count; i++)
        b->order[i] = (uint32_t)i;
    for (size_t i = b->count; i > 1 && b->is_training; i--) {
        size_t j = crti_random_below(&r, (uint32_t)i);
        uint32_t kept = b->order[i - 1];

        b->order[i - 1] = b->order[j];
        b->order[j] = kept;
    }
    b->pass = pass;
}

/* Where a place of a padded image lies in the image; -1: in the black around it. */
static int inside(int at, int size, bool mirrors)
{
    if (at >= 0 && at < size)
        return at;
    if (!mirrors)
        return -1;
    return at < 0 ? -at : 2 * size - 2 - at;
}

static void put_black(const crt_image_batches_t *b, float *out)
{
    for (int c = 0; c < b->format.channels; c++)
        out[c] = b->offset[c];
}

/* The part of the image that begins at (left, top), which may lie outside. */
static void cut(const crt_image_batches_t *b, const uint8_t *image, int left, int top,
                bool flips, float *out)
{
    const crt_image_format_t *f = &b->format;
    int channels = f->channels;

    for (int y = 0; y < f->height; y++) {
        int row = inside(top + y, f->height, f->mirrors);

        for (int x = 0; x < f->width; x++, out += channels) {
            int column =
                inside(left + (flips ? f->width - 1 - x : x), f->width, f->mirrors);
            const uint8_t *from;

            if (row < 0 || column < 0) {
                put_black(b, out);
                continue;
            }
            from = image + (row * f->width + column) * channels;
            for (int c = 0; c < channels; c++)
                out[c] = (float)from[c] * b->scale[c] + b->offset[c];
        }
    }
}

static void prepare(const crt_image_batches_t *b, const uint8_t *image, uint64_t number,
                    size_t row, float *out)
{
    crti_random_t r = crti_random(mixed(b->seed, number), CRTI_STREAM_CROPS + row);
    int padding = b->is_training ? b->format.padding : 0, left = 0, top = 0;
    bool flips = false;

    if (padding > 0) {
        left = (int)crti_random_below(&r, (uint32_t)(2 * padding + 1)) - padding;
        top = (int)crti_random_below(&r, (uint32_t)(2 * padding + 1)) - padding;
    }
    if (b->is_training && b->format.flips)
        flips = crti_random_below(&r, 2);
    cut(b, image, left, top, flips, out);
}

static void make(crt_image_batches_t *b, uint64_t number, slot_t *slot)
{
    const uint8_t *images = crt_dataset_features(b->set)->data;
    const uint8_t *labels = crt_dataset_labels(b->set)->data;
    uint64_t pass = number / b->per_pass;
    size_t first = (size_t)(number % b->per_pass) * b->size;
    size_t rows = b->count - first < b->size ? b->count - first : b->size;
    int64_t shape[2] = {(int64_t)rows, (int64_t)b->pixels};

    if (b->pass != pass)
        draw_order(b, pass);
    for (size_t i = 0; i < rows; i++) {
        size_t sample = b->order[first + i];

        if (b->is_plain)
            crti_dataset_gather(b->set, sample, 1, slot->inputs + i * b->pixels);
        else
            prepare(b, images + sample * b->pixels, number, i,
                    slot->inputs + i * b->pixels);
        slot->labels[i] = labels[sample];
    }
    slot->batch =
        CRT_BATCH(.inputs = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, slot->inputs),
                  .labels = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, slot->labels));
}

/* ---------------------------------------------------------------- the thread */

static slot_t *slot_of(crt_image_batches_t *b, uint64_t number)
{
    return &b->slots[number / b->stride % b->slot_count];
}

/* Makes one batch. The lock is held, but not while the batch is made. */
static void make_next(crt_image_batches_t *b)
{
    uint64_t number = b->made, jumps = b->jumps;

    pthread_mutex_unlock(&b->lock);
    make(b, number, slot_of(b, number));
    pthread_mutex_lock(&b->lock);
    if (b->jumps != jumps)
        return;
    b->made = number + b->stride;
    pthread_cond_signal(&b->wake_taker);
}

static void *maker(void *context)
{
    crt_image_batches_t *b = context;

    pthread_mutex_lock(&b->lock);
    while (!b->ends)
        if (b->made < b->next + b->ahead * b->stride)
            make_next(b);
        else
            pthread_cond_wait(&b->wake_maker, &b->lock);
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* Signals are the program's: its threads take them. */
static crt_status_t start_thread(crt_image_batches_t *b)
{
    sigset_t all, kept;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &kept);
    error = pthread_create(&b->thread, NULL, maker, b);
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    b->has_thread = error == 0;
    return error == 0 ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "a thread for batches");
}

const crt_batch_t *crt_image_batches_next(crt_image_batches_t *b)
{
    uint64_t number = b->next;

    if (!b->has_thread) {
        make(b, number, &b->slots[0]);
        b->next = b->made = number + b->stride;
        return &b->slots[0].batch;
    }
    pthread_mutex_lock(&b->lock);
    while (b->made <= number)
        pthread_cond_wait(&b->wake_taker, &b->lock);
    b->next = number + b->stride;
    pthread_cond_signal(&b->wake_maker);
    pthread_mutex_unlock(&b->lock);
    return &slot_of(b, number)->batch;
}

void crt_image_batches_seek(crt_image_batches_t *b, uint64_t number)
{
    pthread_mutex_lock(&b->lock);
    if (number != b->next) {
        b->next = b->made = number;
        b->jumps++;
        pthread_cond_signal(&b->wake_maker);
    }
    pthread_mutex_unlock(&b->lock);
}

uint64_t crt_image_batches_number(const crt_image_batches_t *b)
{
    return b->next; /* written by the caller's thread only */
}

uint64_t crt_image_batches_per_pass(const crt_image_batches_t *b)
{
    return b->per_pass;
}

/* ---------------------------------------------------------------- life */

static crt_status_t check_format(const crt_image_format_t *format,
                                 const crt_dataset_t *set)
{
    int pixels = format->height * format->width * format->channels;

    if (format->padding >= format->height || format->padding >= format->width)
        return crt_raise(CRT_ERR_INVALID, "%d pixels around images of %dx%d",
                         format->padding, format->width, format->height);
    if (crt_dataset_features(set)->dtype != CRT_DTYPE_UINT8 ||
        crt_dataset_width(set) != pixels)
        return crt_raise(
            CRT_ERR_INVALID, "samples of %d %s; images of %s are %dx%dx%d of uint8",
            crt_dataset_width(set), crt_dtype_name(crt_dataset_features(set)->dtype),
            format->name, format->height, format->width, format->channels);
    if (crt_dataset_classes(set) > format->classes)
        return crt_raise(CRT_ERR_INVALID, "%zu images of %d classes; %s has %d",
                         crt_dataset_count(set), crt_dataset_classes(set), format->name,
                         format->classes);
    return CRT_OK;
}

static crt_status_t check(const crt_dataset_t *set, const crt_image_batches_options_t *o)
{
    if (o->batch_size < 1 || o->ahead < 0 || o->ahead > AHEAD_MAX ||
        crt_dataset_count(set) > UINT32_MAX)
        return crt_raise(CRT_ERR_INVALID,
                         "batches of %d out of %zu images, %d ahead (0 to %d)",
                         o->batch_size, crt_dataset_count(set), o->ahead, AHEAD_MAX);
    return CRT_OK;
}

static crt_status_t make_slots(crt_image_batches_t *b)
{
    b->order = malloc(b->count * sizeof(*b->order));
    b->slots = calloc(b->slot_count, sizeof(*b->slots));
    if (!b->order || !b->slots)
        return crt_raise(CRT_ERR_NO_MEMORY, "the order of %zu images", b->count);
    for (uint64_t i = 0; i < b->slot_count; i++) {
        b->slots[i].inputs = malloc(b->size * b->pixels * sizeof(float));
        b->slots[i].labels = malloc(b->size);
        if (!b->slots[i].inputs || !b->slots[i].labels)
            return crt_raise(CRT_ERR_NO_MEMORY, "%llu batches of %zu images",
                             (unsigned long long)b->slot_count, b->size);
    }
    return CRT_OK;
}

crt_status_t crt_image_batches_new(const crt_image_format_t *format,
                                   const crt_dataset_t *set,
                                   const crt_image_batches_options_t *options,
                                   crt_image_batches_t **batches_out)
{
    crt_image_batches_options_t o;
    crt_image_format_t f = {.name = NULL};
    crt_status_t status = format ? crti_images_format(&f, format) : CRT_OK;
    crt_image_batches_t *b;

    if (status == CRT_OK)
        status = CRTI_COPY_STRUCT(&o, options, "CRT_IMAGE_BATCHES_OPTIONS");
    if (status == CRT_OK && format)
        status = check_format(&f, set);
    if (status == CRT_OK)
        status = check(set, &o);
    if (status != CRT_OK)
        return status;
    b = calloc(1, sizeof(*b));
    if (!b)
        return crt_raise(CRT_ERR_NO_MEMORY, "batches");
    b->format = f;
    b->is_plain = format == NULL;
    b->set = set;
    b->count = crt_dataset_count(set);
    b->pixels = (size_t)crt_dataset_width(set);
    b->size = (size_t)o.batch_size < b->count ? (size_t)o.batch_size : b->count;
    b->per_pass = (b->count + b->size - 1) / b->size;
    b->seed = o.seed;
    b->is_training = o.training;
    b->pass = UINT64_MAX;
    b->ahead = (uint64_t)o.ahead;
    b->stride = o.stride ? o.stride : 1;
    b->slot_count = b->ahead + 1;
    for (int c = 0; c < f.channels; c++) {
        b->scale[c] = 1 / (255 * f.deviation[c]);
        b->offset[c] = -f.mean[c] / f.deviation[c];
    }
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->wake_maker, NULL);
    pthread_cond_init(&b->wake_taker, NULL);
    status = make_slots(b);
    if (status == CRT_OK && b->ahead > 0)
        status = start_thread(b);
    if (status != CRT_OK) {
        crt_image_batches_drop(&b);
        return status;
    }
    *batches_out = b;
    return CRT_OK;
}

static void end_thread(crt_image_batches_t *b)
{
    pthread_mutex_lock(&b->lock);
    b->ends = true;
    pthread_cond_signal(&b->wake_maker);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
}

void crt_image_batches_drop(crt_image_batches_t **dropped)
{
    crt_image_batches_t *b = *dropped;

    if (!b)
        return;
    if (b->has_thread)
        end_thread(b);
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->wake_maker);
    pthread_cond_destroy(&b->wake_taker);
    for (uint64_t i = 0; b->slots && i < b->slot_count; i++) {
        free(b->slots[i].inputs);
        free(b->slots[i].labels);
    }
    free(b->slots);
    free(b->order);
    free(b);
    *dropped = NULL;
}
