/* SPDX-License-Identifier: Apache-2.0 */
/* Who may send a request and what it asks for. See request.h. */
#include "runtime/http/request.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <sodium.h>

#include "runtime/base/limit.h"
#include "runtime/http/upload.h"

#define HOST_MAX 256
#define CALLS    "/api/actors/"

static const crti_http_refusal_t welcome = {0};

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* ---------------------------------------------------------------- host */

/* "name", "name:port", "[v6]:port" without the port and brackets; false when it is neither. */
static bool host_without_port(const char *host, char *name, size_t size)
{
    const char *end = host + strlen(host), *colon = strrchr(host, ':');
    size_t length;

    if (host[0] == '[') {
        const char *bracket = strchr(host, ']');

        if (!bracket || (bracket[1] != '\0' && bracket[1] != ':'))
            return false;
        host++;
        end = bracket;
    } else if (colon) {
        if (strspn(colon + 1, "0123456789") != strlen(colon + 1))
            return false;
        end = colon;
    }
    length = (size_t)(end - host);
    if (length == 0 || length >= size)
        return false;
    memcpy(name, host, length);
    name[length] = '\0';
    return true;
}

static bool host_is_known(const crti_http_policy_t *policy, const char *host)
{
    char name[HOST_MAX];
    unsigned char address[16];

    if (!host_without_port(host, name, sizeof(name)))
        return false;
    return inet_pton(AF_INET, name, address) == 1 ||
           inet_pton(AF_INET6, name, address) == 1 ||
           strcasecmp(name, "localhost") == 0 ||
           strcasecmp(name, policy->host_name) == 0 ||
           strcasecmp(name, policy->bound_to) == 0;
}

/* ---------------------------------------------------------------- origin */

bool crti_http_changes_something(const crti_http_request_t *request)
{
    return request->method != CRTI_HTTP_GET && request->method != CRTI_HTTP_HEAD;
}

/* Our own page's origin is the scheme and the host it was asked for. */
static bool is_own_origin(const crti_http_request_t *request)
{
    const char *origin = request->origin;

    if (starts_with(origin, "http://"))
        origin += strlen("http://");
    else if (starts_with(origin, "https://")) /* behind a proxy that speaks TLS */
        origin += strlen("https://");
    else
        return false;
    return strcasecmp(origin, request->host) == 0;
}

/* Sec-Fetch-Site is the browser's own word, which no page can change: it holds also behind a proxy
 * that asks here under another name than it is asked for. Without it the origin is compared. */
static bool is_cross_site(const crti_http_request_t *request)
{
    if (!crti_http_changes_something(request) && !request->is_upgrade)
        return false;
    if (request->fetch_site[0])
        return strcmp(request->fetch_site, "same-origin") != 0 &&
               strcmp(request->fetch_site, "none") != 0;
    return request->origin[0] && !is_own_origin(request);
}

/* ---------------------------------------------------------------- token */

bool crti_http_token_is_good(const crti_http_policy_t *policy, const crti_token_t *token)
{
    return policy->is_open ||
           (policy->has_generation && token->generation == policy->generation &&
            (token->end == 0 || policy->now < token->end));
}

static bool is_good(const crti_http_policy_t *policy, const unsigned char *subkey,
                    const char *given, crti_token_t *token_out)
{
    return crti_token_read(subkey, given, token_out) &&
           crti_http_token_is_good(policy, token_out);
}

/* By the subkeys of those who may everything, and of those who may read. */
static crti_http_access_t access_by(const crti_http_policy_t *policy,
                                    const unsigned char *owner,
                                    const unsigned char *reader, const char *given,
                                    crti_token_t *token_out)
{
    if (is_good(policy, owner, given, token_out))
        return CRTI_HTTP_OWNER;
    return is_good(policy, reader, given, token_out) ? CRTI_HTTP_READER
                                                     : CRTI_HTTP_STRANGER;
}

crti_http_access_t crti_http_token_access(const crti_http_policy_t *policy,
                                          const char *given, crti_token_t *token_out)
{
    return access_by(policy, policy->token_key, policy->reader_key, given, token_out);
}

uint32_t crti_http_session(const crti_http_policy_t *policy, const crti_token_t *token,
                           crti_http_access_t access, char text[CRTI_TOKEN_TEXT])
{
    crti_token_t session = {.generation = policy->generation,
                            .end = policy->now +
                                   (uint32_t)(CRTI_LIMIT(http_session) / CRTI_S)};

    if (token->end != 0 && token->end < session.end)
        session.end = token->end;
    crti_token_make(access == CRTI_HTTP_OWNER ? policy->session_key
                                              : policy->reader_session_key,
                    &session, text);
    return session.end - policy->now;
}

