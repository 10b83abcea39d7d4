/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what the library does (runtime/core, from dispatch.c on) with the records of
 * processes that have gone mad, and with what the node daemon tells of them.
 *
 * An input is how we live (see `mode` in core_steps.h) and a list of steps: what, whose or which,
 * two bytes of a length, and so many bytes. There is no network under the library (core_net.c):
 * records come whole, sessions end when a step says so. Whatever came: when all sessions are over,
 * all processes dead and all handles dropped, no ref, no call, no actor and no borrower is left;
 * and what the library sends can be read by others. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Its parts are made here one by one. */
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/client/client.c"
#include "runtime/core/client/client.h"

#include "core_net.h"
#include "core_steps.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/execution/execution_int.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/program.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/refs/refs_int.h"

#define STEPS_MAX   300
#define HANDLES     8
#define STORE_BYTES ((size_t)8 << 20)
#define SMALL       100

typedef struct asked {
    uint64_t request;
    crti_id_t lease; /* that it was for */
} asked_t;

typedef struct bed {
    crti_core_t *core;
    uint64_t now;
    int node_fd; /* the daemon's end */
    crti_buffer_t told;
    asked_t asked[64]; /* requests to the daemon that are not answered */
    unsigned asked_count;
    crt_ref_t *refs[HANDLES];
    crt_actor_t *actors[HANDLES];
    crt_stream_t *streams[HANDLES];
} bed_t;

static const crti_id_t our_actor = {6, 6};
static crti_store_t *arena;

/* ---------------------------------------------------------------- the program */

typedef struct thing {
    crt_ref_t *kept;
    crt_actor_t *friend;
} thing_t;

static crt_status_t add_run(crt_call_t *call)
{
    int64_t a, b;

    CRT_TRY(crt_args(call, &a, &b));
    return crt_return(call, a + b);
}
static const crt_task_t add = CRT_TASK(.name = "add", .run = add_run);

/* Yields numbers, a large tensor, and whatever it was given. */
static crt_status_t items_run(crt_call_t *call)
{
    static float numbers[LARGE / 4];
    const crt_tensor_t floats = crt_tensor_floats(numbers, LARGE / 4);
    crt_ref_t *given = NULL;

    for (int i = 0; i < 6; i++) {
        CRT_TRY(crt_yield(call, i));
        CRT_TRY(crt_yield(call, &floats));
        if (crt_arg_count(call) && crt_arg_at(call, 0, &given) == CRT_OK) {
            const crt_arg_t list[] = {CRT_ARG(given)};

            CRT_TRY(crt_yield(call, crt_list(list, 1)));
            CRT_TRY(crt_yield(call, given));
        }
    }
    return CRT_OK;
}
static const crt_task_t yields = CRT_TASK(.name = "items", .run = items_run);

/* Runs another one and waits a little for it. */
static crt_status_t nest_run(crt_call_t *call)
{
    crt_ref_t *ref = crt_submit(&add, NULL, 1, 2);
    int64_t sum = 0;
    crt_status_t status = crt_get_for(ref, 5, &sum);

    crt_ref_drop(&ref);
    return status == CRT_OK ? crt_return(call, sum) : status;
}
static const crt_task_t nest = CRT_TASK(.name = "nest", .run = nest_run);

static crt_status_t tensor_run(crt_call_t *call)
{
    static float numbers[LARGE / 4];
    crt_tensor_t tensor = crt_tensor_floats(numbers, LARGE / 4);

    return crt_return(call, &tensor);
}
static const crt_task_t tensor = CRT_TASK(.name = "tensor", .run = tensor_run);

static crt_status_t list_run(crt_call_t *call)
{
    crt_ref_t *ref = crt_put(1);
    crt_arg_t items[] = {crt_arg_ref(ref), crt_arg_int(2)};
    crt_status_t status = crt_return(call, crt_list(items, 2));

    crt_ref_drop(&ref);
    return status;
}
static const crt_task_t list = CRT_TASK(.name = "list", .run = list_run);

