/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets, libwebsockets and its callbacks. See server.h. */
#include "runtime/http/server.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>

#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/http/exchange.h"
#include "runtime/http/lws_file.h"
#include "runtime/http/places.h"
#include "runtime/http/received.h"
#include "runtime/http/tail.h"

#define ACCEPTS      16 /* in one turn: what they sent is read before the next ones come */
#define URL_BYTES    (8u << 10)
#define HEADER_BYTES (8u << 10) /* of one request's headers that are known, and the URL */
#define HEADERS_MAX  (32u << 10) /* of all before the body: beyond it there is no answer */
#define JUDGE_US     (LWS_US_PER_SEC / 2) /* between two looks at what lasts */

typedef struct listener {
    crti_http_server_t *server;
    int fd;
    bool has_tls;
    crti_lws_file_t file;
} listener_t;

struct crti_http_server {
    crti_http_t http;
    struct lws_context *context;
    struct lws_vhost *vhost;
    listener_t tcp, local;
    int signal_fd;
    crti_lws_file_t signal_file;
    crti_places_t places;
    lws_sorted_usec_list_t judge; /* armed while a request is served */
    bool is_judging;
    bool stops;
    const char *key_file;
    char url[300];
};

/* What lives in a connection's memory at libwebsockets. */
typedef struct connection {
    crti_http_exchange_t *exchange;
    crti_tail_t *tail; /* of a WebSocket */
} connection_t;

static crti_http_server_t *server_of(struct lws *wsi)
{
    return lws_context_user(lws_get_context(wsi));
}

static bool is_served(const struct lws *wsi)
{
    const connection_t *c = lws_wsi_user((struct lws *)wsi);

    return c && c->exchange && crti_http_exchange_is_served(c->exchange);
}

static bool is_asking(const struct lws *wsi)
{
    const connection_t *c = lws_wsi_user((struct lws *)wsi);

    return c &&
           (c->tail || (c->exchange && c->exchange->state != CRTI_HTTP_EXCHANGE_IDLE));
}

/* ---------------------------------------------------------------- headers */

/* Each has room for all that HEADER_BYTES lets through. */
typedef struct fields {
    char path[URL_BYTES], host[HEADER_BYTES], origin[HEADER_BYTES];
    char authorization[HEADER_BYTES], ray_authorization[HEADER_BYTES];
    char session[128];
    char fetch_site[64], version[16], agent[512];
    char content_type[128], accept[512], dtype[32], shape[256];
    char args[URL_BYTES + CRTI_HTTP_ARGS]; /* one behind the other */
} fields_t;

/* A header that is longer than its room counts as one that fits nothing. */
static const char *copy_field(struct lws *wsi, enum lws_token_indexes token, char *text,
                              size_t size)
{
    text[0] = '\0';
    if (lws_hdr_total_length(wsi, token) > 0 &&
        lws_hdr_copy(wsi, text, (int)size, token) < 0)
        snprintf(text, size, "too long");
    return text;
}

static const char *copy_custom(struct lws *wsi, const char *name, char *text, size_t size)
{
    int length = (int)strlen(name);

    text[0] = '\0';
    if (lws_hdr_custom_length(wsi, name, length) > 0 &&
        lws_hdr_custom_copy(wsi, text, (int)size, name, length) < 0)
        snprintf(text, size, "too long");
    return text;
}

static crti_http_method_t method_of(struct lws *wsi)
{
    char *uri;
    int length;

    switch (lws_http_get_uri_and_method(wsi, &uri, &length)) {
    case LWSHUMETH_GET: return CRTI_HTTP_GET;
    case LWSHUMETH_HEAD: return CRTI_HTTP_HEAD;
    case LWSHUMETH_POST: return CRTI_HTTP_POST;
    case LWSHUMETH_PUT: return CRTI_HTTP_PUT;
    case LWSHUMETH_DELETE: return CRTI_HTTP_DELETE;
    default: return CRTI_HTTP_OTHER;
    }
}

/* The arguments behind the '?'. */
static crti_http_refusal_t read_args(struct lws *wsi, fields_t *f,
                                     crti_http_request_t *request)
{
    size_t used = 0;

    for (int i = 0;; i++) {
        char *arg = f->args + used;
        int length = lws_hdr_copy_fragment(wsi, arg, (int)(sizeof(f->args) - used),
                                           WSI_TOKEN_HTTP_URI_ARGS, i);

        if (length < 0)
            break;
        if (strlen(arg) != (size_t)length)
            return (crti_http_refusal_t){400, "400: an argument holds a zero character"};
        if (request->arg_count == CRTI_HTTP_ARGS)
            return (crti_http_refusal_t){400, "400: too many arguments in the URL"};
        request->args[request->arg_count++] = arg;
        used += (size_t)length + 1;
    }
    /* libwebsockets makes a "/" of a '?' with nothing behind it. */
    if (request->arg_count == 1 && strcmp(request->args[0], "/") == 0)
        request->arg_count = 0;
    return (crti_http_refusal_t){0};
}

