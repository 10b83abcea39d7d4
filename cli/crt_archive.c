/* SPDX-License-Identifier: Apache-2.0 */
/* The archive of this crt. See crt_archive.h. */
#include "cli/crt_archive.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sodium.h>

#include "cli/archive_library.h"
#include "cli/elf_file.h"
#include "crt_tools.h"
#include "runtime/base/spawn_attributes.h"

#define PIECES_MAX   256
#define LIST_MOST    65536 /* bytes that the loader says of one file */
#define ENDING       ".tars"
#define UNFINISHED   "new." /* begin of the name of one that is being written */
#define SIGNATURE    32     /* digits */
#define KEPT_SECONDS (30 * 24 * 3600)
#define DAEMONS      "libexec/crt/"

extern char **environ;

typedef struct piece {
    char from[PATH_MAX];
    char to[128];  /* in the tree */
    bool is_first; /* what the others are unpacked by */
} piece_t;

typedef struct pieces {
    piece_t *all; /* PIECES_MAX */
    size_t count;
    char loader[256];
} pieces_t;

typedef struct mapped {
    unsigned char *bytes; /* NULL: not mapped. Changes stay in this process */
    size_t size;
} mapped_t;

static crt_status_t map_file(const char *path, mapped_t *file)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;

    *file = (mapped_t){0};
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
        void *at =
            mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

        if (at != MAP_FAILED)
            *file = (mapped_t){.bytes = at, .size = (size_t)st.st_size};
    }
    if (fd >= 0)
        close(fd);
    return file->bytes ? CRT_OK
                       : crt_raise(CRT_ERR_IO, "can't read %s: %s", path,
                                   errno ? strerror(errno) : "empty");
}

/* ---------------------------------------------------------------- which files */

/* Of the same name the first one stays. */
static crt_status_t add(pieces_t *p, const char *from, const char *folder,
                        const char *name)
{
    piece_t *piece = &p->all[p->count];
    size_t used;

    if (p->count == PIECES_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "crt needs more than %d files", PIECES_MAX);
    used = (size_t)snprintf(piece->to, sizeof(piece->to), "%s%s", folder, name);
    if (used >= sizeof(piece->to) || !realpath(from, piece->from))
        return crt_raise(CRT_ERR_IO, "%s: %s", from, strerror(errno));
    for (size_t i = 0; i < p->count; i++)
        if (strcmp(p->all[i].to, piece->to) == 0)
            return CRT_OK;
    p->count++;
    return CRT_OK;
}

