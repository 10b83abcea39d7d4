/* SPDX-License-Identifier: Apache-2.0 */
/* See alone.h. */
#include "alone.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Its parts are made here one by one. */
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/placement_group.h"
#include "runtime/core/client/client.c"
#include "runtime/core/client/client.h"
#include "runtime/core/refs/kept_copies.h"

#include "tests/fuzz/core_net.h"

#define INCARNATION 7
#define SENT_MAX    64
#define FREED_MAX   64
#define STORE_BYTES ((size_t)8 << 20)

typedef struct sent {
    crti_id_t to;
    unsigned char *data;
    size_t size;
} sent_t;

static crti_core_t *core;
static crti_store_t *arena;
static crti_buffer_t told;
static int node_fd;
static uint64_t now;
static sent_t sent[SENT_MAX];
static unsigned sent_count, freed_count;
static unsigned char freed[FREED_MAX][40];
static crti_id_t lease;
static char selector[CRTI_LABELS_SIZE];
static uint64_t lease_request, pull_request;
static crti_object_id_t pull_object;
static uint64_t pull_size;
static unsigned pull_count;
static uint64_t copy_request;
static unsigned copy_count;
static unsigned char copy_avoid[160];
static size_t copy_avoid_size;

static crt_ref_t *given[2];

static crt_status_t give_run(void *self, crt_call_t *call)
{
    crt_arg_t items[] = {crt_arg_ref(given[0]), crt_arg_ref(given[1])};

    return crt_return(call, crt_list(items, 2));
}
static const crt_method_t give =
    CRT_METHOD(.name = "give", .run = give_run, .signature = "");
static const crt_method_t take =
    CRT_METHOD(.name = "take", .run = give_run, .signature = NULL);
static const crt_actor_class_t giver_class =
    CRT_ACTOR_CLASS(.name = "Giver", .methods = CRT_METHODS(&give, &take));

static crt_status_t nothing_run(crt_call_t *call)
{
    return CRT_OK;
}
static const crt_task_t nothing = CRT_TASK(.name = "nothing", .run = nothing_run);

static const crt_options_t options = {.struct_size = sizeof(crt_options_t),
                                      .classes = CRT_CLASSES(&giver_class),
                                      .tasks = CRT_TASKS(&nothing)};

static void check(bool is_so)
{
    if (!is_so)
        abort();
}

static void on_sent(void *user, crti_peer_t *to, const void *data, size_t size)
{
    sent_t *s = &sent[sent_count++];

    check(sent_count <= SENT_MAX);
    *s = (sent_t){crti_peer_process(to), malloc(size), size};
    check(s->data != NULL);
    memcpy(s->data, data, size);
}

void alone_forget(void)
{
    while (sent_count)
        free(sent[--sent_count].data);
}

/* ---------------------------------------------------------------- life */

crti_core_t *alone_start(void)
{
    crti_channel_handlers_t handlers = crti_node_link_handlers;
    crti_net_config_t config = {
        .handlers = crti_core_handlers, .process = ALONE_US, .node = ALONE_OUR_NODE};
    int fds[2];

    check(crti_store_new(STORE_BYTES, 8, &arena) == CRT_OK);
    check(new_core(&options, &core) == CRT_OK && crti_channel_pair(fds) == CRT_OK);
    handlers.user = config.handlers.user = core;
    core->process = ALONE_US;
    core->node = ALONE_OUR_NODE;
    config.incarnation = core->incarnation;
    core->slot = 1;
    core->arena_fd = dup(crti_store_fd(arena));
    node_fd = fds[1];
    check(crti_channel_new(&fds[0], &handlers, 0, &core->link->channel) == CRT_OK);
    check(crti_net_new(&config, &core->net) == CRT_OK && crti_publish(core));
    core->net->on_sent = on_sent;
    now = crti_now_ns();
    freed_count = pull_count = copy_count = 0;
    lease_request = 0;
    return core;
}

