/* SPDX-License-Identifier: Apache-2.0 */
/* Keep: copies of objects that their owners want on a second node, and that stay there until the
 * owner frees them (core/refs/kept_copies.h).
 *
 * Where it sits
 *     local_dispatch.c (COPY_MAKE of a process) -> [ keep.c ] -> OBJECT_KEEP -> the node that is to
 *     have it -> [ keep.c ] -> pull_table.c; the copy is primary there, so that it is written to
 *     disk, not dropped, when the store fills
 * Invariants
 *     Each question has one answer, while the asking process or link is there. A copy of which the
 *     owner does not hear is freed, or one that may be evicted.
 */
#ifndef CRTI_NODE_OBJECTS_KEEP_H
#define CRTI_NODE_OBJECTS_KEEP_H

#include "runtime/node/types.h"

void crti_keep_init(crti_node_t *node);
/* A process wants one more copy of its object; COPY_MADE answers. */
void crti_keep_wanted(crti_process_t *process, uint64_t request,
                      const crti_msg_copy_make_t *make);
/* Another node asks this one to have it; DONE or ERROR answers. */
void crti_keep_asked(crti_node_t *node, crti_stream_t *stream, uint64_t request,
                     const crti_msg_object_keep_t *keep);
/* Before the stream is freed. */
void crti_keep_stream_closed(crti_node_t *node, const crti_stream_t *stream);
void crti_keep_free(crti_node_t *node);

#endif
