/* SPDX-License-Identifier: Apache-2.0 */
/* Remotes and clients: the processes that we call, borrow from or lend to, and those that call us.
 *
 * Where it sits
 *     actor, submit, refs, ... -> [ remotes.c ] -> net (sessions), node_link.c (WATCH)
 * Ownership
 *     A remote lives while somebody uses it, and lingers until others are made after that, so that
 *     a session is not made anew for every short-lived ref.
 * Failure
 *     A session that is lost, and the death of a process, are told to dispatch.c and deaths.c.
 */
#include "runtime/core/process/remotes.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/node_link.h"

#define IDLE_REMOTES 16 /* kept */

/* ------------------------------------------------------------------ remotes */

static void free_remote(crti_core_t *core, crti_remote_t *remote)
{
    crti_map_remove(&core->remotes->table, &remote->address.process);
    if (core->remotes->last == remote)
        core->remotes->last = NULL;
    crti_numbers_fini(&remote->borrowed);
    crti_numbers_fini(&remote->blocks);
    if (remote->is_watched && !remote->is_dead && core->link->channel)
        crti_node_notice(core, CRTI_MSG_UNWATCH,
                         &(crti_msg_unwatch_t){.process = remote->address.process});
    core->on_remote_freed(core, remote);
    if (remote->peer) {
        crti_peer_set_user(remote->peer, NULL);
        if (!crti_peer_is_lost(remote->peer))
            crti_net_close(core->net, remote->peer);
        crti_peer_unref(remote->peer);
    }
    free(remote);
}

/* Those that nobody used lately end when others are made, all but a few; one look for several. */
static void sweep(crti_core_t *core)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t idle = {0};
    crti_remote_t *remote;
    size_t cursor = 0;
    void *value;

    if (core->remotes->next_sweep-- > 0)
        return;
    core->remotes->next_sweep = core->remotes->table.count / IDLE_REMOTES;
    while (crti_map_next(&core->remotes->table, &cursor, NULL, &value)) {
        remote = value;
        if (remote->uses == 0 && crti_list_is_empty(&remote->in_flight) &&
            crti_buffer_append(&idle, &remote, sizeof(remote)) != CRT_OK)
            break;
    }
    for (size_t at = IDLE_REMOTES * sizeof(remote); at < idle.size;
         at += sizeof(remote)) {
        memcpy(&remote, idle.data + at, sizeof(remote));
        free_remote(core, remote);
    }
}

static crt_status_t new_remote(crti_core_t *core, const crti_address_t *address,
                               crti_remote_t **remote_out)
{
    char hex[CRTI_ID_HEX];
    crti_remote_t *remote;
    crt_status_t status;

    sweep(core);
    remote = calloc(1, sizeof(*remote));
    if (!remote)
        return crt_raise(CRT_ERR_NO_MEMORY, "a process to talk to");
    remote->address = *address;
    if (!address->ipc[0] && crti_id_equal(address->node, core->node) &&
        snprintf(remote->address.ipc, sizeof(remote->address.ipc), "@%s/p-%s.ipc",
                 core->run_dir,
                 crti_id_hex(address->process, hex)) >= (int)sizeof(remote->address.ipc))
        remote->address.ipc[0] = '\0'; /* then by tcp */
    crti_list_init(&remote->in_flight);
    crti_list_init(&remote->owner_requests);
    crti_list_init(&remote->open_requests);
    crti_list_init(&remote->gathers);
    crti_list_init(&remote->watchers);
    crti_list_init(&remote->unasked);
    crti_list_init(&remote->unasked_blocks);
    status = crti_map_put(&core->remotes->table, &remote->address.process, remote);
    if (status != CRT_OK) {
        free(remote);
        return status;
    }
    *remote_out = remote;
    return CRT_OK;
}

crti_address_t crti_peer_address(crti_id_t process, uint64_t incarnation, crti_id_t node,
                                 crti_span_t ipc, crti_span_t tcp)
{
    crti_address_t address = {
        .process = process, .incarnation = incarnation, .node = node};

    crti_text(ipc, address.ipc, sizeof(address.ipc));
    crti_text(tcp, address.tcp, sizeof(address.tcp));
    return address;
}

