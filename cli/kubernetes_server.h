/* SPDX-License-Identifier: Apache-2.0 */
/* The API server of Kubernetes, asked with the service account of a pod.
 *
 * Where it sits
 *     cli/kubernetes.c -> [ cli/kubernetes_server.c ] -> libcurl
 * Safety
 *     The token goes in a header, to a server that proves by the account's authority who it is, by
 *     no proxy and after no redirection. It is in no argument, variable or log.
 */
#ifndef CRTI_CLI_KUBERNETES_SERVER_H
#define CRTI_CLI_KUBERNETES_SERVER_H

#include <jansson.h>

#include "crt_base.h"

#define KUBERNETES_NAME 254 /* bytes of a name of an object, with its zero */

typedef struct kubernetes_server kubernetes_server_t;

/* `where`: {"server", "service_account", "namespace"}; what is not there is that of the pod that
 * this runs in. Caller owns the result. */
crt_status_t crti_kubernetes_open(const json_t *where, kubernetes_server_t **server_out);
void crti_kubernetes_close(kubernetes_server_t *server);
const char *crti_kubernetes_namespace(const kubernetes_server_t *server);

/* GET: the object, released by json_decref. `query`: NULL, or a selector of labels.
 * CRT_ERR_PERMISSION, CRT_ERR_NOT_FOUND, CRT_ERR_IO: the detail says what to do. */
crt_status_t crti_kubernetes_get(kubernetes_server_t *server, const char *path,
                                 const char *selector, json_t **object_out);

/* PATCH by merging; takes `change`. CRT_ERR_EXISTS: somebody has changed it meanwhile. */
crt_status_t crti_kubernetes_patch(kubernetes_server_t *server, const char *path,
                                   json_t *change_take);

#endif
