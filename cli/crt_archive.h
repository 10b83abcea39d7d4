/* SPDX-License-Identifier: Apache-2.0 */
/* The archive of this crt that is handed to other hosts: command, daemons, libcrt, libcrt_ml,
 * redis-server and the shared libraries that they need, those of glibc apart.
 *
 * Where it sits
 *     cli/cluster.c, archive.c -> [ cli/crt_archive.c ] -> cli/elf_file.c, libarchive, the loader
 * What is in it
 *     bin/crt, lib/libcrt.so.0, libexec/crt/crt-node ..., libexec/crt/lib/libsodium.so.23 ...
 *     A tree that runs wherever it lies: paths of libraries begin at $ORIGIN. In lib/ lies what
 *     users' programs are linked with and nothing else.
 *     Two parts, one behind the other: crt-decompress by gzip, which each host has, and the rest by
 *     Zstandard.
 * Invariants
 *     Equal files make equal bytes. It is kept in ~/.cache/crt until a file of it changes.
 */
#ifndef CRTI_CLI_CRT_ARCHIVE_H
#define CRTI_CLI_CRT_ARCHIVE_H

#include <stddef.h>

#include <crt.h>

#define CRT_ARCHIVE_ID 64

typedef struct crt_archive {
    char id[CRT_ARCHIVE_ID + 1]; /* SHA-256 of the bytes */
    const unsigned char *bytes;  /* mapped */
    size_t size;
    size_t first_size; /* of the first part */
    unsigned glibc;    /* N of the GLIBC_2.N that it needs */
    char machine[68];
} crt_archive_t;

/* CRT_ERR_UNSUPPORTED: this crt is not built in a way that can be handed over. Released by
 * crti_crt_archive_close. */
crt_status_t crti_crt_archive_open(crt_archive_t *archive_out);
/* The same tree by gzip alone, one part, into an empty file that is open for reading, too; without
 * libcrt_ml and what it needs unless `with_ml`. Released as above. */
crt_status_t crti_crt_archive_write(int fd, bool with_ml, crt_archive_t *archive_out);
void crti_crt_archive_close(crt_archive_t *archive);

#endif