crti_remote_t *crti_remote_find(crti_core_t *core, crti_id_t process)
{
    crti_remote_t *last = core->remotes->last;

    if (last && crti_id_equal(last->address.process, process))
        return last;
    last = crti_map_get(&core->remotes->table, &process);
    if (last)
        core->remotes->last = last;
    return last;
}

crt_status_t crti_remote_use(crti_core_t *core, const crti_address_t *address,
                             crti_remote_t **remote_out)
{
    crti_remote_t *remote = crti_remote_find(core, address->process);
    crt_status_t status = remote ? CRT_OK : new_remote(core, address, &remote);

    if (status != CRT_OK)
        return status;
    if (!remote->address
             .tcp[0]) /* a borrower that is owner or actor, too, now says where */
        memcpy(remote->address.tcp, address->tcp, sizeof(address->tcp));
    remote->uses++;
    *remote_out = remote;
    return CRT_OK;
}

void crti_remote_unuse(crti_core_t *core, crti_remote_t *remote)
{
    if (--remote->uses == 0 && remote->is_dead)
        free_remote(core, remote);
}

/* A library is missing, so that no process of another node can be reached. Once: who needs one asks
 * again and again. */
static void tell_unsupported(void)
{
    static atomic_flag is_told = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&is_told))
        crti_log(CRTI_LOG_WARN, "core", "%s", crt_error_detail());
}

crt_status_t crti_remote_connect(crti_core_t *core, crti_remote_t *remote)
{
    crt_status_t status;
    char hex[CRTI_ID_HEX];

    if (remote->is_dead)
        return crt_raise(CRT_ERR_WORKER_DIED, "process %s has ended",
                         crti_id_hex(remote->address.process, hex));
    if (remote->peer)
        return CRT_OK;
    status = crti_net_connect(core->net, &remote->address, &remote->peer);
    crti_log(CRTI_LOG_DEBUG, "core", "process %s at %s %s: %s",
             crti_id_hex(remote->address.process, hex), remote->address.ipc,
             remote->address.tcp, crt_status_text(status));
    if (status == CRT_ERR_UNSUPPORTED)
        tell_unsupported();
    if (status != CRT_OK)
        return status;
    crti_peer_set_user(remote->peer, remote);
    crti_remote_watch(core, remote);
    return CRT_OK;
}

void crti_remote_watch(crti_core_t *core, crti_remote_t *remote)
{
    if (remote->is_watched)
        return;
    remote->is_watched = true;
    crti_node_notice(core, CRTI_MSG_WATCH,
                     &(crti_msg_watch_t){.process = remote->address.process,
                                         .incarnation = remote->address.incarnation,
                                         .node = remote->address.node});
}

void crti_remote_send(crti_core_t *core, crti_remote_t *remote,
                      const crti_buffer_t *record)
{
    struct iovec part = {record->data, record->size};

    if (crti_remote_connect(core, remote) != CRT_OK)
        return;
    crti_net_send(core->net, remote->peer, &part, 1, CRTI_SEND_CONTROL,
                  CRTI_NET_NO_DEADLINE, NULL);
}

/* ------------------------------------------------------------------ watching processes */

crt_status_t crti_process_watch(crti_core_t *core, const crti_address_t *address,
                                crti_process_watch_t *watch)
{
    crt_status_t status;

    crti_list_init(&watch->link);
    watch->remote = NULL;
    status = crti_remote_use(core, address, &watch->remote);
    if (status != CRT_OK)
        return status;
    crti_list_append(&watch->remote->watchers, &watch->link);
    if (watch->remote->is_dead) /* asked again, the node tells it again */
        watch->remote->is_watched = false;
    crti_remote_watch(core, watch->remote);
    return CRT_OK;
}

void crti_process_unwatch(crti_core_t *core, crti_process_watch_t *watch)
{
    crti_remote_t *remote = watch->remote;

    watch->remote = NULL;
    crti_list_remove(&watch->link);
    if (remote)
        crti_remote_unuse(core, remote);
}

