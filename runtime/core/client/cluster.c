/* SPDX-License-Identifier: Apache-2.0 */
/* Which clusters run on this host, and which one is meant.
 *
 * Where it sits
 *     RUN/head-PORT/head.info, RUN/node-HEX8/node.info -> [ core/client/cluster.c ] -> client.c,
 *     the command
 * A private cluster keeps the same directories one level deeper. A directory counts while its
 * daemon holds its lock; what a killed daemon left is passed over here (`crt stop` removes it).
 * Run directories may be shared by clusters of several state directories: where CRT_STATE_DIR is
 * set, a search finds those of that one alone, and others only by their address. Threads: any; no
 * state.
 */
#include "runtime/crt.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "runtime/base/address.h"
#include "runtime/base/copy_struct.h"
#include "runtime/base/rundir.h"
#include "runtime/core/client/cluster_place.h"
#include "runtime/net/key.h"

#define LIST_FIRST 64
/* In the first version. */
#define INFO_FIRST CRTI_SIZE_TO(crt_cluster_info_t, is_private)

typedef struct list {
    crt_cluster_info_t *infos;
    size_t room, count;
} list_t;

static void closedir_auto(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Calls `visit` for every directory below `path` whose name begins with `prefix`. */
static void each_dir(const char *path, const char *prefix,
                     void (*visit)(list_t *list, const char *path), list_t *list)
{
    CRTI_AUTO(closedir) DIR *dir = opendir(path);
    struct dirent *entry;
    char below[96];

    while (dir && (entry = readdir(dir))) {
        if (!starts_with(entry->d_name, prefix))
            continue;
        if (snprintf(below, sizeof(below), "%s/%s", path, entry->d_name) <
            (int)sizeof(below))
            visit(list, below);
    }
}

static void add(list_t *list, const crt_cluster_info_t *info)
{
    if (list->count < list->room)
        list->infos[list->count] = *info;
    list->count++;
}

#define GET(field) crti_info_get(text, #field, info.field, sizeof(info.field))

/* The dashboard is the head's: where that is on this host, only its own file is believed, and only
 * while it lives. The port of one that died may be a stranger's now. The control store, too. */
static void read_head(crt_cluster_info_t *info)
{
    CRTI_AUTO(free) char *text = NULL;
    char file[112];

    if (!info->head_dir[0])
        return;
    info->http[0] = '\0';
    snprintf(file, sizeof(file), "%s/head.info", info->head_dir);
    if (!crti_dir_is_locked(info->head_dir) || crti_info_read(file, &text) != CRT_OK)
        return;
    crti_info_get(text, "http", info->http, sizeof(info->http));
    crti_info_get(text, "control_store", info->control_store,
                  sizeof(info->control_store));
}

/* Its lock is held by the watchdog, too, which ends what a killed daemon has left. */
static bool is_daemon_gone(const char *info)
{
    pid_t pid = (pid_t)crti_info_int(info, "pid");
    uint64_t said = (uint64_t)crti_info_int(info, "start"), start = 0;

    return said && (crti_process_is_ending(pid) ||
                    crti_process_start(pid, &start) != CRT_OK || start != said);
}

static void visit_node(list_t *list, const char *path)
{
    CRTI_AUTO(free) char *text = NULL;
    crt_cluster_info_t info = {0};
    char file[112];

    snprintf(file, sizeof(file), "%s/node.info", path);
    if (!crti_dir_is_locked(path) || crti_info_read(file, &text) != CRT_OK ||
        is_daemon_gone(text))
        return;
    snprintf(info.run_dir, sizeof(info.run_dir), "%s", path);
    GET(address);
    GET(head_dir);
    GET(node);
    GET(node_ip);
    GET(http);
    GET(http_pin);
    GET(key_file);
    GET(state_dir);
    snprintf(info.object_store, sizeof(info.object_store), "%s/node.sock", path);
    read_head(&info);
    info.pid = crti_info_int(text, "pid");
    info.is_private = crti_info_int(text, "private") != 0;
    add(list, &info);
}

/* A head is an entry of its own only where no node of its cluster was found. */
static void visit_head(list_t *list, const char *path)
{
    CRTI_AUTO(free) char *text = NULL;
    crt_cluster_info_t info = {0};
    char file[112];

    snprintf(file, sizeof(file), "%s/head.info", path);
    if (!crti_dir_is_locked(path) || crti_info_read(file, &text) != CRT_OK)
        return;
    for (size_t i = 0; i < list->count && i < list->room; i++)
        if (strcmp(list->infos[i].head_dir, path) == 0)
            return;
    snprintf(info.head_dir, sizeof(info.head_dir), "%s", path);
    GET(address);
    GET(http);
    GET(control_store);
    GET(key_file);
    GET(state_dir);
    info.pid = crti_info_int(text, "pid");
    info.is_private = crti_info_int(text, "private") != 0;
    add(list, &info);
}

static void visit_private(list_t *list, const char *path)
{
    each_dir(path, "node-", visit_node, list);
    each_dir(path, "head-", visit_head, list);
}

static crt_status_t list_here(crt_cluster_info_t *infos, size_t room, size_t *count_out)
{
    list_t list = {.infos = infos, .room = room};
    char run[96];
    crt_status_t status = crti_run_dir(run, sizeof(run));

    if (status != CRT_OK)
        return status;
    visit_private(&list, run);
    each_dir(run, "private-", visit_private, &list);
    *count_out = list.count;
    return CRT_OK;
}

/* However many there are: some may begin while they are counted. */
static crt_status_t list_all(crt_cluster_info_t **infos_out, size_t *count_out)
{
    size_t room = LIST_FIRST;

    for (;;) {
        CRTI_AUTO(free) crt_cluster_info_t *infos = calloc(room, sizeof(*infos));
        crt_status_t status;

        if (!infos)
            return crt_raise(CRT_ERR_NO_MEMORY, "a list of %zu nodes", room);
        status = list_here(infos, room, count_out);
        if (status == CRT_OK && *count_out > room) {
            room = 2 * *count_out;
            continue;
        }
        if (status == CRT_OK)
            *infos_out = CRTI_TAKE(infos);
        return status;
    }
}

crt_status_t crti_cluster_place(const char *run_dir, crt_cluster_info_t *info_out)
{
    list_t list = {.infos = info_out, .room = 1};

    visit_node(&list, run_dir);
    return list.count
               ? CRT_OK
               : crt_raise(CRT_ERR_NOT_FOUND, "no node runs in %s any more", run_dir);
}

static bool is_own_node(const crt_cluster_info_t *info)
{
    const char *own = getenv("CRT_NODE_DIR");

    return own && info->run_dir[0] && strcmp(info->run_dir, own) == 0;
}

/* It is drained or ends: a program that joins it would lose it. */
static bool is_leaving(const crt_cluster_info_t *info)
{
    CRTI_AUTO(free) char *text = NULL;
    char file[112];

    snprintf(file, sizeof(file), "%s/node.info", info->run_dir);
    return info->run_dir[0] &&
           (crti_info_read(file, &text) != CRT_OK || crti_info_int(text, "leaving") != 0);
}

/* HOST:PORT; a host of colons stands in brackets. */
static bool is_address(const char *text)
{
    const char *colon = strrchr(text, ':');
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;

    return colon && colon > text && strcspn(text, " /") == strlen(text) && digits > 0 &&
           digits < 6 && !colon[1 + digits] && atol(colon + 1) > 0 &&
           atol(colon + 1) < 65536;
}

/* True when `path`, the state directory of a head or node, is in `state`, however that is
 * spelled. */
static bool is_below(const char *path, const char *state)
{
    char parent[256];
    struct stat a, b;

    snprintf(parent, sizeof(parent), "%s", path);
    if (!strrchr(parent, '/'))
        return false;
    *strrchr(parent, '/') = '\0';
    return strcmp(parent, state) == 0 || (stat(parent, &a) == 0 && stat(state, &b) == 0 &&
                                          a.st_dev == b.st_dev && a.st_ino == b.st_ino);
}

/* A node may have joined from another state directory than that of its head: it belongs to both. */
static bool is_of_state_dir(const crt_cluster_info_t *info, const char *state)
{
    CRTI_AUTO(free) char *text = NULL;
    char file[112], head_state[sizeof(info->state_dir)];

    if (is_below(info->state_dir, state))
        return true;
    snprintf(file, sizeof(file), "%s/head.info", info->head_dir);
    return info->head_dir[0] && crti_info_read(file, &text) == CRT_OK &&
           is_below(crti_info_get(text, "state_dir", head_state, sizeof(head_state)),
                    state);
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

/* Whoever says with which key must mean that cluster. What its own node executed does: a program's
 * environment may come from another host. */
static crt_status_t check_key(const crt_cluster_info_t *info)
{
    const char *given = variable("CRT_KEY_FILE");
    crti_key_t key, its;
    char why[512];
    bool is_same;

    if (!given || is_own_node(info))
        return CRT_OK;
    if (crti_key_load(given, &key) != CRT_OK || crti_key_load(info->key_file, &its)) {
        snprintf(why, sizeof(why), "%s", crt_error_detail());
        return crt_raise(CRT_ERR_INVALID,
                         "can't compare key file %s with the key of the cluster %s: %s",
                         given, info->address, why);
    }
    is_same = sodium_memcmp(&key, &its, sizeof(key)) == 0;
    crti_key_wipe(&key, sizeof(key));
    crti_key_wipe(&its, sizeof(its));
    if (is_same)
        return CRT_OK;
    return crt_raise(CRT_ERR_PERMISSION,
                     "key file %s is not the key of the cluster %s, which is in %s: give "
                     "that one, or name another cluster",
                     given, info->address, info->key_file);
}

static crt_status_t found_none(const char *address, const char *state, const char *other)
{
    if (address)
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "no node of the cluster %s runs on this host; join it with: crt "
                         "start --address %s --key-file FILE",
                         address, address);
    if (other)
        return crt_raise(
            CRT_ERR_NOT_FOUND,
            "no cluster of CRT_STATE_DIR=%s runs on this host; start one with: "
            "crt start --head, or name the one of another state directory with "
            "--address %s or CRT_ADDRESS",
            state, other);
    return crt_raise(CRT_ERR_NOT_FOUND,
                     "no cluster runs on this host; start one with: crt start --head");
}

static bool is_meant(const crt_cluster_info_t *info, const char *address,
                     const char *state)
{
    if (address)
        return crti_address_equal(info->address, address);
    return !info->is_private && (!state || is_of_state_dir(info, state));
}

/* Several: the error lists each address once. */
static crt_status_t several(const crt_cluster_info_t *infos, size_t count,
                            const char *state)
{
    char text[800] = "";
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        if (!is_meant(&infos[i], NULL, state) || strstr(text, infos[i].address))
            continue;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
                                 used ? ", " : "", infos[i].address);
        if (used >= sizeof(text))
            break;
    }
    return crt_raise(CRT_ERR_EXISTS,
                     "several clusters run here (%s): say which with --address or "
                     "CRT_ADDRESS",
                     text);
}

