/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: the executable of a job, by its SHA-256, on a node whose driver is elsewhere.
 *
 * Where it sits
 *     job.c -> [ node/jobs/program.c ] -> the driver's path, content cache, or the driver's node
 *     (peer.c: PROGRAM_GET) -> job.c
 * Threads
 *     Looking for it means hashing files: a thread of its own does that with what it was given
 *     and posts the result. One that hangs on a file server that does not answer is left behind
 *     after LOOK_NS without progress, and frees what it was given when it comes back.
 * Failure
 *     A node that can't be reached is not one without the program: while the head does not say that
 *     it is dead it is asked again, for transfer_retry_timeout since its last part, as for objects
 *     (pull_retry.c).
 * Trust
 *     What is executed was hashed through the descriptor that is executed. Bytes from another
 *     node become a file of the cache only when their hash is right.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/base/programs.h"
#include "runtime/base/rundir.h"
#include "runtime/node/jobs/job_int.h"
#include "runtime/node/links/peer.h"

#define RETRY_NS         (200 * CRTI_MS)
#define LOOK_NS          (10 * CRTI_S)
#define HANGING_MAX      16 /* threads left behind */
#define PART             ((uint64_t)1 << 20)
#define SIZE_MAX_PROGRAM ((uint64_t)4 << 30)

/* What a thread that looks was given. */
typedef struct look {
    crti_node_t *node;
    struct crti_fetch *fetch; /* NULL: wanted no more */
    crti_list_t link;         /* in node->jobs->looks, until it was left behind */
    char path[CRTI_NODE_PATH + 80];
    char sha[CRTI_SHA_TEXT];
    bool in_cache;
    int found_fd;
    atomic_uint_fast64_t bytes; /* hashed so far */
    pthread_mutex_t lock;       /* of the rest */
    bool has_ended, is_posted, left_behind, hangs;
} look_t;

