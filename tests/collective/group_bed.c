/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of members and what is expected of them. See group_bed.h. */
#include "group_bed.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"
#include "runtime/core/client/kv.h"
#include "runtime/net/message.h"
#include "saboteur.h"

const char *backend = "shm";
crt_actor_t *members[MEMBERS];

int rounds(const char *variable, int shm, int other)
{
    const char *text = getenv(variable);

    return text ? atoi(text) : strcmp(backend, "shm") == 0 ? shm : other;
}

crt_ref_t *join(int member, const char *name, int size, int rank, int timeout_ms)
{
    return crt_call(members[member], &member_join, 0, name, backend, size, rank,
                    timeout_ms);
}

void expect_failure(crt_ref_t *ref, crt_status_t status, const char *words)
{
    const char *text;
    crt_status_t got = failure_of(&ref, &text);

    if (got != status || !strstr(text, words))
        fail_msg("%s \"%s\", but expected %s \"%s\"", crt_status_name(got), text,
                 crt_status_name(status), words);
}

const char *id_of(int member)
{
    return crt_actor_id(members[member]);
}

int64_t pid_of(int member)
{
    crt_ref_t *ref = crt_call(members[member], &member_pid);
    int64_t pid;

    if (crt_get(ref, &pid) != CRT_OK)
        fail_msg("%s", crt_error_detail());
    crt_ref_drop(&ref);
    return pid;
}

crt_ref_t *operate(int member, int kind, int dtype, int count, int reduction, int root)
{
    return crt_call(members[member], &member_operate, 0, kind, dtype, count, reduction,
                    root, 0);
}

void rebuild_all(int count, int size)
{
    crt_ref_t *refs[MEMBERS];

    for (int i = 0; i < count; i++)
        refs[i] = crt_call(members[i], &member_rebuild, 0, size);
    expect_all_ok(refs, count);
}

void expect_sums(int count, double wanted)
{
    crt_ref_t *refs[MEMBERS];

    for (int i = 0; i < count; i++)
        refs[i] = crt_call(members[i], &member_sum, 0, 70000, 3);
    for (int i = 0; i < count; i++) {
        double sum = -1;

        if (crt_get(refs[i], &sum) != CRT_OK)
            fail_msg("member %d: %s", i, crt_error_detail());
        assert_true(sum == wanted);
        crt_ref_drop(&refs[i]);
    }
}

int count_keys(void)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_span_t list, key;
    int count = 0;

    assert_int_equal(crti_kv_keys("collective/", &storage, &list), CRT_OK);
    while (list.size && crti_list_unpack(&list, &key) == CRT_OK)
        count++;
    return count;
}

void await_keys(int count)
{
    uint64_t deadline = crti_now_ns() + 30 * CRTI_S;

    while (count_keys() < count) {
        if (crti_now_ns() > deadline)
            fail_msg("%d keys of groups, %d were expected", count_keys(), count);
        poll(NULL, 0, 5);
    }
}

/* ---------------------------------------------------------------- the driver */

static int start_members(void **state)
{
    members_start(members, 4);
    return 0;
}

static int stop_members(void **state)
{
    for (int i = 0; i < MEMBERS; i++)
        if (members[i])
            members_stop(&members[i], 1);
    return 0;
}

int group_bed_run(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    if (argc > 1)
        backend = argv[1];
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    return _cmocka_run_group_tests(backend, tests, count, start_members, stop_members);
}

int group_bed_main(int argc, char **argv, int (*driver)(int argc, char **argv))
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&member_class, &saboteur_class),
                                .num_cpus = 2, .object_store_memory = 64 << 20),
                    driver);
}
