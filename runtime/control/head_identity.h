/* SPDX-License-Identifier: Apache-2.0 */
/* Whose tables these are: a head that starts again must find those that the head before it left,
 * and not end what runs because redis-server was emptied, restored from something else, or moved
 * away meanwhile.
 *
 * Where it sits
 *     redis.c (all rows are loaded, a row is durable) -> head.c -> [ control/head_identity.c ] ->
 *     STATE/head-PORT/cluster
 * Rule
 *     The file holds the id of the cluster from its first durable row on, until the cluster is
 *     ended cleanly or forgotten by --fresh. A head on another host (--redis-address) has none, and
 *     takes what is there.
 */
#ifndef CRTI_CONTROL_HEAD_IDENTITY_H
#define CRTI_CONTROL_HEAD_IDENTITY_H

#include "runtime/base/id.h"
#include "runtime/control/store/redis_endpoint.h"

/* Before redis-server is started, which would begin anew, over what is left, where its list of
 * files is missing. CRT_ERR_CORRUPT: there were tables in `data`, and they are gone. */
crt_status_t crti_head_identity_check_files(const char *path, const char *data);
/* When the rows are loaded: `found` says that there were any, `cluster` is the id that they name,
 * or that of a new cluster. CRT_ERR_CORRUPT: the file at `path` names another one. */
crt_status_t crti_head_identity_check(const char *path, bool found, crti_id_t cluster,
                                      const crti_redis_external_t *redis);
/* Where it can't be written there is a warning. */
void crti_head_identity_keep(const char *path, crti_id_t cluster);

#endif
