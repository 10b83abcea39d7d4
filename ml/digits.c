/* SPDX-License-Identifier: Apache-2.0 */
/* Digits: the built-in data set, drawn instead of downloaded.
 *
 * Where it sits
 *     ml/glyphs.c -> [ distorted strokes -> distance field -> ink ] -> data set
 * How
 *     A style of the digit is picked; its pen points tremble, are bent by a slow wave and
 *     sent through a random affine map. Each pixel then keeps its squared distance to the
 *     nearest piece of stroke; ink follows from distance, pen width and blur, plus noise.
 * Invariants
 *     Image i of a seed depends on (seed, i) alone. tests/ml/test_digits.c holds the
 *     difficulty: a perceptron learns them well, no linear model does.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ml/dataset.h"
#include "ml/glyphs.h"
#include "ml/random.h"

#define SIDE        28
#define PIXELS      (SIDE * SIDE)
#define CURVE_STEPS 4      /* straight pieces between two points of a curve */
#define FAR         1e6f   /* squared distance of a pixel without ink */
#define UNIT        0.105f /* pixels of one hundredth before scaling */

/* How wildly people write; deviations unless said otherwise. */
static const struct {
    float tremble;               /* of each pen point, hundredths */
    float wave;                  /* amplitude, hundredths */
    float rotate, shear;         /* radians; x per y */
    float scale_low, scale_high; /* uniform, of each axis apart around a common one */
    float stretch;
    float shift;                   /* pixels, uniform within +- */
    float radius_low, radius_high; /* half the width of the pen, pixels */
    float blur_low, blur_high;     /* width of the pen's soft edge, pixels */
    float ink_low, ink_high;       /* of the pen's middle, 0..255 */
    float noise;                   /* of each pixel, 0..255 */
} hand = {
    .tremble = 5,
    .wave = 4,
    .rotate = 0.10f,
    .shear = 0.12f,
    .scale_low = 0.9f,
    .scale_high = 1.04f,
    .stretch = 0.05f,
    .shift = 3.3f,
    .radius_low = 1.1f,
    .radius_high = 1.8f,
    .blur_low = 0.8f,
    .blur_high = 1.8f,
    .ink_low = 200,
    .ink_high = 255,
    .noise = 12,
};

typedef struct point {
    float x, y;
} point_t;

/* One image's hand: everything drawn by chance once. */
typedef struct drawing {
    float field[PIXELS];  /* squared distance to the nearest stroke */
    float reach;          /* beyond it a stroke leaves no ink */
    float xx, xy, yx, yy; /* affine map to pixels around (cx, cy) */
    float cx, cy;
    float wave, phase_x, phase_y;
    crti_random_t random;
} drawing_t;

static void draw_piece(drawing_t *d, point_t a, point_t b)
{
    float dx = b.x - a.x, dy = b.y - a.y, square = dx * dx + dy * dy;
    float per = square > 1e-9f ? 1 / square : 0;
    int left = (int)ceilf(fmaxf(fminf(a.x, b.x) - d->reach, 0));
    int right = (int)floorf(fminf(fmaxf(a.x, b.x) + d->reach, SIDE - 1));
    int top = (int)ceilf(fmaxf(fminf(a.y, b.y) - d->reach, 0));
    int bottom = (int)floorf(fminf(fmaxf(a.y, b.y) + d->reach, SIDE - 1));

    for (int y = top; y <= bottom; y++) {
        float *row = d->field + y * SIDE, py = (float)y - a.y;

        for (int x = left; x <= right; x++) {
            float px = (float)x - a.x, t = (px * dx + py * dy) * per, ex, ey, e;

            t = t < 0 ? 0 : t > 1 ? 1 : t;
            ex = px - t * dx;
            ey = py - t * dy;
            e = ex * ex + ey * ey;
            row[x] = e < row[x] ? e : row[x];
        }
    }
}

/* From hundredths to pixels, through this image's bend and map. */
static point_t place(const drawing_t *d, point_t p)
{
    float x = p.x + d->wave * sinf(p.y * 0.025f + d->phase_x);
    float y = p.y + d->wave * sinf(p.x * 0.03f + d->phase_y);

    return (point_t){d->cx + d->xx * x + d->xy * y, d->cy + d->yx * x + d->yy * y};
}

/* Catmull and Rom: between b and c, at 0 <= t <= 1. */
static float spline(float a, float b, float c, float e, float t)
{
    return b + 0.5f * t *
                   (c - a + t * (2 * a - 5 * b + 4 * c - e + t * (3 * (b - c) + e - a)));
}

static void draw_span(drawing_t *d, const point_t *p, int count, int i, int steps)
{
    point_t a = p[i ? i - 1 : 0], b = p[i], c = p[i + 1];
    point_t e = p[i + 2 < count ? i + 2 : count - 1], from = place(d, b);

    for (int s = 1; s <= steps; s++) {
        float t = (float)s / (float)steps;
        point_t to = c;

        if (s < steps)
            to = (point_t){spline(a.x, b.x, c.x, e.x, t), spline(a.y, b.y, c.y, e.y, t)};
        to = place(d, to);
        draw_piece(d, from, to);
        from = to;
    }
}

