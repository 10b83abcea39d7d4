/* SPDX-License-Identifier: Apache-2.0 */
/* Exchange: one request of a client and its reply.
 *
 * Where it sits
 *     http/server.c (libwebsockets) -> [ http/exchange.c ] <-> http/endpoints.c -> http/head_link.c
 * Threads: the loop's.
 * Ownership
 *     Each connection has one exchange, used again for its next request. It owns the body, the
 *     upload and the reply. A client that leaves while the head is asked makes it forget the
 *     question.
 * Invariants
 *     Every request gets one reply, within a deadline at each step, or its connection closes.
 */
#ifndef CRTI_HTTP_EXCHANGE_H
#define CRTI_HTTP_EXCHANGE_H

#include "runtime/base/buffer.h"
#include "runtime/http/audit.h"
#include "runtime/http/caller.h"
#include "runtime/http/chunks.h"
#include "runtime/http/head_link.h"
#include "runtime/http/request.h"
#include "runtime/http/sign_in.h"
#include "runtime/http/upload.h"
#include "runtime/http/views.h"

#include <jansson.h>
#include <libwebsockets.h>

/*          headers          body is complete        answered
 *  IDLE -----------> READING ---------------> ASKING -------> REPLYING --+
 *   ^  |                |                        ^                |       |
 *   |  | no body        | refused               +-----<----------|-------|-- asks again
 *   |  +----------------|----> ASKING, REPLYING                  |       |
 *   |                   +----> DRAINING ----------> REPLYING     | sent  |
 *   +-----------------------------------------------------------+-------+
 *
 *  DRAINING is for requests with the token alone: others are answered at once and their
 *  connections end (LINGERING: until the client closes, so that it gets the answer).
 *  A reply in parts goes back from REPLYING to ASKING for each.
 *  READING may go straight to REPLYING (answered here, or too late). A broken connection ends
 *  the exchange in any state.
 */
typedef enum crti_http_exchange_state {
    CRTI_HTTP_EXCHANGE_IDLE,
    CRTI_HTTP_EXCHANGE_READING,  /* the body */
    CRTI_HTTP_EXCHANGE_DRAINING, /* the body of a request that was refused */
    CRTI_HTTP_EXCHANGE_ASKING,   /* waits for the head */
    CRTI_HTTP_EXCHANGE_REPLYING,
    CRTI_HTTP_EXCHANGE_LINGERING, /* answered; what still comes is thrown away */
    CRTI_HTTP_EXCHANGE_STATES
} crti_http_exchange_state_t;

typedef struct crti_http_exchange crti_http_exchange_t;

/* What all exchanges share. */
typedef struct crti_http {
    /* Of endpoints.c: the headers of a request that may be served (starts its work, or wants its
     * body); its body is complete. */
    void (*begin)(crti_http_exchange_t *x, const crti_http_request_t *request);
    void (*body)(crti_http_exchange_t *x);
    crti_http_policy_t policy;
    crti_head_link_t *link;
    const char *programs; /* directory of the content cache */
    crti_audit_t *audit;
    crti_caller_t *caller;
    size_t stranger_bytes; /* of bodies of calls that have not been answered */
    uint64_t pause_end_us; /* of the last pause that began: they end in turns */
    crti_sign_in_t sign_in;
    const char *url; /* that browsers of this host open */
} crti_http_t;

typedef void crti_http_exchange_answer_t(crti_http_exchange_t *x, crt_status_t status,
                                         const crti_message_t *message);

struct crti_http_exchange {
    crti_http_t *http;
    struct lws *wsi;
    crti_http_exchange_state_t state;
    lws_sorted_usec_list_t deadline; /* of this state */
    crti_http_route_t route;
    bool is_head; /* no body in the reply */
    crti_http_access_t access;
    crti_token_t token; /* that gives it */
    /* begins the line of a request that changes something; NULL: it does not */
    char *audit;
    char id[CRTI_HTTP_ID_MAX]; /* from the path */
    /* of a log that is read; of a list of logs the pattern; of a timeline or metrics the job */
    char log_name[160];
    char node[72];            /* of a list of logs: its id or address; "": all */
    uint64_t offset, wait_ms; /* of a log */
    uint64_t attempt;         /* of the job whose log is read; UINT64_MAX: any */
    uint64_t log_start;       /* of a task: where its lines begin */
    uint64_t log_end;         /* where it ended when the reply began, or its lines end */
    bool is_task_log;         /* only the lines of task x->id */
    bool is_task_open;        /* which may still print */
    uint64_t limit;           /* rows or lines wanted */
    bool wants_part;          /* of a log: the reply says where to go on */
    bool wants_tail;          /* and begins `limit` lines before its end */
    bool has_ended;           /* the job whose log is read */
    crti_view_level_t level;  /* of state */
    json_t *filters;          /* of state; NULL: none */
    uint64_t patience_s;      /* for the head's answer */
    int64_t asked_ms;         /* of a change: since 1970 */
    unsigned looks;           /* how often it was looked whether it was made */
    bool was_sent;            /* the last question: the head may have heard it */
    bool as_text;             /* of status */
    struct crti_actor_call *call; /* of an actor; NULL: none */

    uint64_t body_size; /* announced, or CRTI_BODY_IN_CHUNKS until the last one is here */
    crti_chunks_t chunks;
    crti_buffer_t body;
    crti_upload_t *upload;

