/* SPDX-License-Identifier: Apache-2.0 */
/* crt-http: dashboard and REST API, a process of its own, so that a parser's bug can't stop
 * scheduling. Started by crt-head, which starts it again when it dies.
 *
<<<<<<< HEAD
 *     crt-http --head-dir DIR --host H --port P --ready-fd N [--key-file F] [--log F]
=======
 *     crt-http --head-dir DIR --host H --listen-fd N --local-fd N --ready-fd N [--key-file F]
>>>>>>> a305b1c (http: the token goes over a socket of the head's own directory)
 *
 * It serves at the descriptors that it inherits: a TCP socket, which was bound to H, and a unix socket.
 * Failure: before it serves, one line "error TEXT" on the ready descriptor and exit status 1. It
 * ends with its parent.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include <sodium.h>

#include "runtime/base/log.h"
#include "runtime/base/rundir.h"
#include "runtime/http/server.h"
#include "runtime/net/key.h"

typedef struct arguments {
    const char *head_dir, *host, *key_file, *log;
    int listen_fd, local_fd, ready_fd;
} arguments_t;

static crt_status_t parse(int argc, char **argv, arguments_t *a)
{
    static const struct option options[] = {{"head-dir", required_argument, NULL, 'd'},
                                            {"host", required_argument, NULL, 'h'},
                                            {"listen-fd", required_argument, NULL, 't'},
                                            {"local-fd", required_argument, NULL, 'u'},
                                            {"ready-fd", required_argument, NULL, 'r'},
                                            {"key-file", required_argument, NULL, 'k'},
                                            {"log", required_argument, NULL, 'l'},
                                            {0}};
    int option;

    *a = (arguments_t){
        .host = "127.0.0.1", .listen_fd = -1, .local_fd = -1, .ready_fd = -1};
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'd': a->head_dir = optarg; break;
        case 'h': a->host = optarg; break;
        case 'k': a->key_file = optarg; break;
        case 'l': a->log = optarg; break;
        case 't': a->listen_fd = atoi(optarg); break;
        case 'u': a->local_fd = atoi(optarg); break;
        case 'r': a->ready_fd = atoi(optarg); break;
        default: return crt_raise(CRT_ERR_INVALID, "unknown option");
        }
    }
    if (!a->head_dir || optind != argc || a->listen_fd < 0 || a->local_fd < 0)
        return crt_raise(CRT_ERR_INVALID, "usage: crt-http --head-dir DIR --host H "
                                          "--listen-fd N --local-fd N --ready-fd N");
    return CRT_OK;
}

/* The key's path comes from the head's own file when it was not given. */
static crt_status_t load_token(const arguments_t *a, char token[CRTI_TOKEN_TEXT])
{
    CRTI_AUTO(free) char *info = NULL;
    char path[4096], key_file[4096];
    crt_status_t status = CRT_OK;
    crti_key_t key;

    if (!a->key_file) {
        snprintf(path, sizeof(path), "%s/head.info", a->head_dir);
        status = crti_info_read(path, &info);
        if (status == CRT_OK)
            crti_info_get(info, "key_file", key_file, sizeof(key_file));
    } else {
        snprintf(key_file, sizeof(key_file), "%s", a->key_file);
    }
    if (status == CRT_OK)
        status = crti_key_load(key_file, &key);
    if (status != CRT_OK)
        return status;
    crti_key_token(&key, token);
    crti_key_wipe(&key, sizeof(key));
    return CRT_OK;
}

/* The one line that the starter waits for. */
static void report(int *ready_fd, const char *what, const char *text)
{
    char line[1200];

    if (*ready_fd < 0)
        return;
    snprintf(line, sizeof(line), "%s %s\n", what, text);
    if (write(*ready_fd, line, strlen(line)) < 0)
        crti_log(CRTI_LOG_WARN, "http", "ready descriptor: %s", strerror(errno));
    close(crti_take_fd(ready_fd));
}

static crt_status_t serve(arguments_t *a)
{
    CRTI_AUTO(crti_http_server_free) crti_http_server_t *server = NULL;
    char token[CRTI_TOKEN_TEXT], socket_path[4096], programs[4096];
    crti_http_options_t options = {.host = a->host,
                                   .listen_fd = a->listen_fd,
                                   .local_fd = a->local_fd,
                                   .token = token,
                                   .head_socket = socket_path,
                                   .programs = programs};
    crt_status_t status = crti_state_dir(programs, sizeof(programs) - 16);

    if (status != CRT_OK)
        return status;
    strcat(programs, "/programs");
    snprintf(socket_path, sizeof(socket_path), "%s/head.sock", a->head_dir);
    status = load_token(a, token);
    if (status == CRT_OK)
        status = crti_http_server_new(&options, &server);
    if (status != CRT_OK)
        return status;
    crti_log(CRTI_LOG_INFO, "http", "serves %s", crti_http_server_url(server));
    report(&a->ready_fd, "ready http", crti_http_server_url(server));
    return crti_http_server_run(server);
}

int main(int argc, char **argv)
{
    const char *selection = getenv("CRT_LOG");
    pid_t parent = getppid();
    arguments_t arguments;
    crt_status_t status;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a limit on files is an error of write */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before the line above */
        return 1;
    crti_log_select(selection ? selection : "info");
    status = parse(argc, argv, &arguments);
    if (status == CRT_OK && arguments.log)
        status = crti_log_to_file(arguments.log);
    if (status == CRT_OK && sodium_init() < 0)
        status = crt_raise(CRT_ERR_UNSUPPORTED, "libsodium does not start");
    if (status == CRT_OK)
        status = serve(&arguments);
    if (status == CRT_OK)
        return 0;
    crti_log(CRTI_LOG_ERROR, "http", "%s", crt_error_detail());
    report(&arguments.ready_fd, "error", crt_error_detail());
    return 1;
}
