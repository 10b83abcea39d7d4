/* SPDX-License-Identifier: Apache-2.0 */
/* Actors end when nobody has a handle of them any more, wherever the handles were, and however
 * their holders ended. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <crt.h>

#include <cmocka.h>

#include "ok.h"

#define PATIENCE_MS 60000

/* ---------------------------------------------------------------- in the workers */

/* Writes a line into a file when it ends in order. */
typedef struct witness {
    char path[256];
    crt_actor_t *kept;
} witness_t;

static crt_status_t witness_create(void *self, crt_call_t *call)
{
    witness_t *w = self;
    const char *path;

    CRT_TRY(crt_args(call, &path));
    snprintf(w->path, sizeof(w->path), "%s", path);
    return CRT_OK;
}

static void witness_destroy(void *self)
{
    const witness_t *w = self;
    FILE *f = fopen(w->path, "a");

    if (!f)
        return;
    fputs("destroyed\n", f);
    fclose(f);
}

static crt_status_t nap_run(void *self, crt_call_t *call)
{
    int64_t ms;

    CRT_TRY(crt_args(call, &ms));
    usleep((useconds_t)ms * 1000);
    return crt_return(call, ms);
}

/* Keeps the handle beyond the call. */
static crt_status_t keep_run(void *self, crt_call_t *call)
{
    witness_t *w = self;
    const crt_value_t *list;
    crt_actor_t *actor;

    CRT_TRY(crt_arg_at(call, 0, &list));
    CRT_TRY(crt_value_read(crt_value_at(list, 0), &actor));
    crt_actor_drop(&w->kept);
    w->kept = crt_actor_keep(actor);
    return crt_return(call, (int64_t)getpid());
}

static const crt_method_t nap;
static crt_status_t call_kept_run(void *self, crt_call_t *call)
{
    witness_t *w = self;
    crt_ref_t *ref = crt_call(w->kept, &nap, 0);
    crt_status_t status = crt_get(ref, NULL);

    crt_ref_drop(&ref);
    return status;
}

static crt_status_t let_go_run(void *self, crt_call_t *call)
{
    crt_actor_drop(&((witness_t *)self)->kept);
    return CRT_OK;
}

static const crt_actor_class_t witness;

/* Makes one, and has no handle of it when it has returned. */
static crt_status_t make_run(void *self, crt_call_t *call)
{
    crt_actor_t *actor = crt_actor_new(&witness, NULL, ((witness_t *)self)->path);
    crt_status_t status = crt_return(call, actor);

    crt_actor_drop(&actor);
    return status;
}

static const crt_method_t nap =
    CRT_METHOD(.name = "nap", .run = nap_run, .signature = "int");
static const crt_method_t keep =
    CRT_METHOD(.name = "keep", .run = keep_run, .signature = "list");
static const crt_method_t call_kept =
    CRT_METHOD(.name = "call_kept", .run = call_kept_run, .signature = "");
static const crt_method_t let_go =
    CRT_METHOD(.name = "let_go", .run = let_go_run, .signature = "");
static const crt_method_t make =
    CRT_METHOD(.name = "make", .run = make_run, .signature = "");
static const crt_actor_class_t witness =
    CRT_ACTOR_CLASS(.name = "Witness", .size = sizeof(witness_t),
                    .create = witness_create, .signature = "string",
                    .destroy = witness_destroy,
                    .methods = CRT_METHODS(&nap, &keep, &call_kept, &let_go, &make));

static crt_status_t call_it_run(crt_call_t *call)
{
    crt_actor_t *actor;
    crt_ref_t *ref;
    crt_status_t status;

    CRT_TRY(crt_args(call, &actor));
    usleep(100000); /* the driver has dropped its own by then */
    ref = crt_call(actor, &nap, 3);
    status = crt_get(ref, NULL);
    crt_ref_drop(&ref);
    return status;
}
static const crt_task_t call_it =
    CRT_TASK(.name = "call_it", .run = call_it_run, .signature = "actor");

/* ---------------------------------------------------------------- in the tests */

static char path[64];

static crt_actor_t *new_witness(const crt_actor_options_t *options)
{
    return crt_actor_new(&witness, options, (const char *)path);
}

