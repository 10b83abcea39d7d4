/* SPDX-License-Identifier: Apache-2.0 */
/* Deaths: how soon those that wait for a process hear that it was killed.
 *
 *     deaths [--rounds N]
 *
 * Rows, each of --rounds (100) rounds, from kill -9 on:
 *     worker  until a call that the killed actor runs has failed
 *     owner   until the get of a ref has failed whose owner was killed: an actor that waits for a
 *             task, and has lent the driver the ref of its result
 */
#include <crt_define.h>

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "options.h"
#include "own_cluster.h"
#include "timing.h"

#define ROUNDS_MAX 10000

static int rounds = 100;

/* ---------------------------------------------------------------- in the workers */

CRT_DEFINE_TASK(sleeps)
{
    sleep(3600);
    return CRT_OK;
}

struct victim {
    int calls;
};

CRT_DEFINE_ACTOR(victim, struct victim)
{
    self->calls = 0;
    return CRT_OK;
}

CRT_DEFINE_METHOD(victim, pid)
{
    return crt_return(call, (int64_t)getpid());
}

CRT_DEFINE_METHOD(victim, stay)
{
    sleep(3600);
    return CRT_OK;
}

/* A list with the ref of what never ends. */
CRT_DEFINE_METHOD(victim, lend)
{
    crt_ref_t *ref = sleeps_submit(CRT_TASK_OPTIONS(.no_cpus = true));
    crt_arg_t item = crt_arg_ref(ref);
    crt_status_t status = crt_return(call, crt_list(&item, 1));

    crt_ref_drop(&ref);
    return status;
}

/* ---------------------------------------------------------------- rows */

static pid_t pid_of(crt_actor_t *actor)
{
    crt_ref_t *ref = victim_pid_call(actor, NULL);
    int64_t pid;

    CRT_CHECK(crt_get(ref, &pid));
    crt_ref_drop(&ref);
    return (pid_t)pid;
}

/* Kills the actor, and gets what then fails. */
static double until_heard(crt_actor_t *actor, crt_ref_t *ref, crt_status_t wanted)
{
    pid_t pid = pid_of(actor);
    double start = now_us();
    crt_status_t status;

    kill(pid, SIGKILL);
    status = crt_get(ref, NULL);
    start = now_us() - start;
    if (status != wanted) {
        fprintf(stderr, "deaths: %s, not %s\n", crt_status_name(status),
                crt_status_name(wanted));
        exit(1);
    }
    return start;
}

static crt_actor_t *new_victim(void)
{
    return victim_new(CRT_ACTOR_OPTIONS(.max_concurrency = 2));
}

static double worker(void)
{
    crt_actor_t *actor = new_victim();
    crt_ref_t *ref = victim_stay_call(actor, NULL);
    double us = until_heard(actor, ref, CRT_ERR_ACTOR_DIED);

    crt_ref_drop(&ref);
    crt_actor_drop(&actor);
    return us;
}

static double owner(void)
{
    crt_actor_t *actor = new_victim();
    crt_ref_t *ref = victim_lend_call(actor, NULL), *lent;
    const crt_value_t *list;
    double us;

    CRT_CHECK(crt_get(ref, &list));
    CRT_CHECK(crt_value_read(crt_value_at(list, 0), &lent));
    lent = crt_ref_keep(lent);
    crt_ref_drop(&ref);
    us = until_heard(actor, lent, CRT_ERR_OWNER_DIED);
    crt_ref_drop(&lent);
    crt_actor_drop(&actor);
    return us;
}

static void measure(const char *name, double (*row)(void))
{
    double us[ROUNDS_MAX];

    for (int i = 0; i < rounds; i++)
        us[i] = row();
    (void)median(us, rounds);
    printf("%-8s median %8.2f ms, 99 %% %8.2f ms, most %8.2f ms, %d rounds\n", name,
           us[rounds / 2] / 1e3, us[rounds * 99 / 100] / 1e3, us[rounds - 1] / 1e3,
           rounds);
}

static int driver(int argc, char **argv)
{
    measure("worker", worker);
    measure("owner", owner);
    return 0;
}

int main(int argc, char **argv)
{
    use_own_cluster();
    TAKE_OPTIONS(argc, argv, OPTION("rounds", rounds, 1, ROUNDS_MAX));
    return crt_main(argc, argv, NULL, driver);
}