static void lose_all(void)
{
    crti_net_loss_t loss = {.status = CRT_ERR_WORKER_DIED, .detail = "all end"};

    while (core->net->peer_count)
        core_net_lose(core->net->peers[0], &loss);
}

void alone_stop(void)
{
    crti_net_t *net = core->net;

    crti_unpublish(core);
    crti_net_lock(net);
    lose_all();
    crti_core_break(core, CRT_ERR_CLOSED, "it is over");
    lose_all();
    crti_node_link_stop(core);
    crti_net_unlock(net);
    crti_core_orphan(core);
    check(net->existing == 0);
    crti_net_free(net);
    crti_store_detach(core->store);
    if (core->arena_fd >= 0)
        close(core->arena_fd);
    crti_channel_free(core->link->channel);
    close(node_fd);
    crti_buffer_fini(&told);
    crti_core_free(core);
    crti_store_detach(arena);
    alone_forget();
}

/* ---------------------------------------------------------------- the daemon */

static void hear_free(const crti_msg_free_t *m)
{
    const unsigned char *entry = m->objects.data;

    for (size_t at = 0; at + 40 <= m->objects.size; at += 40) {
        check(freed_count < FREED_MAX);
        memcpy(freed[freed_count++], entry + at, 40);
    }
}

static void hear(void)
{
    char bytes[65536];
    ssize_t n;
    size_t at = 0;
    uint32_t size;

    crti_channel_process(core->link->channel, EPOLLOUT);
    while ((n = recv(node_fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
        check(crti_buffer_append(&told, bytes, (size_t)n) == CRT_OK);
    while (told.size >= at + 4) {
        crti_message_t m;

        memcpy(&size, told.data + at, 4);
        if (told.size - at - 4 < size)
            break;
        check(crti_message_decode(told.data + at + 4, size, &m) == CRT_OK);
        if (m.kind == CRTI_MSG_FREE)
            hear_free(&m.free);
        if (m.kind == CRTI_MSG_PULL) {
            pull_request = m.request;
            pull_object = m.pull.object;
            pull_size = m.pull.size;
            pull_count++;
        }
        if (m.kind == CRTI_MSG_COPY_MAKE) {
            copy_request = m.request;
            copy_count++;
            check(m.copy_make.avoid.size <= sizeof(copy_avoid));
            copy_avoid_size = m.copy_make.avoid.size;
            memcpy(copy_avoid, m.copy_make.avoid.data, copy_avoid_size);
        }
        if (m.kind == CRTI_MSG_LEASE_REQUEST) {
            lease = m.lease_request.lease;
            lease_request = m.request;
            crti_text(m.lease_request.selector, selector, sizeof(selector));
        }
        at += 4 + size;
    }
    crti_buffer_consume(&told, at);
}

unsigned alone_freed(crti_object_id_t object, crti_id_t node)
{
    unsigned char entry[40];
    unsigned count = 0;

    crti_net_lock(core->net);
    crti_object_flush_frees(core);
    crti_net_unlock(core->net);
    hear();
    crti_id_pack(object.owner, entry);
    for (int byte = 0; byte < 8; byte++)
        entry[16 + byte] = (unsigned char)(object.number >> (56 - 8 * byte));
    crti_id_pack(node, entry + 24);
    for (unsigned i = 0; i < freed_count; i++)
        count += memcmp(freed[i], entry, 40) == 0;
    return count;
}

unsigned alone_copies(void)
{
    hear();
    return copy_count;
}

bool alone_avoids(crti_id_t node)
{
    for (size_t at = 0; at < copy_avoid_size; at += 16)
        if (crti_id_equal(crti_id_unpack(copy_avoid + at), node))
            return true;
    return false;
}

void alone_copied(unsigned i, crt_status_t status)
{
    crti_message_t m = {.kind = CRTI_MSG_COPY_MADE, .request = copy_request};

    m.copy_made = (crti_msg_copy_made_t){.node = i ? ALONE_NODE(i) : (crti_id_t){0, 0},
                                         .status = status,
                                         .text = crti_str("on purpose")};
    crti_net_lock(core->net);
    crti_node_link_handlers.on_message(core, core->link->channel, &m, NULL, 0);
    crti_net_unlock(core->net);
}

unsigned alone_pulls(void)
{
    hear();
    return pull_count;
}

static void answer_pull(bool is_here)
{
    crti_message_t m = {.kind = is_here ? CRTI_MSG_DONE : CRTI_MSG_ERROR,
                        .request = pull_request};

    if (!is_here)
        m.error = (crti_msg_error_t){.status = CRT_ERR_OBJECT_LOST,
                                     .text = crti_str("no node has it")};
    crti_net_lock(core->net);
    crti_node_link_handlers.on_message(core, core->link->channel, &m, NULL, 0);
    crti_net_unlock(core->net);
}

void alone_pulled(bool is_here)
{
    void *data;

    check(alone_pulls() > 0);
    if (is_here) {
        check(crti_store_create(arena, pull_object, pull_size, &data) == CRT_OK);
        memset(data, 0, pull_size);
        check(crti_store_seal(arena, pull_object, false) == CRT_OK);
    }
    answer_pull(is_here);
}

void alone_process_dies(unsigned i)
{
    crti_msg_peer_died_t died = {.process = ALONE_PROCESS(i),
                                 .incarnation = INCARNATION,
                                 .node = ALONE_NODE(i),
                                 .status = CRT_ERR_WORKER_DIED,
                                 .text = crti_str("it was killed")};

    crti_net_lock(core->net);
    crti_process_died(core, &died);
    crti_net_unlock(core->net);
}

void alone_node_dies(unsigned i)
{
    crti_msg_node_died_t died = {.node = ALONE_NODE(i), .text = crti_str("it burned")};

    crti_net_lock(core->net);
    crti_node_died(core, &died);
    crti_net_unlock(core->net);
}

void alone_tick(uint64_t ns)
{
    uint64_t real = crti_now_ns(); /* what was scheduled since is as late */

    now = (real > now ? real : now) + ns;
    crti_net_lock(core->net);
    crti_core_timer_fired(core, now);
    crti_net_unlock(core->net);
}

/* ---------------------------------------------------------------- other processes */

void alone_from(unsigned i, crti_buffer_t *record)
{
    crti_peer_t *peer = core_net_find(core->net, ALONE_PROCESS(i), false);

    if (!peer)
        peer = core_net_accept(core->net, ALONE_PROCESS(i), INCARNATION, ALONE_NODE(i));
    crti_net_lock(core->net);
    core_net_record(peer, record->data, record->size);
    crti_net_unlock(core->net);
    crti_buffer_fini(record);
}

void alone_answer(unsigned i, crti_buffer_t *record)
{
    crti_peer_t *peer = core_net_find(core->net, ALONE_PROCESS(i), true);

    check(peer != NULL);
    crti_net_lock(core->net);
    core_net_record(peer, record->data, record->size);
    crti_net_unlock(core->net);
    crti_buffer_fini(record);
}

static void lose_by(unsigned i, bool is_initiator, crt_status_t status,
                    const char *detail)
{
    crti_peer_t *peer = core_net_find(core->net, ALONE_PROCESS(i), is_initiator);
    crti_net_loss_t loss = {.status = status, .detail = detail};

    if (!peer)
        return;
    loss.handed = peer->sent;
    crti_net_lock(core->net);
    core_net_lose(peer, &loss);
    crti_net_unlock(core->net);
}

static void lose(unsigned i, bool is_initiator)
{
    lose_by(i, is_initiator, CRT_ERR_UNREACHABLE, "no sign for 30 s");
}

void alone_worker_dies(unsigned i)
{
    lose_by(i, true, CRT_ERR_WORKER_DIED, "it was killed");
    alone_process_dies(i);
}

static crti_peer_t *session(unsigned i, bool is_ours)
{
    crti_peer_t *peer = core_net_find(core->net, ALONE_PROCESS(i), is_ours);

    check(peer != NULL);
    return peer;
}

static void unacknowledged(crti_peer_t *peer, uint64_t count)
{
    peer->acked = 0;
    peer->sent = count;
}

void alone_fill(unsigned i)
{
    core_net_fill(session(i, false));
}

void alone_fill_ours(unsigned i)
{
    core_net_fill(session(i, true));
}

void alone_make_room(unsigned i)
{
    crti_net_lock(core->net);
    core_net_make_room(session(i, false));
    crti_net_unlock(core->net);
}

void alone_unacknowledged(unsigned i, uint64_t count)
{
    unacknowledged(session(i, false), count);
}

void alone_unacknowledged_ours(unsigned i, uint64_t count)
{
    unacknowledged(session(i, true), count);
}

const char *alone_aborted(unsigned i)
{
    bool is_its = crti_id_equal(core->net->aborted, ALONE_PROCESS(i));

    return is_its ? core->net->why_aborted : NULL;
}

void alone_lose(unsigned i)
{
    lose(i, false);
    lose(i, true);
}

void alone_lose_ours(unsigned i)
{
    lose(i, true);
}

static bool is_sent(const sent_t *s, unsigned i, crti_record_kind_t kind)
{
    return crti_id_equal(s->to, ALONE_PROCESS(i)) &&
           crti_record_kind(s->data, s->size) == (unsigned)kind;
}

crti_span_t alone_sent(unsigned i, crti_record_kind_t kind)
{
    for (unsigned at = sent_count; at-- > 0;)
        if (is_sent(&sent[at], i, kind))
            return crti_span(sent[at].data, sent[at].size);
    return crti_span(NULL, 0);
}

bool alone_sent_before(unsigned i, crti_record_kind_t first, crti_record_kind_t second)
{
    unsigned last[2] = {0, 0};

    for (unsigned at = 0; at < sent_count; at++) {
        last[0] = is_sent(&sent[at], i, first) ? at + 1 : last[0];
        last[1] = is_sent(&sent[at], i, second) ? at + 1 : last[1];
    }
    return last[0] && last[0] < last[1];
}

unsigned alone_sent_count(unsigned i, crti_record_kind_t kind)
{
    unsigned count = 0;

    for (unsigned at = 0; at < sent_count; at++)
        count += is_sent(&sent[at], i, kind);
    return count;
}

/* ---------------------------------------------------------------- what they say */

void alone_locate(unsigned i, uint64_t number)
{
    alone_locate_missed(i, number, 0);
}

void alone_locate_missed(unsigned i, uint64_t number, uint64_t object)
{
    crti_buffer_t record = {0};

    check(crti_put_locate(&record, object, number) == CRT_OK);
    alone_from(i, &record);
}

void alone_peek(unsigned i, const uint64_t *numbers, unsigned count)
{
    crti_buffer_t record = {0};

    check(crti_put_peek(&record, numbers, count) == CRT_OK);
    alone_from(i, &record);
}

void alone_copy(unsigned i, uint64_t number, uint64_t object, crti_id_t node)
{
    crti_buffer_t record = {0};

    check(crti_put_copy(&record, number, object, node) == CRT_OK);
    alone_from(i, &record);
}

void alone_borrow_all(unsigned i, uint64_t request, const uint64_t *numbers,
                      unsigned count, const crti_id_t *process)
{
    crti_borrow_record_t borrow = {
        .request = request, .numbers = numbers, .count = count};
    crti_buffer_t record = {0};

    if (process) {
        borrow.process = *process;
        borrow.incarnation = INCARNATION;
        borrow.node = ALONE_NODE(process->low - 20);
    }
    check(crti_put_borrow(&record, CRTI_RECORD_BORROW, &borrow) == CRT_OK);
    alone_from(i, &record);
}

static void say(unsigned i, crti_record_kind_t kind, uint64_t request, uint64_t number,
                const crti_id_t *process)
{
    crti_borrow_record_t borrow = {.request = request, .numbers = &number, .count = 1};
    crti_buffer_t record = {0};

    if (process) {
        borrow.process = *process;
        borrow.incarnation = INCARNATION;
        borrow.node = ALONE_NODE(process->low - 20);
    }
    check(crti_put_borrow(&record, kind, &borrow) == CRT_OK);
    alone_from(i, &record);
}

void alone_borrow(unsigned i, uint64_t request, uint64_t number, const crti_id_t *process)
{
    say(i, CRTI_RECORD_BORROW, request, number, process);
}

void alone_take_back(unsigned i, uint64_t request, uint64_t number, crti_id_t process)
{
    say(i, CRTI_RECORD_TAKE_BACK, request, number, &process);
}

void alone_release(unsigned i, uint64_t request, uint64_t number, uint64_t tokens)
{
    alone_release_all(i, request, &(crti_release_t){number, tokens}, 1);
}

void alone_release_all(unsigned i, uint64_t request, const crti_release_t *releases,
                       unsigned count)
{
    crti_buffer_t record = {0};

    check(crti_put_release(&record, request, releases, count) == CRT_OK);
    alone_from(i, &record);
}

void alone_borrowed(unsigned i, uint64_t request)
{
    alone_borrowed_but(i, request, NULL, 0);
}

void alone_borrowed_but(unsigned i, uint64_t request, const uint64_t *gone,
                        unsigned count)
{
    crti_borrow_record_t answer = {.request = request, .numbers = gone, .count = count};
    crti_buffer_t record = {0};

    check(crti_put_borrow(&record, CRTI_RECORD_BORROWED, &answer) == CRT_OK);
    alone_answer(i, &record);
}

void alone_seek(unsigned i, uint64_t round, uint64_t number)
{
    say(i, CRTI_RECORD_COPY_QUERY, round, number, NULL);
}

void alone_sought(unsigned i, uint64_t round)
{
    crti_borrow_record_t answer = {.request = round};
    crti_buffer_t record = {0};

    check(crti_put_borrow(&record, CRTI_RECORD_COPY_REPLY, &answer) == CRT_OK);
    alone_from(i, &record);
}

void alone_located(unsigned i, uint64_t number, const crti_id_t *nodes, unsigned count)
{
    unsigned char ids[4][16];
    crti_result_t result = {
        .form = count ? CRTI_RESULT_STORED : CRTI_RESULT_ERROR,
        .location = {{ALONE_PROCESS(i), number}, 100000, ids, count},
        .failure = {.status = CRT_ERR_OBJECT_LOST, .text = crti_str("it is gone")}};
    crti_buffer_t record = {0};

    check(count <= 4);
    for (unsigned at = 0; at < count; at++)
        crti_put_id(ids[at], nodes[at]);
    check(crti_put_result(&record, CRTI_RECORD_LOCATED, number, &result, NULL) == CRT_OK);
    alone_answer(i, &record);
}

void alone_gives(crt_ref_t *first, crt_ref_t *second)
{
    given[0] = first;
    given[1] = second;
    core->is_worker = true;
    core->execution->class_ = crti_program_find_class(core->program, "Giver", 5);
    core->execution->is_created = true;
    check(core->execution->class_ != NULL);
}

void alone_call(unsigned i, uint64_t number)
{
    crti_call_head_t head = {.call = number, .name = crti_str("give")};
    crti_buffer_t record = {0};
    crt_call_t *call;

    check(crti_put_call(&record, &head) == CRT_OK);
    alone_from(i, &record);
    crti_net_lock(core->net);
    call = crti_executor_take(&core->execution->executors.main);
    check(call != NULL);
    crti_execute(&core->execution->executors.main, call);
    crti_executor_idle(&core->execution->executors.main);
    crti_net_unlock(core->net);
}

void alone_call_with(unsigned i, uint64_t number, unsigned owner, uint64_t object,
                     crti_id_t node)
{
    unsigned char id[16];
    crti_call_head_t head = {.call = number, .name = crti_str("give"), .arg_count = 1};
    crti_ref_name_t name = {.id = {ALONE_PROCESS(owner), object},
                            .incarnation = INCARNATION,
                            .node = ALONE_NODE(owner),
                            .tcp = crti_str("10.0.0.1:5")};
    crti_location_t location = {name.id, 100000, id, 1};
    crti_buffer_t record = {0};

    crti_put_id(id, node);
    check(crti_put_call(&record, &head) == CRT_OK);
    check(crti_put_arg_object(&record, &name, &location) == CRT_OK);
    alone_from(i, &record);
}

crt_ref_t *alone_task(const crt_task_options_t *task_options)
{
    return crt_submit(&nothing, task_options);
}

void alone_task_of(crt_ref_t **results, size_t returns)
{
    crt_submit_returns(results, returns, &nothing, NULL);
}

bool alone_grant(unsigned i)
{
    crti_message_t m = {.kind = CRTI_MSG_LEASE_GRANTED};

    hear();
    if (!lease_request)
        return false;
    m.request = lease_request;
    lease_request = 0;
    m.lease_granted = (crti_msg_lease_granted_t){.lease = lease,
                                                 .process = ALONE_PROCESS(i),
                                                 .incarnation = INCARNATION,
                                                 .node = ALONE_NODE(i)};
    crti_net_lock(core->net);
    crti_node_link_handlers.on_message(core, core->link->channel, &m, NULL, 0);
    crti_net_unlock(core->net);
    return true;
}

bool alone_refuse(crt_status_t status)
{
    crti_message_t m = {.kind = CRTI_MSG_ERROR};

    hear();
    if (!lease_request)
        return false;
    m.request = lease_request;
    lease_request = 0;
    m.error = (crti_msg_error_t){.status = status, .text = crti_str("on purpose")};
    crti_net_lock(core->net);
    crti_node_link_handlers.on_message(core, core->link->channel, &m, NULL, 0);
    crti_net_unlock(core->net);
    return true;
}

crt_placement_group_t *alone_group(unsigned i)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t entry = {0}, list = {0};
    crt_bundle_t bundle = CRT_BUNDLE(.num_cpus = 1);
    crt_placement_group_t *group = crt_placement_group_new(&bundle, 1, NULL);
    crti_msg_bundle_t placed = {.selector = crti_str(""), .node = ALONE_NODE(i)};
    crti_msg_placement_group_state_t m = {.version = 1,
                                          .state = CRTI_PLACEMENT_GROUP_CREATED};

    check(group != NULL);
    check(crti_resources_parse("CPU=1", &placed.resources) == CRT_OK);
    check(crti_message_encode(CRTI_MSG_BUNDLE, 0, &placed, &entry) == CRT_OK);
    check(crti_list_pack(&list, entry.data, entry.size) == CRT_OK);
    m.group = group->id;
    m.bundles = crti_span(list.data, list.size);
    crti_net_lock(core->net);
    crti_placement_group_state(group, &m);
    crti_net_unlock(core->net);
    return group;
}

const char *alone_selector(void)
{
    hear();
    return selector;
}

uint64_t alone_called(unsigned i)
{
    crti_span_t record = alone_sent(i, CRTI_RECORD_CALL);
    crti_call_head_t head;
    crti_reader_t args;

    check(record.data && crti_get_call(record.data, record.size, &head, &args) == CRT_OK);
    return head.call;
}

void alone_returns(unsigned i, uint64_t call, crt_status_t status)
{
    crti_result_t result = {.form = CRTI_RESULT_VALUE, .value = {"\0\5", 2}};
    crti_buffer_t record = {0};

    if (status != CRT_OK)
        result = (crti_result_t){.form = CRTI_RESULT_ERROR,
                                 .failure = {.status = status,
                                             .may_have_run = true,
                                             .text = crti_str("on purpose"),
                                             .class_name = crti_str(""),
                                             .method = crti_str("nothing")}};
    check(crti_put_result(&record, CRTI_RECORD_REPLY, call, &result, NULL) == CRT_OK);
    alone_answer(i, &record);
}

crt_ref_t *alone_submit(unsigned i)
{
    crt_ref_t *ref = alone_task(CRT_TASK_OPTIONS(.max_attempts = 1));

    (void)alone_grant(i); /* or it has that worker still */
    check(alone_sent_count(i, CRTI_RECORD_CALL) == 1);
    return ref;
}

crt_ref_t *alone_waiting(crt_ref_t *argument)
{
    return argument ? crt_submit(&nothing, NULL, argument) : crt_submit(&nothing, NULL);
}

crt_actor_t *alone_actor(void)
{
    crt_actor_t *actor;

    crti_net_lock(core->net);
    check(crti_actor_get(core, (crti_id_t){8, 9}, crti_str("Giver"), &actor) == CRT_OK);
    actor->handles++;
    crti_net_unlock(core->net);
    return actor;
}

crt_ref_t *alone_queued(crt_actor_t *actor, crt_ref_t *argument)
{
    return argument ? crt_call(actor, &take, argument) : crt_call(actor, &take);
}

void alone_forwarded(unsigned i, const crt_ref_t *result, unsigned owner, uint64_t number)
{
    alone_gave_ref(i, result->number, owner, number);
}

void alone_gave_ref(unsigned i, uint64_t call, unsigned owner, uint64_t number)
{
    crti_id_t process = owner ? ALONE_PROCESS(owner) : ALONE_US;
    crti_result_t forward = {.form = CRTI_RESULT_FORWARD,
                             .ref = {.id = {process, number},
                                     .incarnation = INCARNATION,
                                     .node = ALONE_NODE(owner),
                                     .tcp = crti_str("10.0.0.1:5")}};
    crti_buffer_t record = {0};

    check(crti_put_result(&record, CRTI_RECORD_REPLY, call, &forward, NULL) == CRT_OK);
    alone_answer(i, &record);
}

/* ---------------------------------------------------------------- refs */

static crt_ref_t *stored(unsigned i, int64_t copies)
{
    unsigned char node[16];
    crti_location_t location = {.size = 100000, .nodes = node, .node_count = 1};
    crt_ref_t *ref;

    crti_put_id(node, ALONE_NODE(i));
    crti_net_lock(core->net);
    ref = crti_ref_new(core);
    check(ref != NULL && crti_kept_copies_want(ref, copies) == CRT_OK);
    location.object = crti_ref_id(ref);
    crti_ref_set_stored(ref, &location, (crti_span_t){"", 0}, false);
    crti_net_unlock(core->net);
    return ref;
}

crt_ref_t *alone_stored(unsigned i)
{
    return stored(i, 0);
}

crt_ref_t *alone_stored_twice(unsigned i)
{
    return stored(i, 2);
}

void alone_hold(crt_ref_t *ref)
{
    crti_net_lock(core->net);
    crti_ref_hold(ref);
    crti_net_unlock(core->net);
}

void alone_drop(crt_ref_t *ref)
{
    crti_net_lock(core->net);
    crti_ref_release(ref);
    crti_net_unlock(core->net);
}

crt_ref_t *alone_arrived(unsigned owner, uint64_t number)
{
    crti_ref_name_t name = {.id = {ALONE_PROCESS(owner), number},
                            .incarnation = INCARNATION,
                            .node = ALONE_NODE(owner),
                            .tcp = crti_str("10.0.0.1:5")};
    crt_ref_t *ref;

    crti_net_lock(core->net);
    check(crti_ref_arrive(core, &name, &ref) == CRT_OK);
    crti_net_unlock(core->net);
    return ref;
}
