/* SPDX-License-Identifier: Apache-2.0 */
/* Incoming calls: from a record to a call whose arguments are here, and from its result to the
 * answer.
 *
 * Where it sits
 *     dispatch.c (CALL) -> [ incoming.c ] -> execute.c -> user code -> [ incoming.c ] -> REPLY
 * Threads
 *     The core's lock.
 * Ownership
 *     A call copies its record; the sender's window is held by it until it has ended. Refs that
 *     came with it are covered by it: the caller holds them until the answer.
 * Invariants
 *     Methods of one caller start in the order they were called, also when an argument of an
 *     earlier one is not here yet, unless the actor is unordered. Every call that is not a lost
 *     caller's is answered once.
 * Tier: message path.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/core/calls/backlog.h"
#include "runtime/core/execution/execution_int.h"
#include "runtime/core/execution/outside_call.h"
#include "runtime/core/execution/yield.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/borrowers.h"
#include "runtime/core/refs/copy_query.h"
#include "runtime/core/refs/locating.h"
#include "runtime/core/refs/owner_requests.h"
#include "runtime/core/refs/value_of.h"

#define RETIRE_LOOK_NS (20 * CRTI_MS)

/* ------------------------------------------------------------------ life of a call */

static crt_call_t *new_call(crti_core_t *core)
{
    crt_call_t *call = crti_pool_get(&core->execution->pool);

    if (!call)
        return NULL;
    memset(call, 0, offsetof(crt_call_t, result.value));
    call->core = core;
    call->ending.on_end = crti_call_ended;
    crti_list_init(&call->link);
    crti_list_init(&call->of_client);
    return call;
}

static void free_result(crti_call_result_t *result)
{
    free(result->refs);
    free(result->is_lent);
}

static void free_more(crt_call_t *call)
{
    for (unsigned i = 0; call->more && i < call->returns - 1; i++) {
        free_result(&call->more[i]);
        crti_buffer_fini(&call->more[i].value);
    }
    free(call->more);
}

/* Somebody would miss this process: has an object of it, or waits for what it has called. */
static bool is_needed(const crt_ref_t *ref, const void *nothing)
{
    return crti_ref_has_call(ref) || ref->owned.borrower_count > 0;
}

static bool serves_as_owner(crti_core_t *core)
{
    size_t count;
    crt_ref_t **refs;

    if (!crti_id_is_zero(core->actor_id))
        return false;
    refs = crti_refs_gather(core, false, is_needed, NULL, &count);
    for (size_t i = 0; i < count; i++)
        crti_ref_release(refs[i]);
    free(refs);
    return count > 0;
}

static void retire_if_idle(crti_core_t *core)
{
    CRTI_LIST_FOREACH (item, &core->remotes->clients)
        if (!crti_list_is_empty(&CRTI_CONTAINER(item, crti_client_t, link)->calls))
            return;
    if (serves_as_owner(core))
        crti_core_wake_at(core, crti_now_ns() + RETIRE_LOOK_NS);
    else
        crti_execution_end(core);
}

void crti_execution_tick(crti_core_t *core, uint64_t now_ns)
{
    if (core->execution->is_retiring && !core->execution->is_ending)
        retire_if_idle(core);
}

void crti_execution_retire(crti_core_t *core)
{
    core->execution->is_retiring = true;
    retire_if_idle(core);
}

static void end_stream(crt_call_t *call)
{
    if (!call->yields)
        return;
    crti_buffer_fini(&call->yields->item.value);
    free(call->yields);
    call->yields = NULL;
}

void crti_call_free(crt_call_t *call)
{
    crti_core_t *core = call->core;

    crti_executor_unqueue(call);
    crti_list_remove(&call->of_client);
    for (unsigned i = 0; i < call->arg_count; i++)
        free(call->args[i].memory);
    if (call->args != call->few_args)
        free(call->args);
    call->result.value.size = 0;
    free_result(&call->result);
    free_more(call);
    if (call->record != call->small_record)
        free(call->record);
    end_stream(call);
    free(call->given_name);
    free(call->text);
    free(call->origin);
    if (call->client)
        crti_client_unref(call->client);
    if (call->result.value.capacity > 4096)
        crti_buffer_fini(&call->result.value);
    crti_pool_put(&core->execution->pool, call);
    if (core->execution->is_retiring)
        retire_if_idle(core);
}

