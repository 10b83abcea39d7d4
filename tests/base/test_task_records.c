/* SPDX-License-Identifier: Apache-2.0 */
/* Task events come back from their bytes as they were. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/task_records.h"

/* With everything that may be there, and with nothing that need not be. */
static crti_task_record_t full_record(void)
{
    crti_task_record_t record = {.job = {11, 12},
                                 .event = {.owner = {1, 2},
                                           .number = 3,
                                           .attempt = UINT64_MAX,
                                           .parent_owner = {4, 5},
                                           .parent = 6,
                                           .actor = {7, 8},
                                           .worker = {9, 10},
                                           .node = {UINT64_MAX, 1},
                                           .attempts = 2,
                                           .pid = -1,
                                           .status = -7,
                                           .log_from = 13,
                                           .log_to = UINT64_MAX,
                                           .state = CRTI_TASK_FAILED,
                                           .kind = CRTI_TASK_METHOD,
                                           .is_run = true}};

    for (uint64_t i = 0; i < CRTI_TASK_STATES; i++)
        record.event.at_ns[i] = UINT64_C(1763700000000000000) + i;
    memset(record.event.name, 'n', sizeof(record.event.name) - 1);
    memset(record.event.text, 't', sizeof(record.event.text) - 1);
    return record;
}

static crti_task_record_t bare_record(void)
{
    return (crti_task_record_t){
        .event = {.number = 1, .attempt = 1, .state = CRTI_TASK_QUEUED}};
}

static void records_come_back_as_they_were(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_task_record_t in[] = {full_record(), bare_record(), full_record()}, out;
    crti_span_t rest;
    uint64_t dropped;

    assert_int_equal(crti_task_records_begin(77, &bytes), CRT_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(crti_task_records_add(&in[i], &bytes), CRT_OK);
    assert_int_equal(
        crti_task_records_open(crti_span(bytes.data, bytes.size), &dropped, &rest),
        CRT_OK);
    assert_int_equal(dropped, 77);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(crti_task_records_next(&rest, &out), CRT_OK);
        assert_memory_equal(&out.event.owner, &in[i].event.owner, sizeof(crti_id_t));
        assert_memory_equal(out.event.at_ns, in[i].event.at_ns, sizeof(out.event.at_ns));
        assert_int_equal(out.event.attempt, in[i].event.attempt);
        assert_int_equal(out.event.number, in[i].event.number);
        assert_int_equal(out.event.parent, in[i].event.parent);
        assert_true(crti_id_equal(out.event.parent_owner, in[i].event.parent_owner));
        assert_true(crti_id_equal(out.event.actor, in[i].event.actor));
        assert_true(crti_id_equal(out.event.worker, in[i].event.worker));
        assert_true(crti_id_equal(out.event.node, in[i].event.node));
        assert_true(crti_id_equal(out.job, in[i].job));
        assert_int_equal(out.event.pid, in[i].event.pid);
        assert_int_equal(out.event.status, in[i].event.status);
        assert_int_equal(out.event.attempts, in[i].event.attempts);
        assert_int_equal(out.event.log_from, in[i].event.log_from);
        assert_int_equal(out.event.log_to, in[i].event.log_to);
        assert_int_equal(out.event.state, in[i].event.state);
        assert_int_equal(out.event.kind, in[i].event.kind);
        assert_int_equal(out.event.is_run, in[i].event.is_run);
        assert_string_equal(out.event.name, in[i].event.name);
        assert_string_equal(out.event.text, in[i].event.text);
    }
    assert_int_equal(crti_task_records_next(&rest, &out), CRT_ERR_NOT_FOUND);
}

static void bytes_that_are_cut_are_no_record(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_task_record_t record = full_record(), out;
    crti_span_t rest;
    uint64_t dropped;

    assert_int_equal(crti_task_records_begin(0, &bytes), CRT_OK);
    assert_int_equal(crti_task_records_add(&record, &bytes), CRT_OK);
    for (size_t size = 0; size < 8; size++)
        assert_int_equal(
            crti_task_records_open(crti_span(bytes.data, size), &dropped, &rest),
            CRT_ERR_PROTOCOL);
    for (size_t size = 9; size < bytes.size; size++) {
        rest = crti_span(bytes.data + 8, size - 8);
        assert_int_equal(crti_task_records_next(&rest, &out), CRT_ERR_PROTOCOL);
    }
}

static void an_entry_of_strangers_is_made_sound_or_refused(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_task_record_t record = bare_record(), out;
    crti_span_t rest;

    strcpy(record.event.name, "a\x01\xff");
    assert_int_equal(crti_task_records_add(&record, &bytes), CRT_OK);
    rest = crti_span(bytes.data, bytes.size);
    assert_int_equal(crti_task_records_next(&rest, &out), CRT_OK);
    assert_string_equal(out.event.name, "a??");
    bytes.data[2] = CRTI_TASK_STATES;
    rest = crti_span(bytes.data, bytes.size);
    assert_int_equal(crti_task_records_next(&rest, &out), CRT_ERR_PROTOCOL);
    bytes.data[2] = CRTI_TASK_QUEUED;
    bytes.data[3] = CRTI_TASK_KINDS;
    rest = crti_span(bytes.data, bytes.size);
    assert_int_equal(crti_task_records_next(&rest, &out), CRT_ERR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_back_as_they_were),
        cmocka_unit_test(bytes_that_are_cut_are_no_record),
        cmocka_unit_test(an_entry_of_strangers_is_made_sound_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