/* What is the system's own on each host: glibc. */
static bool is_of_glibc(const char *name)
{
    static const char *const names[] = {
        "ld-",        "libc.so.",    "libm.so.",      "libpthread.so.", "libdl.so.",
        "librt.so.",  "libutil.so.", "libresolv.so.", "libanl.so.",     "libmvec.so.",
        "libnsl.so.", "linux-vdso",  "libnss_"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static bool is_own_library(const char *name)
{
    return strncmp(name, "libcrt.so.", 10) == 0 ||
           strncmp(name, "libcrt_ml.so.", 13) == 0;
}

static crt_status_t add_library(pieces_t *p, const char *from, const char *name)
{
    return add(p, from, is_own_library(name) ? "lib/" : DAEMONS "lib/", name);
}

/* All that a program says on standard output, as much as there is room for. */
static crt_status_t read_output(const char *const *argv, char *text, size_t size)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int ends[2], failed, how = 0;
    size_t used = 0;
    ssize_t n = 1;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return crt_raise(CRT_ERR_IO, "pipe: %s", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    crti_spawn_attributes(&attributes, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    failed = posix_spawn(&pid, argv[0], &actions, &attributes,
                         (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    while (!failed && used < size - 1 && n > 0) {
        n = read(ends[0], text + used, size - 1 - used);
        if (n < 0 && errno == EINTR)
            n = 1;
        else
            used += n > 0 ? (size_t)n : 0;
    }
    text[used] = '\0';
    close(ends[0]);
    if (failed)
        return crt_raise(CRT_ERR_IO, "can't execute %s: %s", argv[0], strerror(failed));
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
        continue;
    return how == 0 ? CRT_OK
                    : crt_raise(CRT_ERR_IO, "%s can't load %s", argv[0], argv[2]);
}

/* The libraries of a file, and theirs: "NAME => PATH (ADDRESS)" each, as the loader finds them. */
static crt_status_t add_libraries(pieces_t *p, const char *file)
{
    const char *const argv[] = {p->loader, "--list", file, NULL};
    char *text = malloc(LIST_MOST), *rest = NULL;
    crt_status_t status =
        text ? read_output(argv, text, LIST_MOST) : crt_raise(CRT_ERR_NO_MEMORY, "list");

    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; status == CRT_OK && line;
         line = strtok_r(NULL, "\n", &rest)) {
        char name[128], path[PATH_MAX];
        const char *arrow = strstr(line, " => ");

        if (!arrow || sscanf(line, " %127s", name) != 1 || is_of_glibc(name))
            continue;
        snprintf(path, sizeof(path), "%s", arrow + 4);
        if (strrchr(path, '('))
            *(strrchr(path, '(') - 1) = '\0';
        status = *path == '/' ? add_library(p, path, name)
                              : crt_raise(CRT_ERR_NOT_FOUND,
                                          "%s needs %s, which is not "
                                          "there",
                                          file, name);
    }
    free(text);
    return status;
}

/* Those that are opened when something of them is needed first (late_library.h). What is not here
 * can't be used here, either. */
static crt_status_t add_late_libraries(pieces_t *p)
{
    static const char *const names[] = {"libzmq.so.5", "libcurl.so.4", "libarchive.so.13",
                                        "libyaml-0.so.2"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
        struct link_map *map;

        if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0)
            continue;
        CRT_TRY(add_library(p, map->l_name, names[i]));
        CRT_TRY(add_libraries(p, map->l_name));
    }
    return CRT_OK;
}

/* It lies beside libcrt, where that was built or installed. */
static crt_status_t add_ml(pieces_t *p)
{
    unsigned major = 0, minor = 0;
    char path[PATH_MAX + 64], name[64];

    sscanf(crt_version(), "%u.%u", &major, &minor);
    snprintf(name, sizeof(name), "libcrt_ml.so.%u.%u", major, minor);
    for (size_t i = 0; i < p->count; i++) {
        if (strncmp(p->all[i].to, "lib/libcrt.so.", 14) != 0)
            continue;
        snprintf(path, sizeof(path), "%.*s/%s",
                 (int)(strrchr(p->all[i].from, '/') - p->all[i].from), p->all[i].from,
                 name);
        if (access(path, R_OK) != 0)
            return CRT_OK; /* a crt without it */
        CRT_TRY(add_library(p, path, name));
        return add_libraries(p, path);
    }
    return CRT_OK;
}

/* That of this host's PATH, under its own name. */
static crt_status_t add_redis(pieces_t *p)
{
    static const char *const names[] = {"redis-server", "valkey-server"};
    static const char *const folders[] = {"/usr/local/bin", "/usr/bin", "/usr/local/sbin",
                                          "/usr/sbin"};
    char path[PATH_MAX];

    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < sizeof(folders) / sizeof(folders[0]); k++) {
            snprintf(path, sizeof(path), "%s/%s", folders[k], names[i]);
            if (access(path, X_OK) != 0)
                continue;
            CRT_TRY(add(p, path, DAEMONS, "redis-server"));
            return add_libraries(p, path);
        }
    if (crti_daemon_path("redis-server", path, sizeof(path)) != CRT_OK)
        return CRT_OK; /* the head's host needs one of its own */
    CRT_TRY(add(p, path, DAEMONS, "redis-server"));
    return add_libraries(p, path);
}

static int by_part_and_name(const void *a, const void *b)
{
    const piece_t *left = a, *right = b;

    return left->is_first != right->is_first ? right->is_first - left->is_first
                                             : strcmp(left->to, right->to);
}

static crt_status_t find_first(pieces_t *p)
{
    char path[PATH_MAX];

    CRT_TRY(crti_daemon_path("crt-decompress", path, sizeof(path)));
    CRT_TRY(add(p, path, DAEMONS, "crt-decompress"));
    CRT_TRY(add_libraries(p, path));
    for (size_t i = 0; i < p->count; i++)
        p->all[i].is_first = true;
    return CRT_OK;
}

static crt_status_t find_loader(pieces_t *p)
{
    const char *loader;
    mapped_t self;

    CRT_TRY(map_file("/proc/self/exe", &self));
    loader = crti_elf_loader(self.bytes, self.size);
    snprintf(p->loader, sizeof(p->loader), "%s", loader ? loader : "");
    munmap(self.bytes, self.size);
    return *p->loader ? CRT_OK
                      : crt_raise(CRT_ERR_UNSUPPORTED, "this crt is linked statically");
}

static crt_status_t find_pieces(pieces_t *p, bool with_ml)
{
    static const char *const daemons[] = {"crt-head",   "crt-node",  "crt-http",
                                          "crt-unpack", "crt-stack", "crt-scaler",
                                          "crt-scale",  "crt-enter"};
    char path[PATH_MAX];

    CRT_TRY(find_loader(p));
    CRT_TRY(find_first(p));
    CRT_TRY(add(p, "/proc/self/exe", "bin/", "crt"));
    CRT_TRY(add_libraries(p, p->all[p->count - 1].from));
    for (size_t i = 0; i < sizeof(daemons) / sizeof(daemons[0]); i++) {
        crt_status_t status = crti_daemon_path(daemons[i], path, sizeof(path));

        if (status != CRT_OK && i < 2)
            return status;
        if (status != CRT_OK)
            continue; /* of an optional part */
        CRT_TRY(add(p, path, DAEMONS, daemons[i]));
        CRT_TRY(add_libraries(p, path));
    }
    if (with_ml)
        CRT_TRY(add_ml(p));
    CRT_TRY(add_late_libraries(p));
    CRT_TRY(add_redis(p));
    qsort(p->all, p->count, sizeof(p->all[0]), by_part_and_name);
    return CRT_OK;
}

/* ---------------------------------------------------------------- the archive */

/* What is crt's own names the place where the others' lie in the tree. */
static crt_status_t check_path(const piece_t *piece, const char *path)
{
    bool is_daemon = strncmp(piece->to, DAEMONS "crt-", strlen(DAEMONS "crt-")) == 0;
    const char *wanted = is_daemon ? "$ORIGIN/lib" : "$ORIGIN/../" DAEMONS "lib";
    bool is_own = is_daemon || strncmp(piece->to, DAEMONS, strlen(DAEMONS)) != 0;

    if (!is_own || (path && strstr(path, wanted)))
        return CRT_OK;
    return crt_raise(
        CRT_ERR_UNSUPPORTED,
        "%s was built without the path %s, so that this crt can't be "
        "handed to other hosts: install it there, and say by crt: PATH where",
        piece->from, wanted);
}

static crt_status_t archive_failed(struct archive *to)
{
    return crt_raise(CRT_ERR_IO, "can't pack crt: %s", archive_error_string(to));
}

static crt_status_t write_entry(struct archive *to, const piece_t *piece,
                                const unsigned char *bytes, size_t size)
{
    struct archive_entry *entry = archive_entry_new();
    bool is_library = strstr(piece->to, "lib/") != NULL;
    crt_status_t status = CRT_OK;

    if (!entry)
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    archive_entry_set_pathname(entry, piece->to);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, is_library ? 0644 : 0755);
    archive_entry_set_size(entry, (int64_t)size);
    if (archive_write_header(to, entry) != ARCHIVE_OK ||
        archive_write_data(to, bytes, size) != (ssize_t)size)
        status = archive_failed(to);
    archive_entry_free(entry);
    return status;
}

static crt_status_t write_piece(struct archive *to, const piece_t *piece, unsigned *glibc)
{
    elf_facts_t facts;
    mapped_t file;
    crt_status_t status;

    CRT_TRY(map_file(piece->from, &file));
    status = crti_elf_make_portable(file.bytes, file.size, &facts);
    if (status != CRT_OK)
        status = crt_raise(status, "%s: %s", piece->from, crt_error_detail());
    if (status == CRT_OK)
        status = check_path(piece, facts.path);
    if (status == CRT_OK)
        status = write_entry(to, piece, file.bytes, facts.size);
    if (status == CRT_OK && facts.glibc > *glibc)
        *glibc = facts.glibc;
    munmap(file.bytes, file.size);
    return status;
}

/* ARCHIVE_WARN: by a program that libarchive starts, where it is built without the library. */
static bool opens(struct archive *to, bool is_first, int fd)
{
    return archive_write_set_format_ustar(to) == ARCHIVE_OK &&
           (is_first ? archive_write_add_filter_gzip(to)
                     : archive_write_add_filter_zstd(to)) >= ARCHIVE_WARN &&
           archive_write_set_options(to, is_first ? "gzip:!timestamp"
                                                  : "zstd:compression-level=3") ==
               ARCHIVE_OK &&
           archive_write_open_fd(to, fd) == ARCHIVE_OK;
}

static crt_status_t write_part(const pieces_t *p, bool is_first, int fd, unsigned *glibc)
{
    struct archive *to = archive_write_new();
    crt_status_t status = CRT_OK;

    if (!to)
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    if (!opens(to, is_first, fd))
        status = archive_failed(to);
    for (size_t i = 0; i < p->count && status == CRT_OK; i++)
        if (p->all[i].is_first == is_first)
            status = write_piece(to, &p->all[i], glibc);
    if (status == CRT_OK && archive_write_close(to) != ARCHIVE_OK)
        status = archive_failed(to);
    archive_write_free(to);
    return status;
}

static crt_status_t write_pieces(const pieces_t *p, int fd, crt_archive_t *archive)
{
    CRT_TRY(crti_archive_library());
    fprintf(stderr, "packs crt for other hosts, once\n");
    CRT_TRY(write_part(p, true, fd, &archive->glibc));
    archive->first_size = (size_t)lseek(fd, 0, SEEK_CUR);
    return write_part(p, false, fd, &archive->glibc);
}

/* ---------------------------------------------------------------- where it is kept */

static void to_digits(char *text, size_t size, const unsigned char *bytes)
{
    sodium_bin2hex(text, size, bytes, (size - 1) / 2);
}

/* Of the files by which it was made: names, sizes and times. */
static crt_status_t sign(const pieces_t *p, char signature[SIGNATURE + 1])
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;

    crypto_hash_sha256_init(&state);
    for (size_t i = 0; i < p->count; i++) {
        char line[PATH_MAX + 256];
        struct stat st;
        int size;

        if (stat(p->all[i].from, &st) != 0)
            return crt_raise(CRT_ERR_IO, "%s: %s", p->all[i].from, strerror(errno));
        size =
            snprintf(line, sizeof(line), "%s %s %lld %lld.%09ld %llu\n", p->all[i].to,
                     p->all[i].from, (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                     st.st_mtim.tv_nsec, (unsigned long long)st.st_ino);
        crypto_hash_sha256_update(&state, (const unsigned char *)line, (size_t)size);
    }
    crypto_hash_sha256_final(&state, hash);
    to_digits(signature, SIGNATURE + 1, hash);
    return CRT_OK;
}

/* ~/.cache/crt, -1: there is none of this user's alone. */
static int open_cache(void)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char path[PATH_MAX];
    struct stat st;
    int fd;

    if (xdg && *xdg == '/')
        snprintf(path, sizeof(path), "%s", xdg);
    else if (home && *home == '/')
        snprintf(path, sizeof(path), "%s/.cache", home);
    else
        return -1;
    mkdir(path, 0700);
    snprintf(path + strlen(path), sizeof(path) - strlen(path), "/crt");
    mkdir(path, 0700);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 &&
        (fstat(fd, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 022))) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool is_archive(const char *name)
{
    size_t length = strlen(name), end = strlen(ENDING);

    return length > end && strcmp(name + length - end, ENDING) == 0;
}

