/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the head's decisions (control/control.h) after rows that a damaged store gave, and
 * under messages of nodes and commands gone mad.
 *
 * An input is a list of steps: what (see `step`), for whom, two bytes of a length, and so many
 * bytes. Rows come first, table after table, as redis.c gives them; the rest happens to the head
 * that serves.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/control/control.h"
#include "tests/fuzz/steps.h"

#define LINKS 4

enum { ROW, OPEN, CLOSE, SAY, ANSWER, STORED, TICK, STEPS };

typedef struct pending {
    uint64_t ticket;
    crti_store_verb_t verb;
} pending_t;

typedef struct bed {
    crti_control_t *control;
    uint64_t now;
    bool serves;
    crti_store_table_t table; /* of the last row */
    crti_buffer_t pending;    /* pending_t, in order */
    struct {
        uint64_t number; /* 0: closed */
        uint64_t asked;  /* the last request that was sent to it */
    } links[LINKS];      /* the first is the admin's */
    uint64_t last_link;
} bed_t;

/* ---------------------------------------------------------------- around control */

static void on_send(void *user, uint64_t link, const void *data, size_t size)
{
    bed_t *bed = user;
    crti_message_t message;

    if (crti_message_decode(data, size, &message) != CRT_OK)
        abort(); /* nobody could read it */
    for (int i = 0; i < LINKS; i++)
        if (bed->links[i].number == link && message.request)
            bed->links[i].asked = message.request;
}

static void on_drop(void *user, uint64_t link, const char *why)
{
    bed_t *bed = user;

    if (!why || !why[0])
        abort();
    for (int i = 0; i < LINKS; i++)
        if (bed->links[i].number == link)
            bed->links[i].number = 0;
}

static size_t on_queued(void *user, uint64_t link)
{
    return 0;
}

static void on_store(void *user, const crti_store_operation_t *operation)
{
    bed_t *bed = user;
    pending_t pending = {operation->ticket, operation->verb};

    if (operation->table >= CRTI_STORE_TABLES ||
        crti_buffer_append(&bed->pending, &pending, sizeof(pending)) != CRT_OK)
        abort();
}

/* Lines are made, and not shown. */
static void on_line(void *user, int level, const char *line)
{
}

static void make(bed_t *bed)
{
    crti_control_config_t config = {.cluster = {0, 99},
                                    .address = "127.0.0.1:6380",
                                    .headless_timeout_ms = 600000,
                                    .seed = 7,
                                    .actions = {.user = bed,
                                                .send = on_send,
                                                .drop = on_drop,
                                                .queued = on_queued,
                                                .store = on_store}};

    crti_log_set_sink(on_line, NULL);
    *bed = (bed_t){.now = 1000 * CRTI_S};
    if (crti_control_new(&config, &bed->control) != CRT_OK)
        abort();
}

/* The oldest `count` operations are done. */
static void stored(bed_t *bed, size_t count, crt_status_t status, bool found,
                   crti_span_t value)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t keys = {0};
    pending_t first;

    if (crti_list_pack(&keys, value.data, value.size) != CRT_OK)
        abort();
    for (; count && bed->pending.size; count--) {
        memcpy(&first, bed->pending.data, sizeof(first));
        crti_buffer_consume(&bed->pending, sizeof(first));
        crti_control_stored(
            bed->control, first.ticket, status,
            status == CRT_OK ? "" : "the disk is full", found,
            first.verb == CRTI_STORE_KEYS ? crti_span(keys.data, keys.size) : value,
            bed->now);
    }
}

/* A head whose deadline does not go on would run without end. */
static void pass(bed_t *bed, uint64_t ns)
{
    uint64_t end = bed->now + ns;

    for (int i = 0; i < 10000; i++) {
        uint64_t next = crti_control_deadline(bed->control);

        if (next > end) {
            bed->now = end;
            return;
        }
        bed->now = next > bed->now ? next : bed->now;
        crti_control_tick(bed->control, bed->now);
        stored(bed, 1, CRT_OK, true, crti_span(NULL, 0));
    }
    abort();
}

