/* SPDX-License-Identifier: Apache-2.0 */
/* Spill place: where files of spilled objects are kept, as a table of operations. There is one
 * kind, a directory. A file has many objects: which, spill_files.c knows and a place does not.
 *
 * Where it sits
 *     spill_files.c -> [ objects/spill_place.h ] -> spill_directory.c
 * Threads
 *     One file is appended to by one thread; others may read it at the same time. Each of them may
 *     block for as long as the storage likes.
 * Errors
 *     An errno, 0 when it is done.
 */
#ifndef CRTI_NODE_SPILL_PLACE_H
#define CRTI_NODE_SPILL_PLACE_H

#include <stddef.h>
#include <stdint.h>

typedef struct crti_spill_ops {
    /* A new, empty file at the place `where`. */
    int (*open)(const char *where, void **file_out);
    /* Writes bytes behind what was written; `offset` is where that ended, or behind it. */
    int (*append)(void *file, uint64_t offset, const void *bytes, size_t size);
    /* All that was appended can be read from now on, whatever becomes of memory. */
    int (*settle)(void *file);
    /* They are read soon: the storage may begin with it. */
    void (*want)(void *file, uint64_t offset, uint64_t size);
    /* All of them: a file that ends before is ENODATA. */
    int (*read)(void *file, uint64_t offset, void *bytes, size_t size);
    /* They are not read any more: their room may come back. A place that can't do that waits for
     * `remove`. */
    void (*discard)(void *file, uint64_t offset, uint64_t size);
    /* The file is read no more, and is gone. */
    void (*remove)(void *file);
    /* Bytes that may still be written there. */
    int (*room)(const char *where, uint64_t *bytes_out);
} crti_spill_ops_t;

/* Files without a name in a directory that is `where`: nobody can put another one in their place,
 * and the system takes them away when the daemon ends, however it ends. */
extern const crti_spill_ops_t crti_spill_directory;

#endif