/* Before any of it is copied: what is cut off would be taken for something else. */
static crti_http_refusal_t check_sizes(struct lws *wsi)
{
    size_t headers = 0;
    int url = 0;
    char *uri;

    if (lws_http_get_uri_and_method(wsi, &uri, &url) < 0)
        url = 0; /* a method that is refused */
    else if (strlen(uri) != (size_t)url)
        return (crti_http_refusal_t){400, "400: the path holds a zero character"};
    url += lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_URI_ARGS);
    if (url >= (int)URL_BYTES)
        return (crti_http_refusal_t){414, "414: the URL is longer than 8 KiB"};
    for (int token = 0; token < WSI_TOKEN_COUNT; token++) {
        int length = lws_hdr_total_length(wsi, (enum lws_token_indexes)token);

        headers += length > 0 ? (size_t)length : 0;
    }
    if (headers >= HEADER_BYTES)
        return (crti_http_refusal_t){431, "431: the headers are larger than 8 KiB"};
    return (crti_http_refusal_t){0};
}

static crti_http_refusal_t read_fields(struct lws *wsi, const char *path, fields_t *f,
                                       crti_http_request_t *request)
{
    crti_http_refusal_t refusal = check_sizes(wsi);

    if (refusal.code)
        return refusal;
    snprintf(f->path, sizeof(f->path), "%s", path);
    request->method = method_of(wsi);
    request->path = f->path;
    request->host = copy_field(wsi, WSI_TOKEN_HOST, f->host, sizeof(f->host));
    request->origin = copy_field(wsi, WSI_TOKEN_ORIGIN, f->origin, sizeof(f->origin));
    request->session = copy_custom(wsi, "x-crt-session:", f->session, sizeof(f->session));
    request->authorization = copy_field(wsi, WSI_TOKEN_HTTP_AUTHORIZATION,
                                        f->authorization, sizeof(f->authorization));
    request->ray_authorization = copy_custom(
        wsi, "x-ray-authorization:", f->ray_authorization, sizeof(f->ray_authorization));
    request->fetch_site =
        copy_custom(wsi, "sec-fetch-site:", f->fetch_site, sizeof(f->fetch_site));
    request->content_type = copy_field(wsi, WSI_TOKEN_HTTP_CONTENT_TYPE, f->content_type,
                                       sizeof(f->content_type));
    request->accept =
        copy_field(wsi, WSI_TOKEN_HTTP_ACCEPT, f->accept, sizeof(f->accept));
    request->dtype = copy_custom(wsi, "x-crt-dtype:", f->dtype, sizeof(f->dtype));
    request->shape = copy_custom(wsi, "x-crt-shape:", f->shape, sizeof(f->shape));
    request->is_upgrade = lws_hdr_total_length(wsi, WSI_TOKEN_UPGRADE) > 0;
    copy_field(wsi, WSI_TOKEN_HTTP, f->version, sizeof(f->version));
    copy_field(wsi, WSI_TOKEN_HTTP_USER_AGENT, f->agent, sizeof(f->agent));
    request->is_python = strncmp(f->agent, "python-requests/", 16) == 0;
    request->is_old = strcmp(f->version, "HTTP/1.0") == 0;
    /* libwebsockets takes %0D in a path for the end of the line. */
    if (strncmp(f->version, "HTTP/1.", 7) != 0)
        return (crti_http_refusal_t){400,
                                     "400: the request line ends before its version"};
    return read_args(wsi, f, request);
}

/* What is uploaded may come without a length. */
static bool is_in_chunks(struct lws *wsi, crti_http_method_t method)
{
    char coding[16];

    return method == CRTI_HTTP_PUT &&
           lws_hdr_copy(wsi, coding, sizeof(coding), WSI_TOKEN_HTTP_TRANSFER_ENCODING) >
               0 &&
           strcasecmp(coding, "chunked") == 0 &&
           lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH) <= 0;
}

/* Bytes of the body: false when the headers say it in a way that can't be trusted. A length is
 * required where there may be a body: libwebsockets would read on without end. */
