/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the zip of a job's folder (node/host/unpack.c). Nothing may be written outside of
 * the folder, and no more than the limits. */
#include "fuzz.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#include "runtime/base/rundir.h"
#include "runtime/node/host/unpack.h"

#define BYTES   ((uint64_t)64 << 10)
#define ENTRIES 50

static char outer[] = "/tmp/crt-fuzz-XXXXXX";
static uint64_t found, bytes;

static void remove_outer(void)
{
    crti_dir_remove(outer);
}

static int look(const char *path, const struct stat *st, int type, struct FTW *where)
{
    found++;
    if (S_ISREG(st->st_mode))
        bytes += (uint64_t)st->st_size;
    if (S_ISREG(st->st_mode) && (st->st_mode & 07022))
        abort();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const crti_unpack_limits_t limits = {BYTES, ENTRIES};
    static int zip = -1;
    char inner[64];
    uint64_t told;
    struct stat st;

    if (zip < 0) {
        zip = memfd_create("zip", MFD_CLOEXEC);
        if (zip < 0 || !mkdtemp(outer))
            abort();
        atexit(remove_outer);
        umask(022);
    }
    snprintf(inner, sizeof(inner), "%s/inner", outer);
    if (mkdir(inner, 0755) != 0 || chdir(inner) != 0 || ftruncate(zip, 0) != 0 ||
        pwrite(zip, data, size, 0) != (ssize_t)size || lseek(zip, 0, SEEK_SET) != 0)
        abort();
    crti_unpack(zip, &limits, &told);
    found = bytes = 0;
    nftw(inner, look, 8, FTW_PHYS);
    if (bytes > BYTES || chdir("/") != 0 || stat(outer, &st) != 0 || st.st_nlink != 3)
        abort();
    crti_dir_remove(inner);
    if (rmdir(inner) == 0) /* it was not empty: something could not be removed */
        abort();
    return 0;
}

/* What the command packs: a directory, files, links. */
size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    static const char *const names[] = {"d/", "d/run", "link", "data"};
    struct archive *zip = archive_write_new();
    size_t used = 0;

    if (index > 1) {
        archive_write_free(zip);
        return 0;
    }
    archive_write_set_format_zip(zip);
    archive_write_set_options(zip, index ? "zip:compression=store"
                                         : "zip:compression=deflate");
    archive_write_open_memory(zip, out, room, &used);
    for (int i = 0; i < 4; i++) {
        struct archive_entry *entry = archive_entry_new();

        archive_entry_set_pathname(entry, names[i]);
        archive_entry_set_filetype(entry, i == 0   ? AE_IFDIR
                                          : i == 2 ? AE_IFLNK
                                                   : AE_IFREG);
        archive_entry_set_perm(entry, i == 3 ? 0644 : 0755);
        if (i == 2)
            archive_entry_set_symlink(entry, "d/run");
        if (i & 1)
            archive_entry_set_size(entry, 40);
        archive_write_header(zip, entry);
        if (i & 1)
            archive_write_data(zip, "#!/bin/sh\necho abc abc abc abc abc abc\n..", 40);
        archive_entry_free(entry);
    }
    archive_write_close(zip);
    archive_write_free(zip);
    return used;
}
