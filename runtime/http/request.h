/* SPDX-License-Identifier: Apache-2.0 */
/* Request: the parts of a client's request that crt-http reads, the access policy, and the routes.
 *
 * Where it sits
 *     http/server.c (libwebsockets) -> [ http/request.c ] -> http/endpoints.c
 * Threads: any; pure functions, no state.
 * Trust
 *     Every field holds bytes of a stranger. Nothing here allocates, and nothing is looked at
 *     before the host, the origin and the token were.
 * Rules
 *     Host: an address, "localhost", this machine's name, or the one it was bound to: any other
 *     name may have been pointed at us by a stranger (DNS rebinding).
 *     Origin, Sec-Fetch-Site: a request that changes something, and an upgrade, must come from
 *     our own page or from no page at all.
 *     Token: Authorization or X-Ray-Authorization; or X-CRT-Session with what was given for it when
 *     a browser signed in. Neither is taken for the other. Nothing counts that a browser adds by
 *     itself: cookies go to every port of a host. Public paths need none, and none does where the
 *     cluster has `is_open`. One that is read-only is good for requests that change nothing, and
 *     for what a stranger may.
 */
#ifndef CRTI_HTTP_REQUEST_H
#define CRTI_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/crt_base.h"
#include "runtime/net/token.h"

#define CRTI_HTTP_ARGS   24  /* most arguments behind the '?' */
#define CRTI_HTTP_ID_MAX 101 /* bytes of an id in a path, with its final zero */

typedef enum crti_http_method {
    CRTI_HTTP_GET,
    CRTI_HTTP_HEAD,
    CRTI_HTTP_POST,
    CRTI_HTTP_PUT,
    CRTI_HTTP_DELETE,
    CRTI_HTTP_OTHER
} crti_http_method_t;

/* Texts are never NULL; "" when the client did not send them. */
typedef struct crti_http_request {
    crti_http_method_t method;
    const char *path; /* percent-decoded, without the arguments */
    const char *host;
    const char *origin;
    const char *fetch_site;
    const char *authorization;
    const char *ray_authorization;
    const char *session; /* X-CRT-Session */
    const char *content_type, *accept;
    const char *dtype, *shape;        /* X-CRT-Dtype, X-CRT-Shape */
    const char *args[CRTI_HTTP_ARGS]; /* "name=value", percent-decoded */
    size_t arg_count;
    bool is_upgrade; /* to a WebSocket */
    bool is_old;     /* HTTP/1.0 */
    bool is_python;  /* User-Agent: python-requests, as of Ray's client */
} crti_http_request_t;

typedef struct crti_http_policy {
    unsigned char token_key[CRTI_KEY_SIZE], session_key[CRTI_KEY_SIZE];
    unsigned char reader_key[CRTI_KEY_SIZE], reader_session_key[CRTI_KEY_SIZE];
    bool is_open;          /* who reaches the server may do everything */
    uint32_t generation;   /* of the tokens that are good */
    bool has_generation;   /* false: none is */
    uint32_t now;          /* seconds since 1970 */
    const char *bound_to;  /* host that the server listens on, as it was given */
    const char *host_name; /* of this machine, or that of --dashboard-name */
    unsigned port;
    bool is_secure; /* served over TLS */
} crti_http_policy_t;

/* Why a request is not served; code 0: it is. */
typedef struct crti_http_refusal {
    unsigned code;
    const char *text;
} crti_http_refusal_t;

/* To the holder of a token with which nothing may be changed. */
#define CRTI_HTTP_READ_ONLY "Forbidden: this token is read-only"

crti_http_refusal_t crti_http_guard(const crti_http_policy_t *policy,
                                    const crti_http_request_t *request);

typedef enum crti_http_access {
    CRTI_HTTP_STRANGER,
    CRTI_HTTP_READER, /* has a token that is read-only */
    CRTI_HTTP_OWNER
} crti_http_access_t;

/* What the request itself may, whether its path needs it or not, and by which token. */
crti_http_access_t crti_http_access_of(const crti_http_policy_t *policy,
                                       const crti_http_request_t *request,
                                       crti_token_t *token_out);

