/* SPDX-License-Identifier: Apache-2.0 */
/* Kept copies. See kept_copies.h. */
#include "runtime/core/refs/kept_copies.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/process/store_access.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/copies.h"
#include "runtime/core/refs/refs_int.h"

#define ASKED_MAX     64            /* of all objects: each is a transfer */
#define RETRY_NS      (2 * CRTI_S)  /* after no node could have one */
#define TELL_AGAIN_NS (60 * CRTI_S) /* when all went well meanwhile */

typedef struct crti_kept_copies copies_t;

/* A question to the node daemon. */
typedef struct question {
    crti_core_t *core;
    uint64_t number; /* of the ref, which may be gone when the answer comes */
    crti_object_id_t object;
} question_t;

void crti_kept_copies_default(crti_core_t *core, int64_t copies)
{
    core->copies = crti_kept_copies_check(copies) == CRT_OK ? copies : 0;
}

crt_status_t crti_kept_copies_want(crt_ref_t *ref, int64_t wanted)
{
    copies_t *copies;

    wanted = wanted ? wanted : ref->core->copies;
    if (wanted < 2)
        return CRT_OK;
    copies = crti_ref_more(ref) ? calloc(1, sizeof(*copies)) : NULL;
    if (!copies)
        return crt_raise(CRT_ERR_NO_MEMORY, "copies of an object");
    *copies = (copies_t){.ref = ref, .wanted = (unsigned)wanted};
    crti_list_init(&copies->link);
    ref->more->copies = copies;
    return CRT_OK;
}

bool crti_kept_copies_are_coming(const crt_ref_t *ref)
{
    return ref->more->copies && ref->more->copies->is_asked;
}

/* ------------------------------------------------------------------ where they are */

static bool is_enough(const copies_t *copies)
{
    unsigned good = 0;

    for (unsigned i = 0; i < copies->count; i++)
        good += !crti_remotes_is_draining(copies->ref->core, copies->nodes[i]);
    return good >= copies->wanted;
}

/* What is asked for is settled by its answer. */
static void settle(copies_t *copies)
{
    crti_core_t *core = copies->ref->core;

    if (copies->is_asked)
        return;
    crti_list_remove(&copies->link);
    if (is_enough(copies)) {
        crti_list_append(&core->refs->copies_settled, &copies->link);
        return;
    }
    crti_list_append(&core->refs->copies_due, &copies->link);
    crti_core_wake_at(core, core->refs->copies_retry_ns ? core->refs->copies_retry_ns
                                                        : crti_now_ns());
}

static void add_node(copies_t *copies, crti_id_t node)
{
    for (unsigned i = 0; i < copies->count; i++)
        if (crti_id_equal(copies->nodes[i], node))
            return;
    if (copies->count < CRTI_COPIES_MAX)
        copies->nodes[copies->count++] = node;
}

static void remove_node(copies_t *copies, crti_id_t node)
{
    for (unsigned i = 0; i < copies->count; i++)
        if (crti_id_equal(copies->nodes[i], node))
            copies->nodes[i--] = copies->nodes[--copies->count];
}

void crti_kept_copies_stored(crt_ref_t *ref, crti_id_t node)
{
    copies_t *copies = ref->more->copies;

    copies->count = 0; /* those of before it was made again are of another object */
    copies->failed = (crti_id_t){0};
    add_node(copies, node);
    settle(copies);
}

void crti_kept_copies_lost(crt_ref_t *ref, crti_id_t node)
{
    remove_node(ref->more->copies, node);
    if (ref->content == CRTI_CONTENT_STORED)
        settle(ref->more->copies);
}

void crti_kept_copies_moved(crt_ref_t *ref, crti_id_t node)
{
    remove_node(ref->more->copies, node);
    add_node(ref->more->copies, ref->core->node);
    settle(ref->more->copies);
}

void crti_kept_copies_drain(crti_core_t *core)
{
    CRTI_LIST_FOREACH_SAFE (item, &core->refs->copies_settled) {
        copies_t *copies = CRTI_CONTAINER(item, copies_t, link);

        if (!is_enough(copies)) /* others stay: settled anew, they would come again */
            settle(copies);
    }
}

/* ------------------------------------------------------------------ asking */

static void tell_failure(crti_core_t *core, const crti_msg_copy_made_t *made)
{
    char text[400];

    if (core->refs->copies_told_ns)
        return;
    core->refs->copies_told_ns = crti_now_ns();
    crti_text(made->text, text, sizeof(text));
    crti_log(CRTI_LOG_WARN, "core",
             "objects with the option copies have fewer than they should: %s", text);
}

/* The copy is there, of an object that still needs it. */
static void take(crt_ref_t *ref, crti_id_t node)
{
    crti_refs_t *refs = ref->core->refs;
    copies_t *copies = ref->more->copies;

    copies->failed = (crti_id_t){0};
    add_node(copies, node);
    if (refs->copies_told_ns && crti_now_ns() - refs->copies_told_ns > TELL_AGAIN_NS)
        refs->copies_told_ns = 0;
    crti_ref_add_copy(ref, node);
}