static void draw_stroke(drawing_t *d, const crti_stroke_t *stroke)
{
    int steps = stroke->kind == CRTI_STROKE_CURVE ? CURVE_STEPS : 1;
    point_t p[CRTI_STROKE_POINTS];

    for (int i = 0; i < stroke->count; i++) {
        p[i].x = stroke->points[i][0] + hand.tremble * crti_random_bell(&d->random);
        p[i].y = stroke->points[i][1] + hand.tremble * crti_random_bell(&d->random);
    }
    for (int i = 0; i + 1 < stroke->count; i++)
        draw_span(d, p, stroke->count, i, steps);
}

static void pick_map(drawing_t *d)
{
    crti_random_t *r = &d->random;
    float angle = hand.rotate * crti_random_bell(r),
          shear = hand.shear * crti_random_bell(r);
    float scale = UNIT * crti_random_between(r, hand.scale_low, hand.scale_high);
    float sx = scale * (1 + hand.stretch * crti_random_bell(r));
    float sy = scale * (1 + hand.stretch * crti_random_bell(r));
    float c = cosf(angle), s = sinf(angle);

    d->xx = c * sx;
    d->xy = (c * shear - s) * sy;
    d->yx = s * sx;
    d->yy = (s * shear + c) * sy;
    d->cx = (SIDE - 1) * 0.5f + crti_random_between(r, -hand.shift, hand.shift);
    d->cy = (SIDE - 1) * 0.5f + crti_random_between(r, -hand.shift, hand.shift);
    d->wave = hand.wave * crti_random_bell(r);
    d->phase_x = crti_random_between(r, 0, 6.2831853f);
    d->phase_y = crti_random_between(r, 0, 6.2831853f);
}

static const crti_glyph_t *pick_style(drawing_t *d, int digit)
{
    uint32_t styles = 0;

    while (styles < CRTI_GLYPH_STYLES &&
           crti_glyphs[digit][styles].strokes[0].kind != CRTI_STROKE_NONE)
        styles++;
    return &crti_glyphs[digit][crti_random_below(&d->random, styles)];
}

static void ink(drawing_t *d, float radius, float blur, unsigned char *image)
{
    float full = crti_random_between(&d->random, hand.ink_low, hand.ink_high),
          edge = radius + 0.5f * blur;
    float noise[PIXELS];

    for (int i = 0; i < PIXELS; i++)
        noise[i] = hand.noise * crti_random_bell(&d->random);
    for (int i = 0; i < PIXELS; i++) {
        float v = (edge - sqrtf(d->field[i])) / blur;

        v = v < 0 ? 0 : v > 1 ? 1 : v;
        v = v * full + noise[i];
        v = v < 0 ? 0 : v > 255 ? 255 : v;
        image[i] = (unsigned char)(int)v;
    }
}

/* Draws image `index` of `seed`; returns its digit. */
static unsigned char draw(uint64_t seed, size_t index, unsigned char *image)
{
    drawing_t d = {.random = crti_random(seed, index)};
    int digit = (int)crti_random_below(&d.random, 10);
    float radius = crti_random_between(&d.random, hand.radius_low, hand.radius_high);
    float blur = crti_random_between(&d.random, hand.blur_low, hand.blur_high);
    const crti_glyph_t *glyph = pick_style(&d, digit);

    for (int i = 0; i < PIXELS; i++)
        d.field[i] = FAR;
    d.reach = radius + 0.5f * blur;
    pick_map(&d);
    for (int i = 0; i < CRTI_GLYPH_STROKES; i++)
        draw_stroke(&d, &glyph->strokes[i]);
    ink(&d, radius, blur, image);
    return (unsigned char)digit;
}

crt_status_t crt_dataset_new_digits(size_t count, uint64_t seed, crt_dataset_t **set_out)
{
    int64_t shape[3] = {(int64_t)count, SIDE, SIDE};
    unsigned char *images, *labels;
    crt_tensor_t x, y;
    crt_status_t status;

    if (count < 1 || count > UINT32_MAX)
        return crt_raise(CRT_ERR_INVALID, "%zu digits", count);
    images = malloc(count * PIXELS);
    labels = malloc(count);
    if (!images || !labels) {
        free(images);
        free(labels);
        return crt_raise(CRT_ERR_NO_MEMORY, "%zu digits", count);
    }
    for (size_t i = 0; i < count; i++)
        labels[i] = draw(seed, i, images + i * PIXELS);
    x = crt_tensor_view(CRT_DTYPE_UINT8, 3, shape, images);
    y = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, labels);
    status = crti_dataset_adopt(&x, &y, 10, set_out);
    if (status != CRT_OK) {
        free(images);
        free(labels);
    }
    return status;
}