static crt_status_t keep_record(crt_call_t *call, const void *data, size_t size)
{
    call->record = call->small_record;
    if (size > sizeof(call->small_record))
        call->record = aligned_alloc(64, (size + 63) & ~(size_t)63);
    if (!call->record)
        return crt_raise(CRT_ERR_NO_MEMORY, "a call of %zu bytes", size);
    memcpy(call->record, data, size);
    call->record_size = size;
    return CRT_OK;
}

/* ------------------------------------------------------------------ arguments */

static void make_runnable(crt_call_t *call)
{
    int error;

    call->is_blocked = false;
    crti_list_remove(&call->link);
    if (crti_executor_queue(call, &error))
        return;
    crti_executor_unqueue(call);
    crt_raise(CRT_ERR_NO_MEMORY, "%s: no thread can be started for it: %s",
              call->function->display, strerror(error));
    crti_call_set_error(call, CRT_ERR_NO_MEMORY, crt_error_detail());
    crti_call_finish(call, false);
}

/* Methods behind a blocked one go on with it, in order. */
static void unblock(crti_client_t *client)
{
    while (!crti_list_is_empty(&client->blocked)) {
        crt_call_t *first = CRTI_CONTAINER(client->blocked.next, crt_call_t, link);

        if (first->missing)
            return;
        make_runnable(first);
    }
}

static void arguments_here(crt_call_t *call)
{
    crti_core_t *core = call->core;

    if (!call->client) {
        crti_net_wake(core->net);
        return;
    }
    if (call->is_blocked)
        unblock(call->client);
    else if (call->flags & CRTI_CALL_TASK &&
             (core->blocked->is_told || core->execution->is_spent))
        /* the thread that would run it waits for something */
        crti_incoming_give_back_call(call);
    else
        make_runnable(call);
    crti_net_wake(core->net);
}

static void on_arg_ready(crti_waiting_t *waiting, crt_ref_t *ref)
{
    crt_call_t *call = CRTI_CONTAINER(waiting, crti_incoming_arg_t, waiting)->call;

    if (--call->missing == 0)
        arguments_here(call);
}

static crt_status_t open_ref(crt_call_t *call, crti_incoming_arg_t *arg,
                             const crti_call_arg_t *from)
{
    crt_ref_t *ref;
    crt_status_t status = crti_ref_arrive(call->core, &from->ref, &ref);

    if (status != CRT_OK)
        return status;
    crti_ref_cover(ref);
    arg->ref = ref;
    if (from->form == CRTI_ARG_OBJECT && !ref->is_owned &&
        ref->content == CRTI_CONTENT_NONE) {
        ref->is_unconfirmed =
            !call->client ||
            !crti_id_equal(crti_peer_process(call->client->peer), crti_ref_id(ref).owner);
        crti_ref_set_stored(ref, &from->location, (crti_span_t){"", 0}, false);
    }
    arg->call = call;
    arg->waiting.on_ready = on_arg_ready;
    call->missing++;
    crti_ref_await(ref, &arg->waiting, true);
    return CRT_OK;
}

static crt_status_t open_value(crt_call_t *call, crti_incoming_arg_t *arg,
                               crti_span_t value)
{
    crti_span_t table;
    crti_handles_t handles;
    crt_status_t status = crti_value_table(value.data, value.size, &table);

    if (status == CRT_OK && table.size)
        status = crti_contained_open(call->core, table, CRTI_CONTAINED_COVERED, false,
                                     &arg->inner);
    handles = crti_contained_handles(&arg->inner);
    if (status == CRT_OK)
        status = crti_decode(value.data, value.size, &handles, &arg->value, &arg->memory);
    return status;
}

