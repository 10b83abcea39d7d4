/* SPDX-License-Identifier: Apache-2.0 */
/* The value of a ref: asked of its owner, brought to this node, pinned, decoded. See value_of.c. */
#ifndef CRTI_CORE_REFS_VALUE_OF_H
#define CRTI_CORE_REFS_VALUE_OF_H

#include "runtime/core/refs/refs.h"
#include "runtime/net/net.h"

/* ------------------------------------------------------------------ value_of.c */

/* Makes what is needed happen, so that the ref's content comes (LOCATE at its owner). */
void crti_value_locate(crt_ref_t *ref);
/* Has the node bring its bytes here, from where they are said to be. */
void crti_ref_pull(crt_ref_t *ref);
/* ... and that it can be read here: pins it, or has it pulled. True: it can now, or has failed. */
bool crti_value_fetch(crt_ref_t *ref);
/* The decoded value of a ref that is fetched; its error otherwise. */
crt_status_t crti_ref_value(crt_ref_t *ref, const crt_value_t **value_out);
/* Reads it into the user's variable, as crti_value_to does. */
crt_status_t crti_ref_read(crt_ref_t *ref, crt_out_t out);
/* The same without the lock, of a number that has come: who has the ref keeps it, and its content
 * stays. False: it is no such ref, or reading it asks for others (peek.h). */
bool crti_ref_read_number(crt_ref_t *ref, crt_out_t out, crt_status_t *status_out);
/* Its value is so simple that it can be read without the core. */
bool crti_ref_is_flat(const crt_ref_t *ref, crt_out_t out);
/* Raises the ref's error in this thread. */
crt_status_t crti_ref_raise(const crt_ref_t *ref);
/* Calls back when the ref has content, or bytes that can be read (at once if so). */
void crti_value_await(crt_ref_t *ref, crti_waiting_t *waiting, bool local);

/* ------------------------------------------------------------------ value_retry.c */

/* A pull failed with that status: true when it is not for good, and the pull will be repeated, or
 * the ref fail, later. */
bool crti_ref_ask_again(crt_ref_t *ref, crt_status_t status);
/* Whether that goes on, of a ref that was asked for again: its waiters do not pull it. */
bool crti_ref_is_asked_again(const crt_ref_t *ref);
/* LOCATED came for a ref that was said to be stored before. */
void crti_ref_located_again(crt_ref_t *ref, const crti_result_t *result);
/* LOCATED will not come: the owner can't be asked any more. */
void crti_ref_unlocated(crt_ref_t *ref, const crti_net_loss_t *loss);
void crti_value_retry_tick(crti_core_t *core, uint64_t now_ns);
void crti_value_retry_end(crti_core_t *core, crt_status_t status, const char *text);

#endif
