/* SPDX-License-Identifier: Apache-2.0 */
/* Valid inputs of fuzz_core.c: what processes and daemons say when nobody is mad, and what they
 * said when something was found. */
#include <stdlib.h>
#include <string.h>

#include "core_steps.h"
#include "fuzz.h"
#include "runtime/core/values/record.h"
#include "runtime/net/message.h"

static void say_record(text_t *t, uint8_t what, uint8_t which, crti_buffer_t *record)
{
    fuzz_step_put(t, what, which, record->data, record->size);
    crti_buffer_fini(record);
}

static void say_use(text_t *t, uint8_t what, uint8_t a, uint8_t b)
{
    fuzz_step_put(t, USE, what, (uint8_t[]){a, b}, 2);
}

static void say_message(text_t *t, uint8_t what, uint8_t which, crti_message_kind_t kind,
                        const void *body)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};

    if (crti_message_encode(kind, 0, body, &bytes) != CRT_OK)
        abort();
    fuzz_step_put(t, what, which, bytes.data, bytes.size);
}

/* Which ref or actor is written into a value: the pointer is only a number here. */
static crti_ref_name_t ref_name;
static crti_actor_name_t actor_name;

static crt_status_t name_ref(void *user, crt_ref_t *ref, crti_ref_name_t *name_out)
{
    *name_out = ref_name;
    return CRT_OK;
}

static crt_status_t name_actor(void *user, crt_actor_t *actor,
                               crti_actor_name_t *name_out)
{
    *name_out = actor_name;
    return CRT_OK;
}

static const crti_naming_t naming = {name_ref, name_actor};

static crti_ref_name_t ref_of(unsigned owner, uint64_t number)
{
    return (crti_ref_name_t){.id = {other(owner), number},
                             .incarnation = INCARNATION,
                             .node = node_of(owner),
                             .tcp = crti_str("10.0.0.1:5")};
}

static crti_ref_name_t our_ref(uint64_t number)
{
    return (crti_ref_name_t){.id = {us, number}, .incarnation = 1, .node = our_node};
}

static crti_actor_name_t actor_at(unsigned process)
{
    return (crti_actor_name_t){.id = {6, 7},
                               .class_name = crti_str("Thing"),
                               .incarnation = 1,
                               .process = other(process),
                               .node = node_of(process),
                               .process_incarnation = INCARNATION,
                               .tcp = crti_str("10.0.0.1:5"),
                               .lifetime = (crt_ref_t *)(void *)&actor_name};
}

static void encode(crti_encoder_t *e, crt_arg_t arg)
{
    if (crti_encode(e, &naming, &arg) != CRT_OK)
        abort();
}

static crti_buffer_t begin_call(unsigned flags, uint64_t number, unsigned index,
                                const char *name, unsigned count)
{
    crti_call_head_t head = {.flags = flags,
                             .index = index,
                             .arg_count = count,
                             .call = number,
                             .name = crti_str(name)};
    crti_buffer_t record = {0};

    crti_put_call(&record, &head);
    return record;
}

/* A call with one value. */
static void say_call(text_t *t, uint8_t which, uint64_t number, unsigned index,
                     const char *name, crt_arg_t arg)
{
    crti_buffer_t record = begin_call(0, number, index, name, 1);
    crti_encoder_t e = {0};

    encode(&e, arg);
    crti_put_arg_value(&record, 0, &e);
    crti_encoder_fini(&e);
    say_record(t, CALLER, which, &record);
}

static void say_call_empty(text_t *t, uint8_t which, unsigned flags, uint64_t number,
                           unsigned index, const char *name)
{
    crti_buffer_t record = begin_call(flags, number, index, name, 0);

    say_record(t, CALLER, which, &record);
}

static void say_result(text_t *t, uint8_t which, crti_record_kind_t kind, uint64_t number,
                       const crti_result_t *result)
{
    crti_buffer_t record = {0};

    if (crti_put_result(&record, kind, number, result, NULL) != CRT_OK)
        abort();
    say_record(t, CALLED, which, &record);
}

static void say_value(text_t *t, uint8_t which, crti_record_kind_t kind, uint64_t number,
                      crt_arg_t arg)
{
    crti_result_t result = {.form = CRTI_RESULT_VALUE};
    crti_buffer_t record = {0};
    crti_encoder_t e = {0};

    encode(&e, arg);
    if (crti_put_result(&record, kind, number, &result, &e) != CRT_OK)
        abort();
    crti_encoder_fini(&e);
    say_record(t, CALLED, which, &record);
}