/* `missing` is at least 1 meanwhile, so that a ref that is here at once does not start it. */
static crt_status_t open_args(crt_call_t *call, crti_reader_t args, unsigned count)
{
    crti_call_arg_t from;
    crt_status_t status = CRT_OK;

    call->args = call->few_args;
    if (count > CRTI_FEW_ARGS)
        call->args = malloc(count * sizeof(*call->args));
    if (!call->args)
        return crt_raise(CRT_ERR_NO_MEMORY, "%u arguments", count);
    for (unsigned i = 0; i < count && status == CRT_OK; i++) {
        status = crti_get_arg(&args, call->record, &from);
        if (status != CRT_OK)
            break;
        call->arg_count = i + 1;
        call->args[i] = (crti_incoming_arg_t){.ref = NULL};
        if (from.form == CRTI_ARG_VALUE || from.form == CRTI_ARG_DATA)
            status = open_value(call, &call->args[i], from.value);
        else
            status = open_ref(call, &call->args[i], &from);
    }
    return status == CRT_OK ? crti_get_again(&args, &call->again) : status;
}

/* ------------------------------------------------------------------ making a call */

static crt_status_t find_function(crti_core_t *core, crt_call_t *call,
                                  const crti_call_head_t *head)
{
    const char *name = head->name.data;
    int size = (int)head->name.size;

    if (!core->is_worker)
        return crt_raise(CRT_ERR_INVALID, "%.*s was sent to a driver", size, name);
    if (head->flags & CRTI_CALL_TASK) {
        call->function =
            crti_program_find_task(core->program, head->index, name, head->name.size);
        if (call->function)
            return CRT_OK;
        return crt_raise(CRT_ERR_INVALID,
                         "the program of this worker was built without the task %.*s",
                         size, name);
    }
    if (!core->execution->class_)
        return crt_raise(CRT_ERR_INVALID, "no actor lives in this worker");
    if (head->index == CRTI_CALL_STOP) {
        call->function = &crti_stop_function;
        return CRT_OK;
    }
    call->function = crti_class_find_method(core->execution->class_, head->index, name,
                                            head->name.size);
    if (CRTI_CALL_IS_OUTSIDE(head->index))
        return crti_outside_admit(call, head);
    if (call->function && call->group < core->execution->executors.group_count)
        return CRT_OK;
    if (call->function)
        return crt_raise(CRT_ERR_INVALID,
                         "class %s of this worker's program has no concurrency group %u",
                         core->execution->class_->user->name, call->group);
    return crt_raise(CRT_ERR_INVALID,
                     "class %s of this worker's program has no method %.*s",
                     core->execution->class_->user->name, size, name);
}

/* Answered at once, whatever runs here, or when create has ended. */
static void take_ready_question(crti_core_t *core, crt_call_t *call)
{
    if (core->execution->class_) {
        call->function = &core->execution->class_->create;
        call->args = call->few_args;
        call->missing = 0;
        if (!core->execution->is_created) {
            crti_list_append(&core->execution->questions, &call->link);
            return;
        }
    } else {
        crti_call_set_error(call, CRT_ERR_INVALID, "no actor lives in this worker");
    }
    crti_call_finish(call, false);
}

/* Its caller takes its results one by one. */
static crt_status_t begin_stream(crt_call_t *call, const crti_stream_start_t *start)
{
    crti_yields_t *y = calloc(1, sizeof(*y));

    if (!y)
        return crt_raise(CRT_ERR_NO_MEMORY, "a stream");
    y->skip = start->skip;
    y->limit = start->limit;
    crti_item_numbers_add(&y->numbers, start->first, start->limit - start->skip);
    call->yields = y;
    return CRT_OK;
}

/* What a record says of the call itself. */
static crt_status_t take_head(crt_call_t *call, const crti_call_head_t *head)
{
    call->number = head->call;
    call->returns = head->returns;
    call->placement = head->placement;
    call->seeds = (crti_seeds_t){.seed = head->seed};
    call->core->has_seeds = call->core->has_seeds || head->seed;
    call->flags = head->flags;
    call->group = head->flags & CRTI_CALL_TASK ? 0 : CRTI_CALL_GROUP(head->flags);
    if (head->is_stream && begin_stream(call, &head->stream) != CRT_OK)
        return CRT_ERR_NO_MEMORY;
    if (head->given_name.size == 0)
        return CRT_OK;
    call->given_name = strndup(head->given_name.data, head->given_name.size);
    return call->given_name ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "the name of a call");
}

static void link_call(crti_client_t *client, crt_call_t *call)
{
    call->client = crti_client_ref(client);
    crti_list_append(&client->calls, &call->of_client);
    crti_net_hold(client->core->net, client->peer, call->record_size);
}

