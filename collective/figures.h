/* SPDX-License-Identifier: Apache-2.0 */
/* Figures: how many operations this process has taken part in, and of how many bytes, for /metrics.
 *
 * Where it sits
 *     operation_check.c -> [ collective/figures.c ] -> runtime/core/client/own_metrics.h
 * Threads: any.
 */
#ifndef CRTI_COLLECTIVE_FIGURES_H
#define CRTI_COLLECTIVE_FIGURES_H

#include "collective/backend.h"

/* It has ended so. */
void crti_figures_count(const crti_step_t *step, crt_status_t status);

#endif
