/* SPDX-License-Identifier: Apache-2.0 */
/* Control without a head around it. See bed.h. */
#include "tests/control/bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"

static void do_send(void *user, uint64_t link, const void *message, size_t size)
{
    bed_t *bed = user;
    bed_sent_t *sent = &bed->sent[bed->sent_count++];

    if (bed->sent_count == BED_SENT)
        abort();
    sent->link = link;
    crti_buffer_append(&sent->bytes, message, size);
    if (crti_message_decode(sent->bytes.data, sent->bytes.size, &sent->message) != CRT_OK)
        abort();
}

static void do_drop(void *user, uint64_t link, const char *why)
{
    bed_t *bed = user;

    bed->dropped[bed->dropped_count++ % 64] = link;
}

static bool is_leader(void *user)
{
    return !((const bed_t *)user)->may_be_two;
}

static size_t get_queued(void *user, uint64_t link)
{
    return 0;
}

static void do_store(void *user, const crti_store_operation_t *from)
{
    bed_t *bed = user;
    bed_operation_t *to = &bed->pending[bed->pending_count++];

    if (bed->pending_count == BED_SENT)
        abort();
    *to = (bed_operation_t){
        .ticket = from->ticket, .verb = from->verb, .table = from->table};
    crti_text(from->key, to->key, sizeof(to->key));
    crti_buffer_append(&to->value, from->value.data, from->value.size);
}

static bool do_revoke(void *user, crti_id_t id, bool is_revoked)
{
    bed_t *bed = user;
    crti_id_t none = {0, 0}, from = is_revoked ? none : id, to = is_revoked ? id : none;

    for (size_t i = 0; i < 8 && !bed->forgets_revoked; i++)
        if (crti_id_equal(bed->revoked[i], from)) {
            bed->revoked[i] = to;
            return true;
        }
    return false;
}

static bed_row_t *find(bed_t *bed, crti_store_table_t table, const char *key)
{
    for (size_t i = 0; i < bed->row_count; i++)
        if (bed->rows[i].table == table && strcmp(bed->rows[i].key, key) == 0)
            return &bed->rows[i];
    return NULL;
}

static bool clear_rows(bed_t *bed, const bed_operation_t *o)
{
    bool found = false;

    for (size_t i = 0; i < bed->row_count; i++) {
        bed_row_t *row = &bed->rows[i];

        if (row->table != o->table || strncmp(row->key, o->key, strlen(o->key)) != 0)
            continue;
        found |= !row->gone;
        row->gone = true;
    }
    return found;
}

static bool apply(bed_t *bed, bed_operation_t *o)
{
    bed_row_t *row = find(bed, o->table, o->key);
    bool found = row && !row->gone;

    if (o->verb == CRTI_STORE_CLEAR)
        return clear_rows(bed, o);
    if (o->verb == CRTI_STORE_DELETE && row)
        row->gone = true;
    if (o->verb != CRTI_STORE_PUT && !(o->verb == CRTI_STORE_PUT_NEW && !found))
        return found;
    if (row == NULL) {
        row = &bed->rows[bed->row_count++];
        row->table = o->table;
        memcpy(row->key, o->key, sizeof(row->key));
    }
    row->gone = false;
    row->value.size = 0;
    crti_buffer_append(&row->value, o->value.data, o->value.size);
    return found;
}

static void store_next(bed_t *bed)
{
    bed_operation_t o = bed->pending[0];
    crt_status_t status =
        bed->may_delete && o.verb == CRTI_STORE_DELETE ? CRT_OK : bed->failing;
    bool found = false;

    memmove(bed->pending, bed->pending + 1, --bed->pending_count * sizeof(o));
    if (status == CRT_OK || (bed->fails_late && o.verb == CRTI_STORE_PUT))
        found = apply(bed, &o);
    crti_buffer_fini(&o.value);
    crti_control_stored(bed->control, o.ticket, status, "the disk is full", found,
                        crti_span(NULL, 0), bed->now);
}

void bed_store_first(bed_t *bed, size_t count)
{
    while (count-- && bed->pending_count)
        store_next(bed);
}

size_t bed_store(bed_t *bed)
{
    size_t count = 0;

    for (; bed->pending_count; count++)
        store_next(bed);
    return count;
}

static void settle(bed_t *bed)
{
    if (!bed->manual)
        bed_store(bed);
}