crt_status_t crti_incoming_call(crti_client_t *client, const void *data, size_t size)
{
    crti_core_t *core = client->core;
    crt_call_t *call = new_call(core);
    crti_call_head_t head;
    crti_reader_t args;
    crt_status_t status;

    if (!call)
        return crt_raise(CRT_ERR_NO_MEMORY, "a call");
    status = keep_record(call, data, size);
    if (status == CRT_OK)
        status = crti_get_call(call->record, size, &head, &args);
    if (status == CRT_OK)
        status = take_head(call, &head);
    if (status != CRT_OK) {
        crti_call_free(call);
        return status;
    }
    if (core->execution->is_spent)
        crti_incoming_refuse_more(client);
    call->missing = 1;
    call->arrived = crti_peer_received(client->peer);
    link_call(client, call);
    if (call->flags & CRTI_CALL_READY) {
        take_ready_question(core, call);
        return CRT_OK;
    }
    status = find_function(core, call, &head);
    if (status == CRT_OK)
        status = open_args(call, args, head.arg_count);
    if (status != CRT_OK) {
        crti_call_set_error(call, status, crt_error_detail());
        crti_call_finish(call, false);
        return status == CRT_ERR_PROTOCOL ? status : CRT_OK;
    }
    if (!(call->flags & CRTI_CALL_TASK) && !core->execution->is_unordered &&
        (call->missing > 1 || !crti_list_is_empty(&client->blocked))) {
        call->is_blocked = true;
        crti_list_append(&client->blocked, &call->link);
    }
    if (--call->missing == 0)
        arguments_here(call);
    return CRT_OK;
}

static crt_status_t make_call(crti_core_t *core, crti_span_t record,
                              crt_call_t **call_out, crti_call_head_t *head,
                              crti_reader_t *args)
{
    crt_call_t *call = new_call(core);
    crt_status_t status;

    if (!call)
        return crt_raise(CRT_ERR_NO_MEMORY, "a call");
    status = keep_record(call, record.data, record.size);
    if (status == CRT_OK)
        status = crti_get_call(call->record, record.size, head, args);
    if (status == CRT_OK)
        status = take_head(call, head);
    if (status != CRT_OK) {
        crti_call_free(call);
        return status;
    }
    *call_out = call;
    return CRT_OK;
}

crt_status_t crti_incoming_creation(crti_core_t *core, crti_span_t creation,
                                    crt_call_t **call_out)
{
    crti_call_head_t head;
    crti_reader_t args;
    crt_call_t *call;
    crt_status_t status = make_call(core, creation, &call, &head, &args);

    if (status != CRT_OK)
        return status;
    core->execution->class_ =
        crti_program_find_class(core->program, head.name.data, head.name.size);
    if (!core->execution->class_) {
        status = crt_raise(CRT_ERR_INVALID,
                           "the program of this worker was built without the "
                           "class %.*s",
                           (int)head.name.size, (const char *)head.name.data);
        crti_call_free(call);
        return status;
    }
    core->placement = head.placement;
    core->execution->is_unordered = head.index & CRTI_CREATION_UNORDERED;
    crti_executors_set(&core->execution->executors, core->execution->class_,
                       head.index & ~CRTI_CREATION_UNORDERED);
    call->function = &core->execution->class_->create;
    call->missing = 1;
    *call_out = call;
    status = open_args(call, args, head.arg_count);
    call->missing--;
    return status;
}

crt_status_t crti_incoming_own(crti_pending_t *p, crt_call_t **call_out)
{
    crti_call_head_t head;
    crti_reader_t args;
    crt_call_t *call;
    crti_span_t record = crti_span(p->spec.record.data, p->spec.record.size);
    crt_status_t status = make_call(p->core, record, &call, &head, &args);

    if (status != CRT_OK)
        return status;
    call->function = p->spec.function;
    call->pending = p;
    call->missing = 1;
    *call_out = call;
    status = open_args(call, args, head.arg_count);
    call->missing--;
    return status;
}

/* ------------------------------------------------------------------ given back, and lost */

void crti_incoming_refuse(crt_call_t *call, crt_status_t status, const char *text)
{
    crti_client_t *client = crti_client_ref(call->client);

    crti_executor_unqueue(call);
    crti_call_set_error(call, status, text);
    crti_call_finish(call, false);
    unblock(client);
    crti_client_unref(client);
}