/* The text behind "Bearer "; "" when the header has another form. */
static const char *bearer(const char *header)
{
    if (strncasecmp(header, "Bearer ", 7) != 0)
        return "";
    header += 7;
    return header + strspn(header, " ");
}

/* `*seen`: a token or a session was sent. */
static crti_http_access_t find_access(const crti_http_policy_t *policy,
                                      const crti_http_request_t *request, bool *seen,
                                      crti_token_t *token_out)
{
    const char *header =
        request->authorization[0] ? request->authorization : request->ray_authorization;

    *seen = header[0] != '\0' || request->session[0] != '\0';
    if (policy->is_open)
        return CRTI_HTTP_OWNER;
    /* Before the other: a proxy may want an Authorization of its own. */
    if (request->session[0])
        return access_by(policy, policy->session_key, policy->reader_session_key,
                         request->session, token_out);
    return crti_http_token_access(policy, bearer(header), token_out);
}

static crti_http_refusal_t check_token(const crti_http_policy_t *policy,
                                       const crti_http_request_t *request)
{
    crti_token_t token;
    bool seen;

    switch (find_access(policy, request, &seen, &token)) {
    case CRTI_HTTP_OWNER: return welcome;
    case CRTI_HTTP_READER: /* may what a stranger may, too */
        return crti_http_changes_something(request) && !crti_http_is_call(request)
                   ? (crti_http_refusal_t){403, CRTI_HTTP_READ_ONLY}
                   : welcome;
    default:
        if (seen && !policy->has_generation)
            return (crti_http_refusal_t){
                403, "Forbidden: no token is taken, since the file of their generation "
                     "can't be read; run crt token --rotate on the head's host"};
        return seen
                   ? (crti_http_refusal_t){403, "Forbidden: Invalid authentication token"}
                   : (crti_http_refusal_t){401,
                                           "Unauthorized: Missing authentication token"};
    }
}

crti_http_access_t crti_http_access_of(const crti_http_policy_t *policy,
                                       const crti_http_request_t *request,
                                       crti_token_t *token_out)
{
    bool seen;

    return find_access(policy, request, &seen, token_out);
}

static bool is_public(const char *path)
{
    static const char *const paths[] = {"/",
                                        "/favicon.ico",
                                        "/api/authentication_mode",
                                        "/api/authenticate",
                                        "/api/healthz",
                                        "/api/gcs_healthz",
                                        "/api/local_raylet_healthz",
                                        "/-/healthz"};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (strcmp(path, paths[i]) == 0)
            return true;
    return starts_with(path, "/static/");
}

bool crti_http_is_call(const crti_http_request_t *request)
{
    return request->method == CRTI_HTTP_POST && starts_with(request->path, CALLS);
}

crti_http_refusal_t crti_http_guard(const crti_http_policy_t *policy,
                                    const crti_http_request_t *request)
{
    crti_http_refusal_t refusal;

    if (!host_is_known(policy, request->host))
        return (crti_http_refusal_t){
            403, "Forbidden: unknown Host header; use an address, localhost, or the name "
                 "given by --dashboard-name"};
    if (is_cross_site(request))
        return (crti_http_refusal_t){405, "Method Not Allowed for browser traffic."};
    if (is_public(request->path))
        return welcome;
    refusal = check_token(policy, request);
    return refusal.code == 401 && crti_http_is_call(request) ? welcome : refusal;
}

/* ---------------------------------------------------------------- arguments */

const char *crti_http_arg(const crti_http_request_t *request, const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; i < request->arg_count; i++)
        if (strncmp(request->args[i], name, length) == 0) {
            if (request->args[i][length] == '=')
                return request->args[i] + length + 1;
            if (request->args[i][length] == '\0')
                return "";
        }
    return NULL;
}

bool crti_http_arg_number(const crti_http_request_t *request, const char *name,
                          uint64_t limit, uint64_t fallback, uint64_t *number_out)
{
    const char *text = crti_http_arg(request, name);
    uint64_t number = 0;

    *number_out = fallback;
    if (!text)
        return true;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || number > (UINT64_MAX - 9) / 10)
            return false;
        number = number * 10 + (uint64_t)(*text - '0');
    }
    *number_out = number;
    return number <= limit;
}

/* ---------------------------------------------------------------- routes */

bool crti_http_is_job_id(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789._-");

    return length > 0 && length < CRTI_HTTP_ID_MAX && text[length] == '\0' &&
           text[0] != '.';
}

/* Of a part of the page. */
static bool is_file_name(const char *text)
{
    return *text && *text != '.' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz_.") == strlen(text);
}

bool crti_http_is_sha(const char *text)
{
    return strspn(text, "0123456789abcdef") == 64 && text[64] == '\0';
}

static const crti_http_refusal_t no_upgrade = {
    400, "400: only HTTP/1.1 is spoken here; the only WebSocket is that of "
         "/api/jobs/ID/logs/tail"};
