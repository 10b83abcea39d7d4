/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: what becomes of the results of a call that has run, or failed.
 *
 * Where it sits
 *     execute.c, incoming.c -> [ answer.c ] -> REPLY; calls/pending.c of our own task
 * Threads
 *     The core's lock.
 * Invariants
 *     Refs in the results are registered for who gets them before the answer leaves, arguments are
 *     let go before, too. Every call that is not a lost caller's is answered once.
 * Tier: message path.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/core/calls/calls.h"
#include "runtime/core/execution/yield.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/refs/borrowers.h"
#include "runtime/core/refs/owner_requests.h"
#include "runtime/core/values/error.h"
#include "runtime/net/message.h"

/* ------------------------------------------------------------------ what it says */

void crti_call_set_error(crt_call_t *call, crt_status_t status, const char *text)
{
    call->status = status < 0 ? status : CRT_ERR_USER;
    free(call->text);
    call->text = strdup(text && *text ? text : crt_status_text(call->status));
}

/* An argument that failed elsewhere: its failure goes on to the caller. */
static void keep_origin(crt_call_t *call)
{
    for (unsigned i = 0; i < call->arg_count; i++) {
        const crt_ref_t *ref = call->args[i].ref;
        crti_failure_t failure;

        if (!ref || ref->content != CRTI_CONTENT_FAILED)
            continue;
        failure = crti_error_failure(ref->error);
        call->origin = crti_error_new(&failure);
        return;
    }
}

static const char *name_of(const crt_call_t *call)
{
    if (call->given_name)
        return call->given_name;
    return call->function ? call->function->name : "";
}

static void describe_error(const crt_call_t *call, crti_failure_t *f)
{
    const crti_core_t *core = call->core;

    if (call->origin) {
        *f = crti_error_failure(call->origin);
        f->may_have_run = false;
        return;
    }
    *f = (crti_failure_t){.status = call->status,
                          .may_have_run = call->is_started,
                          .text = crti_str(call->text),
                          .class_name =
                              crti_str(call->function ? call->function->class_name : ""),
                          .method = crti_str(name_of(call)),
                          .actor = core->actor_id,
                          .node = core->node,
                          .pid = getpid()};
}

void crti_result_describe(const crt_call_t *call, const crti_call_result_t *r,
                          unsigned char node[16], crti_result_t *result)
{
    *result = (crti_result_t){.form = r->form};
    if (call->status < 0) {
        result->form = CRTI_RESULT_ERROR;
        describe_error(call, &result->failure);
    } else if (r->form == CRTI_RESULT_STORED) {
        crti_put_id(node, call->core->node);
        result->location = (crti_location_t){r->object, r->object_size, node, 1};
        result->table = crti_span(r->value.data, r->value.size);
    } else if (r->form == CRTI_RESULT_FORWARD) {
        result->ref = crti_ref_name(r->refs[0]);
    } else if (r->scalar_size) {
        result->value = crti_span(r->scalar, r->scalar_size);
    } else {
        result->value = r->value.size ? crti_span(r->value.data, r->value.size)
                                      : crti_span("\0\xc0", 2); /* nothing was returned */
    }
}

static void answer(crt_call_t *call, unsigned index, const crti_result_t *result)
{
    crti_core_t *core = call->core;
    crti_buffer_t record = crti_scratch_take(core);
    uint64_t number = crti_reply_number(call->number, index);

    if (crti_put_result(&record, CRTI_RECORD_REPLY, number, result, NULL) == CRT_OK)
        crti_peer_reply(core, call->client->peer, &record,
                        call->may_wait ? 0 : CRTI_SEND_CONTROL);
    crti_scratch_give(core, &record);
}

static crti_borrow_record_t recipient(const crt_call_t *call)
{
    const crti_core_t *core = call->core;
    const crti_peer_t *peer = call->client ? call->client->peer : NULL;

    return (crti_borrow_record_t){
        .process = peer ? crti_peer_process(peer) : core->process,
        .incarnation = peer ? crti_peer_incarnation(peer) : core->incarnation,
        .node = peer ? crti_peer_node(peer) : core->node};
}