/* A token that was let in is so still: it has not ended, and was not rotated. */
bool crti_http_token_is_good(const crti_http_policy_t *policy, const crti_token_t *token);

/* POST to a path of calls, which may be open to all: the class of the actor decides. */
bool crti_http_is_call(const crti_http_request_t *request);

/* Other than GET and HEAD, and upgrades. */
bool crti_http_changes_something(const crti_http_request_t *request);

/* What `given` is good for as a token, in a time that does not depend on where it is wrong. */
crti_http_access_t crti_http_token_access(const crti_http_policy_t *policy,
                                          const char *given, crti_token_t *token_out);

/* What a page keeps instead of the token: good for this head's HTTP alone, no longer than the token
 * and at most http_session. Returns how long that is. */
uint32_t crti_http_session(const crti_http_policy_t *policy, const crti_token_t *token,
                           crti_http_access_t access, char text[CRTI_TOKEN_TEXT]);

typedef enum crti_http_route {
    CRTI_ROUTE_PAGE, /* id: "" or the name below /static/ */
    CRTI_ROUTE_HEALTH,
    CRTI_ROUTE_VERSION,
    CRTI_ROUTE_AUTH_MODE,
    CRTI_ROUTE_LOGIN,
    CRTI_ROUTE_SIGN_IN_CODE,
    CRTI_ROUTE_CLUSTER_STATUS,
    CRTI_ROUTE_METRICS,
    CRTI_ROUTE_USER_METRICS,
    CRTI_ROUTE_PROGRAM_GET, /* id: SHA-256 */
    CRTI_ROUTE_PROGRAM_PUT,
    CRTI_ROUTE_PACKAGE_GET, /* id: its name */
    CRTI_ROUTE_PACKAGE_PUT,
    CRTI_ROUTE_JOB_LIST,
    CRTI_ROUTE_JOB_SUBMIT,
    CRTI_ROUTE_JOB_GET, /* id: submission or job */
    CRTI_ROUTE_JOB_STOP,
    CRTI_ROUTE_JOB_DELETE,
    CRTI_ROUTE_JOB_LOGS,
    CRTI_ROUTE_JOB_TAIL,      /* a WebSocket */
    CRTI_ROUTE_STATE,         /* id: a resource, state_views.h */
    CRTI_ROUTE_STATE_SUMMARY, /* the same */
    CRTI_ROUTE_TIMELINE,
    CRTI_ROUTE_LOG_LIST,
    CRTI_ROUTE_LOG_FILE,
    CRTI_ROUTE_LOG_STREAM, /* the same, and what comes until it ends */
    CRTI_ROUTE_ACTOR_CALL  /* the path is looked at by actor_call.c */
} crti_http_route_t;

/* Replies are JSON, refusals too. */
static inline bool crti_http_is_state(crti_http_route_t route)
{
    return route == CRTI_ROUTE_STATE || route == CRTI_ROUTE_STATE_SUMMARY ||
           route == CRTI_ROUTE_TIMELINE || route == CRTI_ROUTE_LOG_LIST;
}

/* What the request asks for. `id` has CRTI_HTTP_ID_MAX bytes. 404: no such path, 405: not with
 * this method, 400: an id that can't be one. */
crti_http_refusal_t crti_http_find_route(const crti_http_request_t *request,
                                         crti_http_route_t *route_out, char *id);

/* Value of the first argument with that name, NULL when it is not there. */
const char *crti_http_arg(const crti_http_request_t *request, const char *name);

/* An argument that is a whole number; `fallback` when it is absent. False: it is no number, or
 * above `limit`. */
bool crti_http_arg_number(const crti_http_request_t *request, const char *name,
                          uint64_t limit, uint64_t fallback, uint64_t *number_out);

/* Letters, digits and . _ - only, not beginning with a point, 1 to 100 bytes: safe as the name of
 * a directory. */
bool crti_http_is_job_id(const char *text);

/* 64 lower-case hex digits. */
bool crti_http_is_sha(const char *text);

#endif
