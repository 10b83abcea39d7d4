/* SPDX-License-Identifier: Apache-2.0 */
/* Share table. See share_table.h for the rules. */
#include "runtime/node/objects/share_table.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/buffer.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/base/map.h"

/* A node of the line. One that was sent on stays in it when it has the object: others may still be
 * sent there, and come back when it has dropped it. */
typedef struct member {
    crti_id_t node;
    crti_id_t parent; /* whom it was sent on to; zero: it is a child, given from here */
    uint64_t link;    /* that it asked by last */
    uint64_t waits;   /* its questions that wait */
} member_t;

typedef struct share {
    crti_object_id_t object;
    uint64_t parts;
    crti_buffer_t members; /* member_t, in the order in which they came */
    crti_buffer_t waiting; /* crti_share_question_t */
    crti_list_t link;
} share_t;

struct crti_share_table {
    crti_map_t shares; /* object -> share_t */
    crti_list_t order;
    size_t waits;
    crti_buffer_t actions;
    size_t action_done;
};

/* ---------------------------------------------------------------- life and actions */

crt_status_t crti_share_table_new(crti_share_table_t **table_out)
{
    crti_share_table_t *table = calloc(1, sizeof(*table));

    if (table == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "share table");
    crti_map_init(&table->shares, sizeof(crti_object_id_t));
    crti_list_init(&table->order);
    *table_out = table;
    return CRT_OK;
}

static void free_share(share_t *s)
{
    crti_buffer_fini(&s->members);
    crti_buffer_fini(&s->waiting);
    free(s);
}

void crti_share_table_free(crti_share_table_t *table)
{
    crti_list_t *item;

    if (table == NULL)
        return;
    while ((item = crti_list_pop(&table->order)) != NULL)
        free_share(CRTI_CONTAINER(item, share_t, link));
    crti_map_fini(&table->shares);
    crti_buffer_fini(&table->actions);
    free(table);
}

static void act(crti_share_table_t *table, const crti_share_action_t *action)
{
    if (crti_buffer_append(&table->actions, action, sizeof(*action)) != CRT_OK)
        crti_log(CRTI_LOG_ERROR, "share", "no memory for an action");
}

bool crti_share_table_action(crti_share_table_t *table, crti_share_action_t *action_out)
{
    return crti_buffer_take(&table->actions, &table->action_done, action_out,
                            sizeof(*action_out));
}

size_t crti_share_table_count(const crti_share_table_t *table)
{
    return table->shares.count;
}

size_t crti_share_table_waits(const crti_share_table_t *table)
{
    return table->waits;
}

static void send(crti_share_table_t *table, const crti_share_question_t *question)
{
    act(table, &(crti_share_action_t){.verb = CRTI_SHARE_SEND, .question = *question});
}

static void refuse(crti_share_table_t *table, const crti_share_question_t *question,
                   const char *text)
{
    act(table, &(crti_share_action_t){
                   .verb = CRTI_SHARE_REFUSE, .question = *question, .text = text});
}

/* ---------------------------------------------------------------- members */

static member_t *member_at(const share_t *s, size_t index)
{
    return (member_t *)(void *)s->members.data + index;
}

static size_t member_count(const share_t *s)
{
    return s->members.size / sizeof(member_t);
}

static member_t *find_member(const share_t *s, crti_id_t node)
{
    for (size_t i = 0; i < member_count(s); i++)
        if (crti_id_equal(member_at(s, i)->node, node))
            return member_at(s, i);
    return NULL;
}

static size_t child_count(const share_t *s)
{
    size_t count = 0;

    for (size_t i = 0; i < member_count(s); i++)
        count += crti_id_is_zero(member_at(s, i)->parent);
    return count;
}

