/* SPDX-License-Identifier: Apache-2.0 */
/* crt-scaler and its supervision: orders to a provider of nodes leave the head's loop, and answers
 * come back, whatever the provider does.
 *
 * Where it sits
 *     control_autoscale.c (actions.scale) -> head.c -> [ control/head_scaler.c ]
 *         == JSON lines ==> crt-scaler (scaler.c), a child
 * Rules
 *     Every order is answered once. One that crt-scaler does not answer in time ends crt-scaler; it
 *     is started again after a pause, and what had no answer has failed.
 * Ownership
 *     The child, the socket to it, and what waits for answers.
 */
#ifndef CRTI_CONTROL_HEAD_SCALER_H
#define CRTI_CONTROL_HEAD_SCALER_H

#include <jansson.h>

#include "runtime/control/autoscale/provider.h"
#include "runtime/net/loop.h"

typedef struct crti_head_scaler crti_head_scaler_t;

typedef struct crti_head_scaler_config {
    crti_loop_t *loop;
    json_t *file;         /* scale_file.h; borrowed */
    const char *head_dir; /* these live as long as the scaler */
    const char *address, *key_file, *log;
    void *user;
    void (*on_answer)(void *user, const crti_provider_answer_t *answer);
} crti_head_scaler_config_t;

/* Caller owns the result and frees it with crti_head_scaler_free. Starts nothing yet. */
crt_status_t crti_head_scaler_new(const crti_head_scaler_config_t *config,
                                  crti_head_scaler_t **scaler_out);
/* Ends the child; nobody is answered. NULL is fine. */
void crti_head_scaler_free(crti_head_scaler_t *scaler);

/* Never waits. */
void crti_head_scaler_order(crti_head_scaler_t *scaler,
                            const crti_provider_order_t *order);

#endif
