/* SPDX-License-Identifier: Apache-2.0 */
/* Who gets a link, and what a member that sends nonsense costs. */
#include <stdlib.h>

#include "collective/backends/ring_int.h"
#include "ring_bed.h"
#include "runtime/core/process/context.h"

static crti_step_t barrier(void)
{
    return (crti_step_t){.kind = CRT_COLLECTIVE_BARRIER, .peer = -1};
}

/* ---------------------------------------------------------------- strangers */

typedef struct visit {
    crti_message_kind_t kind;
    crti_msg_group_hello_t hello;
    bool is_open, is_closed, was_refused;
    char text[200];
} visit_t;

static void on_open(void *user, crti_stream_t *stream)
{
    visit_t *visit = user;

    visit->is_open = true;
    crti_stream_send(stream, visit->kind, 0,
                     visit->kind == CRTI_MSG_GROUP_HELLO ? &visit->hello : NULL);
}

static void on_message(void *user, crti_stream_t *stream, const crti_message_t *message)
{
    visit_t *visit = user;

    visit->was_refused = message->kind == CRTI_MSG_ERROR;
    if (visit->was_refused)
        crti_text(message->error.text, visit->text, sizeof(visit->text));
}

static void on_closed(void *user, crti_stream_t *stream, crt_status_t status,
                      const char *text)
{
    ((visit_t *)user)->is_closed = true;
}

/* Dials rank 0 and waits for the end; true when it was refused with a text that says `why`. */
static bool is_refused(bed_t *bed, visit_t visit, const char *why)
{
    crti_stream_place_t place = bed_place(bed);
    crti_stream_handlers_t handlers = {.user = &visit,
                                       .on_open = on_open,
                                       .on_message = on_message,
                                       .on_closed = on_closed};
    crti_stream_context_t *context;
    crti_stream_t *stream;
    crti_loop_t *loop;
    uint64_t deadline = crti_now_ns() + 30 * CRTI_S;

    BED_CHECK(crti_loop_new(&loop) == CRT_OK);
    BED_CHECK(crti_stream_context_new(&place.key, true, &context) == CRT_OK);
    BED_CHECK(crti_stream_connect(loop, context, bed->group->members[0].address, 20000,
                                  &handlers, &stream) == CRT_OK);
    while (!visit.is_closed && crti_now_ns() < deadline)
        BED_CHECK(crti_loop_turn(loop, deadline) == CRT_OK);
    crti_stream_free(stream);
    crti_stream_context_free(context);
    crti_loop_free(loop);
    if (!strstr(visit.text, why))
        fprintf(stderr, "refused with \"%s\"\n", visit.text);
    return visit.is_open && visit.was_refused && strstr(visit.text, why);
}

static void visits(bed_t *bed)
{
    const crti_member_t *members = bed->group->members;
    visit_t good = {.kind = CRTI_MSG_GROUP_HELLO,
                    .hello = {.protocol = CRTI_PROTOCOL_VERSION,
                              .name = crti_str("bed"),
                              .incarnation = 1,
                              .rank = 1,
                              .nonce = members[1].nonce,
                              .to_rank = 0,
                              .to_nonce = members[0].nonce}},
            v;

    if (bed->rank == 1) {
        v = good;
        v.hello.nonce++;
        BED_CHECK(is_refused(bed, v, "nonce"));
        v = good;
        v.hello.to_nonce++;
        BED_CHECK(is_refused(bed, v, "nonce"));
        v = good;
        v.hello.rank = 99;
        BED_CHECK(is_refused(bed, v, "rank 99"));
        v = good;
        v.hello.incarnation = 7;
        BED_CHECK(is_refused(bed, v, "incarnation 1, not 7"));
        v = good;
        v.hello.name = crti_str("another");
        BED_CHECK(is_refused(bed, v, "group \"bed\""));
        v = good;
        v.hello.protocol = 99;
        BED_CHECK(is_refused(bed, v, "protocol"));
        v = good;
        v.kind = CRTI_MSG_DONE;
        BED_CHECK(is_refused(bed, v, "DONE instead of a greeting"));
        BED_CHECK(is_refused(bed, good, "linked already"));
    }
    BED_CHECK(bed_step(bed, barrier()) == CRT_OK);
    BED_CHECK(bed->rank != 0 || crti_links_refused(bed->links) >= 7);
}

static void strangers_and_old_members_are_refused_and_counted(void **state)
{
    bed_run(2, &crti_backend_ring, visits);
}

/* ---------------------------------------------------------------- nonsense */

