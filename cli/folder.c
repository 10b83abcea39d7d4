/* SPDX-License-Identifier: Apache-2.0 */
/* Packing of a job's folder. See folder.h. */
#include "cli/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/archive_library.h"
#include "cli/ignore.h"

CRTI_LATE_LIBRARY(crti_archive, CRTI_ARCHIVE_SYMBOLS, "libarchive.so.13",
                  "no archive can be read or written")

#define LARGEST 5

typedef struct pack {
    struct archive *zip;
    size_t root; /* bytes of the folder's path, with its slash */
    uint64_t bytes, entries;
    struct {
        char name[200];
        uint64_t size;
    } largest[LARGEST]; /* the largest first */
} pack_t;

static crt_status_t zip_failed(const pack_t *p)
{
    const char *text = archive_error_string(p->zip);

    return crt_raise(CRT_ERR_IO, "the folder can't be packed: %s",
                     text ? text : "out of memory");
}

static void note_size(pack_t *p, const char *name, uint64_t size)
{
    size_t at = LARGEST;

    p->bytes += size;
    while (at > 0 && p->largest[at - 1].size < size)
        at--;
    if (at == LARGEST)
        return;
    memmove(&p->largest[at + 1], &p->largest[at],
            (LARGEST - 1 - at) * sizeof(p->largest[0]));
    snprintf(p->largest[at].name, sizeof(p->largest[at].name), "%s", name);
    p->largest[at].size = size;
}

static crt_status_t too_large(const pack_t *p)
{
    char text[1400] = "";

    for (size_t i = 0; i < LARGEST && p->largest[i].size; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s (%.1f MiB)",
                 i ? ", " : "", p->largest[i].name,
                 (double)p->largest[i].size / (1 << 20));
    return crt_raise(
        CRT_ERR_TOO_LARGE,
        "the folder has more than %llu MiB; leave files out by .gitignore or "
        "\"excludes\". The largest: %s",
        (unsigned long long)(FOLDER_BYTES >> 20), text);
}

/* ---------------------------------------------------------------- links */

/* True when the target, from where the link is, stays below the folder: "../" at its start only. */
static bool stays_inside(const char *name, const char *target)
{
    size_t depth = 0;

    for (const char *at = name; (at = strchr(at, '/')) != NULL; at++)
        depth++;
    for (; strncmp(target, "../", 3) == 0; target += 3)
        if (depth-- == 0)
            return false;
    return *target && *target != '/' && strcmp(target, "..") != 0 &&
           strncmp(target, "../", 3) != 0 && !strstr(target, "/../") &&
           (strlen(target) < 3 || strcmp(target + strlen(target) - 3, "/..") != 0);
}

/* The way from a link to a place in the folder: up to its root, and down from there. */
static bool lead_inside(size_t root_size, const FTSENT *at, char target[PATH_MAX])
{
    char real[PATH_MAX];
    size_t used = 0, root = root_size - 1; /* without the slash */

    if (!realpath(at->fts_path, real) || strncmp(real, at->fts_path, root) != 0 ||
        real[root] != '/')
        return false;
    for (const char *name = at->fts_path + root_size; (name = strchr(name, '/')); name++)
        used += (size_t)snprintf(target + used, PATH_MAX - used, "../");
    return snprintf(target + used, PATH_MAX - used, "%s", real + root + 1) <
           (int)(PATH_MAX - used);
}

/* Where the link leads, as it is written. */
static void read_link(const FTSENT *at, char target[PATH_MAX])
{
    ssize_t length = readlink(at->fts_accpath, target, PATH_MAX - 1);

    target[length > 0 ? length : 0] = '\0';
}

/* It is, or lies in, what a link led to outside. */
static bool is_followed(const FTSENT *at)
{
    for (; at && at->fts_level >= FTS_ROOTLEVEL; at = at->fts_parent)
        if (at->fts_number)
            return true;
    return false;
}

/* ---------------------------------------------------------------- members */

static crt_status_t copy_bytes(pack_t *p, int fd, uint64_t size, const char *name)
{
    static char part[1 << 16];

    while (size) {
        ssize_t got = read(fd, part, size < sizeof(part) ? (size_t)size : sizeof(part));

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return crt_raise(CRT_ERR_IO, "%s: %s", name,
                             got < 0 ? strerror(errno) : "it shrank while it was packed");
        if (archive_write_data(p->zip, part, (size_t)got) != got)
            return zip_failed(p);
        size -= (uint64_t)got;
    }
    return CRT_OK;
}

static crt_status_t add_file(pack_t *p, struct archive_entry *entry, const FTSENT *at)
{
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (at->fts_number ? 0 : O_NOFOLLOW);
    int fd = open(at->fts_accpath, flags);
    const char *name = at->fts_path + p->root;
    crt_status_t status;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) != 0) {
        status = crt_raise(CRT_ERR_IO, "%s: %s", at->fts_path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return status;
    }
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, st.st_mode & 0111 ? 0755 : 0644);
    archive_entry_set_size(entry, st.st_size);
    note_size(p, name, (uint64_t)st.st_size);
    if (p->bytes > FOLDER_BYTES) /* the rest is only counted, to name the largest */
        status = CRT_OK;
    else if (archive_write_header(p->zip, entry) != ARCHIVE_OK)
        status = zip_failed(p);
    else
        status = copy_bytes(p, fd, (uint64_t)st.st_size, at->fts_path);
    close(fd);
    return status;
}