static const crti_http_refusal_t needs_upgrade = {
    400, "No WebSocket UPGRADE hdr: what a job prints is read with a WebSocket here, or "
         "with GET /api/jobs/ID/logs?offset=N&wait_ms=M"};
static const crti_http_refusal_t no_path = {404, "404: Not Found"};
static const crti_http_refusal_t no_method = {405, "405: Method Not Allowed"};

/* Paths without an id. POST and PUT are matched exactly, HEAD counts as GET. */
static const struct {
    const char *path;
    crti_http_method_t method;
    crti_http_route_t route;
    const char *id;
} fixed[] = {
    {"/", CRTI_HTTP_GET, CRTI_ROUTE_PAGE, ""},
    {"/favicon.ico", CRTI_HTTP_GET, CRTI_ROUTE_PAGE, "favicon.svg"},
    {"/api/healthz", CRTI_HTTP_GET, CRTI_ROUTE_HEALTH, ""},
    {"/api/gcs_healthz", CRTI_HTTP_GET, CRTI_ROUTE_HEALTH, ""},
    {"/api/local_raylet_healthz", CRTI_HTTP_GET, CRTI_ROUTE_HEALTH, ""},
    {"/-/healthz", CRTI_HTTP_GET, CRTI_ROUTE_HEALTH, ""},
    {"/api/version", CRTI_HTTP_GET, CRTI_ROUTE_VERSION, ""},
    {"/api/authentication_mode", CRTI_HTTP_GET, CRTI_ROUTE_AUTH_MODE, ""},
    {"/api/authenticate", CRTI_HTTP_POST, CRTI_ROUTE_LOGIN, ""},
    {"/api/authenticate/code", CRTI_HTTP_POST, CRTI_ROUTE_SIGN_IN_CODE, ""},
    {"/api/cluster_status", CRTI_HTTP_GET, CRTI_ROUTE_CLUSTER_STATUS, ""},
    {"/metrics", CRTI_HTTP_GET, CRTI_ROUTE_METRICS, ""},
    {"/api/user_metrics", CRTI_HTTP_GET, CRTI_ROUTE_USER_METRICS, ""},
    {"/api/jobs", CRTI_HTTP_GET, CRTI_ROUTE_JOB_LIST, ""},
    {"/api/jobs/", CRTI_HTTP_GET, CRTI_ROUTE_JOB_LIST, ""},
    {"/api/jobs", CRTI_HTTP_POST, CRTI_ROUTE_JOB_SUBMIT, ""},
    {"/api/jobs/", CRTI_HTTP_POST, CRTI_ROUTE_JOB_SUBMIT, ""},
    {"/api/v0/actors", CRTI_HTTP_GET, CRTI_ROUTE_STATE, "actors"},
    {"/api/v0/nodes", CRTI_HTTP_GET, CRTI_ROUTE_STATE, "nodes"},
    {"/api/v0/jobs", CRTI_HTTP_GET, CRTI_ROUTE_STATE, "jobs"},
    {"/api/v0/workers", CRTI_HTTP_GET, CRTI_ROUTE_STATE, "workers"},
    {"/api/v0/tasks", CRTI_HTTP_GET, CRTI_ROUTE_STATE, "tasks"},
    {"/api/v0/objects", CRTI_HTTP_GET, CRTI_ROUTE_STATE, "objects"},
    {"/api/v0/placement_groups", CRTI_HTTP_GET, CRTI_ROUTE_STATE, "placement_groups"},
    {"/api/v0/runtime_envs", CRTI_HTTP_GET, CRTI_ROUTE_STATE, "runtime_envs"},
    {"/api/v0/cluster_events", CRTI_HTTP_GET, CRTI_ROUTE_STATE, "cluster_events"},
    {"/api/v0/tasks/summarize", CRTI_HTTP_GET, CRTI_ROUTE_STATE_SUMMARY, "tasks"},
    {"/api/v0/actors/summarize", CRTI_HTTP_GET, CRTI_ROUTE_STATE_SUMMARY, "actors"},
    {"/api/v0/objects/summarize", CRTI_HTTP_GET, CRTI_ROUTE_STATE_SUMMARY, "objects"},
    {"/api/v0/tasks/timeline", CRTI_HTTP_GET, CRTI_ROUTE_TIMELINE, ""},
    {"/api/v0/logs", CRTI_HTTP_GET, CRTI_ROUTE_LOG_LIST, ""},
    {"/api/v0/logs/file", CRTI_HTTP_GET, CRTI_ROUTE_LOG_FILE, ""},
    {"/api/v0/logs/stream", CRTI_HTTP_GET, CRTI_ROUTE_LOG_STREAM, ""},
};

