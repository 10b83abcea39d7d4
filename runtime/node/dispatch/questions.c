/* SPDX-License-Identifier: Apache-2.0 */
/* Questions for which the processes of this node are asked themselves: what their threads wait for,
 * with their stacks (STATE_QUERY "stacks", answered with JSON), and which refs they hold, for the
 * objects of the store ("objects", answered with the records of base/object_records.h).
 *
 * Where it sits
 *     state.c -> [ node/dispatch/questions.c ] -> STATE_QUERY to processes ->
 *     core/client/told_state.c
 *                                              -> jobs/stack_reader.c -> STATE_ANSWER to the head
 *        begin            all answered, or 1 s           stacks: crt-stack has ended
 *     WAITING ---> ASKING -------------------> READING ----------------------> answered, the next
 *     begins
 * Trust
 *     What a process says is passed on as a whole inside the answer: whoever reads it decodes it by
 *     itself, so that one that says nonsense spoils its own part only. Of what it says ANSWER_MAX
 *     bytes are taken.
 * Threads: the loop. One question at a time: a process is not asked, and stopped, for two.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/json_write.h"
#include "runtime/base/object_records.h"
#include "runtime/node/dispatch/dispatch_int.h"
#include "runtime/node/jobs/job.h"
#include "runtime/node/links/head.h"

#define PATIENCE_NS   (1 * CRTI_S) /* for what processes say */
#define ANSWER_MAX    ((size_t)4 << 20)
#define WAITING_MAX   16
#define PROCESSES_MAX 1000 /* that are asked for one answer */

/* A process that was asked. */
typedef struct asked {
    crti_id_t id, job, actor;
    pid_t pid;
    bool is_driver, has_answered;
    crti_buffer_t said;
    crti_buffer_t row; /* stacks: what the node knows of it, without its closing brace */
} asked_t;

struct crti_question {
    crti_list_t link; /* in node->questions->waiting */
    crti_node_t *node;
    uint64_t request; /* of the head */
    uint64_t round;
    bool is_stacks;
    size_t limit;    /* of objects */
    char filter[64]; /* stacks: an id, or "" */
    asked_t *asked;
    size_t count, missing;
    crti_timer_t timer;
    crti_stack_reader_t *reader;
};

static void begin_next(crti_questions_t *questions);

static void free_question(crti_question_t *q)
{
    crti_loop_cancel(q->node->loop, &q->timer);
    crti_stack_reader_close(q->reader);
    for (size_t i = 0; i < q->count; i++) {
        crti_buffer_fini(&q->asked[i].said);
        crti_buffer_fini(&q->asked[i].row);
    }
    free(q->asked);
    free(q);
}

/* ---------------------------------------------------------------- the answer */

static crt_status_t put(crti_buffer_t *json, const char *text)
{
    return crti_buffer_append(json, text, strlen(text));
}

/* ,"key":"text" */
static crt_status_t put_text(crti_buffer_t *json, const char *key, crti_span_t text)
{
    crti_json_writer_t w = {.out = json, .status = put(json, ",\"")};

    if (w.status == CRT_OK)
        w.status = put(json, key);
    if (w.status == CRT_OK)
        w.status = put(json, "\":");
    crti_json_bytes(&w, text);
    return w.status;
}

/* The line "PID {json}" of that process in what crt-stack printed; empty: there is none. */
static crti_span_t stack_of(crti_span_t text, pid_t pid)
{
    const char *at = text.data, *end = at + text.size;
    char begin[24];
    size_t size = (size_t)snprintf(begin, sizeof(begin), "%d ", (int)pid);

    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));

        if (stop == NULL)
            break;
        if ((size_t)(stop - at) > size && memcmp(at, begin, size) == 0)
            return crti_span(at + size, (size_t)(stop - at) - size);
        at = stop + 1;
    }
    return crti_span("", 0);
}

static crt_status_t put_process(const asked_t *a, crti_span_t stacks, crti_buffer_t *json)
{
    crt_status_t status = crti_buffer_append(json, a->row.data, a->row.size);

    if (status == CRT_OK)
        status = put_text(json, "said", crti_span(a->said.data, a->said.size));
    if (status == CRT_OK)
        status = put_text(json, "stack", stack_of(stacks, a->pid));
    return status == CRT_OK ? put(json, "}") : status;
}

static crt_status_t put_stacks(const crti_question_t *q, crti_span_t stacks,
                               const char *error, crti_buffer_t *json)
{
    crt_status_t status = put(json, "{\"processes\":[");

    for (size_t i = 0; i < q->count && status == CRT_OK; i++) {
        if (i)
            status = put(json, ",");
        if (status == CRT_OK)
            status = put_process(&q->asked[i], stacks, json);
    }
    if (status == CRT_OK)
        status = put(json, "]");
    if (status == CRT_OK)
        status = put_text(json, "error", crti_str(error));
    return status == CRT_OK ? put(json, "}") : status;
}