static bool read_body_size(struct lws *wsi, crti_http_method_t method, uint64_t *size_out)
{
    bool has_body = method == CRTI_HTTP_POST || method == CRTI_HTTP_PUT;
    char text[24];

    *size_out = is_in_chunks(wsi, method) ? CRTI_BODY_IN_CHUNKS : 0;
    if (*size_out)
        return true;
    if (lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_TRANSFER_ENCODING) > 0)
        return false;
    if (lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH) <= 0)
        return !has_body;
    if (lws_hdr_copy(wsi, text, sizeof(text), WSI_TOKEN_HTTP_CONTENT_LENGTH) <= 0 ||
        strlen(text) > 18 || strspn(text, "0123456789") != strlen(text))
        return false;
    *size_out = strtoull(text, NULL, 10);
    return has_body || *size_out == 0;
}

/* ---------------------------------------------------------------- callbacks */

/* Each request is judged by the generation of that moment: a rotation counts at once. */
static void refresh(crti_http_server_t *server)
{
    crti_http_policy_t *policy = &server->http.policy;
    bool had_generation = policy->has_generation;

    policy->now = (uint32_t)time(NULL);
    policy->has_generation =
        crti_token_generation(server->key_file, &policy->generation) == CRT_OK;
    if (had_generation && !policy->has_generation)
        crti_log(CRTI_LOG_WARN, "http", "no token is taken: %s", crt_error_detail());
}

/* A token ends, tokens are rotated, or a client goes away, while what was asked goes on. */
static void on_judge(lws_sorted_usec_list_t *sul)
{
    crti_http_server_t *server = lws_container_of(sul, crti_http_server_t, judge);

    refresh(server);
    server->is_judging = crti_places_judge(&server->places, &server->http.policy);
    if (server->is_judging)
        lws_sul_schedule(server->context, 0, &server->judge, on_judge, JUDGE_US);
}

static void keep_judging(crti_http_server_t *server)
{
    if (server->is_judging)
        return;
    server->is_judging = true;
    lws_sul_schedule(server->context, 0, &server->judge, on_judge, JUDGE_US);
}

/* A request with a body that was read together with the one before. */
static bool is_too_early(struct lws *wsi, uint64_t received)
{
    crti_http_method_t method = method_of(wsi);
    bool may_have_body = (method != CRTI_HTTP_GET && method != CRTI_HTTP_HEAD) ||
                         lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH) > 0;

    return may_have_body &&
           crti_received(lws_get_socket_fd(wsi)) < received + CRTI_RECEIVED_LEAST;
}

/* What is refused here is so before its token is looked at, or for want of a place. */
static void begin_exchange(struct lws *wsi, crti_http_exchange_t *x, const char *path,
                           fields_t *fields, bool is_early)
{
    static const crti_http_refusal_t
        no_place = {503, "503: too many requests are being served; try again"},
        no_length = {411, "411: a request with a body needs one Content-Length"},
        too_early = {400, "400: a request with a body came before the one before it was "
                          "answered; send it afterwards"};
    crti_http_server_t *server = server_of(wsi);
    crti_http_request_t request = {0};
    crti_http_refusal_t refusal = read_fields(wsi, path, fields, &request);
    crti_http_access_t access = CRTI_HTTP_STRANGER;
    crti_token_t token = {0};
    uint64_t body_size;

    if (!refusal.code)
        access = crti_http_access_of(&server->http.policy, &request, &token);
    if (!crti_places_take(&server->places, wsi, access, &token))
        refusal = no_place;
    keep_judging(server);
    if (!read_body_size(wsi, method_of(wsi), &body_size) && !refusal.code)
        refusal = no_length;
    if (is_early)
        refusal = too_early;
    if (!refusal.code) {
        crti_http_exchange_begin(x, &request, body_size);
        return;
    }
    x->closes = true;
    x->body_size = body_size;
    crti_http_exchange_refuse(x, &request, access, &refusal);
}

/* All of a reply: the connection ends with this turn. */
static void write_at_once(crti_http_exchange_t *x)
{
    while (crti_http_exchange_write(x))
        if (x->state != CRTI_HTTP_EXCHANGE_REPLYING)
            break;
}