typedef struct crti_fetch {
    crti_node_t *node;
    crti_id_t job;
    crti_program_found_t *on_found;
    int *fd_out;   /* the job's */
    char *program; /* its path on the driver's node, as errors name it */
    look_t *look;
    uint64_t looked; /* bytes that it had hashed a while ago */
    crti_timer_t look_timer;
    bool in_cache;  /* that is where it looks */
    bool is_silent; /* the file system of the driver's path */
    char sha[CRTI_SHA_TEXT];
    int found_fd;
    /* Fetching. */
    int file;
    char temporary[CRTI_NODE_PATH + 120];
    crypto_hash_sha256_state hash;
    uint64_t offset, size;
    unsigned char *part;
    bool is_broken;     /* the link was, under the question for it, or can't be made */
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

/* In the cache lies only what is this user's. */
static int open_cached(const char *path)
{
    int fd = -1;

    if (crti_own_open(path, &fd) == CRT_ERR_PERMISSION)
        crti_log(CRTI_LOG_WARN, "program", "it is not taken: %s", crt_error_detail());
    return fd;
}

/* A descriptor of the file when its hash is `sha`, else -1. */
static int open_verified(look_t *l)
{
    CRTI_AUTO(crti_close)
    int fd = l->in_cache ? open_cached(l->path) : open_regular(l->path);
    unsigned char digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state hash;
    char text[CRTI_SHA_TEXT];
    char bytes[65536];
    ssize_t got;

    if (fd < 0)
        return -1;
    crypto_hash_sha256_init(&hash);
    while ((got = read(fd, bytes, sizeof(bytes))) > 0) {
        crypto_hash_sha256_update(&hash, (const unsigned char *)bytes,
                                  (unsigned long long)got);
        atomic_fetch_add_explicit(&l->bytes, (uint64_t)got, memory_order_relaxed);
    }
    crypto_hash_sha256_final(&hash, digest);
    hex_of(digest, text);
    return got == 0 && strcmp(text, l->sha) == 0 ? crti_take_fd(&fd) : -1;
}

/* From the cache, where it stays as long as the job has this descriptor. */
static int open_held(look_t *l)
{
    CRTI_AUTO(crti_close) int fd = open_verified(l);

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
    crti_loop_cancel(f->node->loop, &f->look_timer);
    if (f->part)
        crti_node_discard(f->node, f->part, PART);
    free(f->part);
    free(f->program);
    free(f);
}

static atomic_uint hanging;

static void free_look(look_t *l)
{
    if (l->found_fd >= 0)
        close(l->found_fd);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static void on_looked(void *user);

static void *look(void *user)
{
    look_t *l = user;
    bool left_behind;

    l->found_fd = l->in_cache ? open_held(l) : open_verified(l);
    pthread_mutex_lock(&l->lock);
    left_behind = l->left_behind;
    l->has_ended = true;
    /* Without memory for the post its deadline comes. */
    if (!left_behind)
        l->is_posted = crti_loop_post(l->node->loop, on_looked, l) == CRT_OK;
    pthread_mutex_unlock(&l->lock);
    if (!left_behind)
        return NULL;
    if (l->hangs)
        atomic_fetch_sub(&hanging, 1);
    free_look(l);
    return NULL;
}

/* Nobody waits for it any more; `hangs`: because it does. */
static void leave_behind(look_t *l, bool hangs)
{
    bool is_posted;

    l->fetch = NULL;
    pthread_mutex_lock(&l->lock);
    is_posted = l->is_posted;
    if (!is_posted)
        crti_list_remove(&l->link);
    if (!l->has_ended) {
        l->left_behind = true; /* its thread frees it */
        l->hangs = hangs;
        if (hangs)
            atomic_fetch_add(&hanging, 1);
        pthread_mutex_unlock(&l->lock);
        return;
    }
    pthread_mutex_unlock(&l->lock);
    if (!is_posted)
        free_look(l);
}

void crti_program_free_all(crti_node_t *node)
{
    while (!crti_list_is_empty(&node->jobs->looks)) {
        look_t *l = CRTI_CONTAINER(node->jobs->looks.next, look_t, link);

        /* The loop runs no more: what was posted is dropped. */
        pthread_mutex_lock(&l->lock);
        l->is_posted = false;
        pthread_mutex_unlock(&l->lock);
        leave_behind(l, false);
    }
}

static void on_look_late(void *user);

static crt_status_t start_look(fetch_t *f, const char *path)
{
    look_t *l;
    pthread_t thread;
    int failed;

    if (atomic_load(&hanging) >= HANGING_MAX)
        return crt_raise(CRT_ERR_BACKPRESSURE,
                         "%d programs are on file systems that do not answer",
                         HANGING_MAX);
    l = calloc(1, sizeof(*l));
    if (l == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "program");
    l->node = f->node;
    l->fetch = f;
    l->in_cache = f->in_cache;
    l->found_fd = -1;
    memcpy(l->sha, f->sha, sizeof(l->sha));
    snprintf(l->path, sizeof(l->path), "%s", path);
    pthread_mutex_init(&l->lock, NULL);
    failed = pthread_create(&thread, NULL, look, l);
    if (failed) {
        free_look(l);
        return crt_raise(CRT_ERR_BACKPRESSURE, "thread: %s", strerror(failed));
    }
    pthread_detach(thread);
    crti_list_append(&f->node->jobs->looks, &l->link);
    f->look = l;
    f->looked = 0;
    f->look_timer = (crti_timer_t){.on_expired = on_look_late, .user = f};
    return crti_loop_start(f->node->loop, &f->look_timer,
                           crti_node_now(f->node) + LOOK_NS);
}

/* Where the driver has it: beside it may lie libraries that it finds by $ORIGIN. Then in the
 * cache. */
static crt_status_t look_next(fetch_t *f, const char *program)
{
    char cache[CRTI_NODE_PATH + 80];

    snprintf(cache, sizeof(cache), "%s/programs/%s", f->node->state_dir, f->sha);
    f->in_cache = program == NULL || strcmp(program, cache) == 0;
    return start_look(f, f->in_cache ? cache : program);
}

void crti_program_find(crti_job_t *job, const crti_program_spec_t *spec,
                       crti_program_found_t *on_found)
{
    fetch_t *f = calloc(1, sizeof(*f));
    char *program = strdup(spec->path ? spec->path : "(the job's folder)");
    crt_status_t status;

    if (f == NULL || program == NULL) {
        free(f);
        free(program);
        on_found(job, CRT_ERR_NO_MEMORY, "out of memory");
        return;
    }
    f->program = program;
    f->fd_out = spec->fd_out;
    f->on_found = on_found;
    f->node = job->node;
    f->job = job->id;
    f->found_fd = f->file = -1;
    snprintf(f->sha, sizeof(f->sha), "%s", spec->sha);
    job->fetch = f;
    status = look_next(f, spec->path);
    if (status == CRT_OK)
        return;
    crti_program_cancel(job);
    on_found(job, status, crt_error_detail());
}

void crti_program_cancel(crti_job_t *job)
{
    fetch_t *f = job->fetch;

    job->fetch = NULL;
    if (f == NULL)
        return;
    if (f->look)
        leave_behind(f->look, false);
    free_fetch(f);
}

/* ---------------------------------------------------------------- fetching it */

static void end_fetch(crti_job_t *job, crt_status_t status, const char *text)
{
    fetch_t *f = job->fetch;
    crti_program_found_t *on_found = f->on_found;

    job->fetch = NULL;
    job->is_silent = f->is_silent;
    if (status == CRT_OK)
        *f->fd_out = crti_take_fd(&f->found_fd);
    free_fetch(f);
    on_found(job, status, text);
}

static void *place_of(crti_node_t *node, crti_peer_ask_t *ask, const crti_message_t *m);
static void on_part(crti_node_t *node, crti_id_t from, const crti_peer_ask_t *ask,
                    const crti_message_t *m, const char *text);

static crti_job_t *fetching(crti_node_t *node, crti_id_t id)
{
    crti_job_t *job = crti_job_find(node, id);

    return job && job->fetch && job->fetch->file >= 0 ? job : NULL;
}

/* The link broke under the question for a part: it is asked for again. */
static void on_unreachable(crti_node_t *node, crti_id_t from, const crti_peer_ask_t *ask)
{
    crti_job_t *job = fetching(node, ask->id);

    if (job)
        job->fetch->is_broken = true;
}

static bool tries_again(fetch_t *f)
{
    uint64_t now = crti_node_now(f->node);

    if (!f->is_broken || f->node->stopping)
        return false;
    f->is_broken = false;
    if (f->broken_ns == 0)
        f->broken_ns = now;
    if (now - f->broken_ns > CRTI_LIMIT(transfer_retry_timeout))
        return false;
    crti_loop_start(f->node->loop, &f->retry, now + RETRY_NS);
    return true;
}

static void ask_part(crti_job_t *job)
{
    static const crti_peer_answers_t answers = {
        .on_answer = on_part, .place = place_of, .on_unreachable = on_unreachable};
    fetch_t *f = job->fetch;
    crti_msg_program_get_t get = {.sha = crti_str(f->sha),
                                  .program = crti_str(f->program),
                                  .offset = f->offset,
                                  .length = PART};
    crti_peer_ask_t ask = {.kind = CRTI_MSG_PROGRAM_GET,
                           .answers = &answers,
                           .id = job->id,
                           .offset = f->offset,
                           .length = PART};
    crt_status_t status =
        crti_node_ask(job->node, job->driver_node, CRTI_PRIORITY_BULK, &ask, &get);

    if (status == CRT_OK)
        return;
    f->is_broken = true;
    if (!tries_again(f))
        end_fetch(job, status, crt_error_detail());
}

static void on_retry(void *user)
{
    fetch_t *f = user;
    crti_job_t *job = crti_job_find(f->node, f->job);

    if (job && job->fetch == f)
        ask_part(job);
}

bool crti_program_driver_died(crti_job_t *job)
{
    if (job->fetch == NULL || job->fetch->broken_ns == 0)
        return false;
    end_fetch(job, CRT_ERR_NOT_FOUND,
              "the program can't be fetched from the driver's node: it died");
    return true;
}

static crt_status_t begin_fetch(crti_job_t *job)
{
    fetch_t *f = job->fetch;
    char dir[CRTI_NODE_PATH + 16];
    crt_status_t status;

    if (f->is_silent && crti_id_equal(job->driver_node, job->node->id))
        return crt_raise(CRT_ERR_TIMED_OUT,
                         "the program %s can't be read: its file system does not answer",
                         f->program);
    if (crti_id_equal(job->driver_node, job->node->id))
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "the program %s is gone from the driver's host", f->program);
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

/* Neither where the driver has it nor in the cache. */
static void fetch_from_driver(crti_job_t *job)
{
    crt_status_t status = begin_fetch(job);

    if (status != CRT_OK)
        end_fetch(job, status, crt_error_detail());
    else
        ask_part(job);
}

static void look_ended(fetch_t *f)
{
    crti_job_t *job = crti_job_find(f->node, f->job);
    crt_status_t status;

    crti_loop_cancel(f->node->loop, &f->look_timer);
    f->look = NULL;
    if (f->found_fd >= 0) {
        end_fetch(job, CRT_OK, "");
    } else if (f->in_cache) {
        fetch_from_driver(job);
    } else {
        status = look_next(f, NULL);
        if (status != CRT_OK)
            end_fetch(job, status, crt_error_detail());
    }
}

static void on_looked(void *user)
{
    look_t *l = user;
    fetch_t *f = l->fetch;

    if (f)
        f->found_fd = crti_take_fd(&l->found_fd);
    pthread_mutex_lock(&l->lock); /* the thread has posted, and may still hold it */
    pthread_mutex_unlock(&l->lock);
    crti_list_remove(&l->link);
    free_look(l);
    if (f)
        look_ended(f);
}

static void on_look_late(void *user)
{
    fetch_t *f = user;
    uint64_t bytes = atomic_load_explicit(&f->look->bytes, memory_order_relaxed);

    if (bytes != f->looked) {
        f->looked = bytes;
        crti_loop_start(f->node->loop, &f->look_timer, crti_node_now(f->node) + LOOK_NS);
        return;
    }
    crti_log(CRTI_LOG_WARN, "program", "%s: the file system does not answer",
             f->look->path);
    f->is_silent = f->is_silent || !f->in_cache;
    leave_behind(f->look, true);
    look_ended(f);
}

static crt_status_t complete(fetch_t *f)
{
    unsigned char digest[crypto_hash_sha256_BYTES];
    char text[CRTI_SHA_TEXT], cache[CRTI_NODE_PATH + 80];

    snprintf(cache, sizeof(cache), "%s/programs/%s", f->node->state_dir, f->sha);
    crypto_hash_sha256_final(&f->hash, digest);
    hex_of(digest, text);
    if (strcmp(text, f->sha) != 0)
        return crt_raise(CRT_ERR_CORRUPT,
                         "the program that the driver's node sent is %.12s.., not "
                         "%.12s..",
                         text, f->sha);
    if (rename(f->temporary, cache) < 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", cache, strerror(errno));
    /* A file that is open for writing can't be executed. */
    close(f->file);
    f->file = -1;
    CRT_TRY(crti_own_open(cache, &f->found_fd));
    if (!crti_programs_hold(f->found_fd))
        return crt_raise(CRT_ERR_IO, "%s: %s", cache, strerror(errno));
    *strrchr(cache, '/') = '\0';
    crti_programs_trim(cache, CRTI_LIMIT(program_cache));
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

static void *place_of(crti_node_t *node, crti_peer_ask_t *ask, const crti_message_t *m)
{
    const crti_msg_program_data_t *data = &m->program_data;
    crti_job_t *job = fetching(node, ask->id);
    fetch_t *f = job ? job->fetch : NULL;

    if (m->kind != CRTI_MSG_PROGRAM_DATA || f == NULL || data->offset != f->offset ||
        data->length == 0 || data->length > PART || data->size > SIZE_MAX_PROGRAM ||
        data->offset + data->length > data->size)
        return NULL;
    f->size = data->size;
    ask->length = data->length;
    return f->part;
}

static void on_part(crti_node_t *node, crti_id_t from, const crti_peer_ask_t *ask,
                    const crti_message_t *m, const char *text)
{
    crti_job_t *job = fetching(node, ask->id);
    fetch_t *f = job ? job->fetch : NULL;
    bool is_broken = f && f->is_broken;
    crt_status_t status;

    if (f == NULL || (text && tries_again(f)))
        return;
    f->broken_ns = 0;
    status =
        text ? crt_raise(is_broken ? CRT_ERR_UNREACHABLE : CRT_ERR_NOT_FOUND,
                         "the program can't be fetched from the driver's node: %s", text)
             : write_part(f, ask->length);
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
    return open_cached(path);
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
