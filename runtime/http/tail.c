/* SPDX-License-Identifier: Apache-2.0 */
/* Logs over WebSockets. See tail.h. */
#include "runtime/http/tail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"

#define PART         ((uint64_t)128 << 10) /* bytes of one LOG_READ, and of one frame */
#define WAIT_MS      10000                 /* for more */
#define ANSWER_S     (WAIT_MS / 1000 + 10)
#define AGAIN_US     ((lws_usec_t)100 * 1000) /* until what is not there is asked for again */
#define PATIENCE_NS  (30 * CRTI_S)
#define SEND_SECONDS 30

/*   READING ---- bytes ----> WRITING -- taken --> READING
 *      |  ended, no log yet                          ^
 *      +-----------> LOOKING (the job's state) ------+ it goes on
 *                       | ended
 *                       v
 *                    CLOSING, and from any state BROKEN
 */
typedef enum tail_state { READING, WRITING, LOOKING, CLOSING, BROKEN } tail_state_t;

struct crti_tail {
    crti_http_t *http;
    struct lws *wsi;
    tail_state_t state;
    char id[CRTI_HTTP_ID_MAX];
    char log_name[CRTI_HTTP_ID_MAX + 8];
    uint64_t offset;
    uint64_t question;            /* to the head; 0: none is open */
    uint64_t failed_ns;           /* since when it can't be read; 0: it can */
    crti_buffer_t text;           /* LWS_PRE bytes, then the frame */
    lws_sorted_usec_list_t timer; /* asks again; WRITING: the client does not read */
};

static void read_more(crti_tail_t *t);
static void look(crti_tail_t *t);

static void schedule(crti_tail_t *t, lws_usec_t us, sul_cb_t on_time)
{
    lws_sul_schedule(lws_get_context(t->wsi), 0, &t->timer, on_time, us);
}

static void go(crti_tail_t *t, tail_state_t state)
{
    t->state = state;
    lws_callback_on_writable(t->wsi);
}

static void on_again(lws_sorted_usec_list_t *sul)
{
    crti_tail_t *t = lws_container_of(sul, crti_tail_t, timer);

    if (t->question) { /* the head has not answered */
        crti_head_link_forget(t->http->link, t->question);
        t->question = 0;
    }
    look(t);
}

/* The head or the node can't be asked: soon it can, or the job is over. */
static void try_again(crti_tail_t *t)
{
    uint64_t now = crti_now_ns();

    if (t->failed_ns == 0)
        t->failed_ns = now;
    if (now - t->failed_ns > PATIENCE_NS) {
        crti_log(CRTI_LOG_INFO, "http", "the log of job %s breaks off: %s", t->id,
                 crt_error_detail());
        go(t, BROKEN);
        return;
    }
    schedule(t, AGAIN_US, on_again);
}

/* ---------------------------------------------------------------- the job's state */

static void on_job(void *user, crt_status_t status, const crti_message_t *message)
{
    crti_tail_t *t = user;
    json_t *jobs = NULL, *job;
    char former[sizeof(t->log_name)];

    t->question = 0;
    if (status == CRT_OK && message->kind == CRTI_MSG_STATE_ANSWER)
        jobs = json_loadb(message->state_answer.json.data,
                          message->state_answer.json.size, 0, NULL);
    job = json_array_get(jobs, 0);
    memcpy(former, t->log_name, sizeof(former));
    if (job)
        crti_view_log_name(job, t->log_name, sizeof(t->log_name));
    if (*former && strcmp(former, t->log_name) != 0)
        t->offset = 0; /* of the next attempt */
    if (!jobs) {
        try_again(t);
    } else if (!job) { /* it was deleted meanwhile */
        go(t, BROKEN);
    } else if (!crti_view_has_ended(job)) {
        t->failed_ns = 0;
        read_more(t);
    } else if (t->state == LOOKING) {
        go(t, CLOSING);
    } else {
        read_more(t);
    }
    json_decref(jobs);
}

