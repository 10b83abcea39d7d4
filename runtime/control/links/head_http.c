/* SPDX-License-Identifier: Apache-2.0 */
/* Supervises crt-http. See head_http.h. */
#include "runtime/control/links/head_http.h"
#include "runtime/crt_tools.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sodium.h>

#include "crt_config.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/control/links/http_sockets.h"
#include "runtime/control/store/child.h"
#include "runtime/crt.h"
#include "runtime/daemon/ready.h"
#include "runtime/net/https_key.h"

#define BACKOFF_FIRST_NS (100 * CRTI_MS)
#define BACKOFF_MOST_NS  (10 * CRTI_S)
#define STEADY_NS        (60 * CRTI_S) /* after so long a death is the first one again */
#define END_MS           1000

struct crti_head_http {
    crti_head_http_config_t config;
    crti_child_t child;
    crti_timer_t again;
    crti_watch_t ready_watch;
    int ready_fd;
    char ready[1024];
    size_t ready_size;
    char address[320], far_url[300], far_pin[CRTI_PIN_TEXT];
    crti_http_sockets_t sockets;
    uint64_t backoff_ns, started_ns;
    char instance[17]; /* tells this head from the one before it; no secret */
};

static bool has_dashboard(const crti_head_http_t *http)
{
    return http->config.host != NULL && CRT_HAVE_HTTP;
}

/* ---------------------------------------------------------------- its ready line */

static void close_ready(crti_head_http_t *http)
{
    crti_loop_remove(http->config.loop, &http->ready_watch);
    crti_close_auto(&http->ready_fd);
    http->ready_fd = -1;
}

/* "ready http URL", or "error TEXT". */
static void take_ready(crti_head_http_t *http)
{
    close_ready(http);
    http->ready[strcspn(http->ready, "\n")] = '\0';
    if (strncmp(http->ready, "ready", 5) == 0) {
        crti_ready_get(http->ready, "http", http->address, sizeof(http->address));
        http->config.on_change(http->config.user, NULL);
    } else if (strncmp(http->ready, "error ", 6) == 0) {
        http->config.on_change(http->config.user, http->ready + 6);
    }
}

static void on_ready(void *user, uint32_t events)
{
    crti_head_http_t *http = user;
    ssize_t n = read(http->ready_fd, http->ready + http->ready_size,
                     sizeof(http->ready) - 1 - http->ready_size);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        http->ready_size += (size_t)n;
        http->ready[http->ready_size] = '\0';
        if (!strchr(http->ready, '\n'))
            return;
    }
    take_ready(http);
}

/* ---------------------------------------------------------------- life of the process */

static void on_exit_child(void *user, int wait_status)
{
    crti_head_http_t *http = user;
    uint64_t now = crti_now_ns();
    char text[128];

    http->address[0] = '\0';
    if (http->ready_fd >= 0) {
        on_ready(http, 0);
        if (http->ready_fd >= 0)
            close_ready(http);
    }
    if (WIFSIGNALED(wait_status))
        snprintf(text, sizeof(text), "crt-http was killed by signal %d",
                 WTERMSIG(wait_status));
    else
        snprintf(text, sizeof(text), "crt-http ended with status %d",
                 WEXITSTATUS(wait_status));
    crti_log(CRTI_LOG_WARN, "head", "%s; it is started again", text);
    if (now - http->started_ns > STEADY_NS)
        http->backoff_ns = BACKOFF_FIRST_NS;
    crti_loop_start(http->config.loop, &http->again, now + http->backoff_ns);
    http->backoff_ns =
        http->backoff_ns * 2 < BACKOFF_MOST_NS ? http->backoff_ns * 2 : BACKOFF_MOST_NS;
    http->config.on_change(http->config.user, text);
}

static const char *own_host(char *name, size_t size)
{
    if (gethostname(name, size) != 0)
        snprintf(name, size, "localhost");
    name[size - 1] = '\0';
    return name;
}

