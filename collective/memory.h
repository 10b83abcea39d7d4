/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: segments that processes of a node share, and the parts that crt_group_alloc gives.
 *
 * Where it sits
 *     crt_group_alloc -> [ memory.c ] -> memfd, or a tmpfs of huge pages (store/arena.c)
 *     shm backend: where a tensor lies (crti_memory_find), and a peer's memory (views)
 * Threads
 *     Any. Segments are never unmapped, so that looking for one takes no lock.
 * Ownership
 *     The process that allocates owns its segments until it ends. A peer opens them by
 *     /proc/PID/fd/N and checks what it finds: magic, nonce, size.
 */
#ifndef CRTI_COLLECTIVE_MEMORY_H
#define CRTI_COLLECTIVE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/crt_base.h"

/* Names bytes of shared memory to another process. */
typedef struct crti_memory_handle {
    uint64_t nonce; /* of the segment; 0: in no segment */
    uint64_t segment_bytes;
    uint64_t offset, bytes;
    int32_t fd, unused; /* of the segment, in its process */
} crti_memory_handle_t;

/* The handle of memory of this process; false: it lies in no segment. */
bool crti_memory_find(const void *memory, size_t bytes, crti_memory_handle_t *handle);

/* A peer's segment, mapped here. */
typedef struct crti_view crti_view_t;

/* Maps, or finds among those mapped already. CRT_ERR_CLOSED: the process has closed it, most often
 * by ending; CRT_ERR_PROTOCOL: what is there is no such segment. Given back with
 * crti_view_release. */
crt_status_t crti_view_open(int64_t pid, const crti_memory_handle_t *handle,
                            crti_view_t **view_out);
void crti_view_release(crti_view_t *view);
uint64_t crti_view_nonce(const crti_view_t *view);
/* The bytes that a handle names; NULL when they are outside of the view. */
void *crti_view_at(const crti_view_t *view, const crti_memory_handle_t *handle);

/* Maps a shared file so that huge pages fit; NULL with errno. */
void *crti_memory_map(int fd, size_t bytes, int protection);
/* Opens descriptor `fd` of process `pid` as its owner has it. -1 with errno. `bytes` of it are
 * there and stay there. */
int crti_memory_open(int64_t pid, int fd, uint64_t bytes, int flags);

#endif
