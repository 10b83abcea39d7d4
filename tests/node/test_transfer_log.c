/* SPDX-License-Identifier: Apache-2.0 */
/* The last transfers are kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "runtime/node/objects/transfer_log.h"

static crti_pull_requester_t requester(uint64_t request)
{
    return (crti_pull_requester_t){.process = {1, request % 3}, .request = request};
}

static void begin(crti_transfer_log_t *log, uint64_t request)
{
    crti_transfer_t transfer = {
        .size = request, .requester = requester(request), .begun_ns = request};

    crti_transfer_begun(log, &transfer);
}

static void the_newest_comes_first_and_ends_by_its_request(void **state)
{
    crti_transfer_log_t log = {0};

    assert_null(crti_transfer_at(&log, 0));
    crti_transfer_ended(&log, requester(7), CRT_OK, 9); /* not known: nothing */
    begin(&log, 1);
    begin(&log, 2);
    crti_transfer_ended(&log, requester(1), CRT_ERR_OBJECT_LOST, 50);
    assert_int_equal(crti_transfer_at(&log, 0)->size, 2);
    assert_int_equal(crti_transfer_at(&log, 0)->ended_ns, 0);
    assert_int_equal(crti_transfer_at(&log, 1)->ended_ns, 50);
    assert_int_equal(crti_transfer_at(&log, 1)->status, CRT_ERR_OBJECT_LOST);
    assert_null(crti_transfer_at(&log, 2));
    crti_transfer_log_fini(&log);
}

static void old_ones_make_room(void **state)
{
    crti_transfer_log_t log = {0};

    for (uint64_t i = 0; i < CRTI_TRANSFERS + 5; i++)
        begin(&log, i);
    crti_transfer_ended(&log, requester(3), CRT_OK, 50); /* it is gone */
    assert_int_equal(crti_transfer_at(&log, 0)->size, CRTI_TRANSFERS + 4);
    assert_int_equal(crti_transfer_at(&log, CRTI_TRANSFERS - 1)->size, 5);
    assert_null(crti_transfer_at(&log, CRTI_TRANSFERS));
    for (size_t i = 0; i < CRTI_TRANSFERS; i++)
        assert_int_equal(crti_transfer_at(&log, i)->ended_ns, 0);
    crti_transfer_log_fini(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_comes_first_and_ends_by_its_request),
        cmocka_unit_test(old_ones_make_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