static crt_status_t keep_run(void *self, crt_call_t *call)
{
    thing_t *thing = self;
    crt_ref_t *ref;

    CRT_TRY(crt_args(call, &ref));
    crt_ref_drop(&thing->kept);
    thing->kept = crt_ref_keep(ref);
    return CRT_OK;
}
static const crt_method_t keep =
    CRT_METHOD(.name = "keep", .run = keep_run, .signature = "ref");

static crt_status_t give_run(void *self, crt_call_t *call)
{
    thing_t *thing = self;

    if (!thing->kept)
        return crt_return(call, 0);
    return crt_return(call, thing->kept);
}
static const crt_method_t give =
    CRT_METHOD(.name = "give", .run = give_run, .signature = "");

/* Any arguments, read; the first ref and the first actor of a list are kept. */
static crt_status_t look_run(void *self, crt_call_t *call)
{
    thing_t *thing = self;
    const crt_value_t *value;
    crt_ref_t *ref;
    crt_actor_t *actor;

    for (size_t i = 0; i < crt_arg_count(call); i++) {
        CRT_TRY(crt_arg_at(call, i, &value));
        for (size_t j = 0; j < crt_value_count(value); j++) {
            const crt_value_t *item = crt_value_at(value, j);

            if (item && crt_value_read(item, &ref) == CRT_OK) {
                crt_ref_drop(&thing->kept);
                thing->kept = crt_ref_keep(ref);
            } else if (item && crt_value_read(item, &actor) == CRT_OK) {
                crt_actor_drop(&thing->friend);
                thing->friend = crt_actor_keep(actor);
            }
        }
    }
    return crt_return(call, (int64_t)crt_arg_count(call));
}
static const crt_method_t look =
    CRT_METHOD(.name = "look", .run = look_run, .signature = NULL);

/* Calls the actor that it has, and waits a little. */
static crt_status_t ask_run(void *self, crt_call_t *call)
{
    thing_t *thing = self;
    crt_ref_t *ref;
    crt_status_t status;

    if (!thing->friend)
        return crt_return(call, 0);
    ref = crt_call(thing->friend, &give);
    status = crt_wait(&ref, 1, 1, 5, NULL, NULL);
    if (status == CRT_OK)
        status = crt_return(call, ref);
    crt_ref_drop(&ref);
    return status;
}
static const crt_method_t ask =
    CRT_METHOD(.name = "ask", .run = ask_run, .signature = "");

static const crt_actor_class_t thing_class =
    CRT_ACTOR_CLASS(.name = "Thing", .size = sizeof(thing_t),
                    .methods = CRT_METHODS(&keep, &give, &look, &ask));

static const crt_options_t options = {
    .struct_size = sizeof(crt_options_t),
    .classes = CRT_CLASSES(&thing_class),
    .tasks = CRT_TASKS(&add, &nest, &tensor, &list, &yields)};

/* ---------------------------------------------------------------- around the library */

/* Of the last probe that was sent. Nobody guesses it: a probe that comes with 0 gets it. */
static uint64_t last_nonce;

