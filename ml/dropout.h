/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout: the masks of layers that leave numbers out while training. */
#ifndef CRTI_ML_DROPOUT_H
#define CRTI_ML_DROPOUT_H

#include "ml/random.h"
#include <crt_base.h>

/* CRT_ERR_INVALID when `rate` is not in [0, 1); `index` is the layer's number. */
crt_status_t crti_dropout_check(double rate, size_t index);

/* 0 with probability `rate`, else 1 / (1 - rate). */
void crti_dropout_draw(float *mask, size_t count, double rate, crti_random_t *random);

#endif
