/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments and directories of crt-head. See head_options.h. */
#include "runtime/control/head_options.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/limit.h"
#include "runtime/base/rundir.h"
#include "runtime/base/whole_options.h"

#define REMAINS_MS 3000

/* ---------------------------------------------------------------- arguments */

static crt_status_t number(const char *name, const char *text, uint64_t most,
                           uint64_t *value_out)
{
    char *end;

    errno = 0;
    *value_out = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || *value_out > most)
        return crt_raise(CRT_ERR_INVALID, "--%s: \"%s\" is not a number of 0 to %llu",
                         name, text, (unsigned long long)most);
    return CRT_OK;
}

static crt_status_t on_off(const char *name, const char *text, bool *value_out)
{
    if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
        return crt_raise(CRT_ERR_INVALID, "--%s: \"%s\" is neither on nor off", name,
                         text);
    *value_out = strcmp(text, "on") == 0;
    return CRT_OK;
}

static crt_status_t on_deadlock(const char *text, bool *fail_youngest_out)
{
    *fail_youngest_out = strcmp(text, "fail-youngest") == 0;
    if (!*fail_youngest_out && strcmp(text, "tell") != 0)
        return crt_raise(CRT_ERR_INVALID,
                         "--on-resource-deadlock: \"%s\" is neither tell nor "
                         "fail-youngest",
                         text);
    return CRT_OK;
}

static crt_status_t take(crti_head_options_t *o, const char *name, const char *text)
{
    uint64_t value = 0;
    crt_status_t status = CRT_OK;

    if (strcmp(name, "port") == 0) {
        status = number(name, text, 65535, &value);
        o->port = (uint16_t)value;
    } else if (strcmp(name, "node-ip-address") == 0) {
        status = crti_ip_check(text, o->ip);
    } else if (strcmp(name, "dashboard-host") == 0) {
        o->dashboard_host = text;
    } else if (strcmp(name, "dashboard-cert") == 0) {
        o->dashboard_certificate = text;
    } else if (strcmp(name, "dashboard-key") == 0) {
        o->dashboard_key = text;
    } else if (strcmp(name, "dashboard-port") == 0) {
        if (strcmp(text, "none") == 0) {
            o->dashboard_host = NULL;
        } else {
            status = number(name, text, 65535, &value);
            o->dashboard_port = (uint16_t)value;
        }
    } else if (strcmp(name, "ready-fd") == 0) {
        status = number(name, text, INT_MAX, &value);
        o->ready_fd = (int)value;
    } else if (strcmp(name, "lifeline-fd") == 0) {
        status = number(name, text, INT_MAX, &value);
        o->lifeline_fd = (int)value;
    } else if (strcmp(name, "autoscaler-fd") == 0) {
        status = number(name, text, INT_MAX, &value);
        o->autoscaler_fd = (int)value;
    } else if (strcmp(name, "private") == 0) {
        o->private_dir = text;
    } else if (strcmp(name, "headless-timeout") == 0) {
        status = number(name, text, 1000000000, &value);
        o->headless_timeout_ms = value * 1000;
    } else if (strcmp(name, "max-running-jobs") == 0) {
        status = number(name, text, 1000000, &value);
        o->max_jobs = (size_t)value;
    } else if (strcmp(name, "encrypt-streams") == 0) {
        status = on_off(name, text, &o->encrypt_streams);
    } else if (strcmp(name, "fail-if-infeasible") == 0) {
        status = on_off(name, text, &o->fail_if_infeasible);
    } else if (strcmp(name, "on-resource-deadlock") == 0) {
        status = on_deadlock(text, &o->fail_youngest);
    } else if (strcmp(name, "redis-address") == 0) {
        o->redis.address = text;
    } else if (strcmp(name, "redis-password-file") == 0) {
        o->redis.password_file = text;
    } else if (strcmp(name, "redis-prefix") == 0) {
        o->redis.prefix = text;
    } else if (strcmp(name, "redis-user") == 0) {
        o->redis.user = text;
    } else if (strcmp(name, "redis-tls") == 0) {
        o->redis.tls = true;
    } else if (strcmp(name, "redis-ca-file") == 0) {
        o->redis.ca_file = text;
    } else if (strcmp(name, "redis-plaintext-ok") == 0) {
        o->redis.plaintext_ok = true;
    } else if (strcmp(name, "fresh") == 0) {
        o->fresh = true;
    } else if (strcmp(name, "no-auth") == 0) {
        o->no_auth = true;
    } else {
        o->help = true;
    }
    return status;
}