/* By which clients reach it: they can't connect to 0.0.0.0. */
static const char *reachable_host(const crti_head_http_t *http)
{
    return http->sockets.is_any ? http->config.ip : http->config.host;
}

static crt_status_t spawn(crti_head_http_t *http, const char *path, int ready, int log)
{
    char ready_fd[8], listen_fd[8], local_fd[8], own_name[256];
    const char *const argv[] = {"crt-http",
                                "--head-dir",
                                http->config.head_dir,
                                "--programs",
                                http->config.programs,
                                "--auth",
                                http->config.is_open ? "none" : "token",
                                "--host",
                                reachable_host(http),
                                "--key-file",
                                http->config.key_file,
                                "--instance",
                                http->instance,
                                "--log",
                                http->config.log,
                                "--ready-fd",
                                ready_fd,
                                "--listen-fd",
                                listen_fd,
                                "--name",
                                http->config.name ? http->config.name
                                                  : own_host(own_name, sizeof(own_name)),
                                "--local-fd",
                                local_fd,
                                http->config.certificate    ? "--cert"
                                : http->sockets.is_loopback ? NULL
                                                            : "--tls",
                                http->config.certificate,
                                "--cert-key",
                                http->config.certificate_key,
                                NULL};
    crti_child_command_t command = {
        .path = path,
        .argv = argv,
        .head_dir = http->config.head_dir,
        .stdin_fd = -1,
        .output_fd = log,
        .pass_fds = {ready, http->sockets.tcp_fd, http->sockets.local_fd},
        .pass_count = 3};

    snprintf(ready_fd, sizeof(ready_fd), "%d", CRTI_CHILD_FD);
    snprintf(listen_fd, sizeof(listen_fd), "%d", CRTI_CHILD_FD + 1);
    snprintf(local_fd, sizeof(local_fd), "%d", CRTI_CHILD_FD + 2);
    http->started_ns = crti_now_ns();
    return crti_child_start(&http->child, http->config.loop, &command);
}