/* True of "SIGNATURE-ID-SIZE-FIRST-GLIBC.tars" of that signature, when all of it is there. */
static bool is_wanted(const char *name, const char *signature, const struct stat *st,
                      crt_archive_t *archive)
{
    size_t size;

    return strncmp(name, signature, SIGNATURE) == 0 &&
           sscanf(name + SIGNATURE, "-%64[0-9a-f]-%zu-%zu-%u", archive->id, &size,
                  &archive->first_size, &archive->glibc) == 4 &&
           strlen(archive->id) == CRT_ARCHIVE_ID && st->st_size > 0 &&
           (size_t)st->st_size == size;
}

/* Who writes it holds its lock, until it has another name: this one was given up. */
static void remove_unfinished(int cache, const char *name)
{
    int fd = openat(cache, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(cache, name, 0);
    if (fd >= 0)
        close(fd);
}

/* That of the signature is opened; others that nobody used for long go, and those that a process
 * which was killed had begun. */
static int find_kept(int cache, const char *signature, crt_archive_t *archive)
{
    int copy = dup(cache), found = -1;
    DIR *folder = copy >= 0 ? fdopendir(copy) : NULL;
    const struct dirent *entry;

    while (folder && (entry = readdir(folder)) != NULL) {
        const char *name = entry->d_name;
        struct stat st;

        if (strncmp(name, UNFINISHED, strlen(UNFINISHED)) == 0)
            remove_unfinished(cache, name);
        if (!is_archive(name) || fstatat(cache, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (found < 0 && is_wanted(name, signature, &st, archive)) {
            found = openat(cache, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
            utimensat(cache, name, NULL, 0);
        } else if (st.st_mtime + KEPT_SECONDS < time(NULL)) {
            unlinkat(cache, name, 0);
        }
    }
    if (folder)
        closedir(folder);
    return found;
}

static crt_status_t map_archive(int fd, crt_archive_t *archive)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    struct stat st;
    void *at;

    if (fstat(fd, &st) != 0 || st.st_size == 0)
        return crt_raise(CRT_ERR_IO, "can't read the packed crt: %s", strerror(errno));
    at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return crt_raise(CRT_ERR_IO, "can't map the packed crt: %s", strerror(errno));
    archive->bytes = at;
    archive->size = (size_t)st.st_size;
    if (!*archive->id) {
        crypto_hash_sha256(hash, archive->bytes, archive->size);
        to_digits(archive->id, sizeof(archive->id), hash);
    }
    return CRT_OK;
}

/* In the cache under its name once it is whole; without a cache for this process alone. */
static crt_status_t make(const pieces_t *p, int cache, const char *signature,
                         crt_archive_t *archive)
{
    char fresh[64] = "", name[256];
    crt_status_t status;
    int fd = -1;

    snprintf(fresh, sizeof(fresh), UNFINISHED "%ld", (long)getpid());
    if (cache >= 0)
        fd = openat(cache, fresh, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        flock(fd, LOCK_EX); /* for remove_unfinished; a file system may have no locks */
    } else {
        cache = -1;
        fd = memfd_create("crt-archive", MFD_CLOEXEC);
    }
    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "no file to pack crt into: %s", strerror(errno));
    status = write_pieces(p, fd, archive);
    if (status == CRT_OK)
        status = map_archive(fd, archive);
    if (status == CRT_OK) {
        snprintf(name, sizeof(name), "%s-%s-%zu-%zu-%u" ENDING, signature, archive->id,
                 archive->size, archive->first_size, archive->glibc);
        if (cache >= 0 && renameat(cache, fresh, cache, name) != 0)
            unlinkat(cache, fresh, 0);
    } else if (cache >= 0) {
        unlinkat(cache, fresh, 0);
    }
    close(fd);
    return status;
}

/* `p->all` is to be freed by the caller, also after an error. */
static crt_status_t begin(pieces_t *p, bool with_ml, crt_archive_t *archive)
{
    struct utsname here;

    *archive = (crt_archive_t){0};
    uname(&here);
    snprintf(archive->machine, sizeof(archive->machine), "%s", here.machine);
    *p = (pieces_t){.all = calloc(PIECES_MAX, sizeof(*p->all))};
    return p->all ? find_pieces(p, with_ml)
                  : crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
}

crt_status_t crti_crt_archive_open(crt_archive_t *archive_out)
{
    pieces_t p;
    char signature[SIGNATURE + 1];
    int cache = -1, kept = -1;
    crt_status_t status = begin(&p, true, archive_out);

    if (status == CRT_OK)
        status = sign(&p, signature);
    if (status == CRT_OK) {
        cache = open_cache();
        kept = cache >= 0 ? find_kept(cache, signature, archive_out) : -1;
        status = kept >= 0 ? map_archive(kept, archive_out)
                           : make(&p, cache, signature, archive_out);
    }
    if (kept >= 0)
        close(kept);
    if (cache >= 0)
        close(cache);
    free(p.all);
    return status;
}

crt_status_t crti_crt_archive_write(int fd, bool with_ml, crt_archive_t *archive_out)
{
    pieces_t p;
    crt_status_t status = begin(&p, with_ml, archive_out);

    for (size_t i = 0; status == CRT_OK && i < p.count; i++)
        p.all[i].is_first = true;
    if (status == CRT_OK)
        status = crti_archive_library();
    if (status == CRT_OK)
        status = write_part(&p, true, fd, &archive_out->glibc);
    if (status == CRT_OK)
        status = map_archive(fd, archive_out);
    free(p.all);
    return status;
}

void crti_crt_archive_close(crt_archive_t *archive)
{
    if (archive->bytes)
        munmap((void *)(uintptr_t)archive->bytes, archive->size);
    *archive = (crt_archive_t){0};
}