static void say_borrow(text_t *t, uint8_t what, uint8_t which, crti_record_kind_t kind,
                       uint64_t request, unsigned count)
{
    uint64_t numbers[] = {1, 2, 3};
    crti_borrow_record_t borrow = {
        .request = request, .numbers = numbers, .count = count};
    crti_buffer_t record = {0};

    if (crti_put_borrow(&record, kind, &borrow) != CRT_OK)
        abort();
    say_record(t, what, which, &record);
}

/* The caller lends number 2 to another process. */
static void say_lent(text_t *t, uint8_t which, unsigned process)
{
    uint64_t number = 2;
    crti_borrow_record_t borrow = {.request = 5,
                                   .process = other(process),
                                   .incarnation = INCARNATION,
                                   .node = node_of(process),
                                   .numbers = &number,
                                   .count = 1};
    crti_buffer_t record = {0};

    if (crti_put_borrow(&record, CRTI_RECORD_BORROW, &borrow) != CRT_OK)
        abort();
    say_record(t, CALLER, which, &record);
}

static void say_release(text_t *t, uint8_t which, uint64_t request, uint64_t number,
                        uint64_t tokens)
{
    crti_release_t releases[] = {{number, tokens}, {number + 1, tokens}};
    crti_buffer_t record = {0};

    crti_put_release(&record, request, releases, 2);
    say_record(t, CALLER, which, &record);
}

static void say_cancel(text_t *t, uint8_t which, uint64_t call, unsigned flags)
{
    crti_buffer_t record = {0};

    crti_put_cancel(&record, call, flags);
    say_record(t, CALLER, which, &record);
}

static void say_run(text_t *t)
{
    fuzz_step_put(t, RUN, 0, NULL, 0);
}

static crt_arg_t a_ref(void)
{
    return crt_arg_ref((crt_ref_t *)&ref_name);
}

static crt_arg_t an_actor(void)
{
    return crt_arg_actor((crt_actor_t *)&actor_name);
}

static void say_died(text_t *t, unsigned process)
{
    crti_msg_peer_died_t died = {.process = other(process),
                                 .incarnation = INCARNATION,
                                 .node = node_of(process),
                                 .status = CRT_ERR_WORKER_DIED,
                                 .text = crti_str("it ended")};

    say_message(t, NOTICE, 0, CRTI_MSG_PEER_DIED, &died);
}

/* Calls that are cancelled: one that waits for its argument, one behind it, one that is ready. */
static void seed_cancelled(text_t *t)
{
    crti_buffer_t record = begin_call(0, 8, 2, "look", 1);

    crti_put_arg_ref(&record, &ref_name);
    say_record(t, CALLER, 1, &record);
    say_call_empty(t, 1, 0, 9, 1, "give");
    say_call_empty(t, 2, CRTI_CALL_TASK, 8, 1, "nest");
    say_cancel(t, 1, 8, CRTI_CANCEL_RECURSIVE);
    say_cancel(t, 2, 8, CRTI_CANCEL_FORCE);
    say_run(t);
    say_cancel(t, 1, 9, 0);
}

/* Methods: keep 0, give 1, look 2, ask 3; tasks: add 0, nest 1, tensor 2, list 3. */
/* A call that yields: its items, room for more, and its end. */
static void say_yields(text_t *t, bool is_lost)
{
    crti_buffer_t record = {0};
    crti_call_head_t head = {.flags = CRTI_CALL_TASK | CRTI_CALL_RETURNS,
                             .index = 4,
                             .call = 8,
                             .is_stream = true,
                             .name = crti_str("items"),
                             .stream = {1, 40, 100},
                             .seed = is_lost ? 4711 : 0};

    if (crti_put_call(&record, &head) != CRT_OK)
        abort();
    if (is_lost && crti_put_again(&record, 8, &(crti_call_again_t){7, 1}) != CRT_OK)
        abort();
    say_record(t, CALLER, 1, &record);
    record = (crti_buffer_t){0};
    if (crti_put_consumed(&record, &(crti_consumed_t){8, 60, 300}) != CRT_OK)
        abort();
    say_record(t, CALLER, 1, &record);
    if (is_lost)
        fuzz_step_put(t, LOSE, 1, "\2\1", 2);
    say_run(t);
}

