/* SPDX-License-Identifier: Apache-2.0 */
/* Calls while the head is away: an actor whose handle came in an argument is called where the
 * sender knew it to live; a place that is not true any more waits for the head, and nobody else is
 * called. And what is killed then. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ok.h"
#include "program.h"
#include "runtime/core/client/private_cluster.h"

#include <cmocka.h>

#define PATIENCE_MS 60000
#define SOON_MS     300 /* far less than a call needs, so that it shows that it waits */

static const crt_options_t program = {.struct_size = sizeof(program),
                                      .classes = PROGRAM_CLASSES,
                                      .tasks = PROGRAM_TASKS,
                                      .num_cpus = 2,
                                      .object_store_memory = 32 << 20};
static int argc_of_main;
static char **argv_of_main;
static crti_private_cluster_t cluster;

static int start(void **state)
{
    if (crti_private_cluster_start(&program, &cluster) == CRT_OK &&
        setenv("CRT_ADDRESS", cluster.address, 1) == 0 &&
        crt_init(argc_of_main, argv_of_main, &program) == CRT_OK)
        return 0;
    fprintf(stderr, "%s\n", crt_error_detail());
    return -1;
}

static int finish(void **state)
{
    crt_shutdown();
    crti_private_cluster_stop(&cluster);
    return 0;
}