static void open_link(bed_t *bed, unsigned place)
{
    if (bed->links[place].number)
        return;
    bed->links[place].number = ++bed->last_link;
    crti_control_opened(bed->control, bed->last_link, place == 0, bed->now);
}

static void close_link(bed_t *bed, unsigned place)
{
    uint64_t number = bed->links[place].number;

    bed->links[place].number = 0;
    if (number)
        crti_control_closed(bed->control, number, "it broke", bed->now);
}

static void serve(bed_t *bed)
{
    if (bed->serves)
        return;
    bed->serves = true;
    crti_control_loaded(bed->control, bed->now);
    open_link(bed, 0);
}

/* Whatever happened: with all links closed and everything stored, nothing waits any more. */
static void end(bed_t *bed)
{
    crti_control_figures_t figures;

    serve(bed);
    for (unsigned i = 0; i < LINKS; i++)
        close_link(bed, i);
    for (int i = 0; i < 40 && (i == 0 || bed->pending.size); i++) {
        stored(bed, SIZE_MAX, CRT_OK, true, crti_span(NULL, 0));
        pass(bed, 30 * CRTI_S);
    }
    figures = crti_control_figures(bed->control);
    if (figures.links || figures.outbox || figures.dirty || figures.nodes_alive)
        abort();
    crti_control_free(bed->control);
    crti_buffer_fini(&bed->pending);
}

/* ---------------------------------------------------------------- an input */

static void row(bed_t *bed, unsigned table, crti_span_t value)
{
    table %= CRTI_STORE_KV;
    if (bed->serves || table < bed->table)
        return;
    bed->table = table;
    crti_control_load(bed->control, table, crti_span("key", 3), value, bed->now);
}

static void say(bed_t *bed, unsigned place, crti_span_t data, bool answers)
{
    crti_message_t message;

    if (!bed->links[place].number ||
        crti_message_decode(data.data, data.size, &message) != CRT_OK)
        return;
    if (answers)
        message.request = bed->links[place].asked;
    crti_control_message(bed->control, bed->links[place].number, &message, bed->now);
}

static void step(bed_t *bed, uint8_t what, uint8_t whom, crti_span_t data)
{
    what %= STEPS;
    if (what == ROW) {
        row(bed, whom, data);
        return;
    }
    serve(bed);
    switch (what) {
    case OPEN: open_link(bed, whom % LINKS); break;
    case CLOSE: close_link(bed, whom % LINKS); break;
    case SAY: say(bed, whom % LINKS, data, false); break;
    case ANSWER: say(bed, whom % LINKS, data, true); break;
    case STORED:
        stored(bed, 1u + (whom >> 2), whom & 1 ? CRT_ERR_IO : CRT_OK, whom & 2, data);
        break;
    case TICK: pass(bed, whom * 100 * CRTI_MS); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bed_t bed;
    fuzz_step_t next;

    make(&bed);
    while (fuzz_step_next(&data, &size, &next))
        step(&bed, next.what, next.whose, next.bytes);
    end(&bed);
    return 0;
}

/* ---------------------------------------------------------------- what is valid */

/* One id for everything, so that each message is about what is there. */
static void set_ID(crti_id_t *id)
{
    *id = (crti_id_t){0, 5};
}
static void set_U64(uint64_t *number)
{
    *number = 1;
}
static void set_I64(int64_t *number)
{
    *number = 1;
}
static void set_F64(double *number)
{
    *number = 1;
}
static void set_BOOL(bool *flag)
{
    *flag = true;
}
static void set_OBJECT(crti_object_id_t *object)
{
    object->number = 5;
}
static void set_STR(crti_span_t *text)
{
    *text = crti_str("10.0.0.1:5");
}
static void set_BIN(crti_span_t *bytes)
{
    *bytes = crti_span(NULL, 0);
}

#include "message_kinds.h"
#define QUERIES 8

static void put_body(text_t *t, uint8_t what, uint8_t whom, crti_message_kind_t kind,
                     const void *body)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};

    if (crti_message_encode(kind, what == ROW ? 0 : 3, body, &bytes) != CRT_OK)
        abort();
    fuzz_step_put(t, what, whom, bytes.data, bytes.size);
}