crti_call_result_t *crti_call_result(crt_call_t *call, unsigned index)
{
    if (index == 0)
        return &call->result;
    return call->more && index < call->returns ? &call->more[index - 1] : NULL;
}

void crti_result_register(crt_call_t *call, crti_call_result_t *result,
                          crti_completion_t *ending)
{
    crti_borrow_record_t to = recipient(call);
    crti_admitted_t borrower;
    crt_status_t admitted;

    if (result->ref_count == 0)
        return;
    admitted = crti_owner_admit_borrower(call->core, &to, &borrower);
    crti_owner_requests_gather(call->core);
    for (size_t i = 0; i < result->ref_count; i++) {
        crt_ref_t *ref = result->refs[i];
        crt_status_t status;

        if (!ref->is_owned)
            status = crti_owner_request_lend(ref, &to, ending);
        else
            status =
                admitted == CRT_OK ? crti_owner_add_borrower(ref, &borrower) : admitted;
        /* Its owner is gone: whoever gets the ref will hear so. */
        result->is_lent[i] = status == CRT_OK;
    }
    crti_owner_requests_send(call->core);
}

void crti_result_take_back(crt_call_t *call, crti_call_result_t *result)
{
    crti_borrow_record_t to = recipient(call);

    if (result->ref_count == 0)
        return;
    crti_owner_requests_gather(call->core);
    for (size_t i = 0; i < result->ref_count; i++) {
        crt_ref_t *ref = result->refs[i];

        if (!result->is_lent[i])
            continue;
        result->is_lent[i] = false;
        if (ref->is_owned)
            crti_owned_apply(ref, crti_owned_release(&ref->owned, to.process, 1));
        else
            crti_owner_request_take_back(ref, &to);
    }
    crti_owner_requests_send(call->core);
}

/* The refs in the results are registered for who gets it. */
static void register_results(crt_call_t *call)
{
    crti_call_result_t *result;

    for (unsigned i = 0; (result = crti_call_result(call, i)); i++)
        crti_result_register(call, result, &call->ending);
}

/* Nobody will get the results: what was registered for them would stay until that process ends. */
static void take_back_results(crt_call_t *call)
{
    crti_call_result_t *result;

    for (unsigned i = 0; (result = crti_call_result(call, i)); i++)
        crti_result_take_back(call, result);
}

/* One result leaves; the first, which ends the call for its caller, is the last. */
static void deliver(crt_call_t *call, unsigned index)
{
    unsigned char node[16];
    crti_result_t result;

    crti_result_describe(call, crti_call_result(call, index), node, &result);
    if (!call->pending)
        answer(call, index, &result);
    else if (index)
        crti_pending_part(call->pending, index, &result);
    else
        crti_pending_answer(call->pending, &result);
}

static void deliver_all(crt_call_t *call)
{
    if (call->status >= 0 && call->result.form != CRTI_RESULT_NOT_STARTED)
        for (unsigned i = 1; i < call->returns && call->more; i++)
            deliver(call, i);
    deliver(call, 0);
}

/* What was stored for results that nobody will have. */
static void free_stored(crt_call_t *call)
{
    crti_call_result_t *result;

    for (unsigned i = 0; (result = crti_call_result(call, i)); i++)
        if (result->form == CRTI_RESULT_STORED)
            crti_store_free(call->core->store, result->object);
}

void crti_result_let_go(crti_call_result_t *result)
{
    crti_core_t *core = result->ref_count ? result->refs[0]->core : NULL;

    if (core)
        crti_owner_requests_gather(core);
    for (size_t i = 0; i < result->ref_count; i++)
        crti_ref_release(result->refs[i]);
    if (core)
        crti_owner_requests_send(core);
    result->ref_count = 0;
    free(result->refs);
    free(result->is_lent);
    result->refs = NULL;
    result->is_lent = NULL;
}

