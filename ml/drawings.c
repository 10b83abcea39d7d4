/* SPDX-License-Identifier: Apache-2.0 */
/* Drawings: coloured images for programs and tests that have no files.
 *
 * How
 *     A class is a colour and two waves, each with a direction, a length and a colour of its own,
 *     drawn by chance from its number. An image adds them up with phases, brightness and noise of
 *     its own, so that no pixel tells the class.
 * Invariants
 *     Image i of a seed depends on (seed, i) alone, and a class on its number alone.
 */
#include <math.h>
#include <stdlib.h>

#include "ml/dataset.h"
#include "ml/images.h"
#include "ml/random.h"

#define WAVES        2
#define CLASS_SEED   0x636c617373u
#define COLOUR_RANGE 40.0f /* of a class's colour around grey */
#define WAVE_SIZE    35.0f
#define BRIGHTNESS   18.0f /* deviations, of an image, a channel of it, and a pixel */
#define TINT         12.0f
#define NOISE        14.0f

typedef struct pattern {
    float colour[CRT_IMAGE_CHANNELS_MAX];
    struct {
        float across, down; /* radians from pixel to pixel */
        float size[CRT_IMAGE_CHANNELS_MAX];
    } wave[WAVES];
} pattern_t;

static pattern_t pattern_of(const crt_image_format_t *format, int class)
{
    crti_random_t r =
        crti_random(CLASS_SEED + (uint64_t)format->classes, (uint64_t) class);
    pattern_t p;

    for (int c = 0; c < format->channels; c++)
        p.colour[c] = 128 + crti_random_between(&r, -COLOUR_RANGE, COLOUR_RANGE);
    for (int w = 0; w < WAVES; w++) {
        float angle = crti_random_between(&r, 0, 3.1415927f);
        float step = 6.2831853f / crti_random_between(&r, 4, 16);

        p.wave[w].across = step * cosf(angle);
        p.wave[w].down = step * sinf(angle);
        for (int c = 0; c < format->channels; c++)
            p.wave[w].size[c] = crti_random_between(&r, -WAVE_SIZE, WAVE_SIZE);
    }
    return p;
}

static void draw_image(const crt_image_format_t *format, const pattern_t *p,
                       crti_random_t *r, uint8_t *pixels)
{
    float base[CRT_IMAGE_CHANNELS_MAX], phase[WAVES];
    float brightness = BRIGHTNESS * crti_random_bell(r);

    for (int c = 0; c < format->channels; c++)
        base[c] = p->colour[c] + brightness + TINT * crti_random_bell(r);
    for (int w = 0; w < WAVES; w++)
        phase[w] = crti_random_between(r, 0, 6.2831853f);
    for (int y = 0; y < format->height; y++)
        for (int x = 0; x < format->width; x++) {
            float wave[WAVES];

            for (int w = 0; w < WAVES; w++)
                wave[w] = sinf(p->wave[w].across * (float)x + p->wave[w].down * (float)y +
                               phase[w]);
            for (int c = 0; c < format->channels; c++) {
                float v = base[c] + NOISE * crti_random_bell(r);

                for (int w = 0; w < WAVES; w++)
                    v += p->wave[w].size[c] * wave[w];
                *pixels++ = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
            }
        }
}

static void draw_all(const crt_image_format_t *format, size_t count, uint64_t seed,
                     uint8_t *pixels, uint8_t *labels)
{
    size_t each =
        (size_t)format->height * (size_t)format->width * (size_t)format->channels;

    for (size_t i = 0; i < count; i++) {
        crti_random_t r = crti_random(seed, i);
        int class = (int)crti_random_below(&r, (uint32_t)format->classes);
        pattern_t p = pattern_of(format, class);

        draw_image(format, &p, &r, pixels + i * each);
        labels[i] = (uint8_t) class;
    }
}

crt_status_t crti_images_draw(const crt_image_format_t *format, size_t count,
                              uint64_t seed, crt_dataset_t **set_out)
{
    int64_t shape[4] = {(int64_t)count, format->height, format->width, format->channels};
    size_t size = (size_t)(shape[1] * shape[2] * shape[3]);
    uint8_t *pixels = NULL, *labels = NULL;
    crt_tensor_t x, y;
    crt_status_t status;

    if (count < 1 || count > UINT32_MAX)
        return crt_raise(CRT_ERR_INVALID, "%zu images", count);
    pixels = malloc(count * size);
    labels = malloc(count);
    if (pixels && labels) {
        draw_all(format, count, seed, pixels, labels);
        x = crt_tensor_view(CRT_DTYPE_UINT8, 4, shape, pixels);
        y = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, labels);
        status = crti_dataset_adopt(&x, &y, format->classes, set_out);
    } else {
        status = crt_raise(CRT_ERR_NO_MEMORY, "%zu images", count);
    }
    if (status != CRT_OK) {
        free(pixels);
        free(labels);
    }
    return status;
}
