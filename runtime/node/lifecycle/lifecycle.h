/* SPDX-License-Identifier: Apache-2.0 */
/* Lifecycle of the node daemon: its start as others see it, its end, orphans.
 *
 * Where it sits
 *     head_link.c (registered, or refused), signals -> [ node/lifecycle ] -> node.info, the
 *     parent's pipe; jobs, submissions (told to end, killed after KILL_NS; then the zygotes; then
 *     the loop stops)
 */
#ifndef CRTI_NODE_LIFECYCLE_H
#define CRTI_NODE_LIFECYCLE_H

#include "runtime/node/options.h"
#include "runtime/node/types.h"

/* The end before `ready`: the parent hears why. */
void crti_node_fail_start(crti_node_t *node, const char *text);
/* NODE_REGISTERED came: node.info is written, and the first time the parent told. */
void crti_node_registered(crti_node_t *node, const crti_msg_node_registered_t *m);

/* In node.info: it takes no new work, programs join another node of this host if there is one. */
void crti_node_tell_leaving(crti_node_t *node);
/* Begins the orderly end. */
void crti_node_stop(crti_node_t *node, const char *why);
/* The head can't tell its processes from another node's: it ends, and begins anew with another
 * id. */
void crti_node_clash(crti_node_t *node, const char *why);
/* After the run: is the process to make another node, with `options_out`, when this one is
 * freed? */
bool crti_node_begins_anew(const crti_node_t *node, crti_options_t *options_out);
/* While stopping: are all gone? */
void crti_node_check_stopped(crti_node_t *node);

/* Orphans of user code, which become children of this daemon, and that nobody waits for; the
 * watchdog, when it was killed. */
void crti_node_reap_orphans(crti_node_t *node);

#endif
