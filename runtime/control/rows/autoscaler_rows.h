/* SPDX-License-Identifier: Apache-2.0 */
/* The autoscaler as JSON (docs/design/state.md). */
#ifndef CRTI_CONTROL_AUTOSCALER_ROWS_H
#define CRTI_CONTROL_AUTOSCALER_ROWS_H

#include <jansson.h>

#include "runtime/control/control.h"

/* null where there is none. */
json_t *crti_autoscaler_rows(const crti_control_t *c);

#endif