static void seed_worker(text_t *t, unsigned index)
{
    crti_location_t location = {{other(0), 3}, 4, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\12", 1};
    crt_arg_t items[2] = {a_ref(), an_actor()};
    crti_buffer_t record;

    ref_name = ref_of(0, 3);
    actor_name = actor_at(1);
    switch (index) {
    case 0: /* an argument that is asked of its owner */
        record = begin_call(0, 8, 2, "look", 1);
        crti_put_arg_ref(&record, &ref_name);
        say_record(t, CALLER, 1, &record);
        say_value(t, 0, CRTI_RECORD_LOCATED, 3, crt_arg_int(5));
        say_run(t);
        break;
    case 1: /* one that is kept, given to the next, and given back */
        say_call(t, 1, 8, 0, "keep", a_ref());
        say_run(t);
        say_borrow(t, CALLED, 0, CRTI_RECORD_BORROWED, 1, 0);
        say_call_empty(t, 2, 0, 9, 1, "give");
        say_run(t);
        say_borrow(t, CALLED, 0, CRTI_RECORD_BORROWED, 2, 0);
        say_call(t, 1, 10, 0, "keep", a_ref());
        break;
    case 2: /* tasks, and a result with a ref that is let go */
        say_call_empty(t, 1, CRTI_CALL_TASK, 8, 3, "list");
        say_call_empty(t, 1, CRTI_CALL_TASK, 9, 2, "tensor");
        say_run(t);
        say_run(t);
        say_release(t, 1, 1, 1, 1);
        break;
    case 3: /* a list with a ref and an actor; the actor is called from inside a method */
        say_call(t, 1, 8, 2, "look", crt_list(items, 2));
        say_run(t);
        say_call_empty(t, 1, 0, 9, 3, "ask");
        say_run(t);
        say_value(t, 1, CRTI_RECORD_REPLY, 1, crt_list(items, 2));
        break;
    case 4: /* an argument in a store that can't be had; the caller goes */
        record = begin_call(0, 8, 2, "look", 1);
        crti_put_arg_object(&record, &ref_name, &location);
        say_record(t, CALLER, 1, &record);
        say_call_empty(t, 1, 0, 9, 1, "give");
        say_message(
            t, ANSWER, 0, CRTI_MSG_ERROR,
            &(crti_msg_error_t){.status = CRT_ERR_OBJECT_LOST, .text = crti_str("lost")});
        fuzz_step_put(t, LOSE, 1, "\2\1", 2);
        break;
    case 5: /* a task within a task */
        say_call_empty(t, 2, CRTI_CALL_TASK, 8, 1, "nest");
        say_run(t);
        fuzz_step_put(t, CALLER, 2, "\12", 1);
        say_call_empty(t, 2, CRTI_CALL_READY, 9, 0, "");
        break;
    case 7: /* an object that is pulled, whose owner seeks copies of it */
        record = begin_call(0, 8, 2, "look", 1);
        crti_put_arg_object(&record, &ref_name, &location);
        say_record(t, CALLER, 0, &record);
        say_borrow(t, CALLER, 0, CRTI_RECORD_COPY_QUERY, 5, 3);
        say_message(t, ANSWER, 0, CRTI_MSG_DONE, NULL);
        say_borrow(t, CALLED, 0, CRTI_RECORD_COPY_QUERY, 6, 3);
        break;
    case 8: seed_cancelled(t); break;
    case 9:
    case 10: say_yields(t, index == 10); break;
    default: /* the owner of what is kept dies */
        say_call(t, 1, 8, 0, "keep", a_ref());
        say_run(t);
        say_died(t, 0);
        say_call_empty(t, 1, 0, 9, 1, "give");
        say_run(t);
        break;
    }
}
#define WORKER_SEEDS 11

static void say_alive(text_t *t, unsigned actor, unsigned process, int64_t retries)
{
    crti_msg_actor_state_t m = {.actor = {OURS, actor},
                                .actor_incarnation = 1 + process,
                                .state = CRTI_ACTOR_ALIVE,
                                .max_task_retries = retries,
                                .class_name = crti_str("Thing"),
                                .process = other(process),
                                .incarnation = INCARNATION,
                                .node = node_of(process)};

    say_message(t, NOTICE, 0, CRTI_MSG_ACTOR_STATE, &m);
}

static void say_granted(text_t *t, uint8_t which, unsigned process)
{
    crti_msg_lease_granted_t m = {.lease = {OURS, 0},
                                  .process = other(process),
                                  .incarnation = INCARNATION,
                                  .node = node_of(process)};

    say_message(t, ANSWER, which, CRTI_MSG_LEASE_GRANTED, &m);
}

static void say_locate(text_t *t, uint8_t which, uint64_t number)
{
    crti_buffer_t record = {0};

    crti_put_locate(&record, 0, number);
    say_record(t, CALLER, which, &record);
}

static void say_peek(text_t *t, uint8_t which)
{
    const uint64_t numbers[] = {1, 2, 77};
    crti_buffer_t record = {0};

    crti_put_peek(&record, numbers, 3);
    say_record(t, CALLER, which, &record);
}

/* Tasks, and what others hold of ours. */
static void seed_tasks(text_t *t, unsigned index)
{
    crti_result_t stored = {.form = CRTI_RESULT_STORED};
    crti_result_t returned = {.form = CRTI_RESULT_NOT_STARTED};
    crti_buffer_t record = {0};
    uint8_t node[16];

    crti_put_id(node, node_of(1));
    stored.location = (crti_location_t){{us, 1}, LARGE, node, 1};
    switch (index) {
    case 1: /* a task whose result lies in a store */
        say_use(t, 3, 0, 0);
        say_granted(t, 0, 1);
        say_result(t, 1, CRTI_RECORD_REPLY, 1, &stored);
        say_use(t, 10, 1, 0);
        say_message(t, ANSWER, 0, CRTI_MSG_DONE, NULL);
        say_use(t, 4, 2, 0);
        break;
    case 2: /* others hold what we made */
        say_use(t, 0, 0, 0);
        say_use(t, 1, 1, 0);
        say_use(t, 2, 2, 1);
        say_locate(t, 0, 1);
        say_borrow(t, CALLER, 0, CRTI_RECORD_BORROW, 5, 3);
        say_borrow(t, CALLER, 1, CRTI_RECORD_BORROW, 5, 2);
        crti_put_copy(&record, 2, 2, node_of(1));
        say_record(t, CALLER, 0, &record);
        say_use(t, 9, 0, 0);
        say_release(t, 0, 6, 1, 1);
        say_release(t, 0, 7, 2, 2);
        say_died(t, 1);
        break;
    default: /* a worker that gives a task back, another that dies */
        say_use(t, 3, 0, 0);
        say_use(t, 4, 1, 0);
        say_granted(t, 0, 1);
        say_result(t, 1, CRTI_RECORD_REPLY, 1, &returned);
        say_granted(t, 0, 2);
        say_died(t, 2);
        fuzz_step_put(t, TICK, 100, NULL, 0);
        break;
    }
}

/* A process whose ref is still here has died, and another one lends it one of ours. */
static void say_late_lending(text_t *t)
{
    say_use(t, 7, 0, 0);
    say_alive(t, 0, 0, 0);
    say_use(t, 5, 0, 0);
    say_value(t, 0, CRTI_RECORD_REPLY, 1, a_ref());
    say_use(t, 0, 3, 0);
    say_died(t, 2);
    say_lent(t, 0, 2);
}

/* A process that takes no answers asks for an object, for one without a value yet, and for none;
 * the values come, and then it takes them. */
static void say_questions(text_t *t)
{
    say_use(t, 0, 0, 0);
    say_use(t, 3, 1, 0);
    say_granted(t, 0, 1);
    fuzz_step_put(t, FILL, 1, "\0", 1);
    for (int i = 0; i < 2; i++) {
        say_locate(t, 1, 1);
        say_locate(t, 1, 2);
        say_locate(t, 1, 77);
        say_peek(t, 1);
    }
    fuzz_step_put(t, FILL, 1, "\0", 1);
    say_value(t, 1, CRTI_RECORD_REPLY, 2, crt_arg_int(5));
    fuzz_step_put(t, FILL, 1, "\1", 1);
}

static void say_item(text_t *t, uint64_t call, uint64_t index, const crti_result_t *item)
{
    crti_buffer_t record = {0};

    if (crti_put_item(&record, call, index, item) != CRT_OK)
        abort();
    say_record(t, CALLED, 1, &record);
}

/* A stream of at most two items ahead: a number, bytes in the store, and a third one out of turn;
 * it is made again after its worker's death, or dropped. */
static void say_stream(text_t *t, bool is_dropped)
{
    uint8_t node[16];
    crti_result_t number = {.form = CRTI_RESULT_VALUE, .value = {"\0\5", 2}},
                  stored = {.form = CRTI_RESULT_STORED,
                            .location = {{us, 3}, LARGE, node, 1}};

    crti_put_id(node, node_of(1));
    say_use(t, 14, 0, 0);
    say_granted(t, 0, 1);
    say_item(t, 1, 0, &number);
    say_use(t, 15, 1, 0);
    say_item(t, 1, 1, &stored);
    say_use(t, 15, 2, 0);
    if (is_dropped)
        say_use(t, 16, 0, 0);
    else
        say_died(t, 1);
    say_granted(t, 0, 2);
    say_item(t, 1, 7, &number);
    fuzz_step_put(t, TICK, 1, NULL, 0);
}

/* A worker takes no more tasks: what it was sent comes back. */
static void say_retiring(text_t *t)
{
    crti_result_t back = {.form = CRTI_RESULT_NOT_STARTED};
    crti_buffer_t record = {0};

    say_use(t, 3, 0, 0);
    say_use(t, 3, 1, 0);
    say_granted(t, 0, 1);
    if (crti_put_retiring(&record) != CRT_OK)
        abort();
    say_record(t, CALLED, 1, &record);
    say_result(t, 1, CRTI_RECORD_REPLY, 2, &back);
    say_value(t, 1, CRTI_RECORD_REPLY, 1, crt_arg_int(5));
    fuzz_step_put(t, TICK, 1, NULL, 0);
}

static void say_probe(text_t *t, uint8_t which, const crti_probe_t *probe)
{
    crti_buffer_t record = {0};

    if (crti_put_probe(&record, probe) != CRT_OK)
        abort();
    say_record(t, CALLER, which, &record);
}

/* A task's result is number 3 of process 2, whose value is that task's; another process's waits for
 * it. */
static void say_cycle(text_t *t)
{
    crti_result_t forward = {.form = CRTI_RESULT_FORWARD, .ref = ref_of(2, 3)};
    crti_probe_step_t ours = {us, true, 1, crti_str("add")},
                      its = {other(2), true, 3, crti_str("its")},
                      others = {other(0), true, 9, crti_str("others")};
    crti_probe_t probe = {.nonce = 5, .at = 1, .count = 2, .step = {others, ours}};

    say_use(t, 3, 0, 0);
    say_granted(t, 0, 1);
    say_result(t, 1, CRTI_RECORD_REPLY, 1, &forward);
    say_probe(t, 0, &probe);
    fuzz_step_put(t, TICK, 2, NULL, 0);
    probe = (crti_probe_t){.at = 2, .count = 3, .step = {ours, its, ours}};
    say_probe(t, 2, &probe);
    probe.is_confirming = true;
    say_probe(t, 2, &probe);
}

static void say_node_died(text_t *t, unsigned node)
{
    crti_msg_node_died_t died = {.node = node_of(node), .text = crti_str("it burned")};

    say_message(t, NOTICE, 0, CRTI_MSG_NODE_DIED, &died);
}

/* A task's result is number 3 of process 2, or in a store itself; the node with its bytes dies,
 * others ask for it, and those who may have a copy are asked. */
static void say_missing(text_t *t, bool is_forwarded)
{
    crti_result_t result = {.form = CRTI_RESULT_STORED}, located = result;
    uint8_t node[16];

    crti_put_id(node, node_of(1));
    result.location = (crti_location_t){{us, 1}, LARGE, node, 1};
    located.location = (crti_location_t){{other(2), 3}, LARGE, node, 1};
    if (is_forwarded)
        result = (crti_result_t){.form = CRTI_RESULT_FORWARD, .ref = ref_of(2, 3)};
    say_use(t, 3, 0, 0);
    say_granted(t, 0, 3);
    say_result(t, 3, CRTI_RECORD_REPLY, 1, &result);
    if (is_forwarded)
        say_result(t, 2, CRTI_RECORD_LOCATED, 3, &located);
    say_locate(t, 4, 1);
    say_node_died(t, 1);
    say_locate(t, 5, 1);
    fuzz_step_put(t, TICK, 1, NULL, 0);
    if (is_forwarded)
        say_result(t, 2, CRTI_RECORD_LOCATED, 3, &located);
    say_borrow(t, CALLER, 4, CRTI_RECORD_COPY_REPLY, 3, 0);
    say_borrow(t, CALLER, 5, CRTI_RECORD_COPY_REPLY, 3, 0);
    say_borrow(t, CALLED, 3, CRTI_RECORD_COPY_REPLY, 2, 0);
    fuzz_step_put(t, TICK, 1, NULL, 0);
    say_use(t, 10, 0, 0);
}

/* The caller registers us for what we own, and ends without a word more. */
static void say_lent_to_us(text_t *t)
{
    uint64_t number = 1;
    crti_borrow_record_t borrow = {
        .request = 5, .process = us, .numbers = &number, .count = 1};
    crti_buffer_t record = {0};

    say_use(t, 0, 0, 0);
    if (crti_put_borrow(&record, CRTI_RECORD_BORROW, &borrow) != CRT_OK)
        abort();
    say_record(t, CALLER, 0, &record);
}

static void say_peeked(text_t *t, uint8_t which, uint64_t number)
{
    crti_result_t value = {.form = CRTI_RESULT_VALUE, .value = {"\0\5", 2}};
    crti_buffer_t record = {0};

    if (crti_begin_peeked(&record) == CRT_OK)
        crti_put_peeked(&record, number, &value);
    say_record(t, CALLED, which, &record);
}

static void seed_calls(text_t *t, unsigned index)
{
    crti_result_t forward = {.form = CRTI_RESULT_FORWARD};
    crt_arg_t items[2] = {a_ref(), an_actor()};

    switch (index) {
    case 0: /* an actor's answer with a ref and an actor inside */
        say_use(t, 7, 0, 0);
        say_alive(t, 0, 0, 0);
        say_use(t, 5, 0, 0);
        say_value(t, 0, CRTI_RECORD_REPLY, 1, crt_list(items, 2));
        say_use(t, 10, 1, 0);
        say_peeked(t, 2, 3);
        say_use(t, 9, 0, 0);
        say_use(t, 5, 2, 1);
        break;
    case 3: /* an answer that is another ref's, and one that is its own */
    case 4:
        say_use(t, 7, 0, 0);
        say_alive(t, 0, 0, 0);
        say_use(t, 5, 0, 0);
        say_use(t, 5, 1, 0);
        forward.ref = index == 3 ? ref_of(2, 3) : our_ref(1);
        say_result(t, 0, CRTI_RECORD_REPLY, 1, &forward);
        forward.ref = our_ref(1);
        say_result(t, 0, CRTI_RECORD_REPLY, 2, &forward);
        say_value(t, 2, CRTI_RECORD_LOCATED, 3, crt_arg_int(5));
        say_use(t, 10, 3, 1);
        break;
    case 6: /* two rounds through two results */
        say_use(t, 7, 0, 0);
        say_alive(t, 0, 0, 0);
        say_use(t, 5, 0, 0);
        say_use(t, 5, 1, 0);
        forward.ref = our_ref(2);
        say_result(t, 0, CRTI_RECORD_REPLY, 1, &forward);
        forward.ref = our_ref(1);
        say_result(t, 0, CRTI_RECORD_REPLY, 2, &forward);
        break;
    case 7: /* retries that are told of when the call was sent already */
        say_use(t, 7, 0, 0);
        say_alive(t, 0, 0, 0);
        say_use(t, 5, 0, 0);
        say_alive(t, 0, 1, 3);
        break;
    case 8: /* called at its last place when its new one is lost */
        say_use(t, 7, 0, 0);
        say_alive(t, 0, 0, 0);
        say_use(t, 5, 0, 0);
        say_alive(t, 0, 1, 0);
        say_use(t, 5, 1, 0);
        fuzz_step_put(t, LOSE, OUR_SESSION + 1, "\1\1", 2);
        fuzz_step_put(t, LOSE, OUR_SESSION + 0, "\1\1", 2);
        say_died(t, 0);
        fuzz_step_put(t, TICK, 20, NULL, 0);
        break;
    case 9: /* the same of one that did not leave: nothing of it was kept either */
        say_use(t, 7, 0, 0);
        say_alive(t, 0, 0, 0);
        say_use(t, 5, 0, 0);
        fuzz_step_put(t, LOSE, OUR_SESSION + 0, "\1\0", 2);
        say_alive(t, 0, 1, 3);
        break;
    case 10: say_late_lending(t); break;
    case 15: say_questions(t); break;
    case 16: say_cycle(t); break;
    case 14: say_lent_to_us(t); break;
    case 12:
    case 13: say_missing(t, index == 13); break;
    default: /* the actor's process is lost and its state told */
        say_use(t, 7, 0, 0);
        say_alive(t, 0, 0, 0);
        say_use(t, 5, 0, 0);
        say_use(t, 6, 1, 0);
        fuzz_step_put(t, LOSE, OUR_SESSION + 0, "\1\1", 2);
        fuzz_step_put(t, TICK, 20, NULL, 0);
        say_alive(t, 0, 1, 0);
        say_use(t, 11, 0, 0);
        break;
    }
}

static void seed_driver(text_t *t, unsigned index)
{
    ref_name = ref_of(2, 3);
    actor_name = actor_at(1);
    if (index == 1 || index == 2 || index == 5)
        seed_tasks(t, index);
    else if (index == 17)
        say_retiring(t);
    else if (index >= 18)
        say_stream(t, index == 19);
    else
        seed_calls(t, index);
}
#define DRIVER_SEEDS 20

/* As it was found: an actor is said to live at one place after the other while a call of the first
 * is in doubt, and the process at the first ends before that is decided. */
static const uint8_t moved[] = {
    0,   6,   7,   2,  0,   0,   0,   3,   0,   75,  0,   220, 0,   16,  31, 0,   196,
    16,  0,   0,   0,  0,   0,   0,   254, 225, 0,   0,   0,   0,   0,   0,  0,   0,
    1,   2,   165, 84, 104, 105, 110, 103, 160, 0,   1,   0,   160, 196, 16, 0,   0,
    0,   0,   0,   0,  0,   0,   0,   2,   0,   93,  0,   0,   0,   64,  7,  196, 16,
    0,   0,   0,   7,  0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,  9,   160,
    160, 6,   5,   2,  0,   0,   0,   3,   0,   75,  0,   220, 0,   16,  31, 0,   196,
    16,  0,   0,   0,  0,   0,   0,   254, 225, 0,   0,   0,   0,   0,   0,  0,   0,
    1,   2,   165, 84, 104, 105, 110, 103, 160, 0,   0,   0,   160, 196, 16, 0,   0,
    0,   0,   0,   0,  0,   0,   0,   0,   0,   190, 0,   0,   0,   20,  7,  196, 16,
    0,   0,   0,   7,  0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,  9,   160,
    160, 6,   7,   2,  0,   0,   0,   3,   0,   75,  0,   220, 0,   16,  31, 0,   196,
    16,  0,   0,   0,  0,   0,   0,   254, 225, 0,   0,   0,   0,   0,   58, 99,  112,
    117, 2,   165, 84, 104, 105, 110, 103, 160, 0,   1,   0,   160, 196, 16, 0,   0,
    0,   0,   0,   0,  0,   0,   0,   2,   0,   93,  0,   0,   0,   64,  7,  196, 16,
    0,   0,   0,   7,  0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,  9,   160,
    160, 3,   0,   75, 0,   220, 0,   16,  31,  0,   196, 16,  0,   0,   0,  0,   0,
    0,   254, 225, 0,  0,   0,   0,   0,   0,   0,   0,   1,   2,   165, 84, 104, 105,
    110, 103, 160, 0,  62,  0,   160, 196, 16,  0,   0,   0,   0,   0,   0,  0,   0,
    0,   0,   0,   93, 0,   0,   0,   64,  7,   196, 16,  0,   0,   0,   7,  0,   0,
    0,   0,   0,   0,  0,   0,   0,   0,   0,   9,   160, 160};

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    text_t t = {.out = out, .size = 1, .room = room};

    if (index == WORKER_SEEDS + DRIVER_SEEDS && sizeof(moved) <= room) {
        memcpy(out, moved, sizeof(moved));
        return sizeof(moved);
    }
    if (index >= WORKER_SEEDS + DRIVER_SEEDS)
        return 0;
    out[0] = index < WORKER_SEEDS ? IS_WORKER : 0;
    if (index < WORKER_SEEDS)
        seed_worker(&t, index);
    else
        seed_driver(&t, index - WORKER_SEEDS);
    return t.size;
}
