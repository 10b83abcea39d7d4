/* SPDX-License-Identifier: Apache-2.0 */
/* Where a token may go. See http_target.h. */
#include "cli/http_target.h"
#include "crt_tools.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/run_dirs.h"
#include "runtime/base/rundir.h"

#define LOCAL_URL "http://localhost" /* only its path is looked at */

static const char *environment(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

/* Of the generation that is known here; the server may know a later one (crti_client_send). */
static crt_status_t make_token(http_target_t *target, const char *key_file)
{
    snprintf(target->key_file, sizeof(target->key_file), "%s", key_file);
    return crti_cluster_token(key_file, target->token);
}

/* A server that the user names. */
static crt_status_t find_named(const char *http, http_target_t *target)
{
    const char *given = environment("CRT_TOKEN");
    const char *key_file = environment("CRT_KEY_FILE");

    if (strncmp(http, "unix:", 5) == 0) {
        if (strlen(http + 5) >= sizeof(target->socket))
            return crt_raise(CRT_ERR_INVALID, "CRT_HTTP: the path is too long");
        strcpy(target->socket, http + 5);
        strcpy(target->url, LOCAL_URL);
    } else if (strstr(http, "://") && strncmp(http, "https://", 8) != 0) {
        return crt_raise(CRT_ERR_INVALID,
                         "CRT_HTTP=%s: the token would go to whoever listens there; use "
                         "https://HOST:PORT, or unix:PATH with a tunnel (ssh -L "
                         "PATH:RUN/head-PORT/http.sock HOST)",
                         http);
    } else {
        snprintf(target->url, sizeof(target->url), "%s%s",
                 strstr(http, "://") ? "" : "https://", http);
        if (key_file && crti_cluster_pin(key_file, target->pin) != CRT_OK)
            return CRT_ERR_IO; /* it said why */
    }
    if (given && strlen(given) < sizeof(target->token)) {
        strcpy(target->token, given);
        return CRT_OK;
    }
    if (!key_file)
        return crt_raise(CRT_ERR_NOT_FOUND, "CRT_HTTP needs CRT_TOKEN or CRT_KEY_FILE");
    return make_token(target, key_file);
}

/* The head of this host. Its socket is there as long as it lives, unless it has no dashboard. */
static crt_status_t find_local(const crt_cluster_info_t *cluster, http_target_t *target)
{
    const char *colon = strrchr(cluster->address, ':');

    if (!crti_dir_is_locked(cluster->head_dir))
        return crt_raise(CRT_ERR_HEAD_LOST,
                         "the head of the cluster %s is gone; nothing was sent. Start it "
                         "again with: crt start --head --port %s",
                         cluster->address, colon ? colon + 1 : "PORT");
    snprintf(target->socket, sizeof(target->socket), "%s/http.sock", cluster->head_dir);
    strcpy(target->url, LOCAL_URL);
    if (access(target->socket, F_OK) != 0)
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "the cluster %s has no HTTP server, which this command asks: "
                         "private clusters have none",
                         cluster->address);
    return make_token(target, cluster->key_file);
}

/* A head on another host: what it told its node here counts only with the proof. */
static crt_status_t find_far(const crt_cluster_info_t *cluster, http_target_t *target)
{
    crt_status_t status = CRT_OK;

    if (strncmp(cluster->http, "https://", 8) != 0)
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "the dashboard of the cluster %s serves its own host only: run "
                         "the command there, or start the head with --dashboard-host",
                         cluster->address);
    snprintf(target->url, sizeof(target->url), "%s", cluster->http);
    if (cluster->http_pin[0])
        snprintf(target->pin, sizeof(target->pin), "%s", cluster->http_pin);
    else
        status = crti_cluster_pin(cluster->key_file, target->pin);
    return status == CRT_OK ? make_token(target, cluster->key_file) : status;
}

/* Without the slashes behind it. */
static void name_url(const char *given, char *url, size_t size)
{
    size_t length = (size_t)snprintf(url, size, "%s", given);

    if (length >= size)
        length = size - 1;
    while (length && url[length - 1] == '/')
        url[--length] = '\0';
}

#define CLUSTERS_MAX 64

/* By whatever words their host is called. */
static bool is_same_url(const char *a, const char *b)
{
    const char *host_a = strstr(a, "://"), *host_b = strstr(b, "://");

    return host_a && host_b && host_a - a == host_b - b &&
           strncmp(a, b, (size_t)(host_a - a)) == 0 &&
           crt_cluster_same_address(host_a + 3, host_b + 3);
}

/* False: no head of this host serves there. */
static bool find_here(const char *url, crt_cluster_info_t *cluster_out)
{
    crt_cluster_info_t *all = calloc(CLUSTERS_MAX, sizeof(*all));
    size_t count = 0;
    bool is_found = false;

    if (all && crt_cluster_list(all, sizeof(all[0]), CLUSTERS_MAX, &count) != CRT_OK)
        count = 0;
    for (size_t i = 0; i < count && i < CLUSTERS_MAX && !is_found; i++) {
        is_found = all[i].head_dir[0] && is_same_url(all[i].http, url);
        if (is_found)
            *cluster_out = all[i];
    }
    free(all);
    return is_found;
}

/* The dashboard of a cluster, named by its URL. */
static crt_status_t find_url(const char *given, http_target_t *target)
{
    crt_cluster_info_t cluster;
    char url[sizeof(target->url)];

    name_url(given, url, sizeof(url));
    if (find_here(url, &cluster))
        return find_local(&cluster, target);
    if (strncmp(url, "https://", 8) == 0)
        return find_named(url, target);
    snprintf(target->url, sizeof(target->url), "%s", url);
    return CRT_OK;
}

crt_status_t crti_target_find(const char *address, http_target_t *target_out)
{
    const char *http = environment("CRT_HTTP");
    crt_cluster_info_t cluster;
    crt_status_t status;

    *target_out = (http_target_t){0};
    if (http && !address)
        return find_named(http, target_out);
    if (address && strstr(address, "://"))
        return find_url(address, target_out);
    status = crt_cluster_find(address, sizeof(cluster), &cluster);
    if (status != CRT_OK)
        return status;
    return cluster.head_dir[0] ? find_local(&cluster, target_out)
                               : find_far(&cluster, target_out);
}

crt_status_t crti_target_check_peer(const http_target_t *target, int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", target->socket, strerror(errno));
    if (peer.uid != geteuid() && peer.uid != 0)
        return crt_raise(CRT_ERR_PERMISSION,
                         "user %u listens at %s, neither you nor root; nothing was sent",
                         (unsigned)peer.uid, target->socket);
    return CRT_OK;
}
