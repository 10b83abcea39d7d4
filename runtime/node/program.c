/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: the executable of a job, by its SHA-256, on a node whose driver is elsewhere.
 *
 * Where it sits
 *     job.c -> [ node/program.c ] -> the driver's path, content cache, or the driver's node
 *     (peer.c: PROGRAM_GET) -> job.c
 * Threads
 *     Looking for it means hashing files: a thread of its own does that with what it was given
 *     and posts the result. The loop's thread joins it.
 * Failure
 *     A node that can't be reached is not one without the program: while the head does not say that it is
 *     dead it is asked again, for GIVE_UP since its last part, as for objects (pull_again.c).
 * Trust
 *     What is executed was hashed through the descriptor that is executed. Bytes from another
 *     node become a file of the cache only when their hash is right.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/programs.h"
#include "runtime/node/job_int.h"

#define RETRY_NS         (200 * CRTI_MS)
#define GIVE_UP          (30 * CRTI_S)
#define PART             ((uint64_t)1 << 20)
#define SIZE_MAX_PROGRAM ((uint64_t)4 << 30)

typedef struct crti_fetch {
    crti_node_t *node;
    crti_id_t job;
    pthread_t thread;
    bool cancelled; /* the job wants it no more; freed when the thread has ended */
    bool looking;   /* the thread runs, or its result was not handled yet */
    char cache[CRTI_NODE_PATH + 80];
    char program[CRTI_NODE_PATH + 80];
    char sha[CRTI_SHA_TEXT];
    int found_fd;
    /* Fetching. */
    int file;
    char temporary[CRTI_NODE_PATH + 120];
    crypto_hash_sha256_state hash;
    uint64_t offset, size;
    unsigned char *part;
    bool is_broken;     /* the link was, under the question for it */
    uint64_t broken_ns; /* since when no part came for that; 0: one did */
    crti_timer_t retry;
} fetch_t;

/* ---------------------------------------------------------------- looking for it */

static void hex_of(const unsigned char *digest, char text[CRTI_SHA_TEXT])
{
    sodium_bin2hex(text, CRTI_SHA_TEXT, digest, crypto_hash_sha256_BYTES);
}

/* -1: there is none. In the place of a path of another host may lie what anybody put there: a fifo
 * that nobody writes to, a device that has no end. */
static int open_regular(const char *path)
{
    CRTI_AUTO(crti_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
        (uint64_t)st.st_size > SIZE_MAX_PROGRAM)
        return -1;
    return crti_take_fd(&fd);
}

/* A descriptor of the file when its hash is `sha`, else -1. */
static int open_verified(const char *path, const char *sha)
{
    CRTI_AUTO(crti_close) int fd = open_regular(path);
    unsigned char digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state hash;
    char text[CRTI_SHA_TEXT];
    char bytes[65536];
    ssize_t got;

    if (fd < 0)
        return -1;
    crypto_hash_sha256_init(&hash);
    while ((got = read(fd, bytes, sizeof(bytes))) > 0)
        crypto_hash_sha256_update(&hash, (const unsigned char *)bytes,
                                  (unsigned long long)got);
    crypto_hash_sha256_final(&hash, digest);
    hex_of(digest, text);
    return got == 0 && strcmp(text, sha) == 0 ? crti_take_fd(&fd) : -1;
}

/* From the cache, where it stays as long as the job has this descriptor. */
static int open_held(const char *path, const char *sha)
{
    CRTI_AUTO(crti_close) int fd = open_verified(path, sha);

    return fd >= 0 && crti_programs_hold(fd) ? crti_take_fd(&fd) : -1;
}

static void free_fetch(fetch_t *f)
{
    if (f->found_fd >= 0)
        close(f->found_fd);
    if (f->file >= 0) {
        close(f->file);
        unlink(f->temporary);
    }
    crti_loop_cancel(f->node->loop, &f->retry);
    if (f->part)
        crti_node_discard(f->node, f->part, PART);
    free(f->part);
    free(f);
}

static void on_looked(void *user);

static void *look(void *user)
{
    fetch_t *f = user;

    /* Where it was started rather than a copy: beside it may lie libraries that it finds by $ORIGIN. */
    if (strcmp(f->program, f->cache) != 0)
        f->found_fd = open_verified(f->program, f->sha);
    if (f->found_fd < 0)
        f->found_fd = open_held(f->cache, f->sha);
    /* Without memory for the post the job's workers time out. */
    crti_loop_post(f->node->loop, on_looked, f);
    return NULL;
}