/* READING: only whether the job is there still. */
static void look(crti_tail_t *t)
{
    crti_msg_state_query_t query = {.what = crti_str("jobs"), .filter = crti_str(t->id)};

    schedule(t, (lws_usec_t)ANSWER_S * LWS_US_PER_SEC, on_again);
    if (crti_head_link_ask(t->http->link, CRTI_MSG_STATE_QUERY, &query, on_job, t,
                           &t->question) != CRT_OK)
        try_again(t);
}

/* ---------------------------------------------------------------- the log */

/* A character that is cut at the end is read again, whole, with the next part. */
static crt_status_t take(crti_tail_t *t, const crti_msg_log_data_t *data)
{
    static const char room[LWS_PRE];
    size_t used = 0;
    crt_status_t status;

    t->text.size = 0;
    status = crti_buffer_append(&t->text, room, sizeof(room));
    if (status == CRT_OK)
        status = crti_utf8_clean(data->data, data->ended, &t->text, &used);
    if (status == CRT_OK)
        t->offset = data->next - (data->data.size - used);
    return status;
}

static void on_log(void *user, crt_status_t status, const crti_message_t *message)
{
    crti_tail_t *t = user;
    bool is_data = status == CRT_OK && message->kind == CRTI_MSG_LOG_DATA;

    t->question = 0;
    if (!is_data) { /* also a log that is not there yet, or never will be */
        if (status == CRT_ERR_NOT_FOUND)
            t->state = LOOKING;
        try_again(t);
        return;
    }
    t->failed_ns = 0;
    if (take(t, &message->log_data) != CRT_OK) {
        go(t, BROKEN);
    } else if (t->text.size > LWS_PRE) {
        go(t, WRITING);
    } else { /* nothing came in that time, or it may not be there yet */
        if (message->log_data.ended)
            t->state = LOOKING;
        schedule(t, message->log_data.ended ? 1 : AGAIN_US, on_again);
    }
}

static void read_more(crti_tail_t *t)
{
    crti_msg_log_read_t read = {.name = crti_str(t->log_name),
                                .offset = t->offset,
                                .limit = PART,
                                .wait_ms = WAIT_MS};

    t->state = READING;
    schedule(t, (lws_usec_t)ANSWER_S * LWS_US_PER_SEC, on_again);
    if (crti_head_link_ask(t->http->link, CRTI_MSG_LOG_READ, &read, on_log, t,
                           &t->question) != CRT_OK)
        try_again(t);
}

/* ---------------------------------------------------------------- the connection */

static void on_unread(lws_sorted_usec_list_t *sul)
{
    const crti_tail_t *t = lws_container_of(sul, crti_tail_t, timer);

    lws_set_timeout(t->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
}

bool crti_tail_write(crti_tail_t *t)
{
    int length = (int)(t->text.size - LWS_PRE);

    switch (t->state) {
    case WRITING:
        schedule(t, (lws_usec_t)SEND_SECONDS * LWS_US_PER_SEC, on_unread);
        if (length > 0) {
            t->text.size = LWS_PRE;
            if (lws_write(t->wsi, t->text.data + LWS_PRE, (size_t)length,
                          LWS_WRITE_TEXT) < length)
                return false;
            lws_callback_on_writable(t->wsi); /* when the client has taken it */
        } else {
            read_more(t);
        }
        return true;
    case CLOSING:
        lws_close_reason(t->wsi, LWS_CLOSE_STATUS_NORMAL, NULL, 0);
        return false;
    case BROKEN: return false;
    default: return true;
    }
}

crti_tail_t *crti_tail_new(crti_http_t *http, struct lws *wsi, const char *id,
                           uint64_t offset)
{
    crti_tail_t *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    t->http = http;
    t->wsi = wsi;
    t->offset = offset;
    snprintf(t->id, sizeof(t->id), "%s", id);
    look(t); /* the id may be the job's or the submission's */
    return t;
}

void crti_tail_free(crti_tail_t *tail)
{
    if (!tail)
        return;
    if (tail->question)
        crti_head_link_forget(tail->http->link, tail->question);
    lws_sul_cancel(&tail->timer);
    crti_buffer_fini(&tail->text);
    free(tail);
}