static crt_status_t put_objects(const crti_question_t *q, crti_buffer_t *out)
{
    const crti_object_records_t records = {
        .node = q->node->id, .ip = q->node->ip, .holders = (uint32_t)q->count};
    crt_status_t status = crti_object_records_begin(&records, out);

    for (size_t i = 0; i < q->count && status == CRT_OK; i++) {
        const asked_t *a = &q->asked[i];
        crti_holder_record_t holder = {.worker = a->id,
                                       .job = a->job,
                                       .actor = a->actor,
                                       .pid = (int32_t)a->pid,
                                       .is_driver = a->is_driver,
                                       .told = crti_span(a->said.data, a->said.size)};

        status = crti_object_records_add_holder(&holder, out);
    }
    return status == CRT_OK ? crti_object_rows(q->node, q->limit, out) : status;
}

static void answer(crti_question_t *q, crti_span_t stacks, const char *error)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t rows = {0};
    crti_questions_t *questions = q->node->questions;
    crt_status_t status =
        q->is_stacks ? put_stacks(q, stacks, error, &rows) : put_objects(q, &rows);
    crti_msg_state_answer_t body = {.json = crti_span(rows.data, rows.size)};

    if (status == CRT_OK)
        crti_head_send(q->node, CRTI_MSG_STATE_ANSWER, q->request, &body);
    else
        crti_head_send_error(q->node, q->request, status, crt_error_detail());
    questions->open = NULL;
    free_question(q);
    begin_next(questions);
}

/* ---------------------------------------------------------------- asking */

static void on_stacks(void *user, crt_status_t status, crti_span_t text)
{
    answer(user, text, status == CRT_OK ? "" : crt_error_detail());
}

static void read_stacks(crti_question_t *q)
{
    CRTI_AUTO(free) pid_t *pids = calloc(q->count + 1, sizeof(*pids));
    crt_status_t status = CRT_ERR_NO_MEMORY;

    for (size_t i = 0; pids && i < q->count; i++)
        pids[i] = q->asked[i].pid;
    if (pids)
        status = crti_stack_reader_new(q->node, pids, q->count, on_stacks, q, &q->reader);
    if (status != CRT_OK)
        answer(q, crti_span("", 0), crt_error_detail());
}

/* Who had something to say has said it, or is too late. */
static void on_said(void *user)
{
    crti_question_t *q = user;

    crti_loop_cancel(q->node->loop, &q->timer);
    if (q->is_stacks && q->count)
        read_stacks(q);
    else
        answer(q, crti_span("", 0), "");
}

static bool is_meant(const crti_question_t *q, const crti_process_t *p)
{
    char id[CRTI_ID_HEX], actor[CRTI_ID_HEX];

    return q->filter[0] == '\0' || strcmp(q->filter, q->node->hex) == 0 ||
           strcmp(q->filter, crti_id_hex(p->id, id)) == 0 ||
           strcmp(q->filter, crti_id_hex(p->actor, actor)) == 0;
}

static crt_status_t describe(const crti_process_t *p, crti_buffer_t *row)
{
    char id[CRTI_ID_HEX], job[CRTI_ID_HEX] = "", actor[CRTI_ID_HEX] = "", head[600];
    char running[CRTI_BLACKBOARD_TEXT + 1] = "";
    crt_status_t status;

    if (p->job)
        crti_id_hex(crti_job_id(p->job), job);
    if (!crti_id_is_zero(p->actor))
        crti_id_hex(p->actor, actor);
    if (p->board)
        crti_blackboard_read(p->board, running);
    snprintf(head, sizeof(head),
             "{\"worker_id\":\"%s\",\"node_id\":\"%s\",\"ip\":\"%s\",\"pid\":%d,"
             "\"worker_type\":\"%s\",\"job_id\":\"%s\",\"actor_id\":\"%s\"",
             crti_id_hex(p->id, id), p->node->hex, p->node->ip, (int)p->pid,
             p->role == CRTI_ROLE_DRIVER ? "DRIVER" : "WORKER", job, actor);
    status = put(row, head);
    return status == CRT_OK ? put_text(row, "running", crti_str(running)) : status;
}

