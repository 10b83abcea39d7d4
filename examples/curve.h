/* SPDX-License-Identifier: Apache-2.0 */
/* A curve as a picture: numbers by step, in an SVG file that any browser shows. */
#ifndef CURVE_H
#define CURVE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct curve {
    const char *title;
    double *x, *y;
    size_t count, room;
} curve_t;

/* Adds a point; false when there is no memory. */
bool curve_add(curve_t *curve, double x, double y);

/* Writes all points, thin, and their moving average over a fiftieth of them; false, with errno,
 * when it can't be written. */
bool curve_write(const curve_t *curve, const char *path);

/* Whether curve_write could write there, as far as that is known before; errno says why not. */
bool curve_can_write(const char *path);

void curve_free(curve_t *curve);

#endif
