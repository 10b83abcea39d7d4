/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster as structs: nodes, resources, named actors (crt_cluster_view.h).
 *
 * Where it sits
 *     user code -> [ core/client/cluster_view.c ] -> VIEW_QUERY -> node daemon -> head
 *     (control/rows/view_rows.c)
 * Threads
 *     Any; the core's lock is taken for the question only.
 */
#include "runtime/core/client/cluster_view.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/copy_struct.h"
#include "runtime/base/limit.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/node_link.h"

/* ------------------------------------------------------------------ questions */

crt_status_t crti_head_question(crti_message_kind_t request, const void *body,
                                crti_message_kind_t kind, int64_t timeout_ms,
                                crti_message_t *answer, crti_buffer_t *storage)
{
    crti_core_t *core = crti_enter();
    crt_status_t status;

    if (!core)
        return crti_entry_status();
    status = crti_node_ask(core, request, body, timeout_ms, answer, storage);
    crti_leave(core);
    if (status == CRT_OK && answer->kind != kind)
        return crt_raise(CRT_ERR_PROTOCOL, "%s was answered with %s",
                         crti_message_name(request), crti_message_name(answer->kind));
    return status;
}

static crt_status_t take_rows(crti_span_t rest, crti_message_kind_t kind,
                              crt_status_t (*take)(void *user, const crti_message_t *row),
                              void *user)
{
    crti_message_t row;
    crti_span_t entry;
    crt_status_t status;

    while ((status = crti_list_unpack(&rest, &entry)) == CRT_OK) {
        status = crti_message_decode(entry.data, entry.size, &row);
        if (status == CRT_OK && row.kind != kind)
            status = crt_raise(CRT_ERR_PROTOCOL, "a view has a row of kind %s",
                               crti_message_name(row.kind));
        if (status == CRT_OK)
            status = take(user, &row);
        if (status != CRT_OK)
            return status;
    }
    return status == CRT_ERR_NOT_FOUND ? CRT_OK : status;
}

crt_status_t crti_view_ask(const char *what, const char *filter, crti_message_kind_t kind,
                           crt_status_t (*take)(void *user, const crti_message_t *row),
                           void *user)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_msg_view_query_t query = {.what = crti_str(what), .filter = crti_str(filter)};
    crti_message_t answer;
    crt_status_t status = crti_head_question(
        CRTI_MSG_VIEW_QUERY, &query, CRTI_MSG_VIEW_ANSWER,
        (int64_t)(CRTI_LIMIT(head_timeout) / CRTI_MS), &answer, &storage);

    return status == CRT_OK ? take_rows(answer.view_answer.rows, kind, take, user)
                            : status;
}

/* ------------------------------------------------------------------ lists */

crt_status_t crti_view_list(void *items, size_t element_size, size_t first_size,
                            size_t room, const size_t *count_out,
                            crti_view_list_t *list_out)
{
    if (!count_out || (room && !items))
        return crt_raise(CRT_ERR_INVALID, "there is no place for the %s",
                         count_out ? "list" : "count");
    if (room && element_size < first_size)
        return crt_raise(CRT_ERR_INVALID,
                         "an element of %zu bytes, the smallest has %zu: give "
                         "sizeof(list[0])",
                         element_size, first_size);
    *list_out =
        (crti_view_list_t){.items = items, .element_size = element_size, .room = room};
    return CRT_OK;
}

void crti_view_add(crti_view_list_t *list, const void *item, size_t size)
{
    size_t place = list->count++;

    if (place < list->room)
        crti_give_struct((char *)list->items + place * list->element_size,
                         list->element_size, item, size);
}

/* ------------------------------------------------------------------ nodes */

static double amount_of(const crti_resources_t *r, const char *name)
{
    return (double)crti_resources_get(r, name) / CRTI_RESOURCE_ONE;
}

static crt_status_t take_node(void *user, const crti_message_t *message)
{
    const crti_msg_view_node_t *row = &message->view_node;
    crt_node_info_t node = {.state = (crt_node_state_t)row->state,
                            .is_head_host = row->is_head_host,
                            .cpus = amount_of(&row->resources, "CPU"),
                            .cpus_free = amount_of(&row->available, "CPU"),
                            .gpus = amount_of(&row->resources, "GPU"),
                            .gpus_free = amount_of(&row->available, "GPU"),
                            .store_bytes = row->store_bytes,
                            .store_used_bytes = row->store_used,
                            .start_ms = row->start_ms,
                            .end_ms = row->end_ms};

    crti_id_hex(row->node, node.id);
    crti_text(row->ip, node.ip, sizeof(node.ip));
    crti_text(row->hostname, node.hostname, sizeof(node.hostname));
    crti_text(row->labels, node.labels, sizeof(node.labels));
    crti_view_add(user, &node, sizeof(node));
    return CRT_OK;
}

crt_status_t crt_nodes(crt_node_info_t *nodes, size_t element_size, size_t room,
                       size_t *count_out)
{
    crti_view_list_t list;
    crt_status_t status =
        crti_view_list(nodes, element_size, CRTI_SIZE_TO(crt_node_info_t, end_ms), room,
                       count_out, &list);

    if (status == CRT_OK)
        status = crti_view_ask("nodes", "", CRTI_MSG_VIEW_NODE, take_node, &list);
    if (status == CRT_OK)
        *count_out = list.count;
    return status;
}

/* ------------------------------------------------------------------ resources */

/* Sums over nodes, by name. */
typedef struct sums {
    crt_resource_info_t *items;
    size_t count, room;
    size_t nodes; /* that were there, dead or not */
} sums_t;

