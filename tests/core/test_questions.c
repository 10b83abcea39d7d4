/* SPDX-License-Identifier: Apache-2.0 */
/* A process that asks an owner where its objects are a million times, and acknowledges no answer:
 * the owner keeps a bounded part of them. When it acknowledges at last, it hears of every
 * object. */
#include <crt.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ok.h"
#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/refs/refs.h"
#include "runtime/net/frame.h"
#include "runtime/net/lane.h"
#include "runtime/net/protocol.h"

#include <cmocka.h>

#define QUESTIONS   1000000
#define READY       500 /* objects with a value, */
#define PENDING     500 /* without one yet, */
#define UNKNOWN     500 /* and numbers of none */
#define NUMBERS     (READY + PENDING + UNKNOWN)
#define STRANGE     1000000 /* numbers of no object, each asked for once */
#define VALUE_BYTES 4000
#define OWNER_MAX   ((size_t)100 << 20)
#define PATIENCE    (60 * CRTI_S)

/* What the asker is told about the owner, and what it does. */
typedef struct order {
    crti_address_t owner;
    crti_id_t node, process;
    crti_key_t key;
    bool asks_for_strangers;
    uint64_t numbers[NUMBERS];
} order_t;

static int asker_fd;
static pid_t asker_pid;

/* ---------------------------------------------------------------- the asker */

/* It speaks for itself (net/frame.h, over a lane), since a net of the library acknowledges. */
typedef struct asker {
    order_t order;
    crti_lane_t *lane;
    int doorbell;
    uint64_t session, said, heard, consumed;
    bool acknowledges, is_lost, has_taken_all;
    unsigned answered;
    bool has_answer[NUMBERS];
} asker_t;

static void must(bool is_so)
{
    if (!is_so)
        abort();
}

static void transmit(asker_t *a, const void *data, size_t size)
{
    struct iovec part = {(void *)(uintptr_t)data, size};
    crti_lane_message_t *message = crti_lane_message_new(&part, 1, size);

    must(message && crti_lane_send(a->lane, message));
    crti_lane_message_unref(message);
}

static crti_frame_t frame_of(const asker_t *a, crti_frame_type_t type)
{
    crti_frame_t frame = {.type = type, .session = a->session};

    if (a->acknowledges) {
        frame.ack = a->heard;
        frame.credit = a->consumed;
    }
    return frame;
}

static void transmit_small(asker_t *a, const crti_frame_t *frame)
{
    unsigned char bytes[CRTI_FRAME_SMALL];

    transmit(a, bytes, crti_frame_encode(frame, bytes));
}

/* All of them in one frame, outside of the owner's window for us. */
static void say(asker_t *a, crti_buffer_t *records, unsigned count, size_t each)
{
    crti_frame_t frame = frame_of(a, CRTI_FRAME_DATA);
    unsigned char header[CRTI_FRAME_HEADER], word[CRTI_FRAME_RECORD];
    crti_buffer_t bytes = {0};

    frame.first = a->said + 1;
    frame.count = count;
    a->said += count;
    crti_frame_encode_header(&frame, header);
    crti_frame_encode_size((uint32_t)each, true, word);
    must(crti_buffer_append(&bytes, header, sizeof(header)) == CRT_OK);
    for (size_t at = 0; at < records->size; at += each)
        must(crti_buffer_append(&bytes, word, sizeof(word)) == CRT_OK &&
             crti_buffer_append(&bytes, records->data + at, each) == CRT_OK);
    transmit(a, bytes.data, bytes.size);
    crti_buffer_fini(&bytes);
    crti_buffer_fini(records);
}

static void hear_place(asker_t *a, crti_span_t record)
{
    crti_result_t result;
    uint64_t number;

    must(crti_get_result(record.data, record.size, &number, &result) == CRT_OK);
    for (unsigned i = 0; i < NUMBERS; i++) {
        if (a->order.numbers[i] != number || a->has_answer[i])
            continue;
        must(result.form ==
             (i < READY + PENDING ? CRTI_RESULT_VALUE : CRTI_RESULT_ERROR));
        a->has_answer[i] = true;
        a->answered++;
    }
}

static void hear_records(asker_t *a, crti_frame_t *frame)
{
    crti_span_t record;
    bool control;

    if (frame->first != a->heard + 1)
        return; /* again, since we do not acknowledge */
    a->heard += frame->count;
    while (crti_frame_next_record(&frame->body, &record, &control)) {
        if (crti_record_kind(record.data, record.size) == CRTI_RECORD_LOCATED)
            hear_place(a, record);
        else
            a->has_taken_all = true;
        a->consumed += control ? 0 : record.size;
    }
}

