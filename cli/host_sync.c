/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a program, on the host that it comes to. See host_sync.h. */
#include "cli/host_sync.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "cli/folder_sync.h"

#define WANTS_MOST 32768 /* what the other end keeps of an answer is twice that */

typedef struct announced {
    const char *name, *digits;
    uint64_t size;
    bool is_executable;
} announced_t;

/* A path that stays below the folder, whatever it says. */
static bool is_below(const char *name)
{
    if (!*name || *name == '/' || strlen(name) > PATH_MAX - 64)
        return false;
    for (const char *at = name; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL) {
        size_t length = strcspn(at, "/");

        if (length == 0 || strncmp(at, "..", length) == 0)
            return false;
    }
    return true;
}

static crt_status_t read_announced(const json_t *file, announced_t *a)
{
    const char *name = json_string_value(json_array_get(file, 0));
    const char *digits = json_string_value(json_array_get(file, 3));
    const json_t *size = json_array_get(file, 1);

    if (!name || !digits || !is_below(name) || !json_is_integer(size) ||
        json_integer_value(size) < 0)
        return crt_raise(CRT_ERR_INVALID, "no list of files");
    *a = (announced_t){.name = name,
                       .digits = digits,
                       .size = (uint64_t)json_integer_value(size),
                       .is_executable = json_is_true(json_array_get(file, 2))};
    return CRT_OK;
}

static crt_status_t make_folders(const char *path)
{
    char part[PATH_MAX];

    for (const char *end = strchr(path + 1, '/'); end; end = strchr(end + 1, '/')) {
        snprintf(part, sizeof(part), "%.*s", (int)(end - path), path);
        if (mkdir(part, 0755) != 0 && errno != EEXIST)
            return crt_raise(CRT_ERR_IO, "can't make the folder %s: %s", part,
                             strerror(errno));
    }
    return CRT_OK;
}

crt_status_t crti_host_enter(const char *folder)
{
    const char *home = getenv("HOME");
    char path[PATH_MAX];

    if (!home || *home != '/' || !is_below(folder) ||
        snprintf(path, sizeof(path), "%s/%s/", home, folder) >= (int)sizeof(path))
        return crt_raise(CRT_ERR_INVALID, "no folder %s of this user", folder);
    CRT_TRY(make_folders(path));
    return chdir(path) == 0
               ? CRT_OK
               : crt_raise(CRT_ERR_IO, "the folder %s: %s", path, strerror(errno));
}

/* ---------------------------------------------------------------- what is there */

static void to_digits(crypto_hash_sha256_state *state, char digits[65])
{
    unsigned char hash[crypto_hash_sha256_BYTES];

    crypto_hash_sha256_final(state, hash);
    sodium_bin2hex(digits, 65, hash, sizeof(hash));
}

/* A link that is there is no file of the folder: it is replaced. */
static bool is_there(const announced_t *a)
{
    int fd = open(a->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    unsigned char part[1 << 16];
    crypto_hash_sha256_state state;
    char digits[65];
    struct stat st;
    ssize_t n = 1;
    bool is_same = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                   (uint64_t)st.st_size == a->size &&
                   ((st.st_mode & 0100) != 0) == a->is_executable;

    crypto_hash_sha256_init(&state);
    while (is_same && n > 0) {
        n = read(fd, part, sizeof(part));
        if (n > 0)
            crypto_hash_sha256_update(&state, part, (size_t)n);
        else if (n < 0 && errno == EINTR)
            n = 1;
    }
    if (fd >= 0)
        close(fd);
    to_digits(&state, digits);
    return is_same && n == 0 && strcmp(digits, a->digits) == 0;
}

/* Places in the list of files, marked where they are wanted. */
static crt_status_t look(const json_t *files, char *is_wanted)
{
    const json_t *file;
    announced_t a;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)files, i, file)
    {
        CRT_TRY(read_announced(file, &a));
        is_wanted[i] = !is_there(&a);
    }
    return CRT_OK;
}

/* "crt-want 0-4,7,": where that would be too long, all of them. */
static void say_wanted(char *is_wanted, size_t count)
{
    static char text[WANTS_MOST];
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        size_t first = i;

        if (!is_wanted[i])
            continue;
        while (i + 1 < count && is_wanted[i + 1])
            i++;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%zu-%zu,", first, i);
        if (used + 64 < sizeof(text))
            continue;
        memset(is_wanted, 1, count);
        used = (size_t)snprintf(text, sizeof(text), "0-%zu,", count - 1);
        break;
    }
    printf(SYNC_WANTS "%.*s\n", (int)used, text);
    fflush(stdout);
}

/* ---------------------------------------------------------------- what comes */

static crt_status_t take_bytes(const announced_t *a, int fd)
{
    static unsigned char part[1 << 16];
    crypto_hash_sha256_state state;
    uint64_t left = a->size;
    char digits[65];

    crypto_hash_sha256_init(&state);
    while (left > 0) {
        ssize_t n =
            read(STDIN_FILENO, part, left < sizeof(part) ? (size_t)left : sizeof(part));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return crt_raise(CRT_ERR_INTERRUPTED, "interrupted before %s was there",
                             a->name);
        crypto_hash_sha256_update(&state, part, (size_t)n);
        if (write(fd, part, (size_t)n) != n)
            return crt_raise(CRT_ERR_IO, "can't write %s: %s", a->name, strerror(errno));
        left -= (uint64_t)n;
    }
    to_digits(&state, digits);
    return strcmp(digits, a->digits) == 0
               ? CRT_OK
               : crt_raise(CRT_ERR_INVALID, "%s changed while it was sent: once more",
                           a->name);
}

static crt_status_t take_file(const announced_t *a)
{
    char fresh[PATH_MAX];
    const char *slash = strrchr(a->name, '/');
    crt_status_t status;
    int fd;

    CRT_TRY(make_folders(a->name));
    snprintf(fresh, sizeof(fresh), "%.*s.crt-%ld", slash ? (int)(slash + 1 - a->name) : 0,
             a->name, (long)getpid());
    unlink(fresh);
    fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
              a->is_executable ? 0755 : 0644);
    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "can't write %s: %s", a->name, strerror(errno));
    status = take_bytes(a, fd);
    if (close(fd) != 0 && status == CRT_OK)
        status = crt_raise(CRT_ERR_IO, "can't write %s: %s", a->name, strerror(errno));
    if (status == CRT_OK && rename(fresh, a->name) != 0)
        status = crt_raise(CRT_ERR_IO, "can't replace %s: %s", a->name, strerror(errno));
    if (status != CRT_OK)
        unlink(fresh);
    return status;
}

crt_status_t crti_host_sync(const json_t *files, size_t *count_out, uint64_t *bytes_out)
{
    size_t count = json_array_size(files);
    char *is_wanted = calloc(count + 1, 1);
    crt_status_t status =
        is_wanted ? look(files, is_wanted) : crt_raise(CRT_ERR_NO_MEMORY, "files");
    announced_t a;

    *count_out = 0;
    *bytes_out = 0;
    if (status == CRT_OK)
        say_wanted(is_wanted, count);
    for (size_t i = 0; i < count && status == CRT_OK; i++) {
        if (!is_wanted[i])
            continue;
        status = read_announced(json_array_get(files, i), &a);
        if (status == CRT_OK)
            status = take_file(&a);
        if (status == CRT_OK) {
            *count_out += 1;
            *bytes_out += a.size;
        }
    }
    free(is_wanted);
    return status;
}
