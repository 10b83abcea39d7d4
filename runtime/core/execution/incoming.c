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
 *     earlier one is not here yet. Every call that is not a lost caller's is answered once.
 * Tier: message path.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/core/core.h"
#include "runtime/core/refs/borrowers.h"
#include "runtime/core/refs/copy_query.h"
#include "runtime/core/refs/locating.h"
#include "runtime/core/refs/owner_requests.h"
#include "runtime/core/refs/value_of.h"

/* ------------------------------------------------------------------ life of a call */

static void on_ended(crti_completion_t *ending);

static crt_call_t *new_call(crti_core_t *core)
{
    crt_call_t *call = crti_pool_get(&core->execution.pool);

    if (!call)
        return NULL;
    memset(call, 0, offsetof(crt_call_t, value));
    call->core = core;
    call->ending.on_end = on_ended;
    crti_list_init(&call->link);
    crti_list_init(&call->of_client);
    return call;
}

static void free_call(crt_call_t *call)
{
    crti_core_t *core = call->core;

    crti_executor_unqueue(call);
    crti_list_remove(&call->of_client);
    for (unsigned i = 0; i < call->arg_count; i++)
        free(call->args[i].memory);
    if (call->args != call->few_args)
        free(call->args);
    call->value.size = 0;
    if (call->record != call->small_record)
        free(call->record);
    free(call->text);
    free(call->origin);
    free(call->result_refs);
    free(call->is_lent);
    if (call->client)
        crti_client_unref(call->client);
    if (call->value.capacity > 4096)
        crti_buffer_fini(&call->value);
    crti_pool_put(&core->execution.pool, call);
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

static void give_back_call(crt_call_t *call);

static void arguments_here(crt_call_t *call)
{
    crti_core_t *core = call->core;

    if (!call->client) {
        crti_net_wake(core->net);
        return;
    }
    if (call->is_blocked)
        unblock(call->client);
    else if (call->flags & CRTI_CALL_TASK && core->blocked.is_told)
        give_back_call(call); /* the thread that would run it waits for something */
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
            !crti_id_equal(crti_peer_process(call->client->peer), ref->id.owner);
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
    if (status == CRT_OK && args.at != args.end)
        status =
            crt_raise(CRT_ERR_PROTOCOL, "malformed record: bytes behind the arguments");
    return status;
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
            crti_program_find_task(&core->program, head->index, name, head->name.size);
        if (call->function)
            return CRT_OK;
        return crt_raise(CRT_ERR_INVALID,
                         "the program of this worker was built without the task %.*s",
                         size, name);
    }
    if (!core->execution.class_)
        return crt_raise(CRT_ERR_INVALID, "no actor lives in this worker");
    call->function = crti_class_find_method(core->execution.class_, head->index, name,
                                            head->name.size);
    if (call->function && call->group < core->execution.executors.group_count)
        return CRT_OK;
    if (call->function)
        return crt_raise(CRT_ERR_INVALID,
                         "class %s of this worker's program has no concurrency group %u",
                         core->execution.class_->user->name, call->group);
    return crt_raise(CRT_ERR_INVALID,
                     "class %s of this worker's program has no method %.*s",
                     core->execution.class_->user->name, size, name);
}

/* Answered at once, whatever runs here, or when create has ended. */
static void take_ready_question(crti_core_t *core, crt_call_t *call)
{
    if (core->execution.class_) {
        call->function = &core->execution.class_->create;
        call->args = call->few_args;
        call->missing = 0;
        if (!core->execution.is_created) {
            crti_list_append(&core->execution.questions, &call->link);
            return;
        }
    } else {
        crti_call_set_error(call, CRT_ERR_INVALID, "no actor lives in this worker");
    }
    crti_call_finish(call, false);
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
    if (status != CRT_OK) {
        free_call(call);
        return status;
    }
    call->number = head.call;
    call->flags = head.flags;
    call->group = head.flags & CRTI_CALL_TASK ? 0 : CRTI_CALL_GROUP(head.flags);
    call->missing = 1;
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
    if (!(call->flags & CRTI_CALL_TASK) &&
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
    if (status != CRT_OK) {
        free_call(call);
        return status;
    }
    call->number = head->call;
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
    core->execution.class_ =
        crti_program_find_class(&core->program, head.name.data, head.name.size);
    if (!core->execution.class_) {
        status = crt_raise(CRT_ERR_INVALID,
                           "the program of this worker was built without the "
                           "class %.*s",
                           (int)head.name.size, (const char *)head.name.data);
        free_call(call);
        return status;
    }
    crti_executors_set(&core->execution.executors, core->execution.class_, head.index);
    call->function = &core->execution.class_->create;
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
    crti_span_t record = crti_span(p->record.data, p->record.size);
    crt_status_t status = make_call(p->core, record, &call, &head, &args);

    if (status != CRT_OK)
        return status;
    call->function = p->function;
    call->pending = p;
    call->flags = head.flags;
    call->missing = 1;
    *call_out = call;
    status = open_args(call, args, head.arg_count);
    call->missing--;
    return status;
}

/* ------------------------------------------------------------------ the answer */

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
                          .method = crti_str(call->function ? call->function->name : ""),
                          .actor = core->actor_id,
                          .node = core->node,
                          .pid = getpid()};
}

static void describe_result(const crt_call_t *call, unsigned char node[16],
                            crti_result_t *result)
{
    *result = (crti_result_t){.form = call->form};
    if (call->status < 0) {
        result->form = CRTI_RESULT_ERROR;
        describe_error(call, &result->failure);
    } else if (call->form == CRTI_RESULT_STORED) {
        crti_put_id(node, call->core->node);
        result->location = (crti_location_t){call->object, call->object_size, node, 1};
        result->table = crti_span(call->value.data, call->value.size);
    } else if (call->form == CRTI_RESULT_FORWARD) {
        result->ref = crti_ref_name(call->result_refs[0]);
    } else if (call->scalar_size) {
        result->value = crti_span(call->scalar, call->scalar_size);
    } else {
        result->value = call->value.size
                            ? crti_span(call->value.data, call->value.size)
                            : crti_span("\0\xc0", 2); /* nothing was returned */
    }
}

