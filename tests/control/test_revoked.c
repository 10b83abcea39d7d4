/* SPDX-License-Identifier: Apache-2.0 */
/* The file of ids that is written while the disk is full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/control/revoked.h"

typedef struct place {
    char folder[64], path[80];
} place_t;

static int set_up(void **state)
{
    place_t *p = calloc(1, sizeof(*p));

    if (!p)
        return -1;
    snprintf(p->folder, sizeof(p->folder), "/tmp/crt-revoked-XXXXXX");
    if (!mkdtemp(p->folder))
        return -1;
    snprintf(p->path, sizeof(p->path), "%s/revoked", p->folder);
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    place_t *p = *state;

    unlink(p->path);
    rmdir(p->folder);
    free(p);
    return 0;
}

static crti_id_t id_of(uint64_t n)
{
    return (crti_id_t){n + 1, ~n};
}

static size_t count(const crti_revoked_t *r)
{
    size_t cursor = 0, n = 0;
    crti_id_t id;

    while (crti_revoked_next(r, &cursor, &id))
        n++;
    return n;
}

static void
what_is_added_is_there_after_the_process_and_what_is_removed_is_not(void **state)
{
    const place_t *p = *state;
    crti_revoked_t *r;
    size_t cursor = 0;
    crti_id_t id;

    assert_int_equal(crti_revoked_open(p->path, &r), CRT_OK);
    assert_int_equal(count(r), 0);
    for (uint64_t i = 0; i < 10; i++)
        assert_true(crti_revoked_set(r, id_of(i), true));
    assert_true(crti_revoked_set(r, id_of(3), true)); /* as it should be */
    for (uint64_t i = 0; i < 9; i++)
        assert_true(crti_revoked_set(r, id_of(i), false));
    assert_true(crti_revoked_set(r, id_of(3), false));
    crti_revoked_free(r);
    assert_int_equal(crti_revoked_open(p->path, &r), CRT_OK);
    assert_true(crti_revoked_next(r, &cursor, &id));
    assert_true(crti_id_equal(id, id_of(9)));
    assert_false(crti_revoked_next(r, &cursor, &id));
    crti_revoked_free(r);
}

/* Its blocks are its own: nothing that is written later needs room. */
static void the_file_never_grows_and_refuses_what_it_has_no_place_for(void **state)
{
    const place_t *p = *state;
    struct stat before, after;
    crti_revoked_t *r;

    assert_int_equal(crti_revoked_open(p->path, &r), CRT_OK);
    assert_int_equal(stat(p->path, &before), 0);
    for (uint64_t i = 0; i < CRTI_REVOKED_MAX; i++)
        assert_true(crti_revoked_set(r, id_of(i), true));
    assert_false(crti_revoked_set(r, id_of(CRTI_REVOKED_MAX), true));
    assert_true(crti_revoked_set(r, id_of(77), false));
    assert_true(crti_revoked_set(r, id_of(CRTI_REVOKED_MAX), true));
    assert_int_equal(stat(p->path, &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    assert_int_equal(count(r), CRTI_REVOKED_MAX);
    crti_revoked_free(r);
}

static void without_a_file_nothing_is_remembered(void **state)
{
    const place_t *p = *state;
    crti_revoked_t *r = NULL;

    assert_int_equal(mkdir(p->path, 0700), 0);
    assert_int_equal(crti_revoked_open(p->path, &r), CRT_ERR_IO);
    assert_null(r);
    assert_false(crti_revoked_set(r, id_of(1), true));
    assert_int_equal(count(r), 0);
    rmdir(p->path);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_is_added_is_there_after_the_process_and_what_is_removed_is_not),
        TEST(the_file_never_grows_and_refuses_what_it_has_no_place_for),
        TEST(without_a_file_nothing_is_remembered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