static int begin_request(struct lws *wsi, connection_t *connection, const char *path)
{
    fields_t *fields = malloc(sizeof(*fields));
    crti_http_exchange_t *x = connection->exchange;
    uint64_t received = crti_places_received(&server_of(wsi)->places, wsi);
    bool is_early = received && is_too_early(wsi, received);

    if (!x)
        x = connection->exchange = calloc(1, sizeof(*x));
    if (!fields || !x) {
        free(fields);
        return -1;
    }
    refresh(server_of(wsi));
    x->http = &server_of(wsi)->http;
    x->wsi = wsi;
    begin_exchange(wsi, x, path, fields, is_early);
    free(fields);
    if (is_early) {
        write_at_once(x);
        return -1;
    }
    /* Of the next one it could not be told. */
    if (!received && !crti_received(lws_get_socket_fd(wsi)))
        x->closes = true;
    return 0;
}

static int end_connection(connection_t *connection)
{
    if (connection)
        crti_tail_free(CRTI_TAKE(connection->tail));
    if (connection && connection->exchange) {
        crti_http_exchange_fini(connection->exchange);
        free(CRTI_TAKE(connection->exchange));
    }
    return 0;
}

/* libwebsockets has done with the last request of the connection, if there was one. */
static int end_request(struct lws *wsi, connection_t *connection)
{
    if (connection && connection->exchange)
        crti_places_answered(&server_of(wsi)->places, wsi,
                             crti_received(lws_get_socket_fd(wsi)));
    return end_connection(connection);
}

/* A WebSocket that is served goes on to its handshake. For another one, or HTTP/2, libwebsockets
 * would go over to it, or close without an answer: the connection has no memory of its own yet, and
 * all of the answer is written here. */
static int confirm_upgrade(struct lws *wsi, const char *to)
{
    connection_t connection = {0};
    const crti_http_exchange_t *x;
    bool is_served = false;
    char *path;
    int length;

    if (lws_http_get_uri_and_method(wsi, &path, &length) < 0)
        return -1;
    if (begin_request(wsi, &connection, path) == 0) {
        x = connection.exchange;
        is_served = x->state == CRTI_HTTP_EXCHANGE_READING &&
                    x->route == CRTI_ROUTE_JOB_TAIL && strcasecmp(to, "websocket") == 0;
        if (!is_served)
            write_at_once(connection.exchange);
    }
    end_connection(&connection);
    return is_served ? 0 : -1;
}

/* The handshake is done; that the request may be served was found out before it. */
static int begin_tail(struct lws *wsi, connection_t *connection)
{
    static const char front[] = "/api/jobs/";
    char path[256] = "", id[CRTI_HTTP_ID_MAX], offset[32];
    const char *at;
    size_t length;

    if (lws_hdr_copy(wsi, path, sizeof(path), WSI_TOKEN_GET_URI) < 0 ||
        strncmp(path, front, strlen(front)) != 0)
        return -1;
    length = strcspn(path + strlen(front), "/");
    if (length >= sizeof(id))
        return -1;
    memcpy(id, path + strlen(front), length);
    id[length] = '\0';
    at = lws_get_urlarg_by_name(wsi, "offset=", offset, sizeof(offset));
    connection->tail =
        crti_tail_new(&server_of(wsi)->http, wsi, id, at ? strtoull(at, NULL, 10) : 0);
    return connection->tail ? 0 : -1;
}

static int http_callback(struct lws *wsi, enum lws_callback_reasons reason, void *user,
                         void *in, size_t size)
{
    connection_t *connection = user;
    crti_http_exchange_t *x = connection ? connection->exchange : NULL;

    switch (reason) {
    case LWS_CALLBACK_HTTP: return begin_request(wsi, connection, in);
    case LWS_CALLBACK_HTTP_BODY:
        if (x)
            crti_http_exchange_body(x, in, size);
        return 0;
    case LWS_CALLBACK_HTTP_BODY_COMPLETION:
        if (x)
            crti_http_exchange_body_complete(x);
        return 0;
    case LWS_CALLBACK_HTTP_WRITEABLE: return x && !crti_http_exchange_write(x) ? -1 : 0;
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE: return confirm_upgrade(wsi, in);
    case LWS_CALLBACK_ESTABLISHED: return begin_tail(wsi, connection);
    case LWS_CALLBACK_SERVER_WRITEABLE:
        return connection->tail && !crti_tail_write(connection->tail) ? -1 : 0;
    case LWS_CALLBACK_RECEIVE: return 0; /* the client has nothing to say */
    case LWS_CALLBACK_CLOSED:
    case LWS_CALLBACK_CLOSED_HTTP: return end_connection(connection);
    case LWS_CALLBACK_HTTP_DROP_PROTOCOL: return end_request(wsi, connection);
    case LWS_CALLBACK_WSI_DESTROY:
        crti_places_forget(&server_of(wsi)->places, wsi);
        return 0;
    default: return 0;
    }
}

