/* SPDX-License-Identifier: Apache-2.0 */
/* Programs and libraries as they are handed to another host: without what a debugger reads, with
 * paths of libraries that count for the libraries' libraries, too. Pure.
 *
 * Where it sits
 *     cli/crt_archive.c -> [ cli/elf_file.c ]
 */
#ifndef CRTI_CLI_ELF_FILE_H
#define CRTI_CLI_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include <crt.h>

typedef struct elf_facts {
    size_t size;    /* bytes that are loaded; the rest of the file is not needed */
    unsigned glibc; /* N of the newest GLIBC_2.N that is needed */
    const char
        *path; /* where its libraries are looked for, within the bytes; NULL: nowhere */
} elf_facts_t;

/* Changes the bytes of a 64-bit ELF file of this machine's kind: DT_RUNPATH becomes DT_RPATH, of
 * which only what begins with $ORIGIN is left, and section headers are gone. CRT_ERR_INVALID: no
 * such file, or a damaged one. */
crt_status_t crti_elf_make_portable(unsigned char *bytes, size_t size,
                                    elf_facts_t *facts_out);

/* The program that loads an executable (PT_INTERP), NULL: none. */
const char *crti_elf_loader(const unsigned char *bytes, size_t size);

#endif
