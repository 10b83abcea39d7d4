/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs that are lists of steps: what is done, by or to whom, and bytes. Read by targets whose
 * decoder has a state, written by their valid inputs. */
#ifndef CRTI_TESTS_FUZZ_STEPS_H
#define CRTI_TESTS_FUZZ_STEPS_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/buffer.h"

#define FUZZ_STEP_HEAD 4 /* bytes: what, whose, two of a length */

typedef struct fuzz_step {
    uint8_t what, whose;
    crti_span_t bytes; /* of the input; cut where that ends */
} fuzz_step_t;

/* Takes the first step off the input; false at its end. */
static inline bool fuzz_step_next(const uint8_t **data, size_t *size, fuzz_step_t *out)
{
    const uint8_t *head = *data;
    size_t length;

    if (*size < FUZZ_STEP_HEAD)
        return false;
    length = head[2] | (size_t)head[3] << 8;
    if (length > *size - FUZZ_STEP_HEAD)
        length = *size - FUZZ_STEP_HEAD;
    *out = (fuzz_step_t){head[0], head[1], crti_span(head + FUZZ_STEP_HEAD, length)};
    *data += FUZZ_STEP_HEAD + length;
    *size -= FUZZ_STEP_HEAD + length;
    return true;
}

typedef struct text {
    uint8_t *out;
    size_t size, room;
} text_t;

/* Appends a step; there must be room. */
static inline void fuzz_step_put(text_t *t, uint8_t what, uint8_t whose, const void *data,
                                 size_t size)
{
    uint8_t head[FUZZ_STEP_HEAD] = {what, whose, (uint8_t)size, (uint8_t)(size >> 8)};

    if (t->size + sizeof(head) + size > t->room)
        abort();
    memcpy(t->out + t->size, head, sizeof(head));
    if (size)
        memcpy(t->out + t->size + sizeof(head), data, size);
    t->size += sizeof(head) + size;
}

#endif