static const struct lws_protocols protocols[] = {
    {.name = "http",
     .callback = http_callback,
     .per_session_data_size = sizeof(connection_t)},
    {.name = CRTI_LWS_FILE_PROTOCOL, .callback = crti_lws_file_callback},
    {0},
};

/* ---------------------------------------------------------------- listening */

/* Each address has one form; a socket file has none. */
static struct in6_addr source_of(const struct sockaddr_storage *from)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
    struct in6_addr source = {0};

    if (from->ss_family == AF_INET6)
        return ((const struct sockaddr_in6 *)from)->sin6_addr;
    if (from->ss_family == AF_INET) {
        source.s6_addr[10] = source.s6_addr[11] = 0xff;
        memcpy(&source.s6_addr[12], &v4->sin_addr, sizeof(v4->sin_addr));
    }
    return source;
}

static struct lws *adopt(crti_http_server_t *server, int fd, bool has_tls)
{
    lws_sock_file_fd_type socket = {.sockfd = fd};
    unsigned kind =
        LWS_ADOPT_SOCKET | LWS_ADOPT_HTTP | (has_tls ? LWS_ADOPT_ALLOW_SSL : 0);

    return lws_adopt_descriptor_vhost(server->vhost, (lws_adoption_type)kind, socket,
                                      NULL, NULL);
}

static void on_connection(void *user, uint32_t events)
{
    const listener_t *listener = user;
    crti_http_server_t *server = listener->server;
    bool is_local = listener == &server->local;
    struct lws *wsi;

    for (int i = 0; i < ACCEPTS; i++) {
        struct sockaddr_storage from = {0};
        socklen_t size = sizeof(from);
        int fd = accept4(listener->fd, (struct sockaddr *)&from, &size,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct in6_addr source = source_of(&from);
        int one = 1;

        if (fd < 0)
            return;
        /* Headers and body are two writes: the second must not wait for the first's
         * acknowledgement (40 ms). */
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (!crti_places_make_room(&server->places, &source, is_local)) {
            close(fd);
            return;
        }
        wsi = adopt(server, fd, listener->has_tls);
        if (!wsi)
            return; /* the socket was closed */
        crti_places_add(&server->places, wsi, &source, is_local);
    }
}

static crt_status_t name_it(crti_http_server_t *server, const crti_http_options_t *o)
{
    const char *scheme = o->certificate ? "https" : "http";
    struct sockaddr_storage bound;
    socklen_t size = sizeof(bound);
    char service[16];

    if (getsockname(o->listen_fd, (struct sockaddr *)&bound, &size) != 0 ||
        getnameinfo((struct sockaddr *)&bound, size, NULL, 0, service, sizeof(service),
                    NI_NUMERICSERV) != 0)
        return crt_raise(CRT_ERR_IO, "dashboard: %s", strerror(errno));
    server->http.policy.port = (unsigned)atoi(service);
    snprintf(server->url, sizeof(server->url),
             strchr(o->host, ':') ? "%s://[%s]:%s" : "%s://%s:%s", scheme, o->host,
             service);
    return CRT_OK;
}

static crt_status_t serve_at(crti_http_server_t *server, listener_t *listener, int fd,
                             bool has_tls)
{
    *listener = (listener_t){.server = server, .fd = fd, .has_tls = has_tls};
    listener->file = (crti_lws_file_t){.on_ready = on_connection, .user = listener};
    return crti_lws_file_add(server->vhost, &listener->file, fd);
}

static void on_signal(void *user, uint32_t events)
{
    crti_http_server_t *server = user;

    server->stops = true;
}

static crt_status_t watch_signals(crti_http_server_t *server)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    server->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (server->signal_fd < 0)
        return crt_raise(CRT_ERR_IO, "signalfd: %s", strerror(errno));
    server->signal_file = (crti_lws_file_t){.on_ready = on_signal, .user = server};
    return crti_lws_file_add(server->vhost, &server->signal_file, server->signal_fd);
}

static void log_line(int level, const char *line)
{
    crti_log(level & LLL_ERR ? CRTI_LOG_WARN : CRTI_LOG_DEBUG, "lws", "%.*s",
             (int)strcspn(line, "\n"), line);
}