void crti_program_find(crti_job_t *job)
{
    fetch_t *f = calloc(1, sizeof(*f));
    int failed;

    if (f == NULL) {
        crti_job_fail(job, CRT_ERR_NO_MEMORY, "out of memory");
        return;
    }
    f->node = job->node;
    f->job = job->id;
    f->found_fd = f->file = -1;
    f->looking = true;
    memcpy(f->sha, job->sha, sizeof(f->sha));
    snprintf(f->cache, sizeof(f->cache), "%s/programs/%s", job->node->state_dir,
             job->sha);
    snprintf(f->program, sizeof(f->program), "%s", job->program);
    job->fetch = f;
    failed = pthread_create(&f->thread, NULL, look, f);
    if (failed == 0)
        return;
    job->fetch = NULL;
    free_fetch(f);
    crt_raise(CRT_ERR_BACKPRESSURE, "thread: %s", strerror(failed));
    crti_job_fail(job, CRT_ERR_BACKPRESSURE, crt_error_detail());
}

void crti_program_cancel(crti_job_t *job)
{
    fetch_t *f = job->fetch;

    job->fetch = NULL;
    if (f == NULL)
        return;
    f->cancelled = true;
    if (f->looking && !job->node->stopping)
        return; /* on_looked frees it */
    if (f->looking)
        pthread_join(f->thread, NULL);
    free_fetch(f);
}

/* ---------------------------------------------------------------- fetching it */

static void end_fetch(crti_job_t *job, crt_status_t status, const char *text)
{
    fetch_t *f = job->fetch;

    job->fetch = NULL;
    if (status == CRT_OK)
        job->exec_fd = crti_take_fd(&f->found_fd);
    free_fetch(f);
    if (status == CRT_OK)
        crti_job_program_ready(job);
    else
        crti_job_fail(job, status, text);
}

static crti_job_t *fetching(crti_node_t *node, crti_id_t id)
{
    crti_job_t *job = crti_job_find(node, id);

    return job && job->fetch && job->fetch->file >= 0 ? job : NULL;
}

static void ask_part(crti_job_t *job)
{
    fetch_t *f = job->fetch;
    crti_msg_program_get_t get = {.sha = crti_str(f->sha),
                                  .program = crti_str(job->program),
                                  .offset = f->offset,
                                  .length = PART};
    crti_peer_ask_t ask = {
        .kind = CRTI_MSG_PROGRAM_GET, .id = job->id, .offset = f->offset, .length = PART};
    crt_status_t status =
        crti_node_ask(job->node, job->driver_node, CRTI_LANE_BULK, &ask, &get);

    if (status != CRT_OK)
        end_fetch(job, status, crt_error_detail());
}

static void on_retry(void *user)
{
    fetch_t *f = user;
    crti_job_t *job = crti_job_find(f->node, f->job);

    if (job && job->fetch == f)
        ask_part(job);
}

void crti_program_unreachable(crti_node_t *node, crti_id_t id)
{
    crti_job_t *job = fetching(node, id);

    if (job)
        job->fetch->is_broken = true;
}

bool crti_program_driver_died(crti_job_t *job)
{
    if (job->fetch == NULL || job->fetch->broken_ns == 0)
        return false;
    end_fetch(job, CRT_ERR_NOT_FOUND,
              "the program can't be fetched from the driver's node: it died");
    return true;
}

static bool tries_again(fetch_t *f)
{
    uint64_t now = crti_node_now(f->node);

    if (!f->is_broken || f->node->stopping)
        return false;
    f->is_broken = false;
    if (f->broken_ns == 0)
        f->broken_ns = now;
    if (now - f->broken_ns > GIVE_UP)
        return false;
    crti_loop_start(f->node->loop, &f->retry, now + RETRY_NS);
    return true;
}

static crt_status_t begin_fetch(crti_job_t *job)
{
    fetch_t *f = job->fetch;
    char dir[CRTI_NODE_PATH + 16];
    crt_status_t status;

    if (crti_id_equal(job->driver_node, job->node->id))
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "the program %s is gone from the driver's host", job->program);
    snprintf(dir, sizeof(dir), "%s/programs", job->node->state_dir);
    status = crti_dir_make(dir);
    if (status != CRT_OK)
        return status;
    snprintf(f->temporary, sizeof(f->temporary), "%s/.%.16s-%.8s-%.8s", dir, f->sha,
             job->node->hex, crti_id_hex(job->id, (char[CRTI_ID_HEX]){0}));
    f->file =
        open(f->temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0700);
    f->part = malloc(PART);
    f->retry = (crti_timer_t){.on_expired = on_retry, .user = f};
    if (f->file < 0 || f->part == NULL)
        return crt_raise(CRT_ERR_IO, "%s: %s", f->temporary, strerror(errno));
    crypto_hash_sha256_init(&f->hash);
    return CRT_OK;
}

static void on_looked(void *user)
{
    fetch_t *f = user;
    crti_job_t *job = crti_job_find(f->node, f->job);
    crt_status_t status;

    pthread_join(f->thread, NULL);
    f->looking = false;
    if (f->cancelled || job == NULL || job->fetch != f) {
        free_fetch(f);
        return;
    }
    if (f->found_fd >= 0) {
        end_fetch(job, CRT_OK, "");
        return;
    }
    status = begin_fetch(job);
    if (status != CRT_OK)
        end_fetch(job, status, crt_error_detail());
    else
        ask_part(job);
}

