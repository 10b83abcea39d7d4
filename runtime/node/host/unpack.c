/* SPDX-License-Identifier: Apache-2.0 */
/* Zips of strangers. See unpack.h. */
#include "runtime/node/host/unpack.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#include "runtime/base/cleanup.h"

#define BLOCK ((size_t)64 << 10)

/* ---------------------------------------------------------------- names */

bool crti_unpack_is_inside(const char *path)
{
    if (*path == '\0' || *path == '/' || strlen(path) > CRTI_UNPACK_NAME)
        return false;
    while (*path) {
        size_t length = strcspn(path, "/");

        if (length == 0 || length > 255 || (length == 2 && memcmp(path, "..", 2) == 0))
            return false;
        path += length;
        path += *path == '/';
    }
    return true;
}

bool crti_unpack_clean(const char *path, char clean[CRTI_UNPACK_NAME + 1])
{
    size_t used = 0;

    if (!crti_unpack_is_inside(path))
        return false;
    while (*path) {
        size_t length = strcspn(path, "/");

        if (length != 1 || *path != '.') {
            if (used)
                clean[used++] = '/';
            memcpy(clean + used, path, length);
            used += length;
        }
        path += length;
        path += *path == '/';
    }
    clean[used] = '\0';
    return true;
}

/* Directories above it. */
static size_t depth_of(const char *name)
{
    size_t depth = 0;

    while (*name) {
        size_t length = strcspn(name, "/");

        depth += length != 1 || *name != '.';
        name += length;
        name += *name == '/';
    }
    return depth ? depth - 1 : 0;
}

bool crti_unpack_is_link_inside(const char *name, const char *target)
{
    size_t ups = 0;

    for (; strncmp(target, "../", 3) == 0; target += 3)
        ups++;
    if (strcmp(target, "..") == 0)
        return ups + 1 <= depth_of(name);
    return ups <= depth_of(name) &&
           (crti_unpack_is_inside(target) || (ups && *target == '\0'));
}

/* ---------------------------------------------------------------- members */

typedef struct unpack {
    struct archive *from, *to;
    const crti_unpack_limits_t *limits;
    uint64_t bytes, entries;
} unpack_t;

static void archive_read_free_auto(struct archive **a)
{
    archive_read_free(*a);
}

static void archive_write_free_auto(struct archive **a)
{
    archive_write_free(*a);
}

static crt_status_t read_failed(struct archive *from)
{
    const char *text = archive_error_string(from);

    return crt_raise(CRT_ERR_CORRUPT, "the package is no whole zip file: %s",
                     text ? text : "it ends too early");
}

static crt_status_t write_failed(struct archive *to, const char *name)
{
    const char *text = archive_error_string(to);
    int error = archive_errno(to);

    return crt_raise(error == ENOSPC || error == EDQUOT ? CRT_ERR_STORE_FULL : CRT_ERR_IO,
                     "\"%s\" of the package can't be written: %s", name,
                     text ? text : strerror(error));
}

/* `clean` is the name as it is unpacked; "": of the directory itself. */
static crt_status_t check_member(struct archive_entry *entry, const char *name,
                                 char clean[CRTI_UNPACK_NAME + 1])
{
    mode_t type = archive_entry_filetype(entry);
    const char *target = archive_entry_symlink(entry);

    if (!crti_unpack_clean(name, clean))
        return crt_raise(CRT_ERR_INVALID,
                         "the package has a member \"%.200s\": names that are absolute, "
                         "empty, too long or have \"..\" are not taken",
                         name);
    if (archive_entry_hardlink(entry) ||
        (type != AE_IFREG && type != AE_IFDIR && type != AE_IFLNK))
        return crt_raise(CRT_ERR_INVALID,
                         "the package's member \"%.200s\" is no file, directory or "
                         "symbolic link",
                         name);
    if (type == AE_IFLNK && (!target || !crti_unpack_is_link_inside(name, target)))
        return crt_raise(CRT_ERR_INVALID,
                         "the package's link \"%.200s\" leads out of it, to \"%.200s\"",
                         name, target ? target : "");
    if (archive_entry_is_encrypted(entry))
        return crt_raise(CRT_ERR_INVALID, "the package's member \"%.200s\" is encrypted",
                         name);
    return CRT_OK;
}

static void set_mode(struct archive_entry *entry)
{
    mode_t type = archive_entry_filetype(entry);
    bool is_executed = type == AE_IFDIR || (archive_entry_perm(entry) & 0111);

    archive_entry_set_perm(entry, is_executed ? 0755 : 0644);
}