static void load(bed_t *bed, int table)
{
    for (size_t i = 0; i < bed->row_count; i++)
        if ((int)bed->rows[i].table == table && !bed->rows[i].gone &&
            table != CRTI_STORE_KV)
            crti_control_load(
                bed->control, bed->rows[i].table, crti_str(bed->rows[i].key),
                crti_span(bed->rows[i].value.data, bed->rows[i].value.size), bed->now);
}

static void do_scale(void *user, const crti_provider_order_t *order)
{
    bed_t *bed = user;
    bed_order_t *mine = &bed->orders[bed->order_count++];

    if (bed->order_count > sizeof(bed->orders) / sizeof(bed->orders[0]))
        abort();
    *mine = (bed_order_t){.verb = order->verb, .node = order->node};
    snprintf(mine->instance, sizeof(mine->instance), "%s",
             order->instance ? order->instance : "");
    snprintf(mine->machine, sizeof(mine->machine), "%s",
             order->machine ? order->machine : "");
    snprintf(mine->cluster, sizeof(mine->cluster), "%s", order->cluster);
}

static void start(bed_t *bed)
{
    crti_control_config_t config = {
        .cluster = bed_id(99),
        .address = "127.0.0.1:6380",
        .headless_timeout_ms = 600000,
        .seed = 7,
        .fail_youngest = bed->fail_youngest,
        .max_jobs = bed->max_jobs,
        .autoscale = bed->autoscale,
        .actions = {.user = bed,
                    .send = do_send,
                    .drop = do_drop,
                    .queued = get_queued,
                    .is_leader = is_leader,
                    .revoke = do_revoke,
                    .store = do_store,
                    .scale = do_scale},
    };

    if (crti_control_new(&config, &bed->control) != CRT_OK)
        abort();
    for (size_t i = 0; i < 8; i++)
        if (!crti_id_is_zero(bed->revoked[i]))
            crti_control_load_revoked(bed->control, bed->revoked[i]);
    for (int table = 0; table < CRTI_STORE_TABLES; table++)
        for (int time = 0; time <= bed->scans_twice; time++)
            load(bed, table);
    crti_control_loaded(bed->control, bed->now);
    settle(bed);
}

bed_t *bed_new(void)
{
    bed_t *bed = calloc(1, sizeof(*bed));

    if (bed == NULL)
        abort();
    bed->now = 1000 * CRTI_S;
    start(bed);
    return bed;
}

static void clear_sent(bed_t *bed)
{
    for (size_t i = 0; i < bed->sent_count; i++)
        crti_buffer_fini(&bed->sent[i].bytes);
    bed->sent_count = bed->seen = 0;
}

static void clear_pending(bed_t *bed, bool applied)
{
    for (size_t i = 0; i < bed->pending_count; i++) {
        if (applied)
            apply(bed, &bed->pending[i]);
        crti_buffer_fini(&bed->pending[i].value);
    }
    bed->pending_count = 0;
}

void bed_restart(bed_t *bed, bool applied)
{
    crti_control_free(bed->control);
    clear_pending(bed, applied);
    clear_sent(bed);
    bed->failing = CRT_OK;
    bed->manual = bed->fails_late = bed->may_delete = false;
    bed->now += CRTI_S;
    start(bed);
}

void bed_free(bed_t *bed)
{
    crti_control_free(bed->control);
    clear_pending(bed, false);
    clear_sent(bed);
    for (size_t i = 0; i < bed->row_count; i++)
        crti_buffer_fini(&bed->rows[i].value);
    free(bed);
}

void bed_pass(bed_t *bed, uint64_t ns)
{
    uint64_t end = bed->now + ns;

    for (;;) {
        uint64_t next = crti_control_deadline(bed->control);

        if (next > end)
            break;
        bed->now = next > bed->now ? next : bed->now;
        crti_control_tick(bed->control, bed->now);
        settle(bed);
    }
    bed->now = end;
}

void bed_say(bed_t *bed, uint64_t link, crti_message_kind_t kind, uint64_t request,
             const void *body)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_message_t message;

    if (crti_message_encode(kind, request, body, &bytes) != CRT_OK ||
        crti_message_decode(bytes.data, bytes.size, &message) != CRT_OK)
        abort();
    crti_control_message(bed->control, link, &message, bed->now);
    settle(bed);
}