static int destroyed(void)
{
    FILE *f = fopen(path, "r");
    int lines = 0, c;

    while (f && (c = fgetc(f)) != EOF)
        lines += c == '\n';
    if (f)
        fclose(f);
    return lines;
}

static int64_t number(crt_ref_t *ref)
{
    int64_t value;

    OK(crt_get_for(ref, PATIENCE_MS, &value));
    crt_ref_drop(&ref);
    return value;
}

/* One that keeps the handle; its process. */
static int64_t hand_over(crt_actor_t *keeper, crt_actor_t *actor)
{
    crt_arg_t item = crt_arg_actor(actor);

    return number(crt_call(keeper, &keep, crt_list(&item, 1)));
}

static bool has_state(const char *id, const char *state)
{
    char *json = NULL, want[32];
    const char *at, *found;
    bool has = false;

    OK(crt_cluster_state("actors", &json));
    snprintf(want, sizeof(want), "\"state\":\"%s\"", state);
    at = strstr(json, id);
    found = at ? strstr(at, "\"state\":\"") : NULL;
    if (found)
        has = strncmp(found, want, strlen(want)) == 0;
    crt_free(json);
    return has;
}

static void ends(const char *id, int so_many)
{
    time_t end = time(NULL) + PATIENCE_MS / 1000;

    while (!has_state(id, "DEAD") || destroyed() < so_many) {
        if (time(NULL) > end)
            fail_msg("actor %s lives on, %d were destroyed", id, destroyed());
        usleep(2000);
    }
    assert_int_equal(destroyed(), so_many);
}

static void works(crt_actor_t *actor, const crt_method_t *method)
{
    crt_ref_t *ref = crt_call(actor, method);

    OK(crt_get_for(ref, PATIENCE_MS, NULL));
    crt_ref_drop(&ref);
}

/* Of the actor that the handle is dropped of. */
static const char *drop(crt_actor_t **actor)
{
    static char id[33];

    snprintf(id, sizeof(id), "%s", crt_actor_id(*actor));
    crt_actor_drop(actor);
    return id;
}

static int fresh_file(void **state)
{
    snprintf(path, sizeof(path), "/tmp/crt-lifetime-XXXXXX");
    close(mkstemp(path));
    return 0;
}

static int remove_file(void **state)
{
    return unlink(path);
}

static void it_ends_in_order_when_its_handle_is_dropped(void **state)
{
    const crt_actor_options_t *options =
        CRT_ACTOR_OPTIONS(.name = "mine", .max_restarts = -1);
    crt_actor_t *actor = new_witness(options), *other = crt_actor_keep(actor), *found;
    const char *id;

    OK(crt_actor_ready(actor, PATIENCE_MS));
    crt_actor_drop(&other); /* it has another one */
    assert_int_equal(number(crt_call(actor, &nap, 1)), 1);
    id = drop(&actor);
    ends(id, 1);
    assert_int_equal(crt_actor_find("mine", NULL, &witness, &found), CRT_ERR_NOT_FOUND);
    actor = new_witness(options); /* the name is free */
    OK(crt_actor_ready(actor, PATIENCE_MS));
    ends(drop(&actor), 2);
}

static void calls_that_were_made_are_answered_before(void **state)
{
    crt_actor_t *actor = new_witness(CRT_ACTOR_OPTIONS(.max_concurrency = 2));
    crt_ref_t *refs[10];
    const char *id;

    for (int i = 0; i < 10; i++)
        refs[i] = crt_call(actor, &nap, 10);
    OK(crt_tell(actor, &nap, 10));
    id = drop(&actor);
    for (int i = 0; i < 10; i++)
        assert_int_equal(number(refs[i]), 10);
    ends(id, 1);
}

static void one_that_nobody_ever_called_is_made_or_not_and_ends(void **state)
{
    crt_actor_t *actor =
        new_witness(CRT_ACTOR_OPTIONS(.name = "nowhere", .resources = "moon=1"));
    crt_actor_t *found;
    const char *id;

    OK(crt_actor_find("nowhere", NULL, &witness, &found)); /* the head knows it */
    crt_actor_drop(&found);
    id = drop(&actor);
    ends(id, 0); /* it had no process */
}