/* Those above it that are not there yet: they are made, and take room as members do. */
static uint64_t new_directories(const char *name)
{
    char path[CRTI_UNPACK_NAME + 1], *slash;
    uint64_t count = 0;
    struct stat st;

    snprintf(path, sizeof(path), "%s", name);
    while ((slash = strrchr(path, '/')) != NULL) {
        *slash = '\0';
        if (lstat(path, &st) == 0)
            break;
        count++;
    }
    return count;
}

/* Sizes that the zip tells are not believed: bytes are counted as they come. */
static crt_status_t copy_data(unpack_t *u, const char *name)
{
    const void *data;
    size_t size;
    la_int64_t at;

    for (;;) {
        int result = archive_read_data_block(u->from, &data, &size, &at);

        if (result == ARCHIVE_EOF)
            return CRT_OK;
        if (result != ARCHIVE_OK)
            return read_failed(u->from);
        u->bytes += size;
        if (u->bytes > u->limits->bytes)
            return crt_raise(CRT_ERR_TOO_LARGE,
                             "the package's files are larger than %llu bytes together",
                             (unsigned long long)u->limits->bytes);
        if (archive_write_data_block(u->to, data, size, at) < ARCHIVE_OK)
            return write_failed(u->to, name);
    }
}

static crt_status_t take_member(unpack_t *u, struct archive_entry *entry)
{
    const char *given = archive_entry_pathname(entry);
    char name[CRTI_UNPACK_NAME + 1];
    crt_status_t status;

    if (!given)
        return crt_raise(CRT_ERR_INVALID, "the package has a member whose name is not "
                                          "text");
    status = check_member(entry, given, name);
    if (status != CRT_OK || *name == '\0') /* "./", which is there */
        return status;
    u->entries += 1 + new_directories(name);
    if (u->entries > u->limits->entries)
        return crt_raise(CRT_ERR_TOO_LARGE,
                         "the package has more than %llu members and directories",
                         (unsigned long long)u->limits->entries);
    archive_entry_set_pathname(entry, name);
    set_mode(entry);
    archive_entry_unset_size(entry);
    if (archive_write_header(u->to, entry) < ARCHIVE_OK)
        return write_failed(u->to, name);
    if (archive_entry_filetype(entry) == AE_IFREG)
        status = copy_data(u, name);
    if (status == CRT_OK && archive_write_finish_entry(u->to) < ARCHIVE_OK)
        status = write_failed(u->to, name);
    return status;
}

/* One without members is an end alone, which libarchive takes for no zip. */
static bool is_empty(int zip_fd)
{
    char bytes[4];

    return pread(zip_fd, bytes, sizeof(bytes), 0) == sizeof(bytes) &&
           memcmp(bytes, "PK\005\006", sizeof(bytes)) == 0;
}

static crt_status_t unpack(int zip_fd, const crti_unpack_limits_t *limits,
                           uint64_t *bytes_out)
{
    CRTI_AUTO(archive_read_free) struct archive *from = archive_read_new();
    CRTI_AUTO(archive_write_free) struct archive *to = archive_write_disk_new();
    unpack_t u = {.from = from, .to = to, .limits = limits};
    struct archive_entry *entry;
    crt_status_t status = CRT_OK;
    int result;

    if (!from || !to)
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    archive_write_disk_set_options(
        to, ARCHIVE_EXTRACT_PERM | ARCHIVE_EXTRACT_SECURE_SYMLINKS |
                ARCHIVE_EXTRACT_SECURE_NODOTDOT | ARCHIVE_EXTRACT_SECURE_NOABSOLUTEPATHS);
    if (archive_read_support_format_zip_seekable(from) != ARCHIVE_OK ||
        archive_read_open_fd(from, zip_fd, BLOCK) != ARCHIVE_OK)
        return read_failed(from);
    while (status == CRT_OK &&
           (result = archive_read_next_header(from, &entry)) != ARCHIVE_EOF)
        status = result == ARCHIVE_OK || result == ARCHIVE_WARN ? take_member(&u, entry)
                                                                : read_failed(from);
    if (status == CRT_OK && archive_write_close(to) != ARCHIVE_OK)
        status = write_failed(to, "a directory");
    *bytes_out = u.bytes;
    return status;
}

crt_status_t crti_unpack(int zip_fd, const crti_unpack_limits_t *limits,
                         uint64_t *bytes_out)
{
    locale_t utf8, former;
    crt_status_t status;

    *bytes_out = 0;
    if (is_empty(zip_fd))
        return CRT_OK;
    /* By the locale libarchive knows what names are: those of zips are UTF-8. */
    utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!utf8)
        return unpack(zip_fd, limits, bytes_out);
    former = uselocale(utf8);
    status = unpack(zip_fd, limits, bytes_out);
    uselocale(former);
    freelocale(utf8);
    return status;
}