static share_t *find_or_add(crti_share_table_t *table, crti_object_id_t object,
                            uint64_t parts)
{
    share_t *s = crti_map_get(&table->shares, &object);

    if (s)
        return s;
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return NULL;
    s->object = object;
    s->parts = parts;
    if (crti_map_put(&table->shares, &object, s) != CRT_OK) {
        free(s);
        return NULL;
    }
    crti_list_append(&table->order, &s->link);
    return s;
}

/* Without a child there is no line any more: whoever was sent on has a parent elsewhere. */
static void drop_unused(crti_share_table_t *table, share_t *s)
{
    if (child_count(s) || s->waiting.size)
        return;
    crti_list_remove(&s->link);
    crti_map_remove(&table->shares, &s->object);
    free_share(s);
}

static void remove_member(share_t *s, const member_t *m)
{
    size_t index = (size_t)(m - member_at(s, 0));

    memmove(member_at(s, index), member_at(s, index + 1),
            (member_count(s) - index - 1) * sizeof(*m));
    s->members.size -= sizeof(*m);
}

/* ---------------------------------------------------------------- where a node is sent */

/* The parent of one that comes behind `count` others; zero: this node. */
static crti_id_t place_in_line(const share_t *s)
{
    size_t count = member_count(s);

    if (child_count(s) == 0)
        return (crti_id_t){0};
    return member_at(s, count <= s->parts ? count - 1 : (size_t)(count - s->parts - 1))
        ->node;
}

static crti_id_t parent_for(const share_t *s, const crti_share_question_t *q)
{
    crti_id_t last = {0};

    if (q->direct || q->hops >= CRTI_SHARE_HOPS)
        return last;
    if (q->hops == 0)
        return place_in_line(s);
    if (child_count(s) < CRTI_SHARE_CHILDREN)
        return last;
    for (size_t i = 0; i < member_count(s); i++)
        if (crti_id_is_zero(member_at(s, i)->parent))
            last = member_at(s, i)->node;
    return last;
}

/* Where this question belongs; remembers it for the further ones of the same node. */
static crt_status_t join(share_t *s, const crti_share_question_t *q,
                         member_t **member_out)
{
    member_t *m = find_member(s, q->node);
    member_t new = {.node = q->node, .link = q->link};
    crt_status_t status;

    if (m && (q->direct || !crti_id_is_zero(m->parent))) {
        /* Its parent failed it: nobody is sent there any more, unless it is a child. */
        member_t *parent = q->direct ? find_member(s, m->parent) : NULL;

        if (q->direct)
            m->parent = (crti_id_t){0};
        if (parent && !crti_id_is_zero(parent->parent)) {
            remove_member(s, parent);
            m = find_member(s, q->node);
        }
    } else if (m == NULL) {
        new.parent = parent_for(s, q);
        status = crti_buffer_append(&s->members, &new, sizeof(new));
        if (status != CRT_OK)
            return status;
        m = member_at(s, member_count(s) - 1);
    }
    m->link = q->link;
    *member_out = m;
    return CRT_OK;
}

/* ---------------------------------------------------------------- questions */

static void wait_for_part(crti_share_table_t *table, share_t *s, member_t *m,
                          const crti_share_question_t *q)
{
    if (q->direct) {
        refuse(table, q, "that part has not come to this node yet");
    } else if (m->waits >= CRTI_SHARE_WAITS) {
        refuse(table, q, "too many questions wait here for parts of the object");
    } else if (crti_buffer_append(&s->waiting, q, sizeof(*q)) != CRT_OK) {
        refuse(table, q, "out of memory");
    } else {
        m->waits++;
        table->waits++;
    }
}