/* False: there is nothing. */
static bool hear(asker_t *a)
{
    crti_frame_t frame;
    crti_span_t bytes;

    if (crti_lane_receive(a->lane, &bytes) != CRT_OK)
        return false;
    must(crti_frame_decode(bytes.data, bytes.size, &frame) == CRT_OK);
    if (frame.type == CRTI_FRAME_WELCOME)
        a->session = frame.greeting.session;
    else if (frame.type == CRTI_FRAME_DATA)
        hear_records(a, &frame);
    else if (frame.type == CRTI_FRAME_RESET || frame.type == CRTI_FRAME_BYE)
        a->is_lost = true;
    return true;
}

static void wait_for(asker_t *a, bool (*done)(const asker_t *a))
{
    uint64_t deadline = crti_now_ns() + PATIENCE, rings;
    struct pollfd doorbell = {.fd = a->doorbell, .events = POLLIN};
    crti_frame_t ack;

    while (!done(a) && !a->is_lost) {
        must(crti_now_ns() < deadline);
        crti_lane_push(a->lane);
        while (hear(a))
            ;
        crti_lane_received(a->lane);
        ack = frame_of(a, CRTI_FRAME_ACK);
        if (a->acknowledges)
            transmit_small(a, &ack);
        if (!done(a) && crti_lane_sleep(a->lane) && poll(&doorbell, 1, 1000) == 1)
            (void)!read(a->doorbell, &rings, sizeof(rings));
        crti_lane_awake(a->lane);
    }
}

static bool is_open(const asker_t *a)
{
    return a->session != 0;
}

static bool has_taken_all(const asker_t *a)
{
    return a->has_taken_all;
}

static bool has_answers(const asker_t *a)
{
    return a->answered == NUMBERS;
}

/* Numbers, and then what is answered when they have been taken. */
static void ask(asker_t *a, const uint64_t *numbers, unsigned count)
{
    crti_borrow_record_t nothing = {.request = 2};
    crti_buffer_t records = {0}, last = {0};
    size_t size;

    for (unsigned i = 0; i < count; i++)
        must(crti_put_locate(&records, 0, numbers[i]) == CRT_OK);
    say(a, &records, count, records.size / count);
    must(crti_put_borrow(&last, CRTI_RECORD_COPY_QUERY, &nothing) == CRT_OK);
    size = last.size;
    a->has_taken_all = false;
    say(a, &last, 1, size);
    wait_for(a, has_taken_all);
}

static void open_session(asker_t *a)
{
    crti_lane_end_t end = {.path = a->order.owner.ipc};
    crti_frame_t hello = {.type = CRTI_FRAME_HELLO, .session = 77};
    struct pollfd p = {.events = POLLIN};

    a->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    crti_key_lane(&a->order.key, end.key);
    must(crti_lane_dial(&end, 1 << 20, a->doorbell, &a->lane) == CRT_OK);
    p.fd = crti_lane_fd(a->lane);
    must(poll(&p, 1, 10000) == 1 && crti_lane_take_socket(a->lane) == CRT_OK);
    crti_lane_close_socket(a->lane);
    hello.greeting = (crti_greeting_t){.protocol = CRTI_PROTOCOL_VERSION,
                                       .window = CRTI_LIMIT(session_window),
                                       .from = a->order.process,
                                       .from_incarnation = 1,
                                       .from_node = a->order.node,
                                       .to = a->order.owner.process,
                                       .to_incarnation = a->order.owner.incarnation};
    transmit_small(a, &hello);
    wait_for(a, is_open);
}

static void say_how_it_is(const asker_t *a)
{
    char word = a->is_lost ? 'L' : 'A';

    must(write(asker_fd, &word, 1) == 1);
}

static void ask_again_and_again(asker_t *a)
{
    char word;

    for (unsigned i = 0; i < QUESTIONS && !a->is_lost; i += NUMBERS)
        ask(a, a->order.numbers, NUMBERS);
    say_how_it_is(a);
    must(read(asker_fd, &word, 1) == 1); /* the pending ones have values now */
    a->acknowledges = true;
    wait_for(a, has_answers);
    must(write(asker_fd, &a->answered, sizeof(a->answered)) == sizeof(a->answered));
}

static void ask_for_strangers(asker_t *a)
{
    uint64_t numbers[1000];

    for (uint64_t i = 0; i < STRANGE && !a->is_lost; i += 1000) {
        for (unsigned j = 0; j < 1000; j++)
            numbers[j] = (UINT64_C(1) << 40) + i + j;
        ask(a, numbers, 1000);
    }
    say_how_it_is(a);
}

static void be_asker(void)
{
    static asker_t a;

    if (recv(asker_fd, &a.order, sizeof(a.order), MSG_WAITALL) != sizeof(a.order))
        _exit(1); /* the test has failed before */
    must(sodium_init() >= 0);
    open_session(&a);
    if (a.order.asks_for_strangers)
        ask_for_strangers(&a);
    else
        ask_again_and_again(&a);
    crti_lane_free(a.lane, 0);
    close(a.doorbell);
    _exit(0);
}

/* ---------------------------------------------------------------- the owner */