void crti_incoming_give_back_call(crt_call_t *call)
{
    crti_executor_unqueue(call);
    call->result.form = CRTI_RESULT_NOT_STARTED;
    call->status = CRT_OK;
    crti_call_finish(call, false);
}

void crti_incoming_refuse_more(crti_client_t *client)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t record = {0};

    if (client->is_lost || client->knows_spent || crti_put_retiring(&record) != CRT_OK)
        return;
    client->knows_spent = true;
    crti_peer_reply(client->core, client->peer, &record, CRTI_SEND_CONTROL);
}

void crti_incoming_give_back(crti_client_t *client)
{
    CRTI_LIST_FOREACH_SAFE (item, &client->calls) {
        crt_call_t *call = CRTI_CONTAINER(item, crt_call_t, of_client);

        if (!call->is_started && call->flags & CRTI_CALL_TASK && call->ending.waits == 0)
            crti_incoming_give_back_call(call);
    }
}

void crti_incoming_give_back_all(crti_core_t *core)
{
    CRTI_LIST_FOREACH_SAFE (item, &core->execution->executors.groups[0].runnable) {
        crt_call_t *call = CRTI_CONTAINER(item, crt_call_t, link);

        if (call->client && call->flags & CRTI_CALL_TASK)
            crti_incoming_give_back_call(call);
    }
}

void crti_client_lost(crti_client_t *client)
{
    client->is_lost = true;
    crti_locating_end(client);
    crti_copy_query_is_over(client->core, &client->copy_query);
    crti_client_ref(client);
    CRTI_LIST_FOREACH (item, &client->calls)
        CRTI_CONTAINER(item, crt_call_t, of_client)->is_cancelled = true;
    CRTI_LIST_FOREACH_SAFE (item, &client->calls) {
        crt_call_t *call = CRTI_CONTAINER(item, crt_call_t, of_client);

        if (call->is_started || call->ending.waits)
            continue;
        crti_executor_unqueue(call);
        crti_call_finish(call, false);
    }
    crti_client_unref(client); /* ours */
    crti_client_unref(client); /* the session's */
}

/* ------------------------------------------------------------------ the module's state */

static void fini_call(void *item)
{
    crt_call_t *call = item;

    crti_buffer_fini(&call->result.value);
    crti_encoder_fini(&call->encoder);
}

void crti_execution_init(crti_core_t *core)
{
    crti_execution_t *execution = core->execution;

    crti_executors_init(&execution->executors, core);
    crti_list_init(&execution->questions);
    crti_pool_init(&execution->pool, sizeof(crt_call_t), CRTI_POOL_KEEPS / 4, fini_call);
    execution->pool.is_aligned = true;
    crti_result_waits_init(&execution->result_waits);
}

void crti_execution_end(crti_core_t *core)
{
    core->execution->is_ending = true;
    if (core->net) /* it may be told while it attaches */
        crti_net_wake(core->net);
}

const crti_class_t *crti_execution_class(const crti_core_t *core)
{
    return core->execution->class_;
}

void crti_execution_fini(crti_execution_t *execution)
{
    free(execution->runs);
    crti_result_waits_fini(&execution->result_waits);
    crti_pool_fini(&execution->pool);
    crti_executors_fini(&execution->executors);
}

/* ------------------------------------------------------------------ about to begin */

static bool is_awaiting_arguments(const crti_client_t *client)
{
    CRTI_LIST_FOREACH (item, &client->calls) {
        const crt_call_t *call = CRTI_CONTAINER(item, crt_call_t, of_client);

        if (!call->is_started && call->missing)
            return true;
    }
    return false;
}

crti_execution_rest_t crti_execution_rest(const crti_core_t *core)
{
    const crti_execution_t *e = core->execution;
    crti_execution_rest_t rest = {.begun = e->next_serial,
                                  .is_starting = e->class_ && !e->is_created};

    for (unsigned i = 0; i < e->executors.group_count; i++)
        rest.threads += e->executors.groups[i].executors;
    CRTI_LIST_FOREACH (item, &core->remotes->clients) {
        const crti_client_t *client = CRTI_CONTAINER(item, crti_client_t, link);

        rest.is_starting |= is_awaiting_arguments(client);
    }
    return rest;
}
