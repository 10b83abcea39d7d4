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
#include "runtime/daemon/daemon_options.h"

#define REMAINS_MS 3000

/* ---------------------------------------------------------------- arguments */

/* What follows from the texts. */
static crt_status_t derive(crti_head_options_t *o)
{
    CRT_TRY(crti_ip_check(o->node_ip_address ? o->node_ip_address : "127.0.0.1", o->ip));
    if (!o->dashboard_cert != !o->dashboard_key)
        return crt_raise(CRT_ERR_INVALID,
                         "--dashboard-cert and --dashboard-key go together");
    o->redis = (crti_redis_external_t){.address = o->redis_address,
                                       .password_file = o->redis_password_file,
                                       .prefix = o->redis_prefix,
                                       .user = o->redis_user,
                                       .ca_file = o->redis_ca_file,
                                       .tls = o->redis_tls,
                                       .plaintext_ok = o->redis_plaintext_ok};
    return crti_redis_external_check(&o->redis);
}

crt_status_t crti_head_options_parse(int argc, char **argv,
                                     crti_head_options_t *options_out)
{
    crti_head_options_t *o = options_out;
    const option_spec_t table[] = {CRTI_HEAD_TABLE(CRTI_OPTION_ROW)};
    option_scan_t scan = {.options = table, .count = sizeof(table) / sizeof(table[0])};

    *o = (crti_head_options_t){0};
    CRT_TRY(crti_daemon_options(&scan, argc, argv));
    CRT_TRY(derive(o));
    return crti_limits_load();
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
    snprintf(p->programs, PATH_MAX, "%s/programs",
             options->private_dir ? options->private_dir : state);
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
