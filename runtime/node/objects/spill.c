/* SPDX-License-Identifier: Apache-2.0 */
/* Spill. See spill.h.
 *
 * Ownership
 *     A load is the threads' from its beginning until it is done; who waits for it is kept here, by
 *     object, or by part. Bytes that leave are kept until the last stream has them.
 */
#include "runtime/node/objects/spill.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/rundir.h"
#include "runtime/node/links/peer.h"
#include "runtime/node/objects/objects_int.h"
#include "runtime/node/process/process.h"

#define STALL_NS (5 * CRTI_S)
#define LOOK_NS  (1 * CRTI_S)
#define TMPFS    0x01021994
#define RAMFS    0x858458f6

/* Processes that wait for an object. */
typedef struct restore {
    crti_object_id_t object;
    crti_buffer_t requesters; /* crti_pull_requester_t */
} restore_t;

/* Other nodes that wait for a part. */
typedef struct part_key {
    crti_object_id_t object;
    uint64_t offset;
} part_key_t;

typedef struct part {
    part_key_t key;
    uint64_t size;           /* of the object */
    crti_buffer_t questions; /* question_t */
} part_t;

typedef struct question {
    crti_stream_t *stream;
    uint64_t request;
} question_t;

/* Bytes of a part, on their way by so many streams. */
typedef struct leaving {
    unsigned char *bytes;
    unsigned users;
} leaving_t;

/* ---------------------------------------------------------------- begin */

static void on_done(void *user);

static crti_spill_load_t *new_load(crti_object_id_t object, uint64_t offset,
                                   uint64_t size)
{
    crti_spill_load_t *load = calloc(1, sizeof(*load));

    if (load)
        *load = (crti_spill_load_t){.object = object, .offset = offset, .size = size};
    return load;
}

static crt_status_t begin_restore(crti_node_t *node, crti_object_id_t object,
                                  uint64_t size, restore_t **restore_out)
{
    restore_t *restore = calloc(1, sizeof(*restore));
    crti_spill_load_t *load = new_load(object, 0, size);

    if (!restore || !load ||
        crti_map_put(&node->spill->restores, &object, restore) != CRT_OK) {
        free(restore);
        free(load);
        return crt_raise(CRT_ERR_NO_MEMORY, "an object on disk");
    }
    restore->object = object;
    *restore_out = restore;
    crti_spill_threads_load(node->spill->threads, load);
    return CRT_OK;
}

bool crti_spill_holds(crti_node_t *node, crti_object_id_t object, uint64_t *size_out)
{
    return node->spill->files &&
           crti_spill_files_holds(node->spill->files, object, size_out);
}

bool crti_spill_pull(crti_node_t *node, crti_object_id_t object,
                     crti_pull_requester_t requester)
{
    restore_t *restore = crti_map_get(&node->spill->restores, &object);
    crt_status_t status = CRT_OK;
    uint64_t size;

    if (!restore && !crti_spill_holds(node, object, &size))
        return false;
    if (!restore)
        status = begin_restore(node, object, size, &restore);
    if (status == CRT_OK)
        status = crti_buffer_append(&restore->requesters, &requester, sizeof(requester));
    if (status != CRT_OK)
        crti_pull_tell(node, requester, status, crt_error_detail());
    return true;
}

static crt_status_t begin_part(crti_node_t *node, const crti_share_question_t *q,
                               uint64_t size, part_t **part_out)
{
    part_t *part = calloc(1, sizeof(*part));
    crti_spill_load_t *load = new_load(q->object, q->offset, q->length);

    if (load)
        load->bytes = malloc(q->length ? q->length : 1);
    if (part)
        *part = (part_t){.key = {q->object, q->offset}, .size = size};
    if (!part || !load || !load->bytes ||
        crti_map_put(&node->spill->parts, &part->key, part) != CRT_OK) {
        if (load)
            free(load->bytes);
        free(part);
        free(load);
        return crt_raise(CRT_ERR_NO_MEMORY, "a part of an object on disk");
    }
    *part_out = part;
    crti_spill_threads_load(node->spill->threads, load);
    return CRT_OK;
}

