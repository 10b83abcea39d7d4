/* SPDX-License-Identifier: Apache-2.0 */
/* Copy query. See copy_query.h. */
#include "runtime/core/refs/copy_query.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/refs_int.h"

/* ------------------------------------------------------------------ the owner */

/* By the session that they made, or that we made. */
static uint64_t request_of(const crti_core_t *core, bool is_theirs)
{
    return core->refs->copy_query_round << 1 | is_theirs;
}

static crt_status_t put_seek(const crti_core_t *core, bool is_theirs,
                             const uint64_t *numbers, uint32_t count, crti_buffer_t *out)
{
    crti_borrow_record_t seek = {
        .request = request_of(core, is_theirs), .numbers = numbers, .count = count};

    return crti_put_borrow(out, CRTI_RECORD_COPY_QUERY, &seek);
}

static void ask(crti_core_t *core, crti_peer_t *peer, const crti_buffer_t *record,
                uint64_t *copy_query, uint64_t request)
{
    if (crti_peer_is_lost(peer))
        return;
    *copy_query = request;
    core->refs->copy_query_open++;
    crti_peer_reply(core, peer, record, CRTI_SEND_CONTROL);
}

/* A process that has sessions in both directions is asked on both: it may have been told of the
 * places by either, and hears of them before the question only by the same one. */
crt_status_t crti_copy_query_ask(crti_core_t *core, const uint64_t *numbers,
                                 uint32_t count)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t ours = {0}, theirs = {0};
    crt_status_t status;
    size_t cursor = 0;
    void *value;

    core->refs->copy_query_round++;
    core->refs->copy_query_open =
        0; /* whom the last round waits for is asked in this one */
    status = put_seek(core, false, numbers, count, &ours);
    if (status == CRT_OK)
        status = put_seek(core, true, numbers, count, &theirs);
    if (status != CRT_OK)
        return status;
    while (crti_map_next(&core->remotes->table, &cursor, NULL, &value)) {
        crti_remote_t *remote = value;

        if (remote->peer && !remote->is_dead)
            ask(core, remote->peer, &ours, &remote->copy_query, request_of(core, false));
    }
    CRTI_LIST_FOREACH (item, &core->remotes->clients) {
        crti_client_t *client = CRTI_CONTAINER(item, crti_client_t, link);

        if (!client->is_lost)
            ask(core, client->peer, &theirs, &client->copy_query, request_of(core, true));
    }
    return CRT_OK;
}

void crti_copy_query_is_over(crti_core_t *core, uint64_t *copy_query)
{
    if (*copy_query != 0 && --core->refs->copy_query_open == 0)
        crti_core_wake_at(core, crti_now_ns()); /* missing.c decides */
    *copy_query = 0;
}

void crti_copy_query_remote_freed(crti_core_t *core, crti_remote_t *remote)
{
    crti_copy_query_is_over(core, &remote->copy_query);
}

/* Both questions to a process are answered by the session that it made, if there is one: the words
 * of its copies come by that. */
crt_status_t crti_copy_query_answered(crti_core_t *core, crti_peer_t *peer,
                                      const void *data, size_t size)
{
    crti_id_t process = crti_peer_process(peer);
    crti_remote_t *remote = crti_map_get(&core->remotes->table, &process);
    crti_borrow_record_t answer;
    crt_status_t status = crti_get_borrow(data, size, &answer);

    if (status != CRT_OK)
        return status;
    if (remote && remote->copy_query == answer.request)
        crti_copy_query_is_over(core, &remote->copy_query);
    if (!crti_peer_is_initiator(peer)) {
        crti_client_t *client = crti_peer_user(peer);

        if (client && client->copy_query == answer.request)
            crti_copy_query_is_over(core, &client->copy_query);
    }
    return CRT_OK;
}