const crti_message_t *bed_next(bed_t *bed, uint64_t link, crti_message_kind_t kind)
{
    while (bed->seen < bed->sent_count) {
        const bed_sent_t *sent = &bed->sent[bed->seen++];

        if ((link == 0 || sent->link == link) && sent->message.kind == kind)
            return &sent->message;
    }
    return NULL;
}

size_t bed_count(const bed_t *bed, uint64_t link, crti_message_kind_t kind)
{
    size_t count = 0;

    for (size_t i = 0; i < bed->sent_count; i++)
        count += bed->sent[i].link == link && bed->sent[i].message.kind == kind;
    return count;
}

void bed_forget(bed_t *bed)
{
    clear_sent(bed);
}

bool bed_has_row(const bed_t *bed, crti_store_table_t table, crti_id_t id)
{
    char hex[CRTI_ID_HEX];
    const bed_row_t *row = find((bed_t *)(uintptr_t)bed, table, crti_id_hex(id, hex));

    return row && !row->gone;
}

bool bed_has_value(const bed_t *bed, const char *key)
{
    const bed_row_t *row = find((bed_t *)(uintptr_t)bed, CRTI_STORE_KV, key);

    return row && !row->gone;
}

bool bed_was_dropped(const bed_t *bed, uint64_t link)
{
    for (size_t i = 0; i < bed->dropped_count && i < 64; i++)
        if (bed->dropped[i] == link)
            return true;
    return false;
}

void bed_join(bed_t *bed, uint64_t link, uint64_t node, uint64_t incarnation, double cpus,
              const crti_buffer_t *actors, const crti_buffer_t *jobs)
{
    crti_msg_node_register_t m = {.protocol = CRTI_PROTOCOL_VERSION,
                                  .version = crti_str("test"),
                                  .node = bed_id(node),
                                  .incarnation = incarnation,
                                  .ip = crti_str("10.0.0.1"),
                                  .hostname = crti_str("host"),
                                  .endpoint = crti_str("10.0.0.1:7000"),
                                  .pid = 17,
                                  .is_head_host = node == 1};

    crti_resources_set(&m.resources, "CPU", (int64_t)(cpus * CRTI_RESOURCE_ONE));
    m.available = m.resources;
    if (actors)
        m.actors = crti_span(actors->data, actors->size);
    if (jobs)
        m.jobs = crti_span(jobs->data, jobs->size);
    crti_control_opened(bed->control, link, false, bed->now);
    bed_say(bed, link, CRTI_MSG_NODE_REGISTER, 1, &m);
}

void bed_add_job(bed_t *bed, uint64_t link, uint64_t node, uint64_t job)
{
    crti_msg_job_add_t m = {.job = bed_id(job),
                            .driver = bed_id(job + 1000),
                            .node = bed_id(node),
                            .pid = 4711,
                            .entrypoint = crti_str("./program"),
                            .program = crti_str("/bin/program"),
                            .sha = crti_str("00ff"),
                            .argv = crti_str("argv"),
                            .environment = crti_str("environment")};

    bed_say(bed, link, CRTI_MSG_JOB_ADD, 2, &m);
}

crti_msg_actor_create_t bed_actor(uint64_t actor, uint64_t job, const char *name)
{
    return (crti_msg_actor_create_t){.actor = bed_id(actor),
                                     .job = bed_id(job),
                                     .owner = bed_id(job + 1000),
                                     .owner_node = bed_id(1),
                                     .class_name = crti_str("Counter"),
                                     .name = crti_str(name),
                                     .creation = crti_str("arguments"),
                                     .lifetime = actor};
}

bool bed_start_actor(bed_t *bed, uint64_t link, uint64_t process)
{
    const crti_message_t *start = bed_next(bed, link, CRTI_MSG_ACTOR_START);
    crti_msg_actor_started_t m;

    if (start == NULL)
        return false;
    m = (crti_msg_actor_started_t){.actor = start->actor_start.actor,
                                   .actor_incarnation =
                                       start->actor_start.actor_incarnation,
                                   .process = bed_id(process),
                                   .incarnation = 1,
                                   .ipc = crti_str("ipc:///p"),
                                   .tcp = crti_str("tcp://10.0.0.1:1")};
    bed_say(bed, link, CRTI_MSG_ACTOR_STARTED, start->request, &m);
    return true;
}