static void answer(crt_call_t *call, const crti_result_t *result)
{
    crti_core_t *core = call->core;
    crti_buffer_t record = crti_scratch_take(core);

    if (crti_put_result(&record, CRTI_RECORD_REPLY, call->number, result, NULL) == CRT_OK)
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

/* The refs in the result are registered for who gets it. */
static void register_result(crt_call_t *call)
{
    crti_borrow_record_t to = recipient(call);

    for (size_t i = 0; i < call->result_ref_count; i++) {
        crt_ref_t *ref = call->result_refs[i];
        crt_status_t status = ref->is_owned
                                  ? crti_owner_add_borrower(call->core, ref, &to)
                                  : crti_owner_request_lend(ref, &to, &call->ending);

        /* Its owner is gone: whoever gets the ref will hear so. */
        call->is_lent[i] = status == CRT_OK;
    }
}

/* Nobody will get the result: what was registered for it would stay until that process ends. */
static void take_back_result(crt_call_t *call)
{
    crti_borrow_record_t to = recipient(call);

    for (size_t i = 0; i < call->result_ref_count; i++) {
        crt_ref_t *ref = call->result_refs[i];

        if (!call->is_lent[i])
            continue;
        call->is_lent[i] = false;
        if (ref->is_owned)
            crti_owned_bits(ref, crti_owned_release(&ref->owned, to.process, 1));
        else
            crti_owner_request_take_back(ref, &to);
    }
}

/* Everything is registered, or can't be: the answer may leave. */
static void on_ended(crti_completion_t *ending)
{
    crt_call_t *call = CRTI_CONTAINER(ending, crt_call_t, ending);
    crti_core_t *core = call->core;
    bool is_wanted = call->pending || (call->client && !call->is_cancelled &&
                                       !crti_peer_is_lost(call->client->peer));
    unsigned char node[16];
    crti_result_t result;

    if (ending->status < 0 && call->status >= 0) {
        take_back_result(call);
        crti_call_set_error(call, ending->status,
                            "the owner of a ref in the result can't be reached");
    }
    describe_result(call, node, &result);
    if (call->form == CRTI_RESULT_STORED && (call->status < 0 || !is_wanted))
        crti_store_free(core->store, call->object); /* nobody is left who would */
    if (call->pending)
        crti_pending_answer(call->pending, &result);
    else if (is_wanted)
        answer(call, &result);
    else
        take_back_result(call);
    for (size_t i = 0; i < call->result_ref_count; i++)
        crti_ref_release(call->result_refs[i]);
    if (call->client)
        crti_net_release(core->net, call->client->peer, call->record_size);
    free_call(call);
}

void crti_call_finish(crt_call_t *call, bool may_wait)
{
    call->may_wait = may_wait;
    call->ending.waits = 1;
    if (call->status >= 0 && !call->is_cancelled)
        register_result(call);
    if (call->status < 0 && !call->is_started)
        keep_origin(call); /* the argument is let go below */
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
    if (call->ending.waits > 1)
        call->may_wait = false; /* it ends in a handler */
    crti_completion_done(&call->ending);
}

void crti_incoming_refuse(crt_call_t *call, crt_status_t status, const char *text)
{
    crti_client_t *client = crti_client_ref(call->client);

    crti_executor_unqueue(call);
    crti_call_set_error(call, status, text);
    crti_call_finish(call, false);
    unblock(client);
    crti_client_unref(client);
}

/* ------------------------------------------------------------------ given back, and lost */

static void give_back_call(crt_call_t *call)
{
    crti_executor_unqueue(call);
    call->form = CRTI_RESULT_NOT_STARTED;
    call->status = CRT_OK;
    crti_call_finish(call, false);
}

void crti_incoming_give_back(crti_client_t *client)
{
    CRTI_LIST_FOREACH_SAFE (item, &client->calls) {
        crt_call_t *call = CRTI_CONTAINER(item, crt_call_t, of_client);

        if (!call->is_started && call->flags & CRTI_CALL_TASK && call->ending.waits == 0)
            give_back_call(call);
    }
}

void crti_incoming_give_back_all(crti_core_t *core)
{
    CRTI_LIST_FOREACH_SAFE (item, &core->execution.executors.groups[0].runnable) {
        crt_call_t *call = CRTI_CONTAINER(item, crt_call_t, link);

        if (call->client && call->flags & CRTI_CALL_TASK)
            give_back_call(call);
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

    crti_buffer_fini(&call->value);
    crti_encoder_fini(&call->encoder);
}

void crti_execution_init(crti_core_t *core)
{
    crti_execution_t *execution = &core->execution;

    crti_executors_init(&execution->executors, core);
    crti_list_init(&execution->questions);
    crti_pool_init(&execution->pool, sizeof(crt_call_t), CRTI_POOL_KEEPS / 4, fini_call);
    execution->pool.is_aligned = true;
    crti_result_waits_init(&execution->result_waits);
}

void crti_execution_end(crti_core_t *core)
{
    core->execution.is_ending = true;
    if (core->net) /* it may be told while it attaches */
        crti_net_wake(core->net);
}

void crti_execution_fini(crti_execution_t *execution)
{
    crti_result_waits_fini(&execution->result_waits);
    crti_pool_fini(&execution->pool);
    crti_executors_fini(&execution->executors);
}
