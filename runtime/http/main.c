/* SPDX-License-Identifier: Apache-2.0 */
/* crt-http: dashboard and REST API, a process of its own, so that a parser's bug can't stop
 * scheduling. Started by crt-head, which starts it again when it dies.
 *
 *     crt-http --head-dir DIR --host H --listen-fd N --local-fd N --ready-fd N --key-file F
 *              [--tls | --cert FILE --cert-key FILE] [--log FILE] [--instance WORD]
 *
 * It serves at the descriptors that it inherits: a TCP socket, which was bound to H, and a unix
 * socket. --instance: of the head; browsers that signed in stay so as long as it is the same.
 * --tls: with a certificate that follows from the cluster's key. Failure: before it serves, one
 * line "error TEXT" on the ready descriptor and exit status 1. It ends with its parent.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include <sodium.h>

#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/base/rundir.h"
#include "runtime/base/whole_options.h"
#include "runtime/http/certificate.h"
#include "runtime/http/scrape_target.h"
#include "runtime/http/server.h"
#include "runtime/net/key.h"

#define LARGE                                                                            \
    (128 << 10) /* bytes of memory that is the system's again when it is freed */

typedef struct arguments {
    const char *head_dir, *host, *key_file, *log, *certificate, *certificate_key,
        *instance;
    int listen_fd, local_fd, ready_fd;
    bool has_tls, is_open;
} arguments_t;

static crt_status_t parse(int argc, char **argv, arguments_t *a)
{
    static const struct option options[] = {{"head-dir", required_argument, NULL, 'd'},
                                            {"host", required_argument, NULL, 'h'},
                                            {"listen-fd", required_argument, NULL, 't'},
                                            {"local-fd", required_argument, NULL, 'u'},
                                            {"ready-fd", required_argument, NULL, 'r'},
                                            {"key-file", required_argument, NULL, 'k'},
                                            {"cert", required_argument, NULL, 'c'},
                                            {"tls", no_argument, NULL, 'e'},
                                            {"cert-key", required_argument, NULL, 's'},
                                            {"log", required_argument, NULL, 'l'},
                                            {"auth", required_argument, NULL, 'a'},
                                            {"instance", required_argument, NULL, 'i'},
                                            {0}};
    int option, index;

    *a = (arguments_t){.host = "127.0.0.1",
                       .instance = "",
                       .listen_fd = -1,
                       .local_fd = -1,
                       .ready_fd = -1};
    while ((option = crti_whole_option(argc, argv, "", options, &index)) != -1) {
        switch (option) {
        case 'd': a->head_dir = optarg; break;
        case 'h': a->host = optarg; break;
        case 'k': a->key_file = optarg; break;
        case 'l': a->log = optarg; break;
        case 'i': a->instance = optarg; break;
        case 't': a->listen_fd = atoi(optarg); break;
        case 'u': a->local_fd = atoi(optarg); break;
        case 'c': a->certificate = optarg; break;
        case 'e': a->has_tls = true; break;
        case 'a': a->is_open = strcmp(optarg, "none") == 0; break;
        case 's': a->certificate_key = optarg; break;
        case 'r': a->ready_fd = atoi(optarg); break;
        default: return crt_raise(CRT_ERR_INVALID, "unknown option");
        }
    }
    if (!a->head_dir || !a->key_file || optind != argc || a->listen_fd < 0 ||
        a->local_fd < 0 || !a->certificate != !a->certificate_key)
        return crt_raise(CRT_ERR_INVALID,
                         "usage: crt-http --head-dir DIR --host H --key-file F "
                         "--listen-fd N --local-fd N --ready-fd N");
    return CRT_OK;
}

/* The directory of the key, which is the head's. */
static void state_file(const arguments_t *a, const char *name, char path[PATH_MAX])
{
    const char *slash = strrchr(a->key_file, '/');

    snprintf(path, PATH_MAX, "%.*s%s", slash ? (int)(slash + 1 - a->key_file) : 0,
             a->key_file, name);
}

static crt_status_t choose_certificate(const arguments_t *a, const crti_key_t *key,
                                       crti_certificate_t *certificate)
{
    char directory[PATH_MAX], *slash;

    if (a->certificate) {
        snprintf(certificate->chain, PATH_MAX, "%s", a->certificate);
        snprintf(certificate->key, PATH_MAX, "%s", a->certificate_key);
        return crti_certificate_check(certificate);
    }
    if (!a->has_tls)
        return CRT_OK;
    snprintf(directory, sizeof(directory), "%s", a->key_file);
    slash = strrchr(directory, '/');
    if (slash)
        *slash = '\0';
    else
        strcpy(directory, ".");
    return crti_certificate_make(key, directory, a->host, certificate);
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
    char socket_path[4096], programs[4096], audit_log[PATH_MAX];
    crti_certificate_t certificate = {0};
    crti_key_t key;
    crti_http_options_t options = {.host = a->host,
                                   .listen_fd = a->listen_fd,
                                   .local_fd = a->local_fd,
                                   .key_file = a->key_file,
                                   .head_dir = a->head_dir,
                                   .head_socket = socket_path,
                                   .programs = programs,
                                   .audit_log = audit_log,
                                   .is_open = a->is_open};
    crt_status_t status = crti_state_dir(programs, sizeof(programs) - 16);

    if (status != CRT_OK)
        return status;
    strcat(programs, "/programs");
    snprintf(socket_path, sizeof(socket_path), "%s/head.sock", a->head_dir);
    state_file(a, "audit.log", audit_log);
    status = crti_key_load(a->key_file, &key);
    if (status != CRT_OK)
        return status;
    options.key = &key;
    options.instance = a->instance;
    status = choose_certificate(a, &key, &certificate);
    if (certificate.chain[0]) {
        options.certificate = certificate.chain;
        options.certificate_key = certificate.key;
    }
    if (status == CRT_OK)
        status = crti_http_server_new(&options, &server);
    crti_key_wipe(&key, sizeof(key));
    if (status != CRT_OK)
        return status;
    crti_log(CRTI_LOG_INFO, "http", "serves %s", crti_http_server_url(server));
    if (crti_scrape_target_write(a->key_file, crti_http_server_url(server)) != CRT_OK)
        crti_log(CRTI_LOG_WARN, "http", "Prometheus finds no target: %s",
                 crt_error_detail());
    report(&a->ready_fd, "ready http", crti_http_server_url(server));
    status = crti_http_server_run(server);
    crti_scrape_target_remove(a->key_file);
    return status;
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
    mallopt(M_MMAP_THRESHOLD, LARGE); /* bodies and replies go back when they are freed */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a limit on files is an error of write */
    unsetenv("CRT_JOB");      /* of whoever started the head: calls are no part of it */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before the line above */
        return 1;
    crti_log_select(selection ? selection : "info");
    status = parse(argc, argv, &arguments);
    if (status == CRT_OK)
        status = crti_limits_load();
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