static crt_status_t complete(fetch_t *f)
{
    unsigned char digest[crypto_hash_sha256_BYTES];
    char text[CRTI_SHA_TEXT];

    crypto_hash_sha256_final(&f->hash, digest);
    hex_of(digest, text);
    if (strcmp(text, f->sha) != 0)
        return crt_raise(CRT_ERR_CORRUPT,
                         "the program that the driver's node sent is %.12s.., not "
                         "%.12s..",
                         text, f->sha);
    if (rename(f->temporary, f->cache) < 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", f->cache, strerror(errno));
    /* A file that is open for writing can't be executed. */
    close(f->file);
    f->file = -1;
    f->found_fd = open(f->cache, O_RDONLY | O_CLOEXEC);
    if (f->found_fd < 0 || !crti_programs_hold(f->found_fd))
        return crt_raise(CRT_ERR_IO, "%s: %s", f->cache, strerror(errno));
    *strrchr(f->cache, '/') = '\0';
    crti_programs_trim(f->cache, CRTI_PROGRAMS_BYTES);
    return CRT_OK;
}

static crt_status_t write_part(fetch_t *f, uint64_t length)
{
    for (uint64_t done = 0; done < length;) {
        ssize_t put = write(f->file, f->part + done, length - done);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return crt_raise(CRT_ERR_IO, "%s: %s", f->temporary, strerror(errno));
        done += (uint64_t)put;
    }
    crypto_hash_sha256_update(&f->hash, f->part, length);
    f->offset += length;
    return CRT_OK;
}

void *crti_program_place(crti_node_t *node, crti_id_t id, uint64_t offset,
                         uint64_t length, uint64_t size)
{
    crti_job_t *job = fetching(node, id);
    fetch_t *f = job ? job->fetch : NULL;

    if (f == NULL || offset != f->offset || length == 0 || length > PART ||
        size > SIZE_MAX_PROGRAM || offset + length > size)
        return NULL;
    f->size = size;
    return f->part;
}

void crti_program_part(crti_node_t *node, crti_id_t id, uint64_t length, const char *text)
{
    crti_job_t *job = fetching(node, id);
    fetch_t *f = job ? job->fetch : NULL;
    bool is_broken = f && f->is_broken;
    crt_status_t status;

    if (f == NULL || (text && tries_again(f)))
        return;
    f->broken_ns = 0;
    status =
        text ? crt_raise(is_broken ? CRT_ERR_UNREACHABLE : CRT_ERR_NOT_FOUND,
                         "the program can't be fetched from the driver's node: %s", text)
             : write_part(f, length);
    if (status == CRT_OK && f->offset < f->size) {
        ask_part(job);
        return;
    }
    if (status == CRT_OK)
        status = complete(f);
    end_fetch(job, status, crt_error_detail());
}

/* ---------------------------------------------------------------- serving it */

static void part_sent(void *user, crt_status_t status)
{
    free(user);
}

/* Opens what may be the program; the asking side checks the hash. */
static int open_program(crti_node_t *node, const crti_msg_program_get_t *get)
{
    int fd = crti_job_program_fd(node, get->sha);
    char path[CRTI_NODE_PATH + 80], sha[CRTI_SHA_TEXT];

    if (fd >= 0)
        return fcntl(fd, F_DUPFD_CLOEXEC, 3);
    crti_text(get->sha, sha, sizeof(sha));
    if (strlen(sha) != CRTI_SHA_TEXT - 1 ||
        strspn(sha, "0123456789abcdef") != strlen(sha))
        return -1;
    snprintf(path, sizeof(path), "%s/programs/%s", node->state_dir, sha);
    return open(path, O_RDONLY | O_CLOEXEC);
}

void crti_program_serve(crti_node_t *node, crti_stream_t *stream, uint64_t request,
                        const crti_msg_program_get_t *get)
{
    CRTI_AUTO(crti_close) int fd = open_program(node, get);
    crti_msg_program_data_t data = {.offset = get->offset, .length = get->length};
    unsigned char *part;
    struct stat st;
    ssize_t got;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        get->offset >= (uint64_t)st.st_size || data.length == 0) {
        crti_node_answer_error(stream, request, CRT_ERR_NOT_FOUND,
                               "the driver's node has no such program");
        return;
    }
    data.size = (uint64_t)st.st_size;
    if (data.length > PART)
        data.length = PART;
    if (data.length > data.size - data.offset)
        data.length = data.size - data.offset;
    part = malloc(data.length);
    got = part ? pread(fd, part, data.length, (off_t)data.offset) : -1;
    if (got != (ssize_t)data.length)
        crti_node_answer_error(stream, request, CRT_ERR_IO, "the program can't be read");
    else if (crti_stream_send_payload(stream, CRTI_MSG_PROGRAM_DATA, request, &data, part,
                                      part_sent, part) == CRT_OK)
        return;
    free(part);
}