static void put_message(text_t *t, uint8_t what, uint8_t whom, crti_message_kind_t kind)
{
    crti_message_t message = {.kind = kind};
    size_t i = 0;

    while (kinds[i].kind != kind)
        i++;
    kinds[i].fill(&message.error);
    if (kind == CRTI_MSG_NODE_REGISTER)
        message.node_register.protocol = CRTI_PROTOCOL_VERSION;
    if (kind == CRTI_MSG_ERROR)
        message.error.status = CRT_ERR_IO;
    put_body(t, what, whom, kind, &message.error);
}

/* A question of the command; some are answered by nodes, whose JSON is joined. */
static void put_query(text_t *t, unsigned index)
{
    static const char picks[] =
        "{\"limit\":2,\"filters\":[[\"state\",false,[\"PENDING\",\"ALIVE\"]]],"
        "\"count_by\":[\"state\"]}";
    static const char *const questions[QUERIES] = {"cluster",       "nodes",   "actors",
                                                   "jobs",          "workers", "actors",
                                                   "actors_detail", "tasks"};
    crti_msg_state_query_t query = {.what = crti_str(questions[index]),
                                    .filter = crti_str(index < 5 ? "" : picks)};
    crti_msg_state_answer_t part = {
        .json = crti_str("[{\"worker_id\":\"5\",\"pid\":3,\"is_alive\":true}]")};

    put_body(t, SAY, 0, CRTI_MSG_STATE_QUERY, &query);
    put_body(t, ANSWER, 1, CRTI_MSG_STATE_ANSWER, &part);
}

/* A node, a job and an actor; then one message of each kind, on the node's link, as an answer to
 * the last request there, or as the admin's; or, on a head that knows all by its rows. */
size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    static const crti_message_kind_t rows[CRTI_STORE_KV] = {
        [CRTI_STORE_META] = CRTI_MSG_ROW_META,
        [CRTI_STORE_NODES] = CRTI_MSG_ROW_NODE,
        [CRTI_STORE_PLACEMENT_GROUPS] = CRTI_MSG_ROW_PLACEMENT_GROUP,
        [CRTI_STORE_ACTORS] = CRTI_MSG_ACTOR_CREATE,
        [CRTI_STORE_ACTOR_STATES] = CRTI_MSG_ROW_ACTOR,
        [CRTI_STORE_ACTOR_SAVES] = CRTI_MSG_ACTOR_SAVE,
        [CRTI_STORE_RESOURCE_REQUESTS] = CRTI_MSG_RESOURCE_REQUEST,
        [CRTI_STORE_JOBS] = CRTI_MSG_ROW_JOB,
        [CRTI_STORE_JOB_STATES] = CRTI_MSG_ROW_JOB_STATE};
    text_t t = {.out = out, .room = room};

    if (index >= KINDS + QUERIES)
        return 0;
    for (uint8_t i = 0; index % 4 == 3 && i < CRTI_STORE_KV; i++)
        put_message(&t, ROW, i, rows[i]);
    fuzz_step_put(&t, OPEN, 1, NULL, 0);
    put_message(&t, SAY, 1, CRTI_MSG_NODE_REGISTER);
    fuzz_step_put(&t, STORED, 14, NULL, 0);
    put_message(&t, SAY, 1, CRTI_MSG_JOB_ADD);
    put_message(&t, SAY, 1, CRTI_MSG_ACTOR_CREATE);
    fuzz_step_put(&t, STORED, 14, NULL, 0);
    fuzz_step_put(&t, TICK, 1, NULL, 0);
    put_message(&t, ANSWER, 1, CRTI_MSG_ACTOR_STARTED);
    fuzz_step_put(&t, STORED, 14, NULL, 0);
    if (index < KINDS)
        put_message(&t, index & 1 ? ANSWER : SAY, index % 3 == 2 ? 0 : 1,
                    kinds[index].kind);
    else
        put_query(&t, index - KINDS);
    fuzz_step_put(&t, STORED, 14, "value", 5);
    fuzz_step_put(&t, TICK, 20, NULL, 0);
    return t.size;
}