/* The address that was given, or that of the variable; NULL: none was. */
static crt_status_t named(const char **address)
{
    const char *from = "";

    if (!*address || !**address) {
        *address = variable("CRT_ADDRESS");
        from = "CRT_ADDRESS: ";
    }
    if (*address && !is_address(*address))
        return crt_raise(CRT_ERR_INVALID,
                         "%s\"%s\" is no address of a cluster; one is HOST:PORT, for "
                         "example 10.0.0.1:6380",
                         from, *address);
    return CRT_OK;
}

static crt_status_t check_size(size_t size)
{
    return size >= INFO_FIRST
               ? CRT_OK
               : crt_raise(CRT_ERR_INVALID,
                           "a crt_cluster_info_t of %zu bytes: give sizeof of it", size);
}

crt_status_t crt_cluster_list(crt_cluster_info_t *infos, size_t info_size, size_t room,
                              size_t *count_out)
{
    CRTI_AUTO(free) crt_cluster_info_t *all = NULL;
    crt_status_t status = check_size(info_size);

    if (status == CRT_OK)
        status = list_all(&all, count_out);
    for (size_t i = 0; status == CRT_OK && i < *count_out && i < room; i++)
        crti_give_struct((char *)infos + i * info_size, info_size, &all[i],
                         sizeof(all[i]));
    return status;
}

