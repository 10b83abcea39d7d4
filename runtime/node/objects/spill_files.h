/* SPDX-License-Identifier: Apache-2.0 */
/* Spill files: which bytes of which file are those of a saved object, and whether they still are.
 *
 * Where it sits
 *     spill_threads.c (saver: begin, append, settle, drop; loaders: read), spill.c (holds, figures)
 *         -> [ objects/spill_files.c ] -> spill_place.h
 * Threads
 *     Begin, append, settle, look, may_take and drop are of one thread, the saver; the others are
 *     of any. Only append, settle, look, read and drop wait for storage, and they hold no lock
 *     meanwhile.
 * Form
 *     A file is the bytes of objects one behind the other, nothing else: all that is known of them
 *     is in this process's memory, and ends with it. So nothing is parsed that somebody could have
 *     written there.
 * Trust
 *     Each part of CRTI_SPILL_PART bytes has a tag, Poly1305 with a key that never leaves this
 *     process: bytes that somebody changed are noticed as those of a faulty disk are.
 */
#ifndef CRTI_NODE_SPILL_FILES_H
#define CRTI_NODE_SPILL_FILES_H

#include <stdbool.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/crt_base.h"
#include "runtime/base/id.h"
#include "runtime/node/objects/spill_place.h"

#define CRTI_SPILL_PART   ((uint64_t)1 << 20) /* of an object, as it is read and sent */
#define CRTI_SPILL_PLACES 16u

typedef struct crti_spill_files crti_spill_files_t;

/* `places` are used in turns; their texts must live as long. `limit`: bytes in all, 0 is as much as
 * there is room. Caller owns the result and frees it with crti_spill_files_free, which removes all
 * files. */
crt_status_t crti_spill_files_new(const crti_spill_ops_t *ops, const char *const *places,
                                  size_t count, uint64_t limit,
                                  crti_spill_files_t **files_out);
void crti_spill_files_free(crti_spill_files_t *files);
CRTI_DEFINE_AUTO(crti_spill_files_t *, crti_spill_files_free)

/* What came of an attempt to write. */
typedef enum crti_spill_result {
    CRTI_SPILL_DONE,
    CRTI_SPILL_LIMITED, /* the limit is reached */
    CRTI_SPILL_SHARED,  /* the group has its share (spill_shares.h); others may go on */
    CRTI_SPILL_FAILED, /* *error_out is the errno; the next attempt takes another place */
} crti_spill_result_t;

/* The bytes of an object of a group go behind those of the last one. They count as written after a
 * settle that is DONE; when either fails, the caller drops what it appended since the last settle.
 */
crti_spill_result_t crti_spill_files_append(crti_spill_files_t *files,
                                            crti_object_id_t id, uint16_t group,
                                            const void *bytes, size_t size,
                                            int *error_out);
crti_spill_result_t crti_spill_files_settle(crti_spill_files_t *files, int *error_out);

/* Looks how much room there is for all, where no limit says so. Waits for storage. */
void crti_spill_files_look(crti_spill_files_t *files);
/* Whether an append would not say SHARED, as far as can be told before it. */
bool crti_spill_files_may_take(crti_spill_files_t *files, uint16_t group, uint64_t size);
/* Bytes that a group has. Any thread. */
uint64_t crti_spill_files_taken(crti_spill_files_t *files, uint16_t group);

uint64_t crti_spill_files_limit(const crti_spill_files_t *files);

/* The place of the last attempt that failed, for messages. */
const char *crti_spill_files_failed(const crti_spill_files_t *files);

/* The object is gone. Unknown ones are ignored. */
void crti_spill_files_drop(crti_spill_files_t *files, crti_object_id_t id);

/* Whether the object is here, and its size. */
bool crti_spill_files_holds(crti_spill_files_t *files, crti_object_id_t id,
                            uint64_t *size_out);

/* Copies `size` bytes from `offset` on, whole parts (the last one of the object may be shorter).
 * CRT_ERR_NOT_FOUND: the object is not here. CRT_ERR_INVALID: no whole parts.
 * CRT_ERR_OBJECT_LOST: they can't be read, or are not those that were written; the text says
 * which. */
crt_status_t crti_spill_files_read(crti_spill_files_t *files, crti_object_id_t id,
                                   uint64_t offset, void *bytes, uint64_t size);

typedef struct crti_spill_figures {
    uint64_t objects, bytes; /* saved now */
    uint64_t disk_bytes;     /* of files, without what was given back */
    uint64_t files;
    uint64_t written, read; /* bytes since the start */
} crti_spill_figures_t;
crti_spill_figures_t crti_spill_files_figures(crti_spill_files_t *files);

#endif