void crti_spill_send(crti_node_t *node, const crti_share_question_t *question)
{
    part_key_t key = {question->object, question->offset};
    question_t waits = {(crti_stream_t *)(uintptr_t)question->link, question->request};
    part_t *part = crti_map_get(&node->spill->parts, &key);
    crt_status_t status = CRT_OK;
    uint64_t size;

    if (!part && !crti_spill_holds(node, question->object, &size))
        status = crt_raise(CRT_ERR_NOT_FOUND, "the object is on this node no more");
    else if (!part)
        status = begin_part(node, question, size, &part);
    if (status == CRT_OK)
        status = crti_buffer_append(&part->questions, &waits, sizeof(waits));
    if (status != CRT_OK)
        crti_node_answer_error(waits.stream, waits.request, status, crt_error_detail());
}

void crti_spill_stream_closed(crti_node_t *node, const crti_stream_t *stream)
{
    CRTI_MAP_FOREACH (part_t, part, &node->spill->parts) {
        question_t *q = (question_t *)(void *)part->questions.data;
        size_t count = part->questions.size / sizeof(*q), kept = 0;

        for (size_t i = 0; i < count; i++)
            if (q[i].stream != stream)
                q[kept++] = q[i];
        part->questions.size = kept * sizeof(*q);
    }
}

/* ---------------------------------------------------------------- done */

static void remember_loss(crti_node_t *node, const crti_spill_load_t *load)
{
    crti_spill_loss_t *loss =
        &node->spill->losses[node->spill->loss_count++ % CRTI_SPILL_LOSSES];

    loss->object = load->object;
    snprintf(loss->text, sizeof(loss->text), "%s", load->text);
    crti_log(CRTI_LOG_WARN, "spill", "an object is lost: %s", load->text);
}

const char *crti_spill_lost(const crti_node_t *node, crti_object_id_t object)
{
    for (size_t i = 0; i < CRTI_SPILL_LOSSES; i++)
        if (*node->spill->losses[i].text &&
            crti_object_id_equal(node->spill->losses[i].object, object))
            return node->spill->losses[i].text;
    return NULL;
}

static void restored(crti_node_t *node, crti_spill_load_t *load)
{
    restore_t *restore = crti_map_remove(&node->spill->restores, &load->object);
    const crti_pull_requester_t *to;

    if (load->status == CRT_ERR_OBJECT_LOST)
        remember_loss(node, load);
    if (load->status == CRT_ERR_NOT_FOUND) /* freed meanwhile: no fault of the disk */
        load->status = CRT_ERR_OBJECT_LOST;
    if (!restore)
        return;
    to = (const crti_pull_requester_t *)(const void *)restore->requesters.data;
    for (size_t i = 0; i < restore->requesters.size / sizeof(*to); i++)
        crti_pull_tell(node, to[i], load->status, load->text);
    crti_buffer_fini(&restore->requesters);
    free(restore);
}

static void let_go(leaving_t *leaving)
{
    if (--leaving->users > 0)
        return;
    free(leaving->bytes);
    free(leaving);
}

static void part_left(void *user, crt_status_t status)
{
    let_go(user);
}

static void send_to(question_t q, const part_t *part, const crti_spill_load_t *load,
                    leaving_t *leaving)
{
    crti_msg_object_data_t data = {.object = load->object,
                                   .offset = load->offset,
                                   .length = load->size,
                                   .size = part->size};

    leaving->users++;
    if (crti_stream_send_payload(q.stream, CRTI_MSG_OBJECT_DATA, q.request, &data,
                                 leaving->bytes, part_left, leaving) != CRT_OK)
        let_go(leaving);
}

