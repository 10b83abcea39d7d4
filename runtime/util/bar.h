/* SPDX-License-Identifier: Apache-2.0 */
/* Bar: what a progress looks like. Pure. */
#ifndef CRTI_UTIL_BAR_H
#define CRTI_UTIL_BAR_H

#include <stddef.h>
#include <stdint.h>

typedef struct crti_bar {
    const char *label;
    int64_t done, total; /* total 0: not known */
    double seconds;      /* since the first step could be made */
} crti_bar_t;

/* "label [####      ]  40% 400/1000 200.0/s 0:03", at most `width` characters: without the rest, or
 * without the bar, where that is too few. Returns `text`. */
const char *crti_bar_draw(const crti_bar_t *bar, size_t width, char *text, size_t size);

/* "label: 400 of 1000 (40 %)", "label: 400" where the total is not known. Returns `text`. */
const char *crti_bar_line(const crti_bar_t *bar, char *text, size_t size);

/* 0 to 100; 0 where the total is not known. */
int crti_bar_percent(const crti_bar_t *bar);

#endif
