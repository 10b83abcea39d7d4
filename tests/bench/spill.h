/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the bench of spilled objects have in common. See spill.c. */
#ifndef CRTI_TESTS_BENCH_SPILL_H
#define CRTI_TESTS_BENCH_SPILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct spill_load {
    const char *directory;
    size_t objects, object_bytes;
    uint32_t *order; /* in which they are read */
    void *buffer;    /* of one object */
} spill_load_t;

/* The bytes of an object; and whether they still are. */
void spill_fill(void *bytes, size_t size, uint64_t number);
bool spill_is_right(const void *bytes, size_t size, uint64_t number);

/* Bytes of all objects. */
double spill_total(const spill_load_t *load);

/* Ends the process with a message. */
_Noreturn void spill_die(const char *what);

/* ---- spill_disk.c ---- */

/* The same bytes in one file that only write(2) and pread(2) touch. */
typedef struct spill_plain {
    double write_us, settle_us; /* until the last write; ... and until the disk had all */
    double read_us;
} spill_plain_t;
spill_plain_t spill_plain(const spill_load_t *load);

/* The daemon of the private cluster's node, a child of this process. */
pid_t spill_node(void);

typedef struct spill_io {
    double written, read; /* by its system calls, bytes */
    double disk_read;     /* of those: by the disk, not from the page cache */
    double own_memory;    /* bytes that nobody shares with it */
    double files,
        file_bytes; /* open below the directory, and what they take of the disk */
} spill_io_t;
spill_io_t spill_io(const spill_load_t *load, pid_t node);

/* Its files are on the disk and no more in the page cache. */
void spill_forget_pages(const spill_load_t *load, pid_t node);

#endif