#if defined(__has_feature)
#    define HAS_ASAN __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#    define HAS_ASAN 1
#else
#    define HAS_ASAN 0
#endif
#if HAS_ASAN
size_t __sanitizer_get_current_allocated_bytes(void); /* its header is not always there */
#endif

static size_t bytes_in_use(void)
{
#if HAS_ASAN
    return __sanitizer_get_current_allocated_bytes();
#else
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
#endif
}

static crt_ref_t *objects[READY + PENDING];

static void make_objects(order_t *order)
{
    static char bytes[VALUE_BYTES];
    crti_core_t *core;

    for (unsigned i = 0; i < READY; i++)
        objects[i] = crt_put(((crt_bytes_t){bytes, sizeof(bytes)}));
    core = crti_enter();
    assert_non_null(core);
    for (unsigned i = READY; i < READY + PENDING; i++)
        objects[i] = crti_ref_new(core);
    for (unsigned i = 0; i < NUMBERS; i++)
        order->numbers[i] =
            i < READY + PENDING ? objects[i]->number : UINT64_C(1) << 40 | i;
    order->owner = *crti_net_address(core->net);
    order->node = core->node;
    order->process = crti_id_random();
    order->key = core->streams.key;
    crti_leave(core);
}

static void give_values(void)
{
    crti_core_t *core = crti_enter();

    assert_non_null(core);
    for (unsigned i = READY; i < READY + PENDING; i++)
        crti_ref_set_inline(objects[i], crti_ref_bytes(objects[0]), objects[0]->size);
    crti_refs_notify(core);
    crti_leave(core);
}

static void drop_objects(void)
{
    crti_core_t *core;

    for (unsigned i = 0; i < READY; i++)
        crt_ref_drop(&objects[i]);
    core = crti_enter();
    assert_non_null(core);
    for (unsigned i = READY; i < READY + PENDING; i++)
        crti_ref_release(objects[i]);
    crti_leave(core);
}

static void start_asker(const order_t *order)
{
    char fd[16];
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    asker_fd = fds[0];
    snprintf(fd, sizeof(fd), "%d", fds[1]);
    asker_pid = fork();
    assert_true(asker_pid >= 0);
    if (asker_pid == 0) {
        fcntl(fds[1], F_SETFD, 0);
        execl("/proc/self/exe", "asker", fd, NULL);
        _exit(1);
    }
    close(fds[1]);
    assert_int_equal(send(asker_fd, order, sizeof(*order), MSG_NOSIGNAL), sizeof(*order));
}

static void kill_asker(void)
{
    kill(asker_pid, SIGKILL);
    waitpid(asker_pid, NULL, 0);
    close(asker_fd);
}

static void end_asker(void)
{
    int status;

    assert_int_equal(waitpid(asker_pid, &status, 0), asker_pid);
    assert_int_equal(status, 0);
    close(asker_fd);
}

/* The asker's word when it has asked; meanwhile this process never has much more than before. */
static char watch_asker(size_t before)
{
    struct pollfd end = {.fd = asker_fd, .events = POLLIN};
    uint64_t deadline = crti_now_ns() + PATIENCE;
    size_t most = 0;
    char word = 0;

    while (most < OWNER_MAX && crti_now_ns() < deadline && poll(&end, 1, 5) == 0) {
        size_t now = bytes_in_use();

        if (now > before && now - before > most)
            most = now - before;
    }
    if (most < OWNER_MAX && recv(asker_fd, &word, 1, MSG_DONTWAIT) == 1)
        return word;
    kill_asker();
    fail_msg("the owner keeps %zu MiB for one who acknowledges nothing", most >> 20);
    return 0;
}

static void who_acknowledges_nothing_costs_a_window_and_hears_all_in_the_end(void **state)
{
    static order_t order;
    unsigned answered = 0;
    size_t before;

    make_objects(&order);
    before = bytes_in_use();
    start_asker(&order);
    assert_int_equal(watch_asker(before), 'A');
    give_values();
    assert_int_equal(send(asker_fd, "v", 1, MSG_NOSIGNAL), 1);
    assert_int_equal(recv(asker_fd, &answered, sizeof(answered), MSG_WAITALL),
                     sizeof(answered));
    assert_int_equal(answered, NUMBERS);
    end_asker();
    drop_objects();
}

static void who_asks_for_a_million_objects_that_there_are_not_is_sent_away(void **state)
{
    static order_t order;
    size_t before;

    make_objects(&order);
    order.asks_for_strangers = true;
    before = bytes_in_use();
    start_asker(&order);
    assert_int_equal(watch_asker(before), 'L');
    end_asker();
    drop_objects();
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            who_acknowledges_nothing_costs_a_window_and_hears_all_in_the_end),
        cmocka_unit_test(who_asks_for_a_million_objects_that_there_are_not_is_sent_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    if (strcmp(argv[0], "asker") == 0 && argc == 2) {
        asker_fd = atoi(argv[1]);
        be_asker();
    }
    return crt_main(argc, argv, CRT_OPTIONS(.num_cpus = 1), driver);
}
