/* SPDX-License-Identifier: Apache-2.0 */
/* Rosters and arrivals come back as they were written, and damaged ones are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "collective/roster.h"

#include <cmocka.h>

static void fill(crti_roster_t *roster, crti_member_t *members, unsigned char *left)
{
    *roster = (crti_roster_t){.token = 7,
                              .state = CRTI_ROSTER_FORMED,
                              .size = 3,
                              .incarnation = 2,
                              .attempt = 5,
                              .settled = 7,
                              .timeout_ms = 1234,
                              .backend = "ring",
                              .members = members,
                              .left = left,
                              .failure = {CRT_ERR_TIMED_OUT, 1, "rank 1 did not come"},
                              .previous_failure = {.rank = -1}};
    for (int i = 0; i < 3; i++) {
        members[i] = (crti_member_t){.actor = crti_id_random(),
                                     .process = crti_id_random(),
                                     .pid = 100 + i,
                                     .nonce = 9,
                                     .memory_fd = -1,
                                     .address = "127.0.0.1:80",
                                     .algorithms = "allreduce:ring"};
        left[i] = i == 1;
    }
}

static void a_roster_comes_back_as_it_was_written(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_member_t members[3];
    unsigned char left[3];
    crti_roster_t roster, back;

    fill(&roster, members, left);
    assert_int_equal(crti_roster_encode(&roster, &bytes), CRT_OK);
    assert_int_equal(crti_roster_decode(bytes.data, bytes.size, &back), CRT_OK);
    assert_int_equal(back.size, 3);
    assert_int_equal(back.attempt, 5);
    assert_int_equal(back.settled, 7);
    assert_string_equal(back.backend, "ring");
    assert_string_equal(back.failure.text, "rank 1 did not come");
    assert_int_equal(back.failure.status, CRT_ERR_TIMED_OUT);
    for (int i = 0; i < 3; i++) {
        assert_true(crti_id_equal(back.members[i].process, members[i].process));
        assert_int_equal(back.members[i].pid, members[i].pid);
        assert_int_equal(back.members[i].memory_fd, -1);
        assert_string_equal(back.members[i].address, members[i].address);
        assert_string_equal(back.members[i].algorithms, "allreduce:ring");
        assert_int_equal(back.left[i], left[i]);
    }
    crti_roster_fini(&back);
}

static void a_roster_that_is_cut_off_is_refused(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_member_t members[3];
    unsigned char left[3];
    crti_roster_t roster, back;

    fill(&roster, members, left);
    assert_int_equal(crti_roster_encode(&roster, &bytes), CRT_OK);
    for (size_t size = 0; size < bytes.size; size++) {
        unsigned char *copy = malloc(size + 1); /* so that reading beyond is seen */

        memcpy(copy, bytes.data, size);
        assert_int_equal(crti_roster_decode(copy, size, &back), CRT_ERR_CORRUPT);
        crti_roster_fini(&back);
        free(copy);
    }
}

/* Any byte may be anything: it is decoded, or refused, and nothing else happens. */
static void a_roster_with_wrong_bytes_does_no_harm(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_member_t members[3];
    unsigned char left[3];
    crti_roster_t roster, back;

    fill(&roster, members, left);
    assert_int_equal(crti_roster_encode(&roster, &bytes), CRT_OK);
    for (size_t i = 0; i < bytes.size; i++)
        for (int bit = 0; bit < 8; bit++) {
            bytes.data[i] ^= (unsigned char)(1 << bit);
            if (crti_roster_decode(bytes.data, bytes.size, &back) == CRT_OK)
                assert_in_range(back.size, 1, CRTI_GROUP_SIZE);
            crti_roster_fini(&back);
            bytes.data[i] ^= (unsigned char)(1 << bit);
        }
}

static void an_arrival_comes_back_or_is_refused(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_arrival_t arrival = {.member = {.pid = 3, .address = ""},
                              .size = 4,
                              .rank = CRT_RANK_ANY,
                              .done = 12},
                   back;

    assert_int_equal(crti_arrival_encode(&arrival, &bytes), CRT_OK);
    assert_int_equal(crti_arrival_decode(bytes.data, bytes.size, &back), CRT_OK);
    assert_int_equal(back.rank, CRT_RANK_ANY);
    assert_int_equal(back.size, 4);
    assert_int_equal(back.done, 12);
    for (size_t size = 0; size < bytes.size; size++)
        assert_int_equal(crti_arrival_decode(bytes.data, size, &back), CRT_ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_roster_comes_back_as_it_was_written),
        cmocka_unit_test(a_roster_that_is_cut_off_is_refused),
        cmocka_unit_test(a_roster_with_wrong_bytes_does_no_harm),
        cmocka_unit_test(an_arrival_comes_back_or_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