crt_status_t crti_head_options_parse(int argc, char **argv,
                                     crti_head_options_t *options_out)
{
    static const struct option names[] = {
        {"port", required_argument, NULL, 0},
        {"node-ip-address", required_argument, NULL, 0},
        {"dashboard-host", required_argument, NULL, 0},
        {"dashboard-cert", required_argument, NULL, 0},
        {"dashboard-key", required_argument, NULL, 0},
        {"dashboard-port", required_argument, NULL, 0},
        {"ready-fd", required_argument, NULL, 0},
        {"lifeline-fd", required_argument, NULL, 0},
        {"autoscaler-fd", required_argument, NULL, 0},
        {"private", required_argument, NULL, 0},
        {"headless-timeout", required_argument, NULL, 0},
        {"fail-if-infeasible", required_argument, NULL, 0},
        {"on-resource-deadlock", required_argument, NULL, 0},
        {"encrypt-streams", required_argument, NULL, 0},
        {"redis-address", required_argument, NULL, 0},
        {"redis-password-file", required_argument, NULL, 0},
        {"redis-prefix", required_argument, NULL, 0},
        {"redis-user", required_argument, NULL, 0},
        {"redis-tls", no_argument, NULL, 0},
        {"redis-ca-file", required_argument, NULL, 0},
        {"redis-plaintext-ok", no_argument, NULL, 0},
        {"fresh", no_argument, NULL, 0},
        {"no-auth", no_argument, NULL, 0},
        {"max-running-jobs", required_argument, NULL, 0},
        {"help", no_argument, NULL, 0},
        {NULL, 0, NULL, 0},
    };
    crti_head_options_t o = {.ip = "127.0.0.1",
                             .dashboard_host = "127.0.0.1",
                             .port = 6380,
                             .dashboard_port = 8265,
                             .ready_fd = -1,
                             .lifeline_fd = -1,
                             .autoscaler_fd = -1,
                             .headless_timeout_ms = 600 * 1000,
                             .encrypt_streams = true};
    crt_status_t status = CRT_OK;
    int index, letter;

    opterr = 0;
    optind = 1;
    while (status == CRT_OK &&
           (letter = crti_whole_option(argc, argv, "", names, &index)) != -1)
        status = letter ? crt_raise(CRT_ERR_INVALID, "unknown or incomplete argument %s",
                                    argv[optind - 1])
                        : take(&o, names[index].name, optarg);
    if (status == CRT_OK && optind < argc)
        status = crt_raise(CRT_ERR_INVALID, "unexpected argument %s", argv[optind]);
    if (status == CRT_OK && !o.dashboard_certificate != !o.dashboard_key)
        status = crt_raise(CRT_ERR_INVALID,
                           "--dashboard-cert and --dashboard-key go together");
    if (status == CRT_OK)
        status = crti_redis_external_check(&o.redis);
    if (status == CRT_OK)
        status = crti_limits_load();
    /* Also after an error: it is told there. */
    *options_out = o;
    return status;
}

void crti_head_options_usage(void)
{
    printf(
        "crt-head is started by: crt start --head\n"
        "    --port P  --node-ip-address IP  --dashboard-host H  --no-auth\n"
        "    --dashboard-port P|none  --dashboard-cert F  --dashboard-key F\n"
        "    --ready-fd N  --lifeline-fd N  --autoscaler-fd N  --fresh  --private DIR\n"
        "    --headless-timeout S  --encrypt-streams on|off  --fail-if-infeasible "
        "on|off  --max-running-jobs N\n"
        "    --on-resource-deadlock tell|fail-youngest\n"
        "    --redis-address H:P  --redis-password-file F  --redis-prefix P\n"
        "    --redis-user NAME  --redis-tls  --redis-ca-file F  --redis-plaintext-ok\n");
}

/* ---------------------------------------------------------------- directories */