static crt_resource_info_t *sum_of(sums_t *sums, const char *name)
{
    for (size_t i = 0; i < sums->count; i++)
        if (strcmp(sums->items[i].name, name) == 0)
            return &sums->items[i];
    if (sums->count == sums->room) {
        size_t room = sums->room ? 2 * sums->room : 16;
        crt_resource_info_t *items = realloc(sums->items, room * sizeof(*items));

        if (!items)
            return NULL;
        sums->items = items;
        sums->room = room;
    }
    sums->items[sums->count] = (crt_resource_info_t){.total = 0};
    snprintf(sums->items[sums->count].name, sizeof(sums->items[0].name), "%s", name);
    return &sums->items[sums->count++];
}

static crt_status_t sum_node(void *user, const crti_message_t *message)
{
    const crti_resources_t *all = &message->view_node.resources;
    sums_t *sums = user;

    sums->nodes++;
    for (unsigned i = 0; i < all->count; i++) {
        crt_resource_info_t *sum = sum_of(sums, all->item[i].name);

        if (!sum)
            return crt_raise(CRT_ERR_NO_MEMORY, "the sums of resources");
        sum->total += (double)all->item[i].amount / CRTI_RESOURCE_ONE;
        sum->free += amount_of(&message->view_node.available, all->item[i].name);
    }
    return CRT_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const crt_resource_info_t *)a)->name,
                  ((const crt_resource_info_t *)b)->name);
}

/* The caller frees sums->items, also after an error. */
static crt_status_t sum_nodes(const char *node_id, sums_t *sums)
{
    crt_status_t status = crti_view_ask("nodes", node_id ? node_id : "",
                                        CRTI_MSG_VIEW_NODE, sum_node, sums);

    if (status == CRT_OK && node_id && sums->nodes == 0)
        return crt_raise(CRT_ERR_NOT_FOUND, "there is no node %s", node_id);
    if (sums->count)
        qsort(sums->items, sums->count, sizeof(*sums->items), by_name);
    return status;
}

crt_status_t crt_resources(const char *node_id, crt_resource_info_t *resources,
                           size_t element_size, size_t room, size_t *count_out)
{
    crti_view_list_t list;
    sums_t sums = {0};
    crt_status_t status =
        crti_view_list(resources, element_size, CRTI_SIZE_TO(crt_resource_info_t, free),
                       room, count_out, &list);

    if (status == CRT_OK && node_id && !*node_id)
        status = crt_raise(CRT_ERR_INVALID, "the node id is empty");
    if (status == CRT_OK)
        status = sum_nodes(node_id, &sums);
    for (size_t i = 0; status == CRT_OK && i < sums.count; i++)
        crti_view_add(&list, &sums.items[i], sizeof(sums.items[i]));
    if (status == CRT_OK)
        *count_out = list.count;
    free(sums.items);
    return status;
}

crt_status_t crt_resource_total(const char *name, double *total_out, double *free_out)
{
    crt_resource_info_t found = {.total = 0};
    sums_t sums = {0};
    crt_status_t status = name && *name
                              ? sum_nodes(NULL, &sums)
                              : crt_raise(CRT_ERR_INVALID, "the resource has no name");

    for (size_t i = 0; i < sums.count; i++)
        if (strcmp(sums.items[i].name, name) == 0)
            found = sums.items[i];
    free(sums.items);
    if (status == CRT_OK && total_out)
        *total_out = found.total;
    if (status == CRT_OK && free_out)
        *free_out = found.free;
    return status;
}

/* ------------------------------------------------------------------ actors */

static const char *hex_of(crti_id_t id, char text[CRTI_ID_HEX])
{
    return crti_id_is_zero(id) ? "" : crti_id_hex(id, text);
}

static crt_status_t take_actor(void *user, const crti_message_t *message)
{
    const crti_msg_view_actor_t *row = &message->view_actor;
    crt_actor_info_t actor = {.state = (crt_actor_state_t)row->state,
                              .is_detached = row->is_detached,
                              .pid = row->pid,
                              .restarts = (int64_t)row->restarts};

    crti_id_hex(row->actor, actor.id);
    hex_of(row->job, actor.job_id);
    hex_of(row->node, actor.node_id);
    crti_text(row->name, actor.name, sizeof(actor.name));
    crti_text(row->name_space, actor.name_space, sizeof(actor.name_space));
    crti_text(row->class_name, actor.class_name, sizeof(actor.class_name));
    crti_view_add(user, &actor, sizeof(actor));
    return CRT_OK;
}

crt_status_t crt_actors_named(const char *name_space, crt_actor_info_t *actors,
                              size_t element_size, size_t room, size_t *count_out)
{
    char filter[CRTI_NAMESPACE_SIZE + 1] = "";
    crti_view_list_t list;
    crt_status_t status =
        crti_view_list(actors, element_size, CRTI_SIZE_TO(crt_actor_info_t, restarts),
                       room, count_out, &list);

    if (status == CRT_OK && name_space && strlen(name_space) >= CRTI_NAMESPACE_SIZE)
        status = crt_raise(CRT_ERR_INVALID, CRTI_NAMESPACE_RULE);
    if (status != CRT_OK)
        return status;
    if (name_space)
        snprintf(filter, sizeof(filter), "/%s", name_space);
    status =
        crti_view_ask("named_actors", filter, CRTI_MSG_VIEW_ACTOR, take_actor, &list);
    if (status == CRT_OK)
        *count_out = list.count;
    return status;
}
