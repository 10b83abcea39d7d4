/* SPDX-License-Identifier: Apache-2.0 */
/* The head's crt-http process: started, and started again when it dies, so that a fault in a
 * parser can't stop scheduling. It listens at sockets that the head holds as long as it lives. */
#ifndef CRTI_CONTROL_HEAD_HTTP_H
#define CRTI_CONTROL_HEAD_HTTP_H

#include <sys/types.h>

#include "runtime/net/loop.h"

typedef struct crti_head_http crti_head_http_t;

typedef struct crti_head_http_config {
    crti_loop_t *loop;
    const char *host; /* NULL: no dashboard */
    const char *name; /* by which others call it; NULL: that of this host */
    const char *ip;   /* of the head, for other hosts */
    uint16_t port;
    const char *certificate,
        *certificate_key; /* files; NULL: crt-http makes one at need */
    bool is_open;         /* it wants no token: on loopback only */
    const char *head_dir, *programs, *key_file, *log, *socket; /* kept by the caller */
    void *user;
    /* It serves, or there is none (problem NULL); or it can't, for this reason. */
    void (*on_change)(void *user, const char *problem);
} crti_head_http_config_t;

/* Listens. CRT_ERR_EXISTS: the port is taken; CRT_ERR_PERMISSION: others could reach one that is
 * open. */
crt_status_t crti_head_http_new(const crti_head_http_config_t *config,
                                crti_head_http_t **http_out);
/* SIGTERM, and after a second SIGKILL. NULL is fine. */
void crti_head_http_free(crti_head_http_t *http);

/* on_change follows, inside this call when there is no dashboard. */
crt_status_t crti_head_http_start(crti_head_http_t *http);

/* For nodes on other hosts: the URL of the dashboard, "" where they can't reach it; and the pin of
 * a certificate of the user's own, "" where it follows from the cluster's key. */
const char *crti_head_http_far_url(const crti_head_http_t *http);
const char *crti_head_http_far_pin(const crti_head_http_t *http);

/* URL of the dashboard, "" while there is none. */
const char *crti_head_http_address(const crti_head_http_t *http);
pid_t crti_head_http_pid(const crti_head_http_t *http);

#endif