static crt_status_t join(char path[PATH_MAX], const char *dir, const char *name)
{
    if (snprintf(path, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "the path %s/%s is too long", dir, name);
    return CRT_OK;
}

static crt_status_t name_dirs(const crti_head_options_t *options, uint16_t port,
                              crti_head_paths_t *p)
{
    char run[PATH_MAX - 32], state[PATH_MAX - 32];
    crt_status_t status = CRT_OK;

    if (options->private_dir) {
        if (strlen(options->private_dir) >= sizeof(run) - 8)
            return crt_raise(CRT_ERR_TOO_LARGE, "--private: the path is too long");
        snprintf(run, sizeof(run), "%s", options->private_dir);
        snprintf(state, sizeof(state), "%s/state", options->private_dir);
    } else {
        status = crti_run_dir(run, sizeof(run));
        if (status == CRT_OK)
            status = crti_state_dir(state, sizeof(state));
    }
    if (status != CRT_OK)
        return status;
    snprintf(p->head_dir, PATH_MAX, "%s/head-%u", run, port);
    snprintf(p->state_dir, PATH_MAX, "%s/head-%u", state, port);
    return status;
}

crt_status_t crti_head_paths_make(const crti_head_options_t *options, uint16_t port,
                                  crti_head_paths_t *paths_out)
{
    crti_head_paths_t *p = paths_out;
    crt_status_t status = name_dirs(options, port, p);
    const struct {
        char *path;
        const char *dir, *name;
    } all[] = {
        {p->info, p->head_dir, "head.info"},
        {p->socket, p->head_dir, "head.sock"},
        {p->key, p->state_dir, "cluster.key"},
        {p->token, p->state_dir, "token"},
        {p->data, p->state_dir, "redis"},
        {p->log, p->state_dir, "head.log"},
        {p->http_log, p->state_dir, "http.log"},
        {p->scaler_log, p->state_dir, "scaler.log"},
        {p->revoked, p->state_dir, "revoked"},
        {p->http_socket, p->head_dir, "http.sock"},
        {p->cluster, p->state_dir, "cluster"},
    };

    for (size_t i = 0; status == CRT_OK && i < sizeof(all) / sizeof(all[0]); i++)
        status = join(all[i].path, all[i].dir, all[i].name);
    if (status != CRT_OK)
        return status;
    crti_dir_first_missing(p->state_dir, p->made_state, PATH_MAX);
    crti_dir_first_missing(p->head_dir, p->made_run, PATH_MAX);
    status = crti_dir_make(p->state_dir);
    if (status == CRT_OK) /* last: whoever could not start leaves none behind */
        status = crti_dir_make(p->head_dir);
    return status;
}

void crti_head_paths_unmake(const crti_head_paths_t *p)
{
    if (p->made_state[0])
        crti_head_remove_tree(p->state_dir);
    crti_dir_unmake(p->state_dir, p->made_state);
    crti_dir_unmake(p->head_dir, p->made_run);
}

static int remove_one(const char *path, const struct stat *st, int kind,
                      struct FTW *where)
{
    remove(path);
    return 0;
}

void crti_head_remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void crti_head_paths_forget(const crti_head_paths_t *p)
{
    crti_head_remove_tree(p->data);
    unlink(p->revoked);
    unlink(p->cluster);
}

/* ---------------------------------------------------------------- remains */

/* True when the process has CRT_HEAD_DIR=`dir` in its environment. */
static bool belongs_to(int64_t pid, const char *dir)
{
    char path[64], wanted[PATH_MAX + 16];
    CRTI_AUTO(fclose) FILE *file = NULL;
    CRTI_AUTO(free) char *entry = NULL;
    size_t room = 0;

    snprintf(path, sizeof(path), "/proc/%lld/environ", (long long)pid);
    snprintf(wanted, sizeof(wanted), "CRT_HEAD_DIR=%s", dir);
    file = fopen(path, "re");
    while (file && getdelim(&entry, &room, '\0', file) > 0)
        if (strcmp(entry, wanted) == 0)
            return true;
    return false;
}

static void end_one(int64_t pid, const char *dir)
{
    CRTI_AUTO(crti_close)
    int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;
    struct pollfd waiting = {.fd = fd, .events = POLLIN};

    if (fd < 0 || !belongs_to(pid, dir))
        return;
    syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    while (poll(&waiting, 1, REMAINS_MS) < 0 && errno == EINTR)
        continue;
}

void crti_head_end_remains(const crti_head_paths_t *paths)
{
    CRTI_AUTO(free) char *text = NULL;

    if (crti_info_read(paths->info, &text) != CRT_OK)
        return;
    end_one(crti_info_int(text, "redis_pid"), paths->head_dir);
    end_one(crti_info_int(text, "http_pid"), paths->head_dir);
}