static crt_status_t start_child(crti_head_http_t *http, const char *path)
{
    CRTI_AUTO(crti_close)
    int log = open(http->config.log,
                   O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    CRTI_AUTO(crti_close) int ready_write = -1;
    int ends[2];
    crt_status_t status;

    if (log < 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", http->config.log, strerror(errno));
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return crt_raise(CRT_ERR_IO, "pipe: %s", strerror(errno));
    http->ready_fd = ends[0];
    ready_write = ends[1];
    http->ready_size = 0;
    http->ready[0] = '\0';
    status = spawn(http, path, ready_write, log);
    if (status == CRT_OK)
        status =
            crti_loop_add(http->config.loop, &http->ready_watch, http->ready_fd, EPOLLIN);
    if (status != CRT_OK)
        close_ready(http);
    return status;
}

crt_status_t crti_head_http_start(crti_head_http_t *http)
{
    char path[PATH_MAX];
    crt_status_t status;

    if (!has_dashboard(http)) {
        if (http->config.host)
            crti_log(CRTI_LOG_WARN, "head", "this build has no dashboard (meson -Dhttp)");
        http->config.on_change(http->config.user, NULL);
        return CRT_OK;
    }
    status = crti_daemon_path("crt-http", path, sizeof(path));
    return status == CRT_OK ? start_child(http, path) : status;
}

static void on_again(void *user)
{
    crti_head_http_t *http = user;

    if (crti_head_http_start(http) != CRT_OK) {
        crti_log(CRTI_LOG_WARN, "head", "%s", crt_error_detail());
        crti_loop_start(http->config.loop, &http->again, crti_now_ns() + BACKOFF_MOST_NS);
    }
}

/* ---------------------------------------------------------------- for other hosts */

CRTI_DEFINE_AUTO(X509 *, X509_free)

/* Its public key may be pinned: what the head tells comes over an authenticated link. */
static crt_status_t pin_certificate(const char *path, char pin[CRTI_PIN_TEXT])
{
    CRTI_AUTO(fclose) FILE *file = fopen(path, "re");
    CRTI_AUTO(X509_free) X509 *x = file ? PEM_read_X509(file, NULL, NULL, NULL) : NULL;
    unsigned char *der = NULL;
    int size = x ? i2d_X509_PUBKEY(X509_get_X509_PUBKEY(x), &der) : -1;

    if (!file)
        return crt_raise(CRT_ERR_INVALID, "--dashboard-cert %s: %s", path,
                         strerror(errno));
    if (size <= 0)
        return crt_raise(CRT_ERR_INVALID, "--dashboard-cert %s holds no certificate",
                         path);
    crti_https_pin(der, (size_t)size, pin);
    OPENSSL_free(der);
    return CRT_OK;
}

static crt_status_t name_for_others(crti_head_http_t *http)
{
    const char *host = reachable_host(http);

    if (!http->sockets.is_loopback)
        snprintf(http->far_url, sizeof(http->far_url),
                 strchr(host, ':') ? "https://[%s]:%u" : "https://%s:%u", host,
                 http->sockets.port);
    return http->config.certificate
               ? pin_certificate(http->config.certificate, http->far_pin)
               : CRT_OK;
}

/* ---------------------------------------------------------------- life */

crt_status_t crti_head_http_new(const crti_head_http_config_t *config,
                                crti_head_http_t **http_out)
{
    crti_head_http_t *http = calloc(1, sizeof(*http));
    unsigned char instance[8];
    crt_status_t status = CRT_OK;

    if (http == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "crt-http");
    http->config = *config;
    randombytes_buf(instance, sizeof(instance));
    sodium_bin2hex(http->instance, sizeof(http->instance), instance, sizeof(instance));
    http->ready_fd = -1;
    http->sockets = (crti_http_sockets_t){.tcp_fd = -1, .local_fd = -1};
    http->backoff_ns = BACKOFF_FIRST_NS;
    http->child = (crti_child_t){.on_exit = on_exit_child, .user = http};
    http->again = (crti_timer_t){.on_expired = on_again, .user = http};
    http->ready_watch = (crti_watch_t){.on_ready = on_ready, .user = http};
    if (has_dashboard(http))
        status = crti_http_sockets_open(config->host, config->port, config->socket,
                                        &http->sockets);
    if (status == CRT_OK && config->is_open && !http->sockets.is_loopback)
        status = crt_raise(CRT_ERR_PERMISSION,
                           "--no-auth needs a dashboard that listens on loopback only: "
                           "whoever reached %s could run programs as you",
                           config->host);
    if (status == CRT_OK && has_dashboard(http))
        status = name_for_others(http);
    if (status == CRT_OK)
        *http_out = http;
    else
        crti_head_http_free(http);
    return status;
}

void crti_head_http_free(crti_head_http_t *http)
{
    struct pollfd waiting;

    if (http == NULL)
        return;
    crti_loop_cancel(http->config.loop, &http->again);
    if (http->child.pid) {
        crti_child_signal(&http->child, SIGTERM);
        waiting = (struct pollfd){.fd = http->child.pidfd, .events = POLLIN};
        while (poll(&waiting, 1, END_MS) < 0 && errno == EINTR)
            continue;
        crti_child_kill(&http->child);
    }
    if (http->ready_fd >= 0)
        close_ready(http);
    crti_http_sockets_close(&http->sockets);
    free(http);
}

const char *crti_head_http_far_url(const crti_head_http_t *http)
{
    return http->far_url;
}

const char *crti_head_http_far_pin(const crti_head_http_t *http)
{
    return http->far_pin;
}

const char *crti_head_http_address(const crti_head_http_t *http)
{
    return http->address;
}

pid_t crti_head_http_pid(const crti_head_http_t *http)
{
    return http->child.pid;
}
