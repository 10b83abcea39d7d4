/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the autoscaler: what its files call of each other. */
#ifndef CRTI_CONTROL_AUTOSCALER_INT_H
#define CRTI_CONTROL_AUTOSCALER_INT_H

#include "runtime/base/crt_base.h"
#include "runtime/control/autoscale/autoscaler.h"

#define CRTI_SCALE_ID 9 /* bytes of the beginning of an id, to show */

/* instances.c: tells what was decided. */
void crti_scale_tell(crti_autoscaler_t *s, crti_scale_severity_t severity,
                     const char *format, ...) CRT_PRINTF(3, 4);
/* Asks the provider for one more; false: there is no memory for it. */
bool crti_scale_ask(crti_autoscaler_t *s, size_t type);
/* Its node takes no new work from now on, and ends when it is done. */
void crti_scale_drain(crti_autoscaler_t *s, crti_instance_t *instance, const char *why);
/* What has joined, gone, or did not come in time. */
void crti_scale_follow(crti_autoscaler_t *s, const crti_scale_input_t *input);

/* Whether it is on its way. */
static inline bool crti_scale_is_coming(const crti_instance_t *i)
{
    return i->state == CRTI_INSTANCE_ASKED || i->state == CRTI_INSTANCE_STARTING;
}
/* Whether it stays, as far as is known. */
static inline bool crti_scale_stays(const crti_instance_t *i)
{
    return crti_scale_is_coming(i) || i->state == CRTI_INSTANCE_RUNNING;
}

#endif