void crti_remote_ended(crti_core_t *core, crti_remote_t *remote, crt_status_t status,
                       const char *text)
{
    crti_list_t *item;

    remote->uses++;
    while ((item = crti_list_pop(&remote->watchers))) {
        crti_process_watch_t *watch = CRTI_CONTAINER(item, crti_process_watch_t, link);

        watch->remote = NULL;
        remote->uses--;
        watch->on_ended(watch, status, text);
    }
    crti_remote_unuse(core, remote);
}

/* ------------------------------------------------------------------ clients */

crti_client_t *crti_client_ref(crti_client_t *client)
{
    client->refs++;
    return client;
}

void crti_client_unref(crti_client_t *client)
{
    if (--client->refs)
        return;
    crti_list_remove(&client->link);
    crti_peer_unref(client->peer);
    free(client);
}

crti_client_t *crti_client_of(crti_core_t *core, crti_peer_t *peer)
{
    crti_client_t *client = crti_peer_user(peer);

    if (client)
        return client;
    client = calloc(1, sizeof(*client));
    if (!client)
        return NULL;
    *client = (crti_client_t){.core = core, .peer = crti_peer_ref(peer), .refs = 1};
    crti_list_init(&client->calls);
    crti_list_init(&client->blocked);
    crti_list_init(&client->answers);
    crti_map_init(&client->asked, sizeof(uint64_t));
    crti_list_append(&core->remotes->clients, &client->link);
    crti_peer_set_user(peer, client);
    return client;
}

crt_status_t crti_peer_reply(crti_core_t *core, crti_peer_t *peer,
                             const crti_buffer_t *record, unsigned flags)
{
    struct iovec part = {record->data, record->size};

    if (crti_peer_is_lost(peer))
        return CRT_ERR_CLOSED;
    return crti_net_send(core->net, peer, &part, 1, flags, CRTI_NET_NO_DEADLINE, NULL);
}

/* ------------------------------------------------------------------ all of them */

void crti_remotes_init(crti_remotes_t *remotes)
{
    crti_map_init(&remotes->table, sizeof(crti_id_t));
    crti_list_init(&remotes->clients);
}

void crti_remotes_end(crti_core_t *core)
{
    size_t cursor = 0;
    crti_list_t *item;
    void *value;

    while ((item = crti_list_pop(&core->remotes->clients))) {
        crti_client_t *client = CRTI_CONTAINER(item, crti_client_t, link);

        crti_peer_unref(client->peer);
        free(client);
    }
    while (crti_map_next(&core->remotes->table, &cursor, NULL, &value)) {
        crti_remote_t *remote = value;

        crti_peer_unref(remote->peer);
        crti_numbers_fini(&remote->borrowed);
        crti_numbers_fini(&remote->blocks);
        free(remote);
    }
    core->remotes->last = NULL;
}

void crti_remotes_fini(crti_remotes_t *remotes)
{
    crti_map_fini(&remotes->table);
    crti_buffer_fini(&remotes->draining);
}

/* ------------------------------------------------------------------ nodes that are drained */

/* Its index, or how many there are. */
static size_t find_draining(const crti_buffer_t *draining, crti_id_t node)
{
    const crti_id_t *ids = (const crti_id_t *)(const void *)draining->data;
    size_t count = draining->size / sizeof(node), at = 0;

    while (at < count && !crti_id_equal(ids[at], node))
        at++;
    return at;
}

bool crti_remotes_is_draining(const crti_core_t *core, crti_id_t node)
{
    const crti_buffer_t *draining = &core->remotes->draining;

    return find_draining(draining, node) < draining->size / sizeof(node);
}

bool crti_remotes_drain(crti_core_t *core, crti_id_t node)
{
    return !crti_remotes_is_draining(core, node) &&
           crti_buffer_append(&core->remotes->draining, &node, sizeof(node)) == CRT_OK;
}

void crti_remotes_drain_end(crti_core_t *core, crti_id_t node)
{
    crti_buffer_t *draining = &core->remotes->draining;
    size_t at = find_draining(draining, node) * sizeof(node);

    if (at == draining->size)
        return;
    draining->size -= sizeof(node);
    memmove(draining->data + at, draining->data + at + sizeof(node), draining->size - at);
}
