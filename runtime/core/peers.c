/* SPDX-License-Identifier: Apache-2.0 */
/* Peers: the processes we talk to, their records, and their deaths.
 *
 * Where it sits
 *     net (records, losses), node_link.c (deaths) -> [ peers.c ] -> outgoing, incoming, refs
 * Ownership
 *     A remote lives while somebody uses it and lingers until the next tick after that, so that
 *     a session is not made anew for every short-lived ref.
 * Failure
 *     A lost session fails the calls in flight on it. That the process is dead is told by the node
 *     daemon only: borrowed refs and lent objects go by that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/core/borrowers.h"
#include "runtime/core/copy_query.h"
#include "runtime/core/core.h"
#include "runtime/core/locating.h"
#include "runtime/core/owner_requests.h"

/* Answers to one process outside of its window that it has not acknowledged. Of those that live, and
 * only read late, nobody comes near. */
#define UNACKNOWLEDGED_MAX (1 << 20)
#define IDLE_REMOTES                                                                     \
    16 /* kept, so that a session is not made anew for every short-lived ref */

/* ------------------------------------------------------------------ remotes */

static void free_remote(crti_core_t *core, crti_remote_t *remote)
{
    crti_map_remove(&core->remotes, &remote->address.process);
    if (remote->is_watched && !remote->is_dead && core->channel)
        crti_node_notice(core, CRTI_MSG_UNWATCH,
                         &(crti_msg_unwatch_t){.process = remote->address.process});
    crti_copy_query_is_over(core, &remote->copy_query);
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

    if (core->next_sweep-- > 0)
        return;
    core->next_sweep = core->remotes.count / IDLE_REMOTES;
    while (crti_map_next(&core->remotes, &cursor, NULL, &value)) {
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
    crti_list_init(&remote->watchers);
    status = crti_map_put(&core->remotes, &remote->address.process, remote);
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

crt_status_t crti_remote_use(crti_core_t *core, const crti_address_t *address,
                             crti_remote_t **remote_out)
{
    crti_remote_t *remote = crti_map_get(&core->remotes, &address->process);
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

static void tell_watchers(crti_core_t *core, crti_remote_t *remote, crt_status_t status,
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

void crti_remote_send(crti_core_t *core, crti_remote_t *remote,
                      const crti_buffer_t *record)
{
    struct iovec part = {record->data, record->size};

    if (crti_remote_connect(core, remote) != CRT_OK)
        return;
    crti_net_send(core->net, remote->peer, &part, 1, CRTI_SEND_CONTROL,
                  CRTI_NET_NO_DEADLINE, NULL);
}

crt_status_t crti_peer_reply(crti_core_t *core, crti_peer_t *peer,
                             const crti_buffer_t *record, unsigned flags)
{
    struct iovec part = {record->data, record->size};

    if (crti_peer_is_lost(peer))
        return CRT_ERR_CLOSED;
    return crti_net_send(core->net, peer, &part, 1, flags, CRTI_NET_NO_DEADLINE, NULL);
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

static crti_client_t *client_of(crti_core_t *core, crti_peer_t *peer)
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
    crti_list_append(&core->clients, &client->link);
    crti_peer_set_user(peer, client);
    return client;
}

/* ------------------------------------------------------------------ records of callers */

static crt_status_t from_caller(crti_core_t *core, crti_peer_t *peer, const void *data,
                                size_t size)
{
    crti_client_t *client = client_of(core, peer);

    if (!client)
        return crt_raise(CRT_ERR_NO_MEMORY, "a caller");
    if (crti_record_kind(data, size) == CRTI_RECORD_CALL)
        return crti_incoming_call(client, data, size);
    if (crti_peer_unacknowledged(peer) >= UNACKNOWLEDGED_MAX)
        return crt_raise(CRT_ERR_PROTOCOL,
                         "it asks on and has not acknowledged %llu answers",
                         (unsigned long long)crti_peer_unacknowledged(peer));
    switch (crti_record_kind(data, size)) {
    case CRTI_RECORD_LOCATE: return crti_locating_asked(client, data, size);
    case CRTI_RECORD_BORROW: return crti_borrowers_borrow(core, peer, data, size);
    case CRTI_RECORD_RELEASE: return crti_borrowers_release(core, peer, data, size);
    case CRTI_RECORD_TAKE_BACK: return crti_borrowers_take_back(core, peer, data, size);
    case CRTI_RECORD_COPY: return crti_copy_arrived(core, data, size);
    case CRTI_RECORD_COPY_QUERY: return crti_copy_query_arrived(core, peer, data, size);
    case CRTI_RECORD_COPY_REPLY: return crti_copy_query_answered(core, peer, data, size);
    case CRTI_RECORD_WAITING: crti_chain_arrived(client, data, size); return CRT_OK;
    case CRTI_RECORD_PROBE: return crti_probe_arrived(client, data, size);
    case CRTI_RECORD_GIVE_BACK: crti_incoming_give_back(client); return CRT_OK;
    default: return crt_raise(CRT_ERR_PROTOCOL, "a record of no kind");
    }
}

/* ------------------------------------------------------------------ records of the called */

static crt_status_t on_reply(crti_core_t *core, crti_remote_t *remote, const void *data,
                             size_t size)
{
    crti_result_t result;
    uint64_t number;
    crt_status_t status = crti_get_result(data, size, &number, &result);
    crti_pending_t *p = status == CRT_OK ? crti_pending_get(core, number) : NULL;

    core->giver = remote->address.process;
    if (p && p->remote == remote)
        crti_pending_answer(p, &result);
    else if (status == CRT_OK)
        crti_result_late(core, &result);
    core->giver = (crti_id_t){0, 0};
    return status;
}

static crt_status_t on_located(crti_core_t *core, crti_remote_t *remote, const void *data,
                               size_t size)
{
    crti_object_id_t id = {.owner = remote->address.process};
    crti_result_t result;
    crt_status_t status = crti_get_result(data, size, &id.number, &result);
    crt_ref_t *ref = status == CRT_OK ? crti_map_get(&core->borrowed, &id) : NULL;

    if (ref && ref->is_locating && ref->content == CRTI_CONTENT_STORED)
        crti_ref_located_again(ref, &result);
    else if (ref && ref->is_locating)
        crti_ref_set_result(ref, &result, false);
    return status;
}

static crt_status_t from_called(crti_core_t *core, crti_peer_t *peer, const void *data,
                                size_t size)
{
    crti_remote_t *remote = crti_peer_user(peer);

    if (!remote)
        return CRT_OK; /* we are closing it */
    switch (crti_record_kind(data, size)) {
    case CRTI_RECORD_REPLY: return on_reply(core, remote, data, size);
    case CRTI_RECORD_LOCATED: return on_located(core, remote, data, size);
    case CRTI_RECORD_BORROWED:
        return crti_owner_requests_answered(core, remote, data, size);
    case CRTI_RECORD_COPY_QUERY: return crti_copy_query_arrived(core, peer, data, size);
    case CRTI_RECORD_COPY_REPLY: return crti_copy_query_answered(core, peer, data, size);
    default: return crt_raise(CRT_ERR_PROTOCOL, "a record of no kind");
    }
}

static void on_record(void *user, crti_peer_t *peer, const void *data, size_t size)
{
    crti_core_t *core = user;
    crt_status_t status = crti_peer_is_initiator(peer)
                              ? from_called(core, peer, data, size)
                              : from_caller(core, peer, data, size);
    char hex[CRTI_ID_HEX];

    if (status == CRT_OK)
        return;
    crti_log(CRTI_LOG_WARN, "core", "process %s: %s",
             crti_id_hex(crti_peer_process(peer), hex), crt_error_detail());
    if (status == CRT_ERR_PROTOCOL)
        crti_net_abort(core->net, peer, crt_error_detail());
}

static void on_room(void *user, crti_peer_t *peer)
{
    crti_client_t *client = crti_peer_is_initiator(peer) ? NULL : crti_peer_user(peer);

    if (client)
        crti_locating_go_on(client);
}

/* ------------------------------------------------------------------ many refs at once */

typedef bool wants_t(const crt_ref_t *ref, const void *what);

static bool is_owned_by(const crt_ref_t *ref, const void *remote)
{
    return ref->owner == remote;
}

static bool is_asked_of(const crt_ref_t *ref, const void *remote)
{
    return ref->owner == remote && ref->is_locating;
}

static bool has_borrowers(const crt_ref_t *ref, const void *nothing)
{
    return ref->owned.borrower_count > 0;
}

static bool has_copies(const crt_ref_t *ref, const void *nothing)
{
    return ref->owned.node_count > 0;
}

/* Refs of others, or our own, each held: what happens to one may change the tables. The caller frees
 * the list; NULL without memory. */
static crt_ref_t **gather(crti_core_t *core, bool borrowed, wants_t *wants,
                          const void *what, size_t *count_out)
{
    size_t room = borrowed ? core->borrowed.count : core->owned.count, cursor = 0;
    crt_ref_t **refs = malloc((room + 1) * sizeof(*refs)), *ref;
    void *value;

    *count_out = 0;
    if (!refs)
        return NULL;
    if (borrowed) {
        while (crti_map_next(&core->borrowed, &cursor, NULL, &value))
            if (wants(value, what))
                refs[(*count_out)++] = value;
    } else {
        while ((ref = crti_numbers_next(&core->owned, &cursor)))
            if (wants(ref, what))
                refs[(*count_out)++] = ref;
    }
    for (size_t i = 0; i < *count_out; i++)
        crti_ref_hold(refs[i]);
    return refs;
}

/* ------------------------------------------------------------------ ends */

/* Questions to it will not be answered. */
static void fail_locating(crti_core_t *core, crti_remote_t *remote,
                          const crti_net_loss_t *loss)
{
    size_t count;
    crt_ref_t **refs = gather(core, true, is_asked_of, remote, &count);

    for (size_t i = 0; i < count; i++) {
        if (refs[i]->is_locating)
            crti_ref_unlocated(refs[i], loss);
        crti_ref_release(refs[i]);
    }
    free(refs);
}

static void lose_remote(crti_core_t *core, crti_remote_t *remote,
                        const crti_net_loss_t *loss)
{
    size_t cursor = 0;
    void *value;

    remote->uses++;
    crti_peer_unref(remote->peer);
    remote->peer = NULL;
    crti_copy_query_is_over(core, &remote->copy_query);
    crti_leases_lost(core, remote); /* so that what never left is not sent there again */
    /* What the actor does with its calls depends on what is known of it: so it is told first. */
    while (crti_map_next(&core->actors, &cursor, NULL, &value)) {
        crt_actor_t *actor = value;

        if (actor->remote == remote)
            crti_actor_lost(actor, remote, loss);
    }
    while (!crti_list_is_empty(&remote->in_flight)) {
        crti_list_t *item = remote->in_flight.next;

        crti_pending_lost(CRTI_CONTAINER(item, crti_pending_t, link), loss);
    }
    crti_owner_requests_lost(core, remote, loss->status);
    fail_locating(core, remote, loss);
    crti_remote_unuse(core, remote);
}

static void on_peer_lost(void *user, crti_peer_t *peer, const crti_net_loss_t *loss)
{
    crti_core_t *core = user;
    void *state = crti_peer_user(peer);

    crti_peer_set_user(peer, NULL);
    if (!state)
        return;
    if (crti_peer_is_initiator(peer))
        lose_remote(core, state, loss);
    else
        crti_client_lost(state);
}

/* Who waits for a worker would wait for ever: a child that it forked may hold its links open. Its end
 * is noticed. */
static void on_broken(void *user)
{
    static const char why[] = "the program closed the descriptors of the runtime (it "
                              "closes all: closefrom, close_range, daemon?)";
    crti_core_t *core = user;

    if (core->is_worker) {
        fprintf(stderr, "crt: worker: %s\n", why);
        _exit(1);
    }
    crti_core_break(core, CRT_ERR_CLOSED, why);
}

const crti_net_handlers_t crti_core_handlers = {.on_record = on_record,
                                                .on_peer_lost = on_peer_lost,
                                                .on_room = on_room,
                                                .on_broken = on_broken};

static void remote_died(crti_core_t *core, crti_remote_t *remote, crt_status_t status,
                        const char *text)
{
    crti_id_t process = remote->address.process;
    size_t count;
    crt_ref_t **refs;

    remote->uses++;
    tell_watchers(core, remote, status, text);
    if (remote->is_dead) {
        crti_remote_unuse(core, remote);
        return;
    }
    remote->is_dead = true;
    crti_copy_query_is_over(core, &remote->copy_query);
    crti_actor_process_died(core, remote, text);
    crti_leases_lost(core, remote);
    crti_owner_requests_end(core, remote);
    refs = gather(core, true, is_owned_by, remote, &count);
    for (size_t i = 0; i < count; i++) {
        crti_ref_owner_died(refs[i], text);
        crti_ref_release(refs[i]);
    }
    free(refs);
    if (remote->is_borrower) {
        refs = gather(core, false, has_borrowers, NULL, &count);
        for (size_t i = 0; i < count; i++) {
            crti_owned_bits(refs[i], crti_owned_process_died(&refs[i]->owned, process));
            crti_ref_release(refs[i]);
        }
        free(refs);
        remote->uses--;
    }
    crti_remote_unuse(core, remote);
}

void crti_process_died(crti_core_t *core, const crti_msg_peer_died_t *m)
{
    crti_remote_t *remote = crti_map_get(&core->remotes, &m->process);
    char text[1024];

    crti_text(m->text, text, sizeof(text));
    if (remote && remote->address.incarnation == m->incarnation)
        remote->pid = m->pid;
    crti_net_peer_died(core->net, m->process, m->incarnation,
                       m->status < 0 ? (crt_status_t)m->status : CRT_ERR_WORKER_DIED,
                       text);
    remote = crti_map_get(&core->remotes, &m->process);
    if (remote && remote->address.incarnation == m->incarnation)
        remote_died(core, remote, CRT_ERR_ACTOR_DIED, text);
}

static crti_remote_t *living_remote_of(crti_core_t *core, crti_id_t node)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&core->remotes, &cursor, NULL, &value)) {
        crti_remote_t *remote = value;

        if (!remote->is_dead && crti_id_equal(remote->address.node, node))
            return remote;
    }
    return NULL;
}

static void lose_copies(crti_core_t *core, crti_id_t node)
{
    size_t count;
    crt_ref_t **refs = gather(core, false, has_copies, NULL, &count);

    for (size_t i = 0; i < count; i++) {
        crti_owned_bits(refs[i], crti_owned_node_died(&refs[i]->owned, node));
        crti_ref_release(refs[i]);
    }
    free(refs);
}

void crti_node_died(crti_core_t *core, const crti_msg_node_died_t *m)
{
    crti_remote_t *remote;
    char text[1024];

    crti_text(m->text, text, sizeof(text));
    crti_net_node_died(core->net, m->node, CRT_ERR_NODE_LOST, text);
    while ((remote = living_remote_of(core, m->node)))
        remote_died(core, remote, CRT_ERR_NODE_LOST, text);
    lose_copies(core, m->node);
}
