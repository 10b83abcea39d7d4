/* SPDX-License-Identifier: Apache-2.0 */
/* What holder_refs.c and holder.c share; nobody else includes it. */
#ifndef TESTS_SIM_HOLDER_INT_H
#define TESTS_SIM_HOLDER_INT_H

#include <stdlib.h>

#include "tests/sim/holder.h"

static inline void *sim_zeroed(size_t size)
{
    void *p = calloc(1, size);

    if (!p)
        abort();
    return p;
}

/* holder_refs.c */
sim_ref_t *sim_ref_new(sim_holder_t *h);
/* Found or made; NULL: our own, freed already. Then cover, hold or token. */
sim_ref_t *sim_ref_arrive(sim_holder_t *h, const sim_name_t *name);
sim_name_t sim_ref_name(const sim_ref_t *ref);
void sim_ref_discard(sim_ref_t *ref); /* the process died: no rules */
void sim_ref_pin(sim_ref_t *ref);
void sim_ref_unpin(sim_ref_t *ref);
void sim_ref_cover(sim_ref_t *ref);
void sim_ref_uncover(sim_ref_t *ref, sim_ending_t *ending);
/* A registration that `via` made for us. */
void sim_ref_add_token(sim_ref_t *ref, bool is_void, crti_id_t via);
void sim_ref_owner_answered(sim_ref_t *ref, bool gone);
void sim_ref_owner_died(sim_ref_t *ref);
void sim_ref_borrower_died(sim_ref_t *ref, crti_id_t process);
void sim_ref_released(sim_ref_t *ref, crti_id_t process, uint64_t tokens);
void sim_ref_node_died(sim_ref_t *ref, crti_id_t node);
void sim_ref_copied(sim_ref_t *ref, crti_id_t node);
/* Somebody waits for its content: if it is missing, that ends some time. */
void sim_ref_wanted(sim_ref_t *ref);
/* That is decided, by what has been heard of copies. */
void sim_ref_give_up(sim_holder_t *h, uint64_t wanted);
void sim_ref_fail(sim_ref_t *ref, crt_status_t status);
void sim_ref_set_value(sim_ref_t *ref, bool is_stored, crti_id_t node);
/* The refs in a value: held, each with a token that `via` asked for; or covered (NULL). */
bool sim_inner_open(sim_ref_t *ref, const sim_name_t *names, uint64_t count,
                    const crti_id_t *via);
void sim_inner_close(sim_ref_t *ref, sim_ending_t *ending);
void sim_ending_done(sim_ending_t *ending);

/* holder.c: records */
void sim_requests_gather(sim_holder_t *h);
void sim_requests_send(sim_holder_t *h);
void sim_send_borrow(sim_ref_t *ref, sim_ending_t *ending);
void sim_send_release(sim_ref_t *ref);
void sim_send_locate(sim_ref_t *ref);
void sim_send_copy(sim_ref_t *ref);
void sim_answer_locators(sim_ref_t *ref);

/* holder_seek.c: copies of an object of ours that is missing and wanted. */
void sim_seek_begin(sim_ref_t *ref);
bool sim_seek_record(sim_holder_t *h, sim_peer_t *peer, const void *data, size_t size);
void sim_seek_pulled(sim_holder_t *h);
void sim_seek_lost(sim_holder_t *h, const sim_peer_t *peer);
void sim_seek_fini(sim_holder_t *h);

#endif
