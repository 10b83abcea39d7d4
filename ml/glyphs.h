/* SPDX-License-Identifier: Apache-2.0 */
/* Glyphs: how the digits are written, as strokes of a pen.
 *
 * Coordinates in hundredths, x to the right, y down, the middle of the digit at (0, 0).
 */
#ifndef CRTI_ML_GLYPHS_H
#define CRTI_ML_GLYPHS_H

#define CRTI_STROKE_POINTS 14
#define CRTI_GLYPH_STROKES 2
#define CRTI_GLYPH_STYLES  4

typedef enum crti_stroke_kind {
    CRTI_STROKE_NONE,
    CRTI_STROKE_LINE, /* straight from point to point */
    CRTI_STROKE_CURVE /* smooth through all points */
} crti_stroke_kind_t;

typedef struct crti_stroke {
    crti_stroke_kind_t kind;
    int count;
    signed char points[CRTI_STROKE_POINTS][2];
} crti_stroke_t;

typedef struct crti_glyph {
    crti_stroke_t strokes[CRTI_GLYPH_STROKES]; /* unused ones are CRTI_STROKE_NONE */
} crti_glyph_t;

/* The styles of each digit; those without a stroke do not exist. */
extern const crti_glyph_t crti_glyphs[10][CRTI_GLYPH_STYLES];

#endif