    uint64_t question; /* to the head; 0: none is open */
    crti_http_exchange_answer_t *on_answer;
    bool is_paused; /* nothing is read */

    unsigned code;
    const char *type;     /* static text */
    crti_buffer_t reply;  /* made here, or: */
    crti_span_t constant; /* static bytes */
    size_t sent;
    bool headers_sent;
    bool closes;                /* the connection ends after the reply */
    char dtype[16], shape[160]; /* of a tensor that is sent as it is; "": none is */

    bool is_old;    /* HTTP/1.0: knows no chunks */
    bool is_python; /* of the package requests, by which Ray's client speaks */
    void (*on_sent)(
        crti_http_exchange_t *x); /* of a reply in parts: the next one is wanted */
    bool is_last;                 /* `reply` is the last part */
};

/* Each ends the request's work: the reply goes out when the connection can be written. A text
 * with a code from 400 on is the message of an error, which is JSON. */
void crti_http_exchange_text(crti_http_exchange_t *x, unsigned code, const char *format,
                             ...) CRT_PRINTF(3, 4);
void crti_http_exchange_json(crti_http_exchange_t *x, unsigned code, json_t *json_take);
/* What was appended to x->reply. */
void crti_http_exchange_reply(crti_http_exchange_t *x, const char *type);
void crti_http_exchange_bytes(crti_http_exchange_t *x, const char *type,
                              crti_span_t constant);

/* A reply in parts, which are appended to x->reply: the first with crti_http_exchange_stream,
 * each other one after `on_sent` was called, with crti_http_exchange_part. So no more than one
 * part is in memory. */
void crti_http_exchange_stream(crti_http_exchange_t *x, const char *type, bool is_last,
                               void (*on_sent)(crti_http_exchange_t *x));
void crti_http_exchange_part(crti_http_exchange_t *x, bool is_last);
/* There is no next part: the client sees that the reply is not whole. */
void crti_http_exchange_break(crti_http_exchange_t *x);

/* The status as a code, its name and the detail as the message. */
void crti_http_exchange_fail(crti_http_exchange_t *x, crt_status_t status);

/* Asks the head; `on_answer` runs once, unless the client leaves. A failure to ask is replied. The
 * head may take `timeout_ms` for it, and x->patience_s more. */
void crti_http_exchange_ask(crti_http_exchange_t *x, crti_message_kind_t kind,
                            const void *body, uint64_t timeout_ms,
                            crti_http_exchange_answer_t *on_answer);

/* Asks the head for a part of its state. */
void crti_http_exchange_ask_state(crti_http_exchange_t *x, const char *what,
                                  const char *filter,
                                  crti_http_exchange_answer_t *on_answer);
/* The JSON of a STATE_ANSWER, which the caller owns; NULL with the reply made when there is
 * none. */
json_t *crti_http_exchange_state(crti_http_exchange_t *x, crt_status_t status,
                                 const crti_message_t *message);
/* The one job of x->id, borrowed from `jobs`; NULL with the reply made. */
const json_t *crti_http_exchange_job(crti_http_exchange_t *x, const json_t *jobs);

/* Waits for something else than the head. When `timeout_ms` are over, and x->patience_s more,
 * `on_answer` is called without a message. */
void crti_http_exchange_wait(crti_http_exchange_t *x, uint64_t timeout_ms,
                             crti_http_exchange_answer_t *on_answer);

/* For a client without a token that is refused. Nothing of the client is read for 2 to 10 s,
 * then `on_answer` is called without a message. Clients that ask again as soon as they are
 * refused cost little then: of all together at most 50 are answered in a second. */
void crti_http_exchange_pause(crti_http_exchange_t *x,
                              crti_http_exchange_answer_t *on_answer);

/* ---- for server.c */

/* All of its request has come, and is being answered. */
bool crti_http_exchange_is_served(const crti_http_exchange_t *x);

/* A request that is refused before anything else of it is looked at; `access` is its client's. */
void crti_http_exchange_refuse(crti_http_exchange_t *x,
                               const crti_http_request_t *request,
                               crti_http_access_t access,
                               const crti_http_refusal_t *refusal);

/* A new request: `request` is borrowed for the call. `body_size` 0: it has none. In chunks only
 * what is uploaded may come: other bodies are held in memory, and their sizes are judged before
 * they are read. */
#define CRTI_BODY_IN_CHUNKS CRTI_UPLOAD_UNKNOWN
void crti_http_exchange_begin(crti_http_exchange_t *x, const crti_http_request_t *request,
                              uint64_t body_size);
void crti_http_exchange_body(crti_http_exchange_t *x, const void *data, size_t size);
void crti_http_exchange_body_complete(crti_http_exchange_t *x);
/* Writes a part of the reply. False: the connection closes. */
bool crti_http_exchange_write(crti_http_exchange_t *x);
/* Frees everything in it. */
void crti_http_exchange_fini(crti_http_exchange_t *x);

/* ---- of endpoints.c */

/* The headers of a request that may be served: starts its work, or wants its body. */
void crti_endpoint_begin(crti_http_exchange_t *x, const crti_http_request_t *request);
/* Its body is complete. */
void crti_endpoint_body(crti_http_exchange_t *x);

/* ---- of logs.c */

void crti_logs_begin_job(crti_http_exchange_t *x, const crti_http_request_t *request);
void crti_logs_begin_file(crti_http_exchange_t *x, const crti_http_request_t *request);

#endif