static const char *const nonsense[] = {"data out of turn",   "data of another round",
                                       "too much data",      "an offer out of turn",
                                       "an offer too large", "a receipt of nothing",
                                       "another's message",  "an abort of nobody"};
#define NONSENSES (sizeof(nonsense) / sizeof(nonsense[0]))

static void talk(crti_stream_t *stream, size_t which)
{
    static const char bytes[64];
    /* As the other has it: an allreduce of 4 floats, the first operation. */
    crti_msg_group_data_t data = {.team = 0,
                                  .sequence = 1,
                                  .kind = CRT_COLLECTIVE_ALLREDUCE,
                                  .dtype = CRT_DTYPE_FLOAT32,
                                  .reduction = CRT_REDUCE_SUM,
                                  .count = 4,
                                  .peer = -1,
                                  .length = 16};
    crti_msg_group_offer_t offer = {
        .sequence = 1, .dtype = CRT_DTYPE_FLOAT32, .count = 4, .length = 16};
    crti_msg_group_abort_t none = {.status = 5, .rank = 12, .text = crti_str("nothing")};
    const int ranks[2] = {0, 1};

    data.team = 1469598103934665603ull;
    for (int i = 0; i < 2; i++) /* ring.c's hash of the team */
        data.team = (data.team ^ (uint64_t)ranks[i]) * 1099511628211ull;
    switch (which) {
    case 0:
        data.length = 0;
        data.round = 5ull << 60;
        crti_stream_send(stream, CRTI_MSG_GROUP_DATA, 0, &data);
        break;
    case 1:
        data.round = 77;
        crti_stream_send_copy(stream, CRTI_MSG_GROUP_DATA, 0, &data, bytes, 16);
        break;
    case 2:
        data.length = 64;
        crti_stream_send_copy(stream, CRTI_MSG_GROUP_DATA, 0, &data, bytes, 64);
        break;
    case 3:
        offer.sequence = 3;
        crti_stream_send_copy(stream, CRTI_MSG_GROUP_OFFER, 0, &offer, bytes, 16);
        break;
    case 4:
        offer.count = UINT64_MAX / 2;
        crti_stream_send_copy(stream, CRTI_MSG_GROUP_OFFER, 0, &offer, bytes, 16);
        break;
    case 5: crti_stream_send(stream, CRTI_MSG_GROUP_TAKEN, 0, NULL); break;
    case 6: crti_stream_send(stream, CRTI_MSG_KV_KEYS, 0, NULL); break;
    default: crti_stream_send(stream, CRTI_MSG_GROUP_ABORT, 0, &none); break;
    }
}

static void talks_nonsense(bed_t *bed)
{
    for (size_t i = 0; i < NONSENSES; i++) {
        float x[4] = {1, 2, 3, 4};
        crti_step_t step = {.kind = CRT_COLLECTIVE_ALLREDUCE,
                            .dtype = CRT_DTYPE_FLOAT32,
                            .reduction = CRT_REDUCE_SUM,
                            .count = 4,
                            .input = x,
                            .output = x,
                            .peer = -1};

        bed_meet(bed); /* the other does not look at its links before the operation */
        if (bed->rank == 1) {
            talk(crti_links_stream(bed->links, 0), i);
            while (!crti_links_is_flushed(bed->links))
                BED_CHECK(crti_links_turn(bed->links, crti_now_ns() + 20 * CRTI_S) ==
                          CRT_OK);
        } else {
            uint64_t begin = crti_now_ns();
            /* Of an operation without the check a message without bytes may wait for it. */
            crt_status_t status = bed_step(bed, i == 0 ? barrier() : step);

            if (status != CRT_ERR_PROTOCOL && !(i == 0 && status == CRT_ERR_INVALID))
                fprintf(stderr, "%s: %s\n", nonsense[i], crt_error_detail());
            BED_CHECK(status == CRT_ERR_PROTOCOL ||
                      (i == 0 && status == CRT_ERR_INVALID));
            BED_CHECK(strstr(crt_error_detail(), "rank 1"));
            BED_CHECK(crti_now_ns() - begin < 20 * CRTI_S);
        }
        bed_meet(bed);
        bed_rebuild(bed, 2 + i);
        BED_CHECK(bed_step(bed, step) == CRT_OK);
        bed_meet(bed);
        bed_rebuild(bed, 100 + i); /* numbers begin anew */
        bed_meet(bed);
    }
}

static void nonsense_ends_the_operation_with_an_error_that_names_the_member(void **state)
{
    bed_run(2, &crti_backend_ring, talks_nonsense);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_and_old_members_are_refused_and_counted),
        cmocka_unit_test(nonsense_ends_the_operation_with_an_error_that_names_the_member),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