static void a_handle_in_an_argument_counts_while_it_is_kept(void **state)
{
    crt_actor_t *keeper = new_witness(NULL), *actor = new_witness(NULL);
    char id[33];

    snprintf(id, sizeof(id), "%s", crt_actor_id(actor));
    hand_over(keeper, actor);
    crt_actor_drop(&actor);
    works(keeper, &call_kept);
    assert_true(has_state(id, "ALIVE"));
    works(keeper, &let_go);
    ends(id, 1);
    ends(drop(&keeper), 2);
}

static void a_handle_in_a_call_under_way_counts(void **state)
{
    crt_actor_t *actor = new_witness(NULL);
    crt_ref_t *ref = crt_submit(&call_it, NULL, actor);
    const char *id = drop(&actor);

    OK(crt_get_for(ref, PATIENCE_MS, NULL));
    crt_ref_drop(&ref);
    ends(id, 1);
}

static void a_handle_in_a_result_and_in_an_object_counts(void **state)
{
    crt_actor_t *maker = new_witness(NULL), *actor;
    crt_ref_t *made = crt_call(maker, &make), *put;
    const crt_value_t *list;
    crt_arg_t item;
    char id[33];

    OK(crt_get_for(made, PATIENCE_MS, &actor));
    snprintf(id, sizeof(id), "%s", crt_actor_id(actor));
    item = crt_arg_actor(actor);
    put = crt_put(crt_list(&item, 1));
    crt_ref_drop(&made);
    OK(crt_get(put, &list));
    OK(crt_value_read(crt_value_at(list, 0), &actor));
    number(crt_call(actor, &nap, 0));
    crt_ref_drop(&put);
    ends(id, 1);
    ends(drop(&maker), 2);
}

static void a_handle_that_was_found_counts(void **state)
{
    crt_actor_t *actor = new_witness(CRT_ACTOR_OPTIONS(.name = "known")), *found, *again;

    OK(crt_actor_find("known", NULL, &witness, &found));
    crt_actor_drop(&actor);
    number(crt_call(found, &nap, 0));
    OK(crt_actor_find("known", NULL, &witness, &again));
    crt_actor_drop(&found);
    number(crt_call(again, &nap, 0));
    ends(drop(&again), 1);
}

static void a_holder_that_is_killed_holds_nothing(void **state)
{
    crt_actor_t *keeper = new_witness(NULL), *actor = new_witness(NULL);
    pid_t pid = (pid_t)hand_over(keeper, actor);
    char id[33];

    snprintf(id, sizeof(id), "%s", crt_actor_id(actor));
    crt_actor_drop(&actor);
    works(keeper, &call_kept);
    assert_int_equal(kill(pid, SIGKILL), 0);
    ends(id, 1);
    crt_actor_drop(&keeper);
}

static void a_detached_one_lives_on(void **state)
{
    crt_actor_t *actor = new_witness(CRT_ACTOR_OPTIONS(.name = "free", .detached = true)),
                *found;
    char id[33];

    snprintf(id, sizeof(id), "%s", crt_actor_id(actor));
    number(crt_call(actor, &nap, 0));
    crt_actor_drop(&actor);
    OK(crt_actor_find("free", NULL, &witness, &found));
    assert_string_equal(crt_actor_id(found), id);
    number(crt_call(found, &nap, 0));
    crt_actor_drop(&found);
    OK(crt_actor_find("free", NULL, &witness, &found));
    OK(crt_actor_kill(found, NULL));
    crt_actor_drop(&found);
}

static int driver(int argc, char **argv)
{
#define SENTENCE(f) cmocka_unit_test_setup_teardown(f, fresh_file, remove_file)
    const struct CMUnitTest tests[] = {
        SENTENCE(it_ends_in_order_when_its_handle_is_dropped),
        SENTENCE(calls_that_were_made_are_answered_before),
        SENTENCE(one_that_nobody_ever_called_is_made_or_not_and_ends),
        SENTENCE(a_handle_in_an_argument_counts_while_it_is_kept),
        SENTENCE(a_handle_in_a_call_under_way_counts),
        SENTENCE(a_handle_in_a_result_and_in_an_object_counts),
        SENTENCE(a_handle_that_was_found_counts),
        SENTENCE(a_holder_that_is_killed_holds_nothing),
        SENTENCE(a_detached_one_lives_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&call_it),
                                .classes = CRT_CLASSES(&witness), .num_cpus = 2,
                                .object_store_memory = 64 << 20),
                    driver);
}
