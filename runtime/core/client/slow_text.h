/* SPDX-License-Identifier: Apache-2.0 */
/* What the head's answer about a call or an actor, or the node's about a transfer, says of why it
 * takes long. Pure. */
#ifndef CRTI_CORE_CLIENT_SLOW_TEXT_H
#define CRTI_CORE_CLIENT_SLOW_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Of "tasks" (docs/design/state.md) with the row of the call, or without: "it has run for 3.2 s in
 * process 17 of node 0123abcd". `wall_ms`: the time now, as the rows have it. */
void crti_slow_text_call(const char *json, int64_t wall_ms, char *text, size_t size);
/* Of "actors" with its row: "actor Counter is PENDING: needs 3 CPU, the cluster has 2". */
void crti_slow_text_actor(const char *json, char *text, size_t size);
/* Of "transfer" of an object of so many bytes: "1.5 of its 8.0 MiB have come from node 0123abcd in
 * 12.0 s, 0.12 MiB/s". NULL: the node has said nothing. */
void crti_slow_text_transfer(const char *json, size_t bytes, char *text, size_t size);

#endif
