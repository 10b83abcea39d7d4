/* SPDX-License-Identifier: Apache-2.0 */
/* The simulation finds what it should: each planted fault (runtime/base/fault.h) within 200 seeds,
 * and the seed that found it finds it again, in exactly the same way.
 *
 * The scenarios are built once more with the faults in them; their directory is the argument.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/crt_base.h"

#include <cmocka.h>

static const char *directory;

/* Runs a scenario with `fault`; `variable` is CRT_SEEDS or CRT_SEED. Keeps the last 64 KiB of what
 * it prints. True: it failed. */
static bool run(const char *scenario, int fault, const char *variable, unsigned number,
                char *output, size_t size)
{
    char command[600], line[1000];
    FILE *pipe;
    size_t length = 0;

    snprintf(command, sizeof(command),
             "env -u CRT_SEED -u CRT_SEEDS CRT_FAULT=%d %s=%u '%s/sim_%s' 2>&1", fault,
             variable, number, directory, scenario);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    output[0] = '\0';
    while (fgets(line, sizeof(line), pipe)) {
        if (length + strlen(line) + 1 > size) {
            memmove(output, output + size / 2, length - size / 2 + 1);
            length -= size / 2;
        }
        strcpy(output + length, line);
        length += strlen(line);
    }
    return pclose(pipe) != 0;
}

/* What stands behind the last `label` in `text`, up to the end of its line. */
static void copy_after(const char *text, const char *label, char *out, size_t size)
{
    const char *found = NULL;

    for (const char *at = text; (at = strstr(at, label)); at++)
        found = at + strlen(label);
    assert_non_null(found);
    snprintf(out, size, "%.*s", (int)strcspn(found, "\n"), found);
}

static void check_fault(const char *scenario, int fault)
{
    static char output[65536], again[65536];
    char seed[40], hash[40], hash_again[40], why[400], why_again[400], label[80];

    assert_true(run(scenario, fault, "CRT_SEEDS", 200, output, sizeof(output)));
    copy_after(output, "CRT_SEED=", seed, sizeof(seed));
    copy_after(output, "hash ", hash, sizeof(hash));
    snprintf(label, sizeof(label), "seed %d: ", atoi(seed));
    copy_after(output, label, why, sizeof(why));
    printf("fault %d: %s finds it with seed %d: %s\n", fault, scenario, atoi(seed), why);
    for (int i = 0; i < 2; i++) {
        assert_true(
            run(scenario, fault, "CRT_SEED", (unsigned)atoi(seed), again, sizeof(again)));
        copy_after(again, "hash ", hash_again, sizeof(hash_again));
        copy_after(again, "FAILED: ", why_again, sizeof(why_again));
        assert_string_equal(hash, hash_again);
        assert_string_equal(why, why_again);
    }
}

static void a_session_that_delivers_a_duplicate_is_found(void **state)
{
    check_fault("session", 1);
}

static void an_owner_that_takes_too_many_registrations_back_is_found(void **state)
{
    check_fault("objects", 2);
}

static void an_actor_that_starts_again_under_its_old_incarnation_is_found(void **state)
{
    check_fault("control", 3);
}

/* One acknowledgement stands for what was lost. */
static void an_acknowledgement_of_what_was_lost_is_found(void **state)
{
    check_fault("session", 4);
}

static void a_stale_incarnation_that_a_process_takes_in_is_found(void **state)
{
    check_fault("session", 5);
}

static void a_first_copy_that_nobody_pins_is_found(void **state)
{
    check_fault("system", 6);
}

static void a_fence_that_nobody_waits_for_is_found(void **state)
{
    check_fault("control", 7);
}

static void a_copy_that_an_owner_does_not_wait_to_hear_of_is_found(void **state)
{
    check_fault("objects", 8);
}

static void a_byte_on_disk_that_nobody_looks_after_is_found(void **state)
{
    check_fault("spill", 9);
}

static void room_on_disk_that_is_given_back_too_soon_is_found(void **state)
{
    check_fault("spill", 10);
}

static void a_settle_that_failed_and_counts_is_found(void **state)
{
    check_fault("spill", 11);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_that_delivers_a_duplicate_is_found),
        cmocka_unit_test(an_owner_that_takes_too_many_registrations_back_is_found),
        cmocka_unit_test(an_actor_that_starts_again_under_its_old_incarnation_is_found),
        cmocka_unit_test(an_acknowledgement_of_what_was_lost_is_found),
        cmocka_unit_test(a_stale_incarnation_that_a_process_takes_in_is_found),
        cmocka_unit_test(a_first_copy_that_nobody_pins_is_found),
        cmocka_unit_test(a_fence_that_nobody_waits_for_is_found),
        cmocka_unit_test(a_copy_that_an_owner_does_not_wait_to_hear_of_is_found),
        cmocka_unit_test(a_byte_on_disk_that_nobody_looks_after_is_found),
        cmocka_unit_test(room_on_disk_that_is_given_back_too_soon_is_found),
        cmocka_unit_test(a_settle_that_failed_and_counts_is_found),
    };

    if (argc != 2)
        return 2;
    directory = argv[1];
    return cmocka_run_group_tests_name("sim faults", tests, NULL, NULL);
}