/* One that stays inside, or leads nowhere. */
static crt_status_t add_link(pack_t *p, struct archive_entry *entry, const FTSENT *at)
{
    char target[PATH_MAX], way[PATH_MAX];

    read_link(at, target);
    if (is_followed(at) || !stays_inside(at->fts_path + p->root, target)) {
        if (!lead_inside(p->root, at, way)) {
            fprintf(stderr, "the link %s leads nowhere, to %s: left out\n", at->fts_path,
                    target);
            return CRT_OK;
        }
        strcpy(target, way);
    }
    archive_entry_set_filetype(entry, AE_IFLNK);
    archive_entry_set_perm(entry, 0777);
    archive_entry_set_symlink(entry, target);
    return archive_write_header(p->zip, entry) == ARCHIVE_OK ? CRT_OK : zip_failed(p);
}

static crt_status_t add_directory(pack_t *p, struct archive_entry *entry)
{
    archive_entry_set_filetype(entry, AE_IFDIR);
    archive_entry_set_perm(entry, 0755);
    return archive_write_header(p->zip, entry) == ARCHIVE_OK ? CRT_OK : zip_failed(p);
}

/* A zip's names are UTF-8, and a backslash without any slash counts as one to those that read
 * it. */
static crt_status_t set_name(struct archive_entry *entry, const char *name)
{
    char path[PATH_MAX + 2];

    if (mbstowcs(NULL, name, 0) == (size_t)-1)
        return crt_raise(CRT_ERR_INVALID,
                         "the name of %s is no UTF-8: rename it, or leave it out by "
                         "\"excludes\"",
                         name);
    snprintf(path, sizeof(path), "%s%s",
             strchr(name, '\\') && !strchr(name, '/') ? "./" : "", name);
    archive_entry_set_pathname(entry, path);
    return CRT_OK;
}

static crt_status_t add(void *user, const char *name, const FTSENT *at)
{
    struct archive_entry *entry = archive_entry_new();
    crt_status_t status = CRT_OK;
    pack_t *p = user;

    p->root = (size_t)(name - at->fts_path);
    if (++p->entries > FOLDER_ENTRIES) {
        archive_entry_free(entry);
        return crt_raise(CRT_ERR_TOO_LARGE,
                         "the folder has more than %d files and directories, up to %s; "
                         "leave some out by .gitignore or \"excludes\"",
                         FOLDER_ENTRIES, at->fts_path);
    }
    if (!entry)
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    status = set_name(entry, name);
    if (status != CRT_OK) {
        archive_entry_free(entry);
        return status;
    }
    switch (at->fts_info) {
    case FTS_D: status = add_directory(p, entry); break;
    case FTS_F: status = add_file(p, entry, at); break;
    case FTS_SL: status = add_link(p, entry, at); break;
    default: fprintf(stderr, "%s is no file: left out\n", at->fts_path); break;
    }
    archive_entry_free(entry);
    return status;
}

/* ---------------------------------------------------------------- the walk */

typedef struct walk {
    size_t root; /* bytes of the folder's path, with its slash */
    ignore_list_t ignored, excluded;
    bool follows;
    folder_visit_t visit;
    void *user;
} walk_t;

static bool is_left_out(const walk_t *p, const FTSENT *at)
{
    const char *name = at->fts_path + p->root;
    bool is_directory = at->fts_info == FTS_D;

    return (is_directory && strcmp(at->fts_name, ".git") == 0) ||
           crti_ignore_matches(&p->ignored, name, is_directory) ||
           crti_ignore_matches(&p->excluded, name, is_directory);
}

/* The patterns of a directory count for all below it. */
static crt_status_t read_patterns(walk_t *p, const FTSENT *at)
{
    char path[PATH_MAX + 16], base[PATH_MAX + 2] = "";

    if (at->fts_level > 0)
        snprintf(base, sizeof(base), "%s/", at->fts_path + p->root);
    snprintf(path, sizeof(path), "%s/.gitignore", at->fts_path);
    return crti_ignore_add_file(&p->ignored, path, base);
}

/* It is there, and not in the folder. Below what was followed every link is: its way there is none
 * in the zip. */
static bool leads_out(const walk_t *p, const FTSENT *at)
{
    char target[PATH_MAX];

    if (at->fts_number || access(at->fts_path, F_OK) != 0)
        return false;
    if (is_followed(at))
        return true;
    read_link(at, target);
    return !stays_inside(at->fts_path + p->root, target) &&
           !lead_inside(p->root, at, target);
}

