/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a program on its way to hosts. See folder_sync.h. */
#include "cli/folder_sync.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "cli/folder.h"

#define FILES_MOST 20000 /* a request has at most 4 MiB */

static struct {
    char root[PATH_MAX];
    json_t *files;
} sync_of;

/* ---------------------------------------------------------------- what is there */

static crt_status_t hash_file(const char *path, char digits[65], struct stat *st)
{
    unsigned char hash[crypto_hash_sha256_BYTES], part[1 << 16];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    crypto_hash_sha256_state state;
    ssize_t n = 1;

    if (fd < 0 || fstat(fd, st) != 0)
        n = -1;
    crypto_hash_sha256_init(&state);
    while (n > 0) {
        n = read(fd, part, sizeof(part));
        if (n > 0)
            crypto_hash_sha256_update(&state, part, (size_t)n);
        else if (n < 0 && errno == EINTR)
            n = 1;
    }
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    crypto_hash_sha256_final(&state, hash);
    sodium_bin2hex(digits, 65, hash, sizeof(hash));
    return CRT_OK;
}

/* A link is what it leads to: there the same link may lead elsewhere. */
static crt_status_t add_file(void *user, const char *name, const FTSENT *at)
{
    char digits[65];
    struct stat st;

    (void)user;
    if (at->fts_info == FTS_D)
        return CRT_OK;
    if (stat(at->fts_path, &st) != 0 || !S_ISREG(st.st_mode)) {
        fprintf(stderr, "%s is no file: left out\n", at->fts_path);
        return CRT_OK;
    }
    CRT_TRY(hash_file(at->fts_path, digits, &st));
    if (json_array_append_new(sync_of.files,
                              json_pack("[s, I, b, s]", name, (json_int_t)st.st_size,
                                        (st.st_mode & 0111) != 0, digits)) != 0)
        return crt_raise(CRT_ERR_INVALID, "the name of %s is no UTF-8", at->fts_path);
    if (json_array_size(sync_of.files) > FILES_MOST)
        return crt_raise(CRT_ERR_TOO_LARGE,
                         "the folder %s has more than %d files: leave some out by "
                         ".gitignore",
                         sync_of.root, FILES_MOST);
    return CRT_OK;
}

crt_status_t crti_folder_sync_open(const char *directory)
{
    const char *const none[] = {NULL};

    if (!realpath(directory, sync_of.root))
        return crt_raise(CRT_ERR_NOT_FOUND, "the folder %s: %s", directory,
                         strerror(errno));
    sync_of.files = json_array();
    return crti_folder_walk(sync_of.root, none, false, add_file, NULL);
}

void crti_folder_sync_close(void)
{
    json_decref(sync_of.files);
    sync_of.files = NULL;
}

json_t *crti_folder_sync_files(void)
{
    return sync_of.files;
}

/* ---------------------------------------------------------------- what a host wants */

void crti_folder_sync_answer(ssh_call_t *call)
{
    const char *line = strstr(call->answer, SYNC_WANTS);

    if (call->wanted || !line || !strchr(line, '\n'))
        return;
    line += strlen(SYNC_WANTS);
    call->wanted = strndup(line, strcspn(line, "\n"));
    call->next_wanted = call->wanted;
    call->has_more = call->wanted != NULL;
}

/* The next file of "0-4,7,"; false: that was the last one. */
static bool next_file(ssh_call_t *call)
{
    char *end;

    if (call->at_file <= call->last_file && call->is_within)
        return true;
    if (!call->next_wanted || *call->next_wanted < '0' || *call->next_wanted > '9')
        return false;
    call->at_file = strtoul(call->next_wanted, &end, 10);
    call->last_file = *end == '-' ? strtoul(end + 1, &end, 10) : call->at_file;
    call->next_wanted = end + (*end == ',');
    call->is_within = true;
    call->of_file = 0;
    return call->at_file <= call->last_file;
}

/* What is not there any more is zeros: the other end finds that it is not what was announced. */
static void read_part(const ssh_call_t *call, const char *name, char *bytes, size_t size)
{
    char path[2 * PATH_MAX];
    int fd;
    ssize_t n = 0;

    snprintf(path, sizeof(path), "%s/%s", sync_of.root, name);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    for (size_t used = 0; used < size; used += (size_t)n) {
        n = fd >= 0 ? pread(fd, bytes + used, size - used, (off_t)(call->of_file + used))
                    : 0;
        if (n < 0 && errno == EINTR) {
            n = 0;
            continue;
        }
        if (n <= 0) {
            memset(bytes + used, 0, size - used);
            break;
        }
    }
    if (fd >= 0)
        close(fd);
}

size_t crti_folder_sync_fill(ssh_call_t *call, char *bytes, size_t room)
{
    while (next_file(call)) {
        const json_t *file = json_array_get(sync_of.files, call->at_file);
        size_t size = (size_t)json_integer_value(json_array_get(file, 1)), part;

        if (!file)
            return 0; /* no host asks for that */
        if (call->of_file == size) {
            call->at_file++;
            call->of_file = 0;
            continue;
        }
        part = size - call->of_file < room ? size - call->of_file : room;
        read_part(call, json_string_value(json_array_get(file, 0)), bytes, part);
        call->of_file += part;
        return part;
    }
    return 0;
}
