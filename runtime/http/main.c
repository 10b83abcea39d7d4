/* SPDX-License-Identifier: Apache-2.0 */
/* crt-http: dashboard and REST API, a process of its own, so that a parser's bug can't stop
 * scheduling. Started by crt-head, which starts it again when it dies.
 *
 * Its options are CRTI_HTTP_OPTIONS. It serves at the descriptors that it inherits, --listen-fd
 * and --local-fd. Failure: before it serves, one line "error TEXT" on the ready descriptor and exit
 * status 1. It ends with its parent.
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
#include "runtime/daemon/daemon_options.h"
#include "runtime/daemon/lifeline.h"
#include "runtime/daemon/option_list.h"
#include "runtime/daemon/ready.h"
#include "runtime/http/certificate.h"
#include "runtime/http/scrape_target.h"
#include "runtime/http/server.h"
#include "runtime/net/key.h"

#define LARGE                                                                            \
    (128 << 10) /* bytes of memory that is the system's again when it is freed */

#define TABLE(O)                                                                         \
    CRTI_STARTED_OPTIONS(O)                                                              \
    CRTI_HTTP_OPTIONS(O)

typedef struct arguments {
    TABLE(CRTI_OPTION_FIELD)
} arguments_t;

static crt_status_t parse(int argc, char **argv, arguments_t *o)
{
    const option_spec_t table[] = {TABLE(CRTI_OPTION_ROW)};
    option_scan_t scan = {.options = table, .count = sizeof(table) / sizeof(table[0])};

    *o = (arguments_t){0};
    CRT_TRY(crti_daemon_options(&scan, argc, argv));
    if (!o->head_dir || !o->programs || !o->key_file || o->listen_fd < 0 ||
        o->local_fd < 0 || !o->cert != !o->cert_key)
        return crt_raise(
            CRT_ERR_INVALID,
            "crt-http: --head-dir, --programs, --key-file, --listen-fd and --local-fd "
            "are needed, and --cert and --cert-key go together");
    return crti_limits_load();
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

    if (a->cert) {
        snprintf(certificate->chain, PATH_MAX, "%s", a->cert);
        snprintf(certificate->key, PATH_MAX, "%s", a->cert_key);
        return crti_certificate_check(certificate);
    }
    if (!a->tls)
        return CRT_OK;
    snprintf(directory, sizeof(directory), "%s", a->key_file);
    slash = strrchr(directory, '/');
    if (slash)
        *slash = '\0';
    else
        strcpy(directory, ".");
    return crti_certificate_make(key, directory, a->host, certificate);
}

static crt_status_t serve(arguments_t *a)
{
    CRTI_AUTO(crti_http_server_free) crti_http_server_t *server = NULL;
    char socket_path[4096], audit_log[PATH_MAX], line[1200] = "ready";
    crti_certificate_t certificate = {0};
    crti_key_t key;
    crti_http_options_t options = {.host = a->host,
                                   .name = a->name,
                                   .listen_fd = a->listen_fd,
                                   .local_fd = a->local_fd,
                                   .key_file = a->key_file,
                                   .head_dir = a->head_dir,
                                   .head_socket = socket_path,
                                   .programs = a->programs,
                                   .audit_log = audit_log,
                                   .is_open = strcmp(a->auth, "none") == 0};
    crt_status_t status;

    snprintf(socket_path, sizeof(socket_path), "%s/head.sock", a->head_dir);
    state_file(a, "audit.log", audit_log);
    status = crti_key_load(a->key_file, &key);
    if (status != CRT_OK)
        return status;
    options.key = &key;
    options.instance = a->instance ? a->instance : "";
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
    crti_ready_add(line, sizeof(line) - 1, "http", crti_http_server_url(server));
    strcat(line, "\n");
    crti_ready_tell(&a->ready_fd, line);
    status = crti_http_server_run(server);
    crti_scrape_target_remove(a->key_file);
    return status;
}

int main(int argc, char **argv)
{
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
    crti_daemon_log_select();
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
    crti_ready_fail(&arguments.ready_fd, crt_error_detail());
    return 1;
}