/* To other nodes it is as if this one had it not: they ask elsewhere, and tell its owner. */
static void part_read(crti_node_t *node, crti_spill_load_t *load)
{
    part_key_t key = {load->object, load->offset};
    part_t *part = crti_map_remove(&node->spill->parts, &key);
    leaving_t *leaving = calloc(1, sizeof(*leaving));
    const question_t *q =
        part ? (const question_t *)(const void *)part->questions.data : NULL;

    if (!leaving && load->status == CRT_OK)
        load->status = crt_raise(CRT_ERR_NO_MEMORY, "a part of an object");
    if (leaving) {
        *leaving = (leaving_t){load->bytes, 1};
        load->bytes = NULL;
    }
    for (size_t i = 0; part && i < part->questions.size / sizeof(*q); i++)
        if (load->status == CRT_OK)
            send_to(q[i], part, load, leaving);
        else
            crti_node_answer_error(q[i].stream, q[i].request, CRT_ERR_NOT_FOUND,
                                   load->text);
    if (leaving)
        let_go(leaving);
    if (load->status == CRT_ERR_OBJECT_LOST) {
        remember_loss(node, load);
        crti_store_lose(node->store, load->object);
    }
    if (part)
        crti_buffer_fini(&part->questions);
    free(part);
    free(load->bytes);
}

static void take_done(void *user)
{
    crti_node_t *node = user;
    crti_spill_load_t *load;

    while (node->spill->threads &&
           (load = crti_spill_threads_done(node->spill->threads))) {
        if (load->bytes)
            part_read(node, load);
        else
            restored(node, load);
        free(load);
    }
}

static void on_done(void *user)
{
    crti_node_t *node = user;

    (void)crti_loop_post(node->loop, take_done,
                         node); /* without memory the tick takes it */
}

/* ---------------------------------------------------------------- time */

static void look_for_stall(crti_node_t *node, uint64_t now_ns)
{
    bool stalls = crti_spill_threads_stalled(node->spill->threads, now_ns) > STALL_NS;

    if (stalls && !node->spill->is_stalled) {
        crti_store_spill_set(node->store, CRTI_STORE_SPILL_STALLS, 0, 0);
        crti_log(
            CRTI_LOG_WARN, "spill",
            "the disk that objects are spilled to does not answer: they stay in memory, "
            "and whoever makes new ones waits");
    }
    node->spill->is_stalled = stalls;
}

uint64_t crti_spill_tick(crti_node_t *node, uint64_t now_ns)
{
    if (!node->spill->threads)
        return UINT64_MAX;
    if (now_ns >= node->spill->look_ns + LOOK_NS) {
        node->spill->look_ns = now_ns;
        look_for_stall(node, now_ns);
        take_done(node);
    }
    return node->spill->look_ns + LOOK_NS;
}

const char *crti_spill_trouble(const crti_node_t *node, char *text, size_t size)
{
    *text = '\0';
    if (node->spill->threads)
        crti_store_spill_trouble(node->store, text, size);
    return text;
}

crti_spill_figures_t crti_spill_figures(const crti_node_t *node)
{
    return node->spill->files ? crti_spill_files_figures(node->spill->files)
                              : (crti_spill_figures_t){0};
}

/* ---------------------------------------------------------------- life */

static bool is_memory(const char *path)
{
    struct statfs fs;

    return statfs(path, &fs) == 0 &&
           ((uint32_t)fs.f_type == TMPFS || (uint32_t)fs.f_type == RAMFS);
}

/* Where the state is, unless that is memory: then nothing would be won. */
static crt_status_t choose_default(crti_node_t *node)
{
    crti_spill_t *spill = node->spill;
    char state[CRTI_NODE_PATH], first[CRTI_NODE_PATH];
    crt_status_t status = crti_state_dir(state, sizeof(state));

    if (status != CRT_OK)
        return status;
    snprintf(spill->dirs, sizeof(spill->dirs), "%s/spill", state);
    crti_dir_first_missing(spill->dirs, first, sizeof(first));
    if (*first && strrchr(first, '/') > first)
        *strrchr(first, '/') = '\0';
    if (is_memory(*first ? first : spill->dirs))
        return crt_raise(CRT_ERR_UNSUPPORTED, "%s is memory; --spill-dir names a disk",
                         spill->dirs);
    spill->places[spill->place_count++] = spill->dirs;
    return CRT_OK;
}