/* Whoever gets it must understand it. */
static void on_sent(void *user, crti_peer_t *to, const void *data, size_t size)
{
    crti_call_head_t head;
    crti_call_arg_t arg;
    crti_reader_t args;
    crti_result_t result;
    crti_borrow_record_t borrow;
    crti_release_record_t release;
    crti_chain_t chain;
    crti_probe_t probe;
    crti_consumed_t more;
    uint64_t a, b;
    unsigned flags;
    const void *numbers;
    uint32_t count;
    bool is_there;
    crti_id_t node;
    crt_status_t status = CRT_ERR_PROTOCOL;

    switch (crti_record_kind(data, size)) {
    case CRTI_RECORD_CALL:
    case CRTI_RECORD_SEEDED_CALL:
        status = crti_get_call(data, size, &head, &args);
        for (unsigned i = 0; status == CRT_OK && i < head.arg_count; i++)
            status = crti_get_arg(&args, data, &arg);
        break;
    case CRTI_RECORD_REPLY:
    case CRTI_RECORD_LOCATED: status = crti_get_result(data, size, &a, &result); break;
    case CRTI_RECORD_PEEK: status = crti_get_peek(data, size, &numbers, &count); break;
    case CRTI_RECORD_PEEKED:
        for (args = crti_read_peeked(data, size), is_there = true, status = CRT_OK;
             status == CRT_OK && is_there;)
            status = crti_next_peeked(&args, &is_there, &a, &result);
        break;
    case CRTI_RECORD_LOCATE: status = crti_get_locate(data, size, &a, &b); break;
    case CRTI_RECORD_BORROW:
    case CRTI_RECORD_TAKE_BACK:
    case CRTI_RECORD_COPY_QUERY:
    case CRTI_RECORD_COPY_REPLY:
    case CRTI_RECORD_BORROWED: status = crti_get_borrow(data, size, &borrow); break;
    case CRTI_RECORD_RELEASE: status = crti_get_release(data, size, &release); break;
    case CRTI_RECORD_COPY: status = crti_get_copy(data, size, &a, &b, &node); break;
    case CRTI_RECORD_WAITING: status = crti_get_chain(data, size, &chain); break;
    case CRTI_RECORD_PROBE:
        status = crti_get_probe(data, size, &probe);
        last_nonce = probe.nonce;
        break;
    case CRTI_RECORD_CANCEL: status = crti_get_cancel(data, size, &a, &flags); break;
    case CRTI_RECORD_ITEM: status = crti_get_item(data, size, &a, &b, &result); break;
    case CRTI_RECORD_CONSUMED: status = crti_get_consumed(data, size, &more); break;
    case CRTI_RECORD_GIVE_BACK:
    case CRTI_RECORD_RETIRING: status = CRT_OK; break;
    }
    if (status != CRT_OK)
        abort();
}

static void on_line(void *user, int level, const char *line)
{
}

static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, crt_error_detail());
    abort();
}

static void make(bed_t *bed, bool is_worker)
{
    crti_channel_handlers_t handlers = crti_node_link_handlers;
    crti_net_config_t config = {.handlers = crti_core_handlers};
    crti_core_t *core;
    int fds[2];

    crti_log_set_sink(on_line, NULL);
    if (!arena && crti_store_new(STORE_BYTES, 8, &arena) != CRT_OK)
        die("arena");
    *bed = (bed_t){.now = crti_now_ns()};
    if (new_core(&options, &core) != CRT_OK || crti_channel_pair(fds) != CRT_OK)
        die("core");
    bed->core = handlers.user = config.handlers.user = core;
    core->process = config.process = us;
    core->node = config.node = our_node;
    config.incarnation = core->incarnation;
    core->is_worker = is_worker;
    core->slot = 1;
    core->arena_fd = dup(crti_store_fd(arena));
    bed->node_fd = fds[1];
    if (crti_channel_new(&fds[0], &handlers, 0, &core->link->channel) != CRT_OK ||
        crti_net_new(&config, &core->net) != CRT_OK || !crti_publish(core))
        die("core");
    core->net->on_sent = on_sent;
    if (is_worker) {
        core->execution->class_ = crti_program_find_class(core->program, "Thing", 5);
        core->actor_id = our_actor;
        core->execution->self = calloc(1, sizeof(thing_t));
        core->execution->is_created = true;
    }
}