static void failed(copies_t *copies, const crti_msg_copy_made_t *made)
{
    crti_refs_t *refs = copies->ref->core->refs;
    bool is_first = crti_id_is_zero(copies->failed);

    copies->failed = made->node;
    if (is_first && !crti_id_is_zero(made->node))
        return; /* another one is asked at once */
    refs->copies_retry_ns = crti_now_ns() + RETRY_NS;
    tell_failure(copies->ref->core, made);
}

static void on_made(void *user, const crti_message_t *message)
{
    question_t *question = user;
    crti_core_t *core = question->core;
    bool is_answer = message && message->kind == CRTI_MSG_COPY_MADE;
    const crti_msg_copy_made_t none = {.text = crti_str("the node daemon is gone")};
    const crti_msg_copy_made_t *made = is_answer ? &message->copy_made : &none;
    bool is_made = is_answer && made->status == CRT_OK;
    crt_ref_t *ref = crti_ref_owned(core, question->number);
    copies_t *copies = ref ? ref->more->copies : NULL;
    bool is_same =
        copies && crti_object_id_equal(ref->more->object, question->object) &&
        (ref->owned.state == CRTI_OWNED_STORED || ref->owned.state == CRTI_OWNED_MISSING);

    core->refs->copies_asked--;
    if (copies) {
        copies->is_asked = false;
        crti_ref_hold(ref); /* who hears of it may drop it */
    }
    if (is_made && !is_same)
        crti_object_unstore(core, question->object, &made->node, 1);
    else if (is_made)
        take(ref, made->node);
    else if (copies)
        failed(copies, made);
    if (copies && ref->content == CRTI_CONTENT_STORED)
        settle(copies);
    if (copies)
        crti_ref_release(ref);
    crti_core_wake_at(core,
                      crti_now_ns()); /* missing.c may wait for it; and the next one */
    free(question);
}

static void put_node(crti_buffer_t *to, crti_id_t node)
{
    unsigned char bytes[16];

    crti_id_pack(node, bytes);
    (void)crti_buffer_append(to, bytes, sizeof(bytes));
}

static crt_status_t send_question(copies_t *copies, question_t *question)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t nodes = {0}, avoid = {0};
    crt_ref_t *ref = copies->ref;
    crti_core_t *core = ref->core;
    crti_msg_copy_make_t body = {.object = ref->more->object, .size = ref->size};

    for (uint32_t i = 0; i < ref->owned.node_count; i++)
        put_node(&nodes, ref->owned.nodes[i]);
    for (unsigned i = 0; i < copies->count; i++)
        put_node(&avoid, copies->nodes[i]);
    if (!crti_id_is_zero(copies->failed))
        put_node(&avoid, copies->failed);
    for (size_t at = 0; at < core->remotes->draining.size; at += sizeof(crti_id_t))
        put_node(&avoid,
                 *(const crti_id_t *)(const void *)&core->remotes->draining.data[at]);
    body.nodes = crti_span(nodes.data, nodes.size);
    body.avoid = crti_span(avoid.data, avoid.size);
    return crti_node_request(core, CRTI_MSG_COPY_MAKE, &body, on_made, question);
}

static void ask(copies_t *copies)
{
    crt_ref_t *ref = copies->ref;
    crti_core_t *core = ref->core;
    question_t *question = malloc(sizeof(*question));

    if (question)
        *question = (question_t){core, ref->number, ref->more->object};
    if (!question || send_question(copies, question) != CRT_OK) {
        free(question);
        core->refs->copies_retry_ns = crti_now_ns() + RETRY_NS;
        crti_list_append(&core->refs->copies_due, &copies->link);
        crti_core_wake_at(core, core->refs->copies_retry_ns);
        return;
    }
    copies->is_asked = true;
    core->refs->copies_asked++;
    crti_owned_tell(&ref->owned); /* a node may have it of which we hear later */
}

void crti_kept_copies_tick(crti_core_t *core, uint64_t now_ns)
{
    crti_refs_t *refs = core->refs;
    crti_list_t *item;

    if (crti_list_is_empty(&refs->copies_due))
        return;
    if (refs->copies_retry_ns > now_ns) {
        crti_core_wake_at(core, refs->copies_retry_ns);
        return;
    }
    refs->copies_retry_ns = 0;
    while (refs->copies_asked < ASKED_MAX && refs->copies_retry_ns == 0 &&
           (item = crti_list_pop(&refs->copies_due)))
        if (CRTI_CONTAINER(item, copies_t, link)->ref->content == CRTI_CONTENT_STORED)
            ask(CRTI_CONTAINER(item, copies_t, link));
}