static crt_status_t check_place(const char *path)
{
    struct stat found;
    void *file;
    int error;

    if (stat(path, &found) != 0)
        return crt_raise(errno == EACCES ? CRT_ERR_PERMISSION : CRT_ERR_INVALID,
                         "--spill-dir %s: %s; a directory that exists is needed", path,
                         strerror(errno));
    if (!S_ISDIR(found.st_mode))
        return crt_raise(CRT_ERR_INVALID, "--spill-dir %s is no directory", path);
    error = crti_spill_directory.open(path, &file);
    if (error)
        return crt_raise(
            error == EACCES || error == EPERM ? CRT_ERR_PERMISSION : CRT_ERR_IO,
            "--spill-dir %s: no file can be made there: %s", path, strerror(error));
    crti_spill_directory.remove(file);
    return CRT_OK;
}

static crt_status_t take_places(crti_node_t *node)
{
    crti_spill_t *spill = node->spill;
    char *rest = spill->dirs, *path;
    crt_status_t status = CRT_OK;

    if (snprintf(spill->dirs, sizeof(spill->dirs), "%s", node->options.given.spill_dir) >=
        (int)sizeof(spill->dirs))
        return crt_raise(CRT_ERR_TOO_LARGE, "--spill-dir: more than %zu characters",
                         sizeof(spill->dirs) - 1);
    while (status == CRT_OK && (path = strsep(&rest, ","))) {
        if (*path != '/')
            status = crt_raise(CRT_ERR_INVALID,
                               "--spill-dir \"%s\": paths that begin with / are needed, "
                               "between commas",
                               node->options.given.spill_dir);
        else if (spill->place_count == CRTI_SPILL_PLACES)
            status = crt_raise(CRT_ERR_TOO_LARGE, "--spill-dir: %u directories at most",
                               CRTI_SPILL_PLACES);
        else
            status = check_place(path);
        spill->places[spill->place_count] = path;
        spill->place_count += status == CRT_OK;
    }
    return status;
}

static crt_status_t start(crti_node_t *node)
{
    crti_spill_t *spill = node->spill;
    crt_status_t status =
        crti_spill_files_new(&crti_spill_directory, spill->places, spill->place_count,
                             node->options.given.spill_limit, &spill->files);

    return status == CRT_OK ? crti_spill_threads_start(node->store, spill->files, on_done,
                                                       node, &spill->threads)
                            : status;
}

crt_status_t crti_spill_start(crti_node_t *node)
{
    crt_status_t status;

    if (node->options.given.no_spill)
        return CRT_OK;
    if (node->options.given.spill_dir) {
        status = take_places(node);
        return status == CRT_OK ? start(node) : status;
    }
    status = choose_default(node);
    if (status == CRT_OK)
        return start(node);
    crti_log(CRTI_LOG_INFO, "spill", "nothing is spilled: %s", crt_error_detail());
    return CRT_OK;
}

void crti_spill_init(crti_node_t *node)
{
    crti_map_init(&node->spill->restores, sizeof(crti_object_id_t));
    crti_map_init(&node->spill->parts, sizeof(part_key_t));
}

bool crti_spill_stop(crti_node_t *node)
{
    crti_spill_t *spill = node->spill;
    bool is_over = !spill->threads || crti_spill_threads_stop(spill->threads);

    spill->threads = NULL;
    if (is_over)
        crti_spill_files_free(spill->files);
    spill->files = NULL;
    if (spill->place_count && !node->options.given.spill_dir)
        rmdir(spill->dirs); /* unless another node of ours has made it anew */
    CRTI_MAP_FOREACH (restore_t, restore, &spill->restores) {
        crti_buffer_fini(&restore->requesters);
        free(restore);
    }
    CRTI_MAP_FOREACH (part_t, part, &spill->parts) {
        crti_buffer_fini(&part->questions);
        free(part);
    }
    crti_map_fini(&spill->restores);
    crti_map_fini(&spill->parts);
    return is_over;
}
