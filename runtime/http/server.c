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
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "runtime/base/log.h"
#include "runtime/http/exchange.h"
#include "runtime/http/lws_file.h"

#define CONNECTIONS_MAX 200
#define HEADER_BYTES    8192 /* all headers of one request */
#define FIELD_BYTES     4096 /* one of them */
#define HEADER_SECONDS  5
#define BACKLOG         128

struct crti_http_server {
    crti_http_t http;
    struct lws_context *context;
    struct lws_vhost *vhost;
    int listen_fd, signal_fd;
    crti_lws_file_t listen_file, signal_file;
    struct lws *connections[CONNECTIONS_MAX]; /* the oldest first */
    unsigned count;
    bool stops;
    char address[300];
    char host_name[256];
};

/* What lives in a connection's memory at libwebsockets. */
typedef struct connection {
    crti_exchange_t *exchange;
} connection_t;

static crti_http_server_t *server_of(struct lws *wsi)
{
    return lws_context_user(lws_get_context(wsi));
}

/* ---------------------------------------------------------------- headers */

typedef struct fields {
    char path[FIELD_BYTES], host[FIELD_BYTES], origin[FIELD_BYTES];
    char authorization[FIELD_BYTES], ray_authorization[FIELD_BYTES], cookie[FIELD_BYTES];
    char fetch_site[64];
    char arg[CRTI_HTTP_ARGS][512];
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

static void read_fields(struct lws *wsi, const char *path, fields_t *f,
                        crti_http_request_t *request)
{
    snprintf(f->path, sizeof(f->path), "%s", path);
    request->method = method_of(wsi);
    request->path = f->path;
    request->host = copy_field(wsi, WSI_TOKEN_HOST, f->host, sizeof(f->host));
    request->origin = copy_field(wsi, WSI_TOKEN_ORIGIN, f->origin, sizeof(f->origin));
    request->cookie =
        copy_field(wsi, WSI_TOKEN_HTTP_COOKIE, f->cookie, sizeof(f->cookie));
    request->authorization = copy_field(wsi, WSI_TOKEN_HTTP_AUTHORIZATION,
                                        f->authorization, sizeof(f->authorization));
    request->ray_authorization = copy_custom(
        wsi, "x-ray-authorization:", f->ray_authorization, sizeof(f->ray_authorization));
    request->fetch_site =
        copy_custom(wsi, "sec-fetch-site:", f->fetch_site, sizeof(f->fetch_site));
    request->is_upgrade = lws_hdr_total_length(wsi, WSI_TOKEN_UPGRADE) > 0;
    while (request->arg_count < CRTI_HTTP_ARGS) {
        char *arg = f->arg[request->arg_count];

        if (lws_hdr_copy_fragment(wsi, arg, sizeof(f->arg[0]), WSI_TOKEN_HTTP_URI_ARGS,
                                  (int)request->arg_count) < 0)
            break;
        request->args[request->arg_count++] = arg;
    }
}

/* Bytes of the body: false when the headers say it in a way that can't be trusted. A length is
 * required where there may be a body: libwebsockets would read on without end. */
static bool read_body_size(struct lws *wsi, crti_http_method_t method, uint64_t *size_out)
{
    bool has_body = method == CRTI_HTTP_POST || method == CRTI_HTTP_PUT;
    char text[24];

    *size_out = 0;
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

static int begin_request(struct lws *wsi, connection_t *connection, const char *path)
{
    crti_http_request_t request = {0};
    fields_t *fields = malloc(sizeof(*fields));
    crti_exchange_t *x = connection->exchange;
    uint64_t body_size;

    if (!x)
        x = connection->exchange = calloc(1, sizeof(*x));
    if (!fields || !x) {
        free(fields);
        return -1;
    }
    x->http = &server_of(wsi)->http;
    x->wsi = wsi;
    read_fields(wsi, path, fields, &request);
    if (read_body_size(wsi, request.method, &body_size)) {
        crti_exchange_begin(x, &request, body_size);
    } else {
        x->closes = true;
        crti_exchange_text(x, 411, "411: a request with a body needs one Content-Length");
    }
    free(fields);
    return 0;
}

static int end_connection(connection_t *connection)
{
    if (connection && connection->exchange) {
        crti_exchange_fini(connection->exchange);
        free(CRTI_TAKE(connection->exchange));
    }
    return 0;
}

static void forget(crti_http_server_t *server, const struct lws *wsi)
{
    unsigned i = 0;

    while (i < server->count && server->connections[i] != wsi)
        i++;
    if (i == server->count)
        return; /* a descriptor of our own */
    server->count--;
    memmove(&server->connections[i], &server->connections[i + 1],
            (server->count - i) * sizeof(server->connections[0]));
}

static int http_callback(struct lws *wsi, enum lws_callback_reasons reason, void *user,
                         void *in, size_t size)
{
    connection_t *connection = user;
    crti_exchange_t *x = connection ? connection->exchange : NULL;

    switch (reason) {
    case LWS_CALLBACK_HTTP: return begin_request(wsi, connection, in);
    case LWS_CALLBACK_HTTP_BODY:
        if (x)
            crti_exchange_body(x, in, size);
        return 0;
    case LWS_CALLBACK_HTTP_BODY_COMPLETION:
        if (x)
            crti_exchange_body_complete(x);
        return 0;
    case LWS_CALLBACK_HTTP_WRITEABLE: return x && !crti_exchange_write(x) ? -1 : 0;
    /* No WebSocket and no HTTP/2 here. */
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE: return 1;
    case LWS_CALLBACK_CLOSED_HTTP:
    case LWS_CALLBACK_HTTP_DROP_PROTOCOL: return end_connection(connection);
    case LWS_CALLBACK_WSI_DESTROY: forget(server_of(wsi), wsi); return 0;
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

/* Room for one more: where all places are taken the oldest client that asks nothing goes, so that
 * clients which are silent or slow do not keep others out. */
static bool make_room(crti_http_server_t *server)
{
    if (server->count < CONNECTIONS_MAX)
        return true;
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
        const connection_t *connection = lws_wsi_user(server->connections[i]);
        const crti_exchange_t *x = connection ? connection->exchange : NULL;

        if (x && x->state != CRTI_EXCHANGE_IDLE)
            continue;
        lws_set_timeout(server->connections[i], PENDING_TIMEOUT_USER_OK,
                        LWS_TO_KILL_SYNC);
        return server->count < CONNECTIONS_MAX;
    }
    return false;
}

static void on_connection(void *user, uint32_t events)
{
    crti_http_server_t *server = user;
    struct lws *wsi;

    for (;;) {
        int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        int one = 1;

        if (fd < 0)
            return;
        /* Headers and body are two writes: the second must not wait for the first's
         * acknowledgement (40 ms). */
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (!make_room(server)) {
            close(fd);
            continue;
        }
        wsi = lws_adopt_socket_vhost(server->vhost, fd);
        if (!wsi)
            return; /* the socket was closed */
        server->connections[server->count++] = wsi;
    }
}

static crt_status_t bind_one(const struct addrinfo *at, const char *host, unsigned port,
                             int *fd_out)
{
    CRTI_AUTO(crti_close)
    int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    at->ai_protocol);
    int one = 1;

    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "dashboard: socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0)
        return errno == EADDRINUSE
                   ? crt_raise(CRT_ERR_EXISTS,
                               "port %u of %s is taken; choose another with "
                               "--dashboard-port",
                               port, host)
                   : crt_raise(CRT_ERR_IO, "dashboard: can't listen on %s:%u: %s", host,
                               port, strerror(errno));
    *fd_out = crti_take_fd(&fd);
    return CRT_OK;
}

static crt_status_t listen_on(crti_http_server_t *server, const char *host, unsigned port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list;
    struct sockaddr_storage bound;
    socklen_t size = sizeof(bound);
    char service[16];
    crt_status_t status;
    int error;

    snprintf(service, sizeof(service), "%u", port);
    error = getaddrinfo(host, service, &hints, &list);
    if (error)
        return crt_raise(CRT_ERR_INVALID, "dashboard: no such host %s: %s", host,
                         gai_strerror(error));
    status = bind_one(list, host, port, &server->listen_fd);
    freeaddrinfo(list);
    if (status != CRT_OK)
        return status;
    if (getsockname(server->listen_fd, (struct sockaddr *)&bound, &size) != 0 ||
        getnameinfo((struct sockaddr *)&bound, size, NULL, 0, service, sizeof(service),
                    NI_NUMERICSERV) != 0)
        return crt_raise(CRT_ERR_IO, "dashboard: %s", strerror(errno));
    server->http.policy.port = (unsigned)atoi(service);
    snprintf(server->address, sizeof(server->address),
             strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, service);
    return CRT_OK;
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

static crt_status_t make_context(crti_http_server_t *server)
{
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN_SERVER,
        .protocols = protocols,
        .user = server,
        .gid = (gid_t)-1,
        .uid = (uid_t)-1,
        .server_string = "crt",
        .alpn = "http/1.1",
        .max_http_header_data = HEADER_BYTES,
        .max_http_header_pool = CONNECTIONS_MAX + 8,
        .timeout_secs = HEADER_SECONDS,
        .timeout_secs_ah_idle = HEADER_SECONDS,
        .keepalive_timeout = HEADER_SECONDS,
        .fd_limit_per_thread = CONNECTIONS_MAX + 64,
        .options = LWS_SERVER_OPTION_DISABLE_IPV6,
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
    self->listen_fd = self->signal_fd = -1;
    if (gethostname(self->host_name, sizeof(self->host_name) - 1) != 0)
        self->host_name[0] = '\0';
    self->http.policy = (crti_http_policy_t){
        .token = options->token, .bound_to = options->host, .host_name = self->host_name};
    self->http.programs = options->programs;
    status = listen_on(self, options->host, options->port);
    if (status == CRT_OK)
        status = make_context(self);
    if (status == CRT_OK)
        status = watch_signals(self);
    if (status == CRT_OK) {
        self->listen_file = (crti_lws_file_t){.on_ready = on_connection, .user = self};
        status = crti_lws_file_add(self->vhost, &self->listen_file, self->listen_fd);
    }
    if (status == CRT_OK)
        status = crti_head_link_new(self->context, self->vhost, options->head_socket,
                                    &self->http.link);
    if (status != CRT_OK)
        return status;
    crti_upload_clean(options->programs);
    *server_out = CRTI_TAKE(self);
    return CRT_OK;
}

const char *crti_http_server_address(const crti_http_server_t *server)
{
    return server->address;
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
        crti_lws_file_remove(&server->listen_file);
        crti_lws_file_remove(&server->signal_file);
        /* Connections forget their questions while they close: the link goes after them. */
        crti_head_link_detach(server->http.link);
        lws_context_destroy(server->context);
    }
    crti_head_link_free(server->http.link);
    if (server->listen_fd >= 0)
        close(server->listen_fd);
    if (server->signal_fd >= 0)
        close(server->signal_fd);
    free(server);
}