/* Those that live and have attached. */
static void choose(crti_question_t *q)
{
    size_t room = crti_process_count(q->node);
    const crti_process_t *p;
    size_t cursor = 0;

    room = room < PROCESSES_MAX ? room : PROCESSES_MAX;
    q->asked = calloc(room + 1, sizeof(*q->asked));
    while ((p = crti_process_next(q->node, &cursor)) != NULL) {
        if (q->asked == NULL || q->count == room || !p->local || !p->pid || p->dying ||
            !is_meant(q, p))
            continue;
        q->asked[q->count] =
            (asked_t){.id = p->id,
                      .job = p->job ? crti_job_id(p->job) : (crti_id_t){0, 0},
                      .actor = p->actor,
                      .pid = p->pid,
                      .is_driver = p->role == CRTI_ROLE_DRIVER};
        if (!q->is_stacks || describe(p, &q->asked[q->count].row) == CRT_OK)
            q->count++;
        else
            crti_buffer_fini(&q->asked[q->count].row);
    }
    q->missing = q->count;
}

static void begin(crti_question_t *q)
{
    crti_msg_state_query_t query = {.what = crti_str(q->is_stacks ? "waits" : "refs")};
    char filter[64];

    q->node->questions->open = q;
    q->round = ++q->node->questions->rounds;
    snprintf(filter, sizeof(filter), "%llu %zu", (unsigned long long)q->round, q->limit);
    query.filter = crti_str(filter);
    choose(q);
    /* What comes of a send that fails is told in a later turn. */
    for (size_t i = 0; i < q->count; i++) {
        crti_process_t *p = crti_process_get(q->node, q->asked[i].id);

        if (p)
            crti_local_send(p, CRTI_MSG_STATE_QUERY, 0, &query);
    }
    crti_loop_start(q->node->loop, &q->timer,
                    crti_node_now(q->node) + (q->missing ? PATIENCE_NS : 0));
}

static void begin_next(crti_questions_t *questions)
{
    crti_question_t *q;

    if (questions->open || crti_list_is_empty(&questions->waiting))
        return;
    q = CRTI_CONTAINER(questions->waiting.next, crti_question_t, link);
    crti_list_remove(&q->link);
    questions->count--;
    begin(q);
}

/* ---------------------------------------------------------------- called from outside */

void crti_questions_init(crti_node_t *node)
{
    crti_list_init(&node->questions->waiting);
}

void crti_questions_free(crti_node_t *node)
{
    if (node->questions->open)
        free_question(node->questions->open);
    node->questions->open = NULL;
    CRTI_LIST_FOREACH_SAFE (item, &node->questions->waiting) {
        crti_list_remove(item);
        free_question(CRTI_CONTAINER(item, crti_question_t, link));
    }
}

crt_status_t crti_question_asked(crti_node_t *node, uint64_t request, bool is_stacks,
                                 size_t limit, crti_span_t filter)
{
    crti_questions_t *questions = node->questions;
    crti_question_t *q;

    if (questions->count == WAITING_MAX)
        return crt_raise(CRT_ERR_BACKPRESSURE, "%d questions wait for their answers",
                         WAITING_MAX);
    q = calloc(1, sizeof(*q));
    if (q == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "a question");
    q->node = node;
    q->request = request;
    q->is_stacks = is_stacks;
    q->limit = limit;
    q->timer = (crti_timer_t){.on_expired = on_said, .user = q};
    crti_text(filter, q->filter, sizeof(q->filter));
    crti_list_append(&questions->waiting, &q->link);
    questions->count++;
    begin_next(questions);
    return CRT_OK;
}

/* Of what a process says. */
static bool read_round(const crti_question_t *q, crti_span_t told, uint64_t *round_out)
{
    crti_ref_records_t refs;
    unsigned long long round = 0;
    char head[48];
    bool is_there;

    if (!q->is_stacks) {
        is_there = crti_ref_records_open(told, &refs) == CRT_OK;
        *round_out = refs.round;
        return is_there;
    }
    is_there =
        sscanf(crti_text(told, head, sizeof(head)), "{\"round\":%llu,", &round) == 1;
    *round_out = round;
    return is_there;
}

void crti_question_said(crti_process_t *process, crti_span_t told)
{
    crti_question_t *q = process->node->questions->open;
    uint64_t round;

    if (q == NULL || q->reader || !read_round(q, told, &round) || round != q->round)
        return;
    for (size_t i = 0; i < q->count; i++) {
        asked_t *a = &q->asked[i];

        if (!crti_id_equal(a->id, process->id) || a->has_answered)
            continue;
        a->has_answered = true;
        if (told.size <= ANSWER_MAX)
            (void)crti_buffer_append(&a->said, told.data, told.size);
        if (--q->missing == 0) /* in a turn of its own: who said it is being read */
            crti_loop_start(q->node->loop, &q->timer, 0);
        return;
    }
}