void crti_share_table_asked(crti_share_table_t *table,
                            const crti_share_question_t *question, crti_share_have_t have,
                            uint64_t parts)
{
    const crti_share_question_t *q = question;
    share_t *s;
    member_t *m;

    if (have == CRTI_SHARE_LACKS) {
        refuse(table, q, "the object is not on this node");
        return;
    }
    if (parts < CRTI_SHARE_PARTS && have == CRTI_SHARE_HAS) {
        send(table, q);
        return;
    }
    s = find_or_add(table, q->object, parts);
    if (s == NULL || join(s, q, &m) != CRT_OK)
        refuse(table, q, "out of memory");
    else if (!crti_id_is_zero(m->parent))
        act(table, &(crti_share_action_t){
                       .verb = CRTI_SHARE_ELSEWHERE, .question = *q, .node = m->parent});
    else if (have == CRTI_SHARE_HAS)
        send(table, q);
    else
        wait_for_part(table, s, m, q);
    if (s)
        drop_unused(table, s);
}

/* ---------------------------------------------------------------- what waits */

typedef enum { DROP, SEND, REFUSE } fate_t;

/* Ends the waiting questions that `is_meant` by `key`. */
static void end_waits(crti_share_table_t *table, share_t *s, fate_t fate,
                      bool (*is_meant)(const crti_share_question_t *q, const void *key),
                      const void *key)
{
    crti_share_question_t *q = (crti_share_question_t *)(void *)s->waiting.data;
    size_t count = s->waiting.size / sizeof(*q), kept = 0;

    for (size_t i = 0; i < count; i++) {
        member_t *m;

        if (!is_meant(&q[i], key)) {
            q[kept++] = q[i];
            continue;
        }
        m = find_member(s, q[i].node);
        if (m)
            m->waits--;
        table->waits--;
        if (fate == SEND)
            send(table, &q[i]);
        else if (fate == REFUSE)
            refuse(table, &q[i], "the object did not come to this node");
    }
    s->waiting.size = kept * sizeof(*q);
}

static bool is_at(const crti_share_question_t *q, const void *offset)
{
    return q->offset == *(const uint64_t *)offset;
}

static bool is_any(const crti_share_question_t *q, const void *key)
{
    return true;
}

static bool is_by_link(const crti_share_question_t *q, const void *link)
{
    return q->link == *(const uint64_t *)link;
}

static bool is_of_node(const crti_share_question_t *q, const void *node)
{
    return crti_id_equal(q->node, *(const crti_id_t *)node);
}

void crti_share_table_part(crti_share_table_t *table, crti_object_id_t object,
                           uint64_t offset)
{
    share_t *s = crti_map_get(&table->shares, &object);

    if (s)
        end_waits(table, s, SEND, is_at, &offset);
}

void crti_share_table_gone(crti_share_table_t *table, crti_object_id_t object)
{
    share_t *s = crti_map_get(&table->shares, &object);

    if (s == NULL)
        return;
    end_waits(table, s, REFUSE, is_any, NULL);
    s->members.size = 0;
    drop_unused(table, s);
}

void crti_share_table_left(crti_share_table_t *table, crti_object_id_t object,
                           crti_id_t node)
{
    share_t *s = crti_map_get(&table->shares, &object);
    const member_t *m = s ? find_member(s, node) : NULL;

    if (m == NULL || !crti_id_is_zero(m->parent))
        return;
    end_waits(table, s, DROP, is_of_node, &node);
    remove_member(s, m);
    drop_unused(table, s);
}

void crti_share_table_link_closed(crti_share_table_t *table, uint64_t link)
{
    CRTI_LIST_FOREACH_SAFE (item, &table->order) {
        share_t *s = CRTI_CONTAINER(item, share_t, link);

        end_waits(table, s, DROP, is_by_link, &link);
        for (size_t i = member_count(s); i-- > 0;)
            if (member_at(s, i)->link == link)
                remove_member(s, member_at(s, i));
        drop_unused(table, s);
    }
}

void crti_share_table_node_lost(crti_share_table_t *table, crti_id_t node)
{
    CRTI_LIST_FOREACH_SAFE (item, &table->order) {
        share_t *s = CRTI_CONTAINER(item, share_t, link);
        const member_t *m = find_member(s, node);

        end_waits(table, s, DROP, is_of_node, &node);
        if (m)
            remove_member(s, m);
        drop_unused(table, s);
    }
}