/* Paths with an id between `before` and `after`. */
static const struct {
    const char *before, *after;
    crti_http_method_t method;
    crti_http_route_t route;
    bool (*is_id)(const char *text);
    const char *refusal;
} variable[] = {
    {"/static/", "", CRTI_HTTP_GET, CRTI_ROUTE_PAGE, is_file_name, "not a file's name"},
    {"/api/jobs/", "", CRTI_HTTP_GET, CRTI_ROUTE_JOB_GET, crti_http_is_job_id,
     "not a job id"},
    {"/api/jobs/", "", CRTI_HTTP_DELETE, CRTI_ROUTE_JOB_DELETE, crti_http_is_job_id,
     "not a job id"},
    {"/api/jobs/", "/stop", CRTI_HTTP_POST, CRTI_ROUTE_JOB_STOP, crti_http_is_job_id,
     "not a job id"},
    {"/api/jobs/", "/logs", CRTI_HTTP_GET, CRTI_ROUTE_JOB_LOGS, crti_http_is_job_id,
     "not a job id"},
    {"/api/jobs/", "/logs/tail", CRTI_HTTP_GET, CRTI_ROUTE_JOB_TAIL, crti_http_is_job_id,
     "not a job id"},
    {"/api/packages/crt/", "", CRTI_HTTP_GET, CRTI_ROUTE_PROGRAM_GET, crti_http_is_sha,
     "the name of a program is its SHA-256, 64 lower-case hex digits"},
    {"/api/packages/crt/", "", CRTI_HTTP_PUT, CRTI_ROUTE_PROGRAM_PUT, crti_http_is_sha,
     "the name of a program is its SHA-256, 64 lower-case hex digits"},
    {"/api/packages/gcs/", "", CRTI_HTTP_GET, CRTI_ROUTE_PACKAGE_GET,
     crti_package_is_name, "the name of a package is _ray_pkg_HEX.zip"},
    {"/api/packages/gcs/", "", CRTI_HTTP_PUT, CRTI_ROUTE_PACKAGE_PUT,
     crti_package_is_name, "the name of a package is _ray_pkg_HEX.zip"},
};

/* The part of `path` between `before` and `after`, without a '/'; false when it does not match. */
static bool match(const char *path, const char *before, const char *after, char *id)
{
    size_t length = strlen(path), front = strlen(before), back = strlen(after);
    size_t middle;

    if (length <= front + back || !starts_with(path, before) ||
        strcmp(path + length - back, after) != 0)
        return false;
    middle = length - front - back;
    if (memchr(path + front, '/', middle))
        return false;
    /* An id that is too long stays too long for is_id. */
    if (middle >= CRTI_HTTP_ID_MAX)
        middle = 0;
    memcpy(id, path + front, middle);
    id[middle] = '\0';
    return true;
}

/* It would end the line of whatever is written of it. */
static bool has_control_character(const char *path)
{
    while ((unsigned char)*path >= ' ' && *path != 127)
        path++;
    return *path != '\0';
}

static crti_http_refusal_t find_route(const crti_http_request_t *request,
                                      crti_http_route_t *route_out, char *id)
{
    crti_http_method_t method =
        request->method == CRTI_HTTP_HEAD ? CRTI_HTTP_GET : request->method;
    bool path_exists = false;

    if (has_control_character(request->path))
        return (crti_http_refusal_t){400, "400: the path holds a control character"};
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        if (strcmp(request->path, fixed[i].path) != 0)
            continue;
        path_exists = true;
        if (fixed[i].method != method)
            continue;
        *route_out = fixed[i].route;
        snprintf(id, CRTI_HTTP_ID_MAX, "%s", fixed[i].id);
        return welcome;
    }
    for (size_t i = 0; i < sizeof(variable) / sizeof(variable[0]); i++) {
        if (!match(request->path, variable[i].before, variable[i].after, id))
            continue;
        path_exists = true;
        if (variable[i].method != method)
            continue;
        if (!variable[i].is_id(id))
            return (crti_http_refusal_t){400, variable[i].refusal};
        *route_out = variable[i].route;
        return welcome;
    }
    if (crti_http_is_call(request)) {
        *route_out = CRTI_ROUTE_ACTOR_CALL;
        id[0] = '\0';
        return welcome;
    }
    path_exists |= starts_with(request->path, CALLS);
    return path_exists ? no_method : no_path;
}

crti_http_refusal_t crti_http_find_route(const crti_http_request_t *request,
                                         crti_http_route_t *route_out, char *id)
{
    crti_http_refusal_t refusal = find_route(request, route_out, id);
    bool is_tail = refusal.code == 0 && *route_out == CRTI_ROUTE_JOB_TAIL;

    if (request->is_upgrade && !is_tail)
        return no_upgrade;
    return is_tail && !request->is_upgrade ? needs_upgrade : refusal;
}
