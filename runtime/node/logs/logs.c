/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of logs. See logs.h. */
#include "runtime/node/logs/logs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/node/host/log_quota.h"
#include "runtime/node/links/head.h"
#include "runtime/node/links/local.h"
#include "runtime/node/logs/logs_int.h"
#include "runtime/node/process/process.h"

#define PART_MAX    ((uint64_t)1 << 20)
#define WAIT_MAX    60000 /* ms */
#define WAITING_MAX 8192  /* of 1 KiB each; for one more the oldest gets its answer */

typedef struct reader {
    crti_node_t *node;
    uint64_t local; /* 0: the head asks */
    uint64_t request;
    char name[160];
    uint64_t offset, limit;
    char path[600]; /* of the file that was looked at, "" none */
    crti_timer_t timer;
    crti_list_t link;
} reader_t;

/* ---------------------------------------------------------------- which file */

static bool is_hex(const char *text)
{
    size_t length = strlen(text);

    return length >= 8 && length <= 32 && strspn(text, "0123456789abcdef") == length;
}

/* The process that a name means, if it lives here. */
static const crti_process_t *living(crti_node_t *node, const char *name)
{
    size_t cursor = 0;
    const crti_process_t *p;

    while ((p = crti_process_next(node, &cursor)) != NULL) {
        char hex[CRTI_ID_HEX];

        if (p->role != CRTI_ROLE_WORKER)
            continue;
        if (strncmp(crti_id_hex(p->id, hex), name, strlen(name)) == 0 ||
            (!crti_id_is_zero(p->actor) &&
             strncmp(crti_id_hex(p->actor, hex), name, strlen(name)) == 0))
            return p;
    }
    return NULL;
}

/* The log of a worker that ended: worker-HEX8-PID.log, the newest of that id. */
static bool find_old(crti_node_t *node, const char *name, char *path, size_t size)
{
    char dir_path[CRTI_NODE_PATH + 8], start[32];
    const struct dirent *entry;
    bool found = false;
    DIR *dir;

    snprintf(path, size, "%s/logs/actor-%s.log", node->own_state, name);
    if (strlen(name) == 32 && access(path, F_OK) == 0)
        return true;
    snprintf(dir_path, sizeof(dir_path), "%s/logs", node->own_state);
    snprintf(start, sizeof(start), "worker-%.8s-", name);
    dir = opendir(dir_path);
    while (dir && (entry = readdir(dir)) != NULL)
        if (strncmp(entry->d_name, start, strlen(start)) == 0) {
            snprintf(path, size, "%s/%s", dir_path, entry->d_name);
            found = true;
        }
    if (dir)
        closedir(dir);
    return found;
}

static bool is_port(const char *text)
{
    size_t digits = 0;

    while (text[digits] >= '0' && text[digits] <= '9')
        digits++;
    return digits > 0 && digits <= 5 && text[digits] == '\0';
}

/* Of the head's host: STATE/head-PORT/{head,http}.log, named "head:PORT" and "http:PORT"; else it
 * is none of them. */
static bool find_head_log(const crti_node_t *node, const char *name, char *path,
                          size_t size)
{
    const char *port = name + sizeof("head:") - 1;

    if ((strncmp(name, "head:", 5) != 0 && strncmp(name, "http:", 5) != 0) ||
        !is_port(port))
        return false;
    snprintf(path, size, "%.200s/head-%s/%.4s.log", node->state_dir, port, name);
    return access(path, R_OK) == 0;
}

/* "node:" and the begin of this node's id. */
static bool is_own_log(const crti_node_t *node, const char *name)
{
    const char *id = name + sizeof("node:") - 1;
    char hex[CRTI_ID_HEX];

    return strncmp(name, "node:", 5) == 0 && is_hex(id) &&
           strncmp(crti_id_hex(node->id, hex), id, strlen(id)) == 0;
}

static crt_status_t find_log(crti_node_t *node, const char *name, char *path, size_t size,
                             bool *ended_out)
{
    const crti_process_t *p;

    if (strncmp(name, "job:", 4) == 0)
        return node->logs->find_job_log(node, name + 4, path, size, ended_out);
    if (find_head_log(node, name, path, size))
        return CRT_OK;
    if (is_own_log(node, name)) {
        snprintf(path, size, "%s/node.log", node->own_state);
        return CRT_OK;
    }
    if (!is_hex(name))
        return crt_raise(
            CRT_ERR_NOT_FOUND,
            "\"%s\" is neither the id of a worker or an actor nor an actor's name", name);
    p = living(node, name);
    *ended_out = p == NULL;
    if (p) {
        snprintf(path, size, "%s", p->log.path);
        return CRT_OK;
    }
    return find_old(node, name, path, size)
               ? CRT_OK
               : crt_raise(CRT_ERR_NOT_FOUND,
                           "no worker or actor %s is known here, and no log of one (old "
                           "logs go when all are more than %llu MiB)",
                           name, (unsigned long long)(CRTI_LIMIT(log_total) >> 20));
}

/* ---------------------------------------------------------------- reading */

static void answer(crti_node_t *node, uint64_t local_number, uint64_t request,
                   crti_message_kind_t kind, const void *body)
{
    crti_local_t *local = local_number ? crti_local_get(node, local_number) : NULL;

    if (local_number == 0)
        crti_head_send(node, kind, request, body);
    else if (local)
        crti_channel_send(local->channel, kind, request, body);
}

/* Reads what is there, and moves `offset` behind it; to where the log ends, when `limit` is 0. A
 * file that does not exist yet is an empty one. Who asks for what the quota removed gets the line
 * that says so, and what comes behind it. */