/* From here on it answers nobody, until head_goes_on. */
static void stop_head(void)
{
    int status;

    assert_int_equal(kill(cluster.head.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(cluster.head.pid, &status, WUNTRACED), cluster.head.pid);
    assert_true(WIFSTOPPED(status));
}

static int head_goes_on(void **state)
{
    return kill(cluster.head.pid, SIGCONT);
}

static int64_t get_int(crt_ref_t *ref)
{
    int64_t value = 0;

    OK(crt_get_for(ref, PATIENCE_MS, &value));
    crt_ref_drop(&ref);
    return value;
}

static crt_actor_t *new_counter(int64_t first, int64_t max_restarts)
{
    crt_actor_t *counter = crt_actor_new(
        &counter_class, CRT_ACTOR_OPTIONS(.max_restarts = max_restarts), first);

    OK(crt_actor_ready(counter, PATIENCE_MS));
    return counter;
}

static crt_arg_t list_of(crt_actor_t *actor)
{
    static crt_arg_t item;

    item = crt_arg_actor(actor);
    return crt_list(&item, 1);
}

/* `caller` calls get of `called`, which it may never have heard of. */
static crt_ref_t *call_by(crt_actor_t *caller, crt_actor_t *called)
{
    return crt_call(caller, &counter_call_other, called, 0, caller);
}

static void a_handle_in_an_argument_is_called_without_the_head(void **state)
{
    crt_actor_t *caller = new_counter(1, 0), *called = new_counter(42, 0);

    stop_head();
    assert_int_equal(get_int(call_by(caller, called)), 42);
    assert_int_equal(get_int(call_by(caller, called)), 42);
    head_goes_on(NULL);
    assert_int_equal(get_int(call_by(caller, called)), 42);
    crt_actor_drop(&caller);
    crt_actor_drop(&called);
}

/* The place in the value is that of the first incarnation. */
static void a_place_of_an_incarnation_that_has_ended_waits_for_the_head(void **state)
{
    crt_actor_t *watchdog = new_counter(1, 0), *called = new_counter(7, 1);
    int64_t first = get_int(crt_call(called, &counter_pid));
    crt_ref_t *list = crt_put(list_of(called)), *call;

    call = crt_call(called, &counter_crash);
    assert_int_equal(crt_get_for(call, PATIENCE_MS, NULL), CRT_ERR_ACTOR_DIED);
    crt_ref_drop(&call);
    OK(crt_actor_ready(called, PATIENCE_MS));
    assert_int_not_equal(get_int(crt_call(called, &counter_pid)), first);
    stop_head();
    call = crt_submit(&t_get_listed, NULL, list);
    assert_int_equal(crt_get_for(call, SOON_MS, NULL), CRT_ERR_TIMED_OUT);
    head_goes_on(NULL);
    assert_int_equal(get_int(call), 7);
    crt_ref_drop(&list);
    crt_actor_drop(&watchdog);
    crt_actor_drop(&called);
}

/* The head has not confirmed it; it dies under a call while nobody can say what follows. */
static void a_call_in_flight_says_that_it_may_have_run(void **state)
{
    crt_actor_t *caller = new_counter(1, 0), *called = new_counter(3, 0);
    crt_ref_t *call;

    stop_head();
    assert_int_equal(get_int(crt_submit(&t_crash_listed, NULL, list_of(called))), 1);
    head_goes_on(NULL);
    call = call_by(caller, called);
    assert_int_equal(crt_get_for(call, PATIENCE_MS, NULL), CRT_ERR_ACTOR_DIED);
    crt_ref_drop(&call);
    crt_actor_drop(&caller);
    crt_actor_drop(&called);
}

typedef struct killing {
    pthread_t thread;
    crt_actor_t *actor;
    crt_status_t status;
} killing_t;

static void *kill_actor(void *argument)
{
    killing_t *k = argument;

    k->status = crt_actor_kill(k->actor, NULL);
    return NULL;
}

static void begin_killing(killing_t *k, crt_actor_t *actor)
{
    *k = (killing_t){.actor = actor};
    assert_int_equal(pthread_create(&k->thread, NULL, kill_actor, k), 0);
}

static bool is_killed_within(const killing_t *k, int ms)
{
    struct timespec end;
    int error;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += ms / 1000;
    end.tv_nsec += ms % 1000 * 1000000L;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    error = pthread_timedjoin_np(k->thread, NULL, &end);
    assert_true(error == 0 || error == ETIMEDOUT);
    return error == 0;
}

/* The head tells of a death before a slow disk has it: a head that is started again may not know of
 * it, and would restart the actor. */
static void the_kill_of_a_dead_actor_succeeds_when_the_head_has_written_it(void **state)
{
    crt_actor_t *dead = new_counter(3, 0);
    crt_ref_t *call = crt_call(dead, &counter_crash);
    killing_t killing;

    assert_int_equal(crt_get_for(call, PATIENCE_MS, NULL), CRT_ERR_ACTOR_DIED);
    assert_int_equal(crt_actor_ready(dead, PATIENCE_MS), CRT_ERR_ACTOR_DIED);
    stop_head();
    begin_killing(&killing, dead);
    assert_false(is_killed_within(&killing, SOON_MS));
    head_goes_on(NULL);
    assert_true(is_killed_within(&killing, PATIENCE_MS));
    OK(killing.status);
    crt_ref_drop(&call);
    crt_actor_drop(&dead);
}

static void the_kill_of_who_can_never_live_again_needs_no_head(void **state)
{
    crt_actor_t *named =
        crt_actor_new(&counter_class, CRT_ACTOR_OPTIONS(.name = "one"), 1);
    crt_actor_t *refused, *killed = new_counter(3, 0), *wrong;

    OK(crt_actor_ready(named, PATIENCE_MS));
    refused = crt_actor_new(&counter_class, CRT_ACTOR_OPTIONS(.name = "one"), 1);
    assert_int_equal(crt_actor_ready(refused, PATIENCE_MS), CRT_ERR_EXISTS);
    wrong = crt_actor_new(&counter_class, NULL, "not a number");
    OK(crt_actor_kill(killed, NULL));
    stop_head();
    OK(crt_actor_kill(killed, NULL));
    assert_int_equal(crt_actor_kill(refused, NULL), CRT_ERR_EXISTS); /* it never lived */
    assert_int_equal(crt_actor_kill(wrong, NULL), CRT_ERR_INVALID);
    head_goes_on(NULL);
    crt_actor_drop(&named);
    crt_actor_drop(&refused);
    crt_actor_drop(&killed);
    crt_actor_drop(&wrong);
}

/* ------------------------------------------------------------------ new drivers */

typedef struct newcomer {
    pid_t pid;
    FILE *said; /* its stderr */
} newcomer_t;

static newcomer_t start_newcomer(void)
{
    newcomer_t newcomer;
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    newcomer.pid = fork();
    if (newcomer.pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        execl("/proc/self/exe", argv_of_main[0], "join", NULL);
        _exit(127);
    }
    close(ends[1]);
    newcomer.said = fdopen(ends[0], "r");
    assert_non_null(newcomer.said);
    return newcomer;
}

/* True: a line of it has the text and the cluster's address. */
static bool says(const newcomer_t *newcomer, const char *text)
{
    char line[512];

    while (fgets(line, sizeof(line), newcomer->said))
        if (strstr(line, text) && strstr(line, cluster.address))
            return true;
    return false;
}

static int its_end(newcomer_t *newcomer)
{
    int status;

    assert_int_equal(waitpid(newcomer->pid, &status, 0), newcomer->pid);
    fclose(newcomer->said);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_new_driver_says_that_it_waits_for_the_head_and_when_it_is_back(void **state)
{
    struct timespec begin, end;
    newcomer_t newcomer;

    stop_head();
    clock_gettime(CLOCK_MONOTONIC, &begin);
    newcomer = start_newcomer();
    assert_true(says(&newcomer, "crt: no answer from cluster"));
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_in_range(end.tv_sec - begin.tv_sec, 1, 4);
    head_goes_on(NULL);
    assert_true(says(&newcomer, "crt: an answer from cluster"));
    assert_int_equal(its_end(&newcomer), 0);
}

static void a_new_driver_says_nothing_when_the_head_is_there(void **state)
{
    newcomer_t newcomer = start_newcomer();

    assert_false(says(&newcomer, "waiting"));
    assert_int_equal(its_end(&newcomer), 0);
}

/* The node knows that it has no head. */
static void a_new_driver_gives_up_with_the_command_that_helps(void **state)
{
    newcomer_t newcomer;

    kill(cluster.head.pid, SIGKILL);
    newcomer = start_newcomer();
    assert_true(says(&newcomer, "crt: the head can't be reached: cluster"));
    assert_true(
        says(&newcomer, "if it has ended, start it again with: crt start --head --port"));
    assert_int_equal(its_end(&newcomer), 1);
}

static int no_driver(int argc, char **argv)
{
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_handle_in_an_argument_is_called_without_the_head,
                                  head_goes_on),
        cmocka_unit_test_teardown(
            a_place_of_an_incarnation_that_has_ended_waits_for_the_head, head_goes_on),
        cmocka_unit_test_teardown(a_call_in_flight_says_that_it_may_have_run,
                                  head_goes_on),
        cmocka_unit_test_teardown(
            the_kill_of_a_dead_actor_succeeds_when_the_head_has_written_it, head_goes_on),
        cmocka_unit_test_teardown(the_kill_of_who_can_never_live_again_needs_no_head,
                                  head_goes_on),
        cmocka_unit_test(a_new_driver_says_nothing_when_the_head_is_there),
        cmocka_unit_test_teardown(
            a_new_driver_says_that_it_waits_for_the_head_and_when_it_is_back,
            head_goes_on),
        cmocka_unit_test(a_new_driver_gives_up_with_the_command_that_helps),
    };

    if (argc == 2 && strcmp(argv[1], "join") == 0)
        return crt_main(argc, argv, &program, no_driver);
    argc_of_main = argc;
    argv_of_main = argv;
    /* A worker of ours is this program, too: it stays in crt_init. */
    if (getenv("CRT_ZYGOTE_FD") || getenv("CRT_WORKER"))
        return crt_init(argc, argv, &program) != CRT_OK;
    return cmocka_run_group_tests(tests, start, finish);
}
