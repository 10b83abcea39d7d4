/* SPDX-License-Identifier: Apache-2.0 */
/* Results that come when their call has failed already: what they carry is given back. The call
 * fails here, in the driver, while its method runs, as if its process could not be reached any
 * more. */
#include <crt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ok.h"
#include "runtime/core/calls/calls.h"
#include "runtime/core/process/entry.h"
#include "runtime/net/net.h"

#include <cmocka.h>

#define STORE_BYTES (32 << 20)
#define GIVEN_BYTES (1 << 20)
#define ROUNDS      48 /* more than the store holds */
#define PATIENCE_MS 60000

/* ---------------------------------------------------------------- in the worker */

enum { AS_RESULT, IN_LIST, BESIDE_BYTES, FORMS };

static crt_status_t return_ref(crt_call_t *call, crt_ref_t *ref, int64_t form)
{
    static char bytes[128 << 10]; /* makes a result that lies in the store */
    crt_arg_t items[] = {CRT_ARG(ref), CRT_ARG(((crt_bytes_t){bytes, sizeof(bytes)}))};

    if (form == AS_RESULT)
        return crt_return(call, ref);
    return crt_return(call, crt_list(items, form == IN_LIST ? 1 : 2));
}

/* Puts an object of its own and gives its ref away, when the pipe is closed. */
static crt_status_t giver_give_run(void *self, crt_call_t *call)
{
    CRTI_AUTO(free) char *bytes = calloc(1, GIVEN_BYTES);
    const char *path;
    int64_t form;
    FILE *file;
    crt_ref_t *ref;
    crt_status_t status;

    CRT_TRY(crt_args(call, &path, &form));
    file = fopen(path, "re");
    if (!file || !bytes)
        return crt_fail(call, CRT_ERR_IO, "no pipe %s", path);
    fgetc(file);
    fclose(file);
    ref = crt_put(((crt_bytes_t){bytes, GIVEN_BYTES}));
    if (crt_ref_error(ref))
        status =
            crt_fail(call, crt_ref_error(ref)->status, "%s", crt_ref_error(ref)->text);
    else
        status = return_ref(call, ref, form);
    crt_ref_drop(&ref);
    return status;
}
static const crt_method_t giver_give =
    CRT_METHOD(.name = "give", .run = giver_give_run, .signature = "string, int");

static const crt_actor_class_t giver_class =
    CRT_ACTOR_CLASS(.name = "Giver", .methods = CRT_METHODS(&giver_give));

/* ---------------------------------------------------------------- in the driver */

static void fail_call(const crt_ref_t *ref)
{
    crti_core_t *core = crti_enter();
    crti_net_loss_t loss = {
        .status = CRT_ERR_UNREACHABLE, .detail = "cut off", .handed = UINT64_MAX};

    assert_non_null(core);
    assert_non_null(ref->call);
    crti_pending_lost(ref->call, &loss);
    crti_leave(core);
}

/* By a pipe of its own: the method of an earlier call may still have another one open. */
static crt_ref_t *give(crt_actor_t *giver, const char *folder, int64_t form, bool is_lost)
{
    static unsigned count;
    char path[80];
    crt_ref_t *ref;
    FILE *end;

    snprintf(path, sizeof(path), "%s/%u", folder, count++);
    assert_int_equal(mkfifo(path, 0600), 0);
    ref = crt_call(giver, &giver_give, (const char *)path, form);
    end = fopen(path, "we"); /* opens when the method has opened it */
    assert_non_null(end);
    unlink(path);
    if (is_lost)
        fail_call(ref);
    fclose(end);
    return ref;
}

static void refs_in_late_results_are_given_back(void **state)
{
    crt_actor_t *giver = crt_actor_new(&giver_class, NULL);
    char folder[] = "/tmp/crt-late-XXXXXX";
    crt_ref_t *ref;

    assert_non_null(mkdtemp(folder));
    OK(crt_actor_ready(giver, PATIENCE_MS));
    for (int i = 0; i < ROUNDS; i++) {
        ref = give(giver, folder, i % FORMS, true);
        assert_int_equal(crt_get_for(ref, PATIENCE_MS, NULL), CRT_ERR_UNREACHABLE);
        crt_ref_drop(&ref);
    }
    for (int form = 0; form < FORMS; form++) {
        ref = give(giver, folder, form, false);
        OK(crt_get_for(ref, PATIENCE_MS, NULL));
        crt_ref_drop(&ref);
    }
    rmdir(folder);
    crt_actor_drop(&giver);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refs_in_late_results_are_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&giver_class), .num_cpus = 2,
                                .object_store_memory = STORE_BYTES),
                    driver);
}