void crti_result_end(crt_call_t *call, crti_call_result_t *item, bool is_sent)
{
    if (!is_sent) {
        crti_result_take_back(call, item);
        if (item->is_set && item->form == CRTI_RESULT_STORED)
            crti_store_free(call->core->store, item->object);
    }
    crti_result_let_go(item);
    item->value.size = 0;
    memset(item, 0, offsetof(crti_call_result_t, value));
}

static void let_refs_go(crt_call_t *call)
{
    crti_call_result_t *result;

    for (unsigned i = 0; (result = crti_call_result(call, i)); i++)
        crti_result_let_go(result);
}

/* Everything is registered, or can't be: the answer may leave. */
void crti_call_ended(crti_completion_t *ending)
{
    crt_call_t *call = CRTI_CONTAINER(ending, crt_call_t, ending);
    crti_core_t *core = call->core;
    bool is_wanted = call->pending || (call->client && !call->is_cancelled &&
                                       !crti_peer_is_lost(call->client->peer));

    if (ending->status < 0 && call->status >= 0) {
        take_back_results(call);
        crti_call_set_error(call, ending->status,
                            "the owner of a ref in the result can't be reached");
    }
    if (call->status < 0 || !is_wanted)
        free_stored(call); /* nobody is left who would */
    if (is_wanted)
        deliver_all(call);
    else
        take_back_results(call);
    let_refs_go(call);
    if (call->client)
        crti_net_release(core->net, call->client->peer, call->record_size);
    crti_call_free(call);
}

static void broken_item_ended(crti_completion_t *ending)
{
    crt_call_t *call = CRTI_CONTAINER(ending, crti_yields_t, ending)->call;

    crti_result_end(call, &call->yields->item, false);
    crti_completion_done(&call->ending);
}

/* The answer waits for an item that could not be sent. */
static void finish_yields(crt_call_t *call)
{
    crti_yields_t *y = call->yields;
    char text[200];

    if (y && call->status >= 0 && call->is_started && y->next < y->skip) {
        snprintf(text, sizeof(text),
                 "it yielded %llu results in this run and %llu or more in an earlier one",
                 (unsigned long long)y->next, (unsigned long long)y->skip);
        crti_call_set_error(call, CRT_ERR_USER, text);
    }
    if (!y || !y->is_broken)
        return;
    call->ending.waits++;
    y->ending.on_end = broken_item_ended;
    if (y->ending.waits == 0) /* it has ended meanwhile */
        broken_item_ended(&y->ending);
}

static bool has_refs(const crt_call_t *call)
{
    for (unsigned i = 0; i < call->arg_count; i++)
        if (call->args[i].ref || call->args[i].inner.core)
            return true;
    return false;
}

static void let_arguments_go(crt_call_t *call)
{
    if (!has_refs(call))
        return;
    crti_owner_requests_gather(call->core);
    for (unsigned i = 0; i < call->arg_count; i++) {
        crti_incoming_arg_t *arg = &call->args[i];
        crt_ref_t *ref = arg->ref;

        crti_contained_close(&arg->inner, &call->ending);
        if (!ref)
            continue;
        crti_list_remove(&arg->waiting.link);
        arg->ref = NULL;
        crti_ref_uncover(ref, &call->ending);
    }
    crti_owner_requests_send(call->core);
}

void crti_call_finish(crt_call_t *call, bool may_wait)
{
    call->may_wait = may_wait;
    call->ending.waits = 1;
    finish_yields(call);
    if (call->status >= 0 && !call->is_cancelled)
        register_results(call);
    if (call->status < 0 && !call->is_started)
        keep_origin(call); /* the argument is let go below */
    let_arguments_go(call);
    if (call->ending.waits > 1)
        call->may_wait = false; /* it ends in a handler */
    crti_completion_done(&call->ending);
}