static crt_status_t read_part(const char *path, uint64_t *offset, uint64_t limit,
                              crti_buffer_t *data)
{
    CRTI_AUTO(crti_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    crti_log_place_t place;
    crt_status_t status;
    struct stat st;
    uint64_t at;
    ssize_t got;

    if (fd < 0 && (errno == ENOENT || path[0] == '\0'))
        return CRT_OK;
    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    place = crti_log_find(fd);
    if (limit == 0) {
        if (fstat(fd, &st) != 0)
            return crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
        *offset = place.removed + (uint64_t)st.st_size - place.marker;
        return CRT_OK;
    }
    if (*offset >= place.removed) {
        at = *offset - place.removed + place.marker;
    } else {
        at = 0;
        *offset = place.removed - place.marker;
        limit = limit > place.marker ? limit : place.marker;
    }
    if (at > INT64_MAX)
        return CRT_OK;
    status = crti_buffer_reserve(data, limit);
    if (status != CRT_OK)
        return status;
    got = pread(fd, data->data, limit, (off_t)at);
    if (got < 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    data->size = (size_t)got;
    *offset += (uint64_t)got;
    return CRT_OK;
}

/* Answers when there is something to say. False: wait. `is_late`: answer anyway. */
static bool serve(reader_t *r, bool is_late)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    bool ended = false;
    crt_status_t status = find_log(r->node, r->name, r->path, sizeof(r->path), &ended);
    crti_msg_log_data_t data = {0};
    crti_msg_error_t error;

    data.next = r->offset;
    if (status == CRT_OK)
        status = read_part(r->path, &data.next, r->limit, &bytes);
    if (status != CRT_OK) {
        error =
            (crti_msg_error_t){.status = status, .text = crti_str(crt_error_detail())};
        answer(r->node, r->local, r->request, CRTI_MSG_ERROR, &error);
        return true;
    }
    if (bytes.size == 0 && !ended && !is_late)
        return false;
    data.data = crti_span(bytes.data, bytes.size);
    data.ended = ended && bytes.size < r->limit;
    answer(r->node, r->local, r->request, CRTI_MSG_LOG_DATA, &data);
    return true;
}

static void free_reader(reader_t *r)
{
    crti_loop_cancel(r->node->loop, &r->timer);
    crti_list_remove(&r->link);
    r->node->logs->reader_count--;
    free(r);
}

static void on_late(void *user)
{
    reader_t *r = user;

    serve(r, true);
    free_reader(r);
}

void crti_logs_wake(crti_node_t *node)
{
    CRTI_LIST_FOREACH_SAFE (item, &node->logs->readers) {
        reader_t *r = CRTI_CONTAINER(item, reader_t, link);

        if (serve(r, false))
            free_reader(r);
    }
}

void crti_logs_grown(crti_node_t *node, const char *path)
{
    CRTI_LIST_FOREACH_SAFE (item, &node->logs->readers) {
        reader_t *r = CRTI_CONTAINER(item, reader_t, link);

        /* "": its process had no log yet. */
        if ((r->path[0] == '\0' || strcmp(r->path, path) == 0) && serve(r, false))
            free_reader(r);
    }
}

void crti_logs_read(crti_node_t *node, uint64_t local, uint64_t request,
                    const crti_msg_log_read_t *read)
{
    uint64_t wait_ms = read->wait_ms < WAIT_MAX ? read->wait_ms : WAIT_MAX;
    reader_t now = {.node = node,
                    .local = local,
                    .request = request,
                    .offset = read->offset,
                    .limit = read->limit < PART_MAX ? read->limit : PART_MAX};
    reader_t *r;

    crti_text(read->name, now.name, sizeof(now.name));
    if (serve(&now, wait_ms == 0))
        return;
    r = malloc(sizeof(*r));
    if (r == NULL) {
        serve(&now, true);
        return;
    }
    *r = now;
    r->timer = (crti_timer_t){.on_expired = on_late, .user = r};
    if (node->logs->reader_count == WAITING_MAX)
        on_late(CRTI_CONTAINER(node->logs->readers.next, reader_t, link));
    crti_list_append(&node->logs->readers, &r->link);
    node->logs->reader_count++;
    if (crti_loop_start(node->loop, &r->timer, crti_node_now(node) + wait_ms * CRTI_MS) !=
        CRT_OK)
        on_late(r);
}

bool crti_logs_are_here(crti_node_t *node, crti_span_t name_text)
{
    char name[160], path[600];
    bool ended;

    if (name_text.size >= 4 && memcmp(name_text.data, "job:", 4) == 0)
        return false; /* by its submission id: the head knows which job that is */
    return find_log(node, crti_text(name_text, name, sizeof(name)), path, sizeof(path),
                    &ended) == CRT_OK;
}

void crti_logs_local_closed(crti_node_t *node, uint64_t local)
{
    CRTI_LIST_FOREACH_SAFE (item, &node->logs->readers) {
        reader_t *r = CRTI_CONTAINER(item, reader_t, link);

        if (r->local == local)
            free_reader(r);
    }
}

void crti_logs_free(crti_node_t *node)
{
    CRTI_LIST_FOREACH_SAFE (item, &node->logs->readers) {
        free_reader(CRTI_CONTAINER(item, reader_t, link));
    }
}

void crti_logs_init(crti_node_t *node, crti_job_log_t *find_job_log)
{
    crti_list_init(&node->logs->readers);
    node->logs->find_job_log = find_job_log;
}