bool crt_cluster_same_address(const char *a, const char *b)
{
    return crti_address_equal(a, b);
}

crt_status_t crt_cluster_find(const char *address, size_t info_size,
                              crt_cluster_info_t *info_out)
{
    CRTI_AUTO(free) crt_cluster_info_t *infos = NULL;
    const crt_cluster_info_t *found = NULL;
    const char *state = variable("CRT_STATE_DIR"), *other = NULL;
    size_t count = 0;
    crt_status_t status;

    status = check_size(info_size);
    if (status == CRT_OK)
        status = named(&address);
    if (status != CRT_OK)
        return status;
    status = list_all(&infos, &count);
    if (status != CRT_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        if (!is_meant(&infos[i], address, state)) {
            other = infos[i].is_private ? other : infos[i].address;
            continue;
        }
        if (found && strcmp(found->address, infos[i].address) != 0)
            return several(infos, count, state);
        /* Nodes come before heads in the list of one directory: the first that stays is the
         * best, unless one of them is the node that executed this process. */
        if (!found || is_own_node(&infos[i]) ||
            (infos[i].run_dir[0] && !is_own_node(found) && is_leaving(found)))
            found = &infos[i];
    }
    if (!found)
        return found_none(address, state, other);
    status = check_key(found);
    if (status == CRT_OK)
        crti_give_struct(info_out, info_size, found, sizeof(*found));
    return status;
}