static crt_status_t make_context(crti_http_server_t *server, const crti_http_options_t *o)
{
    unsigned header_seconds = (unsigned)(CRTI_LIMIT(http_header_timeout) / CRTI_S);
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN_SERVER,
        .protocols = protocols,
        .user = server,
        .gid = (gid_t)-1,
        .uid = (uid_t)-1,
        .server_string = "crt",
        .alpn = "http/1.1",
        .max_http_header_data = HEADERS_MAX,
        .max_http_header_pool = CRTI_PLACES_MAX + 8,
        .timeout_secs = header_seconds,
        .timeout_secs_ah_idle = header_seconds,
        .keepalive_timeout = header_seconds,
        .options = LWS_SERVER_OPTION_DISABLE_IPV6 |
                   (o->certificate ? LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT : 0),
        .ssl_cert_filepath = o->certificate,
        .ssl_private_key_filepath = o->certificate_key,
        .ssl_options_set = SSL_OP_NO_TLSv1 | SSL_OP_NO_TLSv1_1 | SSL_OP_NO_RENEGOTIATION,
    };

    lws_set_log_level(LLL_ERR | LLL_WARN, log_line);
    server->context = lws_create_context(&info);
    if (!server->context)
        return crt_raise(CRT_ERR_IO, "libwebsockets gave no context");
    server->vhost = lws_get_vhost_by_name(server->context, "default");
    return server->vhost ? CRT_OK
                         : crt_raise(CRT_ERR_IO, "libwebsockets gave no virtual host");
}

/* ---------------------------------------------------------------- life */

crt_status_t crti_http_server_new(const crti_http_options_t *options,
                                  crti_http_server_t **server_out)
{
    CRTI_AUTO(crti_http_server_free)
    crti_http_server_t *self = calloc(1, sizeof(*self));
    crt_status_t status;

    if (!self)
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    self->signal_fd = -1;
    self->http.policy = (crti_http_policy_t){.bound_to = options->host,
                                             .host_name = options->name,
                                             .is_secure = options->certificate != NULL};
    crti_key_token(options->key, self->http.policy.token_key);
    crti_key_session(options->key, options->instance, self->http.policy.session_key);
    crti_key_reader_token(options->key, self->http.policy.reader_key);
    crti_key_reader_session(options->key, options->instance,
                            self->http.policy.reader_session_key);
    self->http.url = self->url;
    self->http.policy.is_open = options->is_open;
    self->http.begin = crti_endpoint_begin;
    self->http.body = crti_endpoint_body;
    self->http.programs = options->programs;
    self->places.is_asking = is_asking;
    self->places.is_served = is_served;
    self->key_file = options->key_file;
    status = crti_audit_new(options->audit_log, &self->http.audit);
    if (status == CRT_OK)
        status = name_it(self, options);
    if (status == CRT_OK)
        status = make_context(self, options);
    if (status == CRT_OK)
        status = watch_signals(self);
    if (status == CRT_OK)
        status =
            serve_at(self, &self->tcp, options->listen_fd, options->certificate != NULL);
    if (status == CRT_OK)
        status = serve_at(self, &self->local, options->local_fd, false);
    if (status == CRT_OK)
        status = crti_head_link_new(self->context, self->vhost, options->head_socket,
                                    &self->http.link);
    if (status == CRT_OK)
        status = crti_caller_new(self->vhost, options->head_dir, &self->http.caller);
    if (status != CRT_OK)
        return status;
    crti_upload_clean(options->programs);
    *server_out = CRTI_TAKE(self);
    return CRT_OK;
}

const char *crti_http_server_url(const crti_http_server_t *server)
{
    return server->url;
}

crt_status_t crti_http_server_run(crti_http_server_t *server)
{
    while (!server->stops)
        if (lws_service(server->context, 0) < 0)
            return crt_raise(CRT_ERR_IO, "the loop of libwebsockets broke");
    return CRT_OK;
}

void crti_http_server_free(crti_http_server_t *server)
{
    if (!server)
        return;
    if (server->context) {
        crti_lws_file_remove(&server->tcp.file);
        crti_lws_file_remove(&server->local.file);
        crti_lws_file_remove(&server->signal_file);
        /* Connections forget their questions while they close: the link goes after them. */
        crti_head_link_detach(server->http.link);
        crti_caller_stop(server->http.caller);
        lws_context_destroy(server->context);
    }
    crti_caller_free(server->http.caller);
    crti_head_link_free(server->http.link);
    crti_audit_free(server->http.audit);
    crti_key_wipe(&server->http.policy, sizeof(server->http.policy));
    if (server->signal_fd >= 0)
        close(server->signal_fd);
    free(server);
}