/* Visits next what the link leads to, if it may. */
static void follow(const walk_t *p, FTS *tree, FTSENT *at)
{
    char real[PATH_MAX];
    size_t length = realpath(at->fts_path, real) ? strlen(real) : 0;
    const char *why =
        length == 0 || access(real, R_OK) != 0 ? ", which can't be read" : NULL;

    if (!why && strncmp(real, at->fts_path, length) == 0 && length < p->root &&
        (at->fts_path[length] == '/' || length == 1))
        why = ", which holds this folder";
    if (why || !is_followed(at->fts_parent))
        fprintf(stderr, "the link %s leads out of the folder, to %s%s%s\n", at->fts_path,
                length ? real : "a place", why ? why : ": what is there is packed",
                why ? ": left out" : "");
    if (why)
        return;
    at->fts_number = 1;
    fts_set(tree, at, FTS_FOLLOW);
}

static crt_status_t visit(walk_t *p, FTS *tree, FTSENT *at)
{
    crt_status_t status;

    if (at->fts_info == FTS_DP)
        return CRT_OK;
    if (at->fts_info == FTS_DNR || at->fts_info == FTS_ERR || at->fts_info == FTS_NS)
        return crt_raise(CRT_ERR_IO, "%s: %s", at->fts_path, strerror(at->fts_errno));
    if (at->fts_level > 0 && is_left_out(p, at)) {
        fts_set(tree, at, FTS_SKIP);
        return CRT_OK;
    }
    if (p->follows && at->fts_info == FTS_SL && leads_out(p, at)) {
        follow(p, tree, at);
        return CRT_OK;
    }
    status = at->fts_info == FTS_D ? read_patterns(p, at) : CRT_OK;
    return status == CRT_OK && at->fts_level > 0
               ? p->visit(p->user, at->fts_path + p->root, at)
               : status;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static crt_status_t walk(walk_t *p, const char *directory)
{
    char root[PATH_MAX], *const roots[] = {root, NULL};
    crt_status_t status = CRT_OK;
    FTSENT *at;
    FTS *tree;

    if (!realpath(directory, root))
        return crt_raise(CRT_ERR_NOT_FOUND, "%s: %s", directory, strerror(errno));
    p->root = strlen(root) + (strcmp(root, "/") != 0);
    tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    if (!tree)
        return crt_raise(CRT_ERR_IO, "%s: %s", root, strerror(errno));
    while (status == CRT_OK && (errno = 0, at = fts_read(tree)) != NULL)
        status = visit(p, tree, at);
    if (status == CRT_OK && errno)
        status = crt_raise(CRT_ERR_IO, "%s: %s", root, strerror(errno));
    fts_close(tree);
    return status;
}

crt_status_t crti_folder_walk(const char *directory, const char *const *excludes,
                              bool follows, folder_visit_t visit_one, void *user)
{
    walk_t w = {.follows = follows, .visit = visit_one, .user = user};
    crt_status_t status = CRT_OK;

    for (; status == CRT_OK && *excludes; excludes++)
        status = crti_ignore_add(&w.excluded, *excludes, "");
    if (status == CRT_OK)
        status = walk(&w, directory);
    crti_ignore_fini(&w.ignored);
    crti_ignore_fini(&w.excluded);
    return status;
}

/* ---------------------------------------------------------------- the whole */

static crt_status_t pack(const char *directory, const char *const *excludes,
                         FILE **zip_out)
{
    pack_t p = {0};
    FILE *file;
    crt_status_t status;

    CRT_TRY(crti_archive_library());
    p.zip = archive_write_new();
    file = tmpfile();
    status = CRT_OK;
    if (!p.zip || !file)
        status = crt_raise(CRT_ERR_IO, "no temporary file: %s", strerror(errno));
    if (status == CRT_OK &&
        (archive_write_set_format_zip(p.zip) != ARCHIVE_OK ||
         archive_write_set_options(p.zip, "zip:compression-level=1") != ARCHIVE_OK ||
         archive_write_open_fd(p.zip, fileno(file)) != ARCHIVE_OK))
        status = zip_failed(&p);
    if (status == CRT_OK)
        status = crti_folder_walk(directory, excludes, true, add, &p);
    if (status == CRT_OK && p.bytes > FOLDER_BYTES)
        status = too_large(&p);
    if (status == CRT_OK && archive_write_close(p.zip) != ARCHIVE_OK)
        status = zip_failed(&p);
    archive_write_free(p.zip);
    if (status == CRT_OK) {
        rewind(file);
        *zip_out = file;
    } else if (file) {
        fclose(file);
    }
    return status;
}

/* By the locale libarchive knows what names are: those of zips are UTF-8, whatever the user's
 * is. */
crt_status_t crti_folder_pack(const char *directory, const char *const *excludes,
                              FILE **zip_out)
{
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0), former;
    crt_status_t status;

    if (!utf8)
        return pack(directory, excludes, zip_out);
    former = uselocale(utf8);
    status = pack(directory, excludes, zip_out);
    uselocale(former);
    freelocale(utf8);
    return status;
}