/* Reads what the daemon is told, and remembers what it was asked. */
static void hear(bed_t *bed)
{
    char bytes[65536];
    ssize_t n;
    size_t at = 0;
    uint32_t size;

    crti_channel_process(bed->core->link->channel, EPOLLOUT);
    while ((n = recv(bed->node_fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
        if (crti_buffer_append(&bed->told, bytes, (size_t)n) != CRT_OK)
            abort();
    while (bed->told.size >= at + 4) {
        crti_message_t m;

        memcpy(&size, bed->told.data + at, 4);
        if (bed->told.size - at - 4 < size)
            break;
        if (crti_message_decode(bed->told.data + at + 4, size, &m) != CRT_OK)
            die("what the daemon is told");
        at += 4 + size;
        if (m.request && bed->asked_count < 64)
            bed->asked[bed->asked_count++] = (asked_t){
                m.request, m.kind == CRTI_MSG_LEASE_REQUEST ? m.lease_request.lease
                                                            : (crti_id_t){0}};
    }
    crti_buffer_consume(&bed->told, at);
}

static void from_daemon(bed_t *bed, crti_span_t data, bool is_answer, unsigned which)
{
    crti_message_t m;

    if (crti_message_decode(data.data, data.size, &m) != CRT_OK)
        return;
    if (is_answer && bed->asked_count == 0)
        return;
    m.request = 0;
    if (is_answer) {
        which %= bed->asked_count;
        m.request = bed->asked[which].request;
        if (m.kind == CRTI_MSG_LEASE_GRANTED && m.lease_granted.lease.high == OURS)
            m.lease_granted.lease = bed->asked[which].lease;
        bed->asked[which] = bed->asked[--bed->asked_count];
    }
    if (m.kind == CRTI_MSG_ACTOR_STATE && m.actor_state.actor.high == OURS &&
        bed->actors[m.actor_state.actor.low % HANDLES])
        m.actor_state.actor = bed->actors[m.actor_state.actor.low % HANDLES]->id;
    crti_node_link_handlers.on_message(bed->core, bed->core->link->channel, &m, NULL, 0);
}

/* ---------------------------------------------------------------- steps */

static void from_caller(bed_t *bed, unsigned which, crti_span_t data)
{
    crti_net_t *net = bed->core->net;
    crti_peer_t *peer = core_net_find(net, other(which), false);

    CRTI_AUTO(crti_buffer_fini) crti_buffer_t record = {0};
    crti_probe_t probe;

    if (!peer)
        peer = core_net_accept(net, other(which), INCARNATION, node_of(which));
    if (crti_record_kind(data.data, data.size) == CRTI_RECORD_PROBE &&
        crti_get_probe(data.data, data.size, &probe) == CRT_OK && probe.nonce == 0) {
        probe.nonce = last_nonce;
        if (crti_put_probe(&record, &probe) != CRT_OK)
            abort();
        data = crti_span(record.data, record.size);
    }
    if (peer && data.size)
        core_net_record(peer, data.data, data.size);
}

static void from_called(bed_t *bed, unsigned which, crti_span_t data)
{
    crti_peer_t *peer = core_net_find(bed->core->net, other(which), true);

    if (peer && data.size)
        core_net_record(peer, data.data, data.size);
}

static void lose(bed_t *bed, unsigned which, crti_span_t data)
{
    static const crt_status_t why[] = {CRT_ERR_UNREACHABLE, CRT_ERR_WORKER_DIED,
                                       CRT_ERR_CLOSED,      CRT_ERR_PROTOCOL,
                                       CRT_ERR_NODE_LOST,   CRT_OK};
    const uint8_t *bytes = data.data;
    crti_peer_t *peer = core_net_find(bed->core->net, other(which), which & 4);
    crti_net_loss_t loss = {.status = data.size ? why[bytes[0] % 6] : CRT_ERR_CLOSED,
                            .detail = "the step says so"};

    if (!peer)
        return;
    loss.handed = peer->sent ? (data.size > 1 ? bytes[1] : 0) % (peer->sent + 1) : 0;
    loss.acked = loss.handed ? loss.handed - 1 : 0;
    core_net_lose(peer, &loss);
}

static void fill(bed_t *bed, unsigned which, crti_span_t data)
{
    crti_peer_t *peer = core_net_find(bed->core->net, other(which), false);

    if (peer && data.size && *(const uint8_t *)data.data & 1)
        core_net_make_room(peer);
    else if (peer)
        core_net_fill(peer);
}

/* The main thread of a worker takes the next call. */
static void run(bed_t *bed)
{
    crti_executor_t *executor = &bed->core->execution->executors.main;
    crt_call_t *call = crti_executor_take(executor);

    if (!call)
        return;
    crti_execute(executor, call);
    crti_executor_idle(executor);
}

static crt_ref_t *put(bool is_large)
{
    static float numbers[LARGE / 4];
    crt_tensor_t floats = crt_tensor_floats(numbers, is_large ? LARGE / 4 : SMALL / 4);

    return crt_put(&floats);
}

static crt_ref_t *put_list(crt_ref_t *inner)
{
    crt_arg_t items[] = {inner ? crt_arg_ref(inner) : crt_arg_int(1)};

    return crt_put(crt_list(items, 1));
}

static void look_at(crt_ref_t *ref, bed_t *bed, unsigned to)
{
    const crt_value_t *value;
    crt_ref_t *inner;
    crt_actor_t *actor;

    if (!ref || crt_get_for(ref, 0, &value) != CRT_OK)
        return;
    for (size_t i = 0; i < crt_value_count(value) && i < 4; i++) {
        const crt_value_t *item = crt_value_at(value, i);

        if (item && crt_value_read(item, &inner) == CRT_OK) {
            inner = crt_ref_keep(inner);
            crt_ref_drop(&bed->refs[to]);
            bed->refs[to] = inner;
            return;
        }
        if (item && crt_value_read(item, &actor) == CRT_OK) {
            actor = crt_actor_keep(actor);
            crt_actor_drop(&bed->actors[to]);
            bed->actors[to] = actor;
        }
    }
}

/* As a user's thread, without the lock. */
static void use(bed_t *bed, unsigned what, unsigned a, unsigned b)
{
    crt_ref_t **to = &bed->refs[a % HANDLES], *from = bed->refs[b % HANDLES],
              *made = NULL;
    crt_actor_t **actor = &bed->actors[b % HANDLES];
    crt_stream_t **stream = &bed->streams[b % HANDLES];
    const crt_task_options_t *few =
        CRT_TASK_OPTIONS(.generator_backpressure_num_objects = 2);

    switch (what % 17) {
    case 0: made = put(false); break;
    case 1: made = put(true); break;
    case 2: made = put_list(from); break;
    case 3: made = crt_submit(&add, NULL, 1, 2); break;
    case 4: made = from ? crt_submit(&add, NULL, from, 2) : NULL; break;
    case 5: made = *actor ? crt_call(*actor, &give) : NULL; break;
    case 6: made = *actor && from ? crt_call(*actor, &keep, from) : NULL; break;
    case 7:
        crt_actor_drop(actor);
        *actor = crt_actor_new(&thing_class, NULL);
        return;
    case 8: crt_actor_drop(actor); return;
    case 9: crt_ref_drop(to); return;
    case 10: look_at(from, bed, a % HANDLES); return;
    case 11:
        if (*actor)
            crt_actor_kill(*actor, NULL);
        return;
    case 12: (void)crt_cancel(from, NULL); return;
    case 13: (void)crt_cancel(from, CRT_CANCEL_OPTIONS(.force = true)); return;
    case 14:
        crt_stream_drop(stream);
        *stream = crt_submit_stream(&add, few, 1, 2);
        return;
    case 15:
        if (crt_stream_next(*stream, 0, &made) != CRT_OK)
            return;
        break;
    case 16: crt_stream_drop(stream); return;
    }
    if (made) {
        crt_ref_drop(to);
        *to = made;
    }
}

static void tick(bed_t *bed, uint64_t ns)
{
    bed->now += ns;
    crti_core_timer_fired(bed->core, bed->now);
}

static void step(bed_t *bed, unsigned what, unsigned which, crti_span_t data)
{
    const uint8_t *bytes = data.data;

    if (what % STEPS == USE) {
        use(bed, which, data.size > 0 ? bytes[0] : 0, data.size > 1 ? bytes[1] : 0);
        hear(bed);
        return;
    }
    crti_net_lock(bed->core->net);
    switch (what % STEPS) {
    case CALLER: from_caller(bed, which, data); break;
    case CALLED: from_called(bed, which, data); break;
    case LOSE: lose(bed, which, data); break;
    case NOTICE: from_daemon(bed, data, false, which); break;
    case ANSWER: from_daemon(bed, data, true, which); break;
    case RUN: run(bed); break;
    case TICK: tick(bed, which * 100 * CRTI_MS); break;
    case FILL: fill(bed, which, data); break;
    }
    core_net_end_closed(bed->core->net);
    crti_net_unlock(bed->core->net);
    hear(bed);
}

/* ---------------------------------------------------------------- the end */

static void drop_handles(bed_t *bed)
{
    thing_t *thing = bed->core->execution->self;

    for (int i = 0; i < HANDLES; i++) {
        crt_stream_drop(&bed->streams[i]);
        crt_ref_drop(&bed->refs[i]);
        crt_actor_drop(&bed->actors[i]);
    }
    if (thing) {
        crt_ref_drop(&thing->kept);
        crt_actor_drop(&thing->friend);
    }
}

/* The daemon says what it would: of a process that is watched, of an actor, to a question. */
static void tell_ends(bed_t *bed)
{
    crti_core_t *core = bed->core;
    crti_buffer_t ids = {0};
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&core->remotes->table, &cursor, NULL, &value)) {
        const crti_remote_t *remote = value;
        crti_msg_peer_died_t died = {.process = remote->address.process,
                                     .incarnation = remote->address.incarnation,
                                     .status = CRT_ERR_WORKER_DIED,
                                     .text = crti_str("all end")};

        if (crti_buffer_append(&ids, &died, sizeof(died)) != CRT_OK)
            abort();
    }
    for (size_t at = 0; at < ids.size; at += sizeof(crti_msg_peer_died_t)) {
        crti_msg_peer_died_t died;

        memcpy(&died, ids.data + at, sizeof(died));
        crti_process_died(core, &died);
    }
    ids.size = 0;
    cursor = 0;
    while (crti_map_next(&core->calls->actors, &cursor, NULL, &value))
        if (crti_buffer_append(&ids, &((crt_actor_t *)value)->id, sizeof(crti_id_t)) !=
            CRT_OK)
            abort();
    for (size_t at = 0; at < ids.size; at += sizeof(crti_id_t)) {
        crt_actor_t *actor;
        crti_id_t id;

        memcpy(&id, ids.data + at, sizeof(id));
        actor = crti_map_get(&core->calls->actors, &id);
        if (actor)
            crti_actor_end(actor, CRT_ERR_ACTOR_DIED, "all end");
    }
    crti_buffer_fini(&ids);
    while (bed->asked_count) {
        crti_message_t m = {
            .kind = CRTI_MSG_ERROR,
            .request = bed->asked[--bed->asked_count].request,
            .error = {.status = CRT_ERR_CANCELLED, .text = crti_str("all end")}};

        crti_node_link_handlers.on_message(core, core->link->channel, &m, NULL, 0);
    }
}

static void lose_sessions(bed_t *bed)
{
    crti_net_t *net = bed->core->net;
    crti_net_loss_t loss = {.status = CRT_ERR_WORKER_DIED, .detail = "all end"};

    while (net->peer_count)
        core_net_lose(net->peers[0], &loss);
}

static bool is_empty(const crti_core_t *core)
{
    return core->refs->owned.count == 0 && core->refs->borrowed == 0 &&
           core->calls->retried.count == 0 && core->calls->actors.count == 0 &&
           crti_list_is_empty(&core->remotes->clients) &&
           crti_list_is_empty(&core->execution->executors.groups[0].runnable) &&
           crti_list_is_empty(&core->calls->due_actors);
}

static bool is_any(const crt_ref_t *ref, const void *nothing)
{
    return true;
}

static void show_rest(crti_core_t *core)
{
    size_t cursor = 0, count;
    crt_ref_t *ref, **refs;

    while ((ref = crti_numbers_next(&core->refs->owned, &cursor)))
        fprintf(stderr, "ref %llu: %s, %u holds, %u pins, %u borrowers%s%s\n",
                (unsigned long long)ref->number, crti_owned_state_name(ref->owned.state),
                ref->owned.local, ref->owned.pins, ref->owned.borrower_count,
                ref->more->forward ? ", forwarded" : "",
                crti_ref_has_call(ref) ? ", called" : "");
    refs = crti_refs_gather(core, true, is_any, NULL, &count);
    for (size_t i = 0; refs && i < count; i++) {
        ref = refs[i];
        fprintf(stderr, "ref %llx/%llu: %s, %u holds, %u covers, %llu tokens%s\n",
                (unsigned long long)crti_ref_id(ref).owner.low,
                (unsigned long long)ref->number,
                crti_borrow_state_name(ref->borrow.state), ref->borrow.holds,
                ref->borrow.covers, (unsigned long long)ref->borrow.tokens,
                ref->more->forward ? ", forwarded" : "");
    }
    free(refs);
    fprintf(stderr,
            "left: %zu owned, %zu borrowed, %zu tried again, %zu actors, %s%s%s\n",
            (size_t)core->refs->owned.count, core->refs->borrowed,
            (size_t)core->calls->retried.count, (size_t)core->calls->actors.count,
            crti_list_is_empty(&core->remotes->clients) ? "" : "clients ",
            crti_list_is_empty(&core->execution->executors.groups[0].runnable) ? ""
                                                                               : "calls ",
            crti_list_is_empty(&core->calls->due_actors) ? "" : "due actors");
    abort();
}

static void free_all(bed_t *bed)
{
    crti_core_t *core = bed->core;
    crti_store_t *store = core->store;
    crti_net_t *net = core->net;

    crti_unpublish(core);
    crti_net_lock(net);
    crti_core_break(core, CRT_ERR_CLOSED, "it is over");
    crti_node_link_stop(core);
    crti_net_unlock(net);
    crti_core_orphan(core);
    if (net->existing)
        abort(); /* a session is referred to for ever */
    crti_net_free(net);
    crti_store_detach(store);
    if (core->arena_fd >= 0)
        close(core->arena_fd);
    crti_channel_free(core->link->channel);
    close(bed->node_fd);
    crti_buffer_fini(&bed->told);
    free(core->execution->self);
    crti_core_free(core);
    for (unsigned i = 0; i < OTHERS; i++)
        crti_store_drop_owner(arena, other(i));
    crti_store_drop_owner(arena, us);
}

static void end(bed_t *bed)
{
    crti_core_t *core = bed->core;

    drop_handles(bed);
    for (int i = 0; i < 20; i++) {
        crti_net_lock(core->net);
        lose_sessions(bed);
        tell_ends(bed);
        for (int j = 0;
             j < STEPS_MAX &&
             !crti_list_is_empty(&core->execution->executors.groups[0].runnable);
             j++)
            run(bed);
        tick(bed, 20 * CRTI_S);
        lose_sessions(bed);
        if (i > 2)
            crti_tasks_end(core); /* those that no worker was granted for */
        crti_net_unlock(core->net);
        hear(bed);
        drop_handles(bed);
        if (i > 2 && is_empty(core))
            break;
    }
    if (!is_empty(core))
        show_rest(core);
    free_all(bed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bed_t bed;
    fuzz_step_t next;

    make(&bed, size > 0 && data[0] & IS_WORKER);
    data++;
    size -= size > 0;
    for (int i = 0; i < STEPS_MAX && fuzz_step_next(&data, &size, &next); i++)
        step(&bed, next.what, next.whose, next.bytes);
    end(&bed);
    return 0;
}
