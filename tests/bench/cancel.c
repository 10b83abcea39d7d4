/* SPDX-License-Identifier: Apache-2.0 */
/* Cancel, and calls of an actor that is busy: how soon each has its effect.
 *
 *     cancel [--rounds N]
 *
 * Rows, each of --rounds (100) rounds:
 *     cooperative  crt_cancel of a task that computes and asks crt_cancelled, until its call has
 *     ended: its result
 *                  is CRT_ERR_CANCELLED
 *     forced       the same, of one that never asks, with .force; and until its worker is gone
 *     queued       crt_cancel of each of 10,000 tasks behind taken processors, until all results
 *     are
 *                  CRT_ERR_CANCELLED (a tenth of the rounds)
 *     concurrent   a call to the second method of an actor with max_concurrency 2 while its first
 *     computes: 10 calls
 *                  in a round
 */
#include <crt.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options.h"
#include "own_cluster.h"
#include "timing.h"

#define ROUNDS_MAX 10000
#define QUEUED     10000
#define CALLS      10 /* of a round of `concurrent` */

static int rounds = 100;
static char directory[] = "/tmp/crt-bench-cancel-XXXXXX";

/* ---------------------------------------------------------------- in the workers */

/* Tells its process by a file. */
static void say_begun(const char *path)
{
    char other[200];
    FILE *f;

    snprintf(other, sizeof(other), "%s.new", path);
    f = fopen(other, "we");
    if (f) {
        fprintf(f, "%d", getpid());
        fclose(f);
        rename(other, path);
    }
}

static crt_status_t compute(crt_call_t *call)
{
    const char *path;

    CRT_TRY(crt_args(call, &path));
    say_begun(path);
    while (!crt_cancelled(call))
        continue;
    return CRT_OK;
}
static crt_status_t listens_run(crt_call_t *call)
{
    return compute(call);
}
static const crt_task_t listens =
    CRT_TASK(.name = "listens", .run = listens_run, .signature = "string");

static crt_status_t deaf_run(crt_call_t *call)
{
    const char *path;
    volatile int always = 1;

    CRT_TRY(crt_args(call, &path));
    say_begun(path);
    while (always)
        continue;
    return CRT_OK;
}
static const crt_task_t deaf =
    CRT_TASK(.name = "deaf", .run = deaf_run, .signature = "string");

static crt_status_t nothing_run(crt_call_t *call)
{
    return CRT_OK;
}
static const crt_task_t nothing =
    CRT_TASK(.name = "nothing", .run = nothing_run, .signature = "");

static crt_status_t first_run(void *self, crt_call_t *call)
{
    return compute(call);
}
static crt_status_t second_run(void *self, crt_call_t *call)
{
    return CRT_OK;
}
static const crt_method_t first =
    CRT_METHOD(.name = "first", .run = first_run, .signature = "string");
static const crt_method_t second =
    CRT_METHOD(.name = "second", .run = second_run, .signature = "");
static const crt_actor_class_t pair =
    CRT_ACTOR_CLASS(.name = "Pair", .methods = CRT_METHODS(&first, &second));

/* ---------------------------------------------------------------- rows */

static void check(bool is_right, const char *what)
{
    if (is_right)
        return;
    fprintf(stderr, "cancel: %s\n", what);
    exit(1);
}

static const char *new_path(void)
{
    static char path[100];
    static unsigned count;

    snprintf(path, sizeof(path), "%s/%u", directory, count++);
    return path;
}

/* Waits until the call that has that path runs; its process. */
static pid_t wait_for_begun(const char *path)
{
    int pid = 0;
    FILE *f;

    for (int i = 0; !(f = fopen(path, "re")); i++) {
        check(i < 100000, "a call does not begin");
        usleep(100);
    }
    check(fscanf(f, "%d", &pid) == 1, path);
    fclose(f);
    unlink(path);
    return pid;
}

static void must_be_cancelled(crt_ref_t **ref)
{
    check(crt_get(*ref, NULL) == CRT_ERR_CANCELLED, "a call is not cancelled");
    crt_ref_drop(ref);
}

static double cooperative(void)
{
    const char *path = new_path();
    crt_ref_t *ref = crt_submit(&listens, NULL, path);
    double start;

    wait_for_begun(path);
    start = now_us();
    CRT_CHECK(crt_cancel(ref, NULL));
    must_be_cancelled(&ref);
    return now_us() - start;
}

static double gone_us;

static double forced(void)
{
    const char *path = new_path();
    crt_ref_t *ref = crt_submit(&deaf, CRT_TASK_OPTIONS(.max_attempts = 1), path);
    pid_t pid = wait_for_begun(path);
    double start = now_us(), us;

    CRT_CHECK(crt_cancel(ref, CRT_CANCEL_OPTIONS(.force = true)));
    must_be_cancelled(&ref);
    us = now_us() - start;
    while (kill(pid, 0) == 0 || errno != ESRCH) {
        check(now_us() - start < 1e7, "a worker does not end");
        usleep(50);
    }
    gone_us = now_us() - start;
    return us;
}

static double forced_until_gone(void)
{
    (void)forced();
    return gone_us;
}

static double queued(void)
{
    static crt_ref_t *refs[QUEUED], *holders[64];
    int holder_count = (int)sysconf(_SC_NPROCESSORS_ONLN);
    double start, us;

    if (holder_count > 64)
        holder_count = 64;
    for (int i = 0; i < holder_count; i++) {
        const char *path = new_path();

        holders[i] = crt_submit(&listens, NULL, path);
        wait_for_begun(path);
    }
    for (int i = 0; i < QUEUED; i++)
        refs[i] = crt_submit(&nothing, NULL);
    start = now_us();
    for (int i = 0; i < QUEUED; i++)
        CRT_CHECK(crt_cancel(refs[i], NULL));
    for (int i = 0; i < QUEUED; i++)
        must_be_cancelled(&refs[i]);
    us = now_us() - start;
    for (int i = 0; i < holder_count; i++) {
        CRT_CHECK(crt_cancel(holders[i], NULL));
        must_be_cancelled(&holders[i]);
    }
    return us;
}

static crt_actor_t *busy;

static double concurrent(void)
{
    double start = now_us();

    for (int i = 0; i < CALLS; i++) {
        crt_ref_t *ref = crt_call(busy, &second);

        CRT_CHECK(crt_get(ref, NULL));
        crt_ref_drop(&ref);
    }
    return (now_us() - start) / CALLS;
}

static void measure(const char *name, int count, double (*body)(void))
{
    static double us[ROUNDS_MAX];

    for (int i = 0; i < count; i++)
        us[i] = body();
    (void)median(us, count);
    printf("%-20s median %10.1f us, 99 %% %10.1f us, most %10.1f us, %d rounds\n", name,
           us[count / 2], us[count * 99 / 100], us[count - 1], count);
    fflush(stdout);
}

static int driver(int argc, char **argv)
{
    const char *path = NULL;
    crt_ref_t *ref;

    check(mkdtemp(directory) != NULL, directory);
    measure("cooperative", rounds, cooperative);
    measure("forced", rounds, forced);
    measure("forced, worker gone", rounds, forced_until_gone);
    measure("queued, 10000", rounds / 10 + 1, queued);
    busy = crt_actor_new(&pair, CRT_ACTOR_OPTIONS(.max_concurrency = 2));
    path = new_path();
    ref = crt_call(busy, &first, path);
    wait_for_begun(path);
    measure("concurrent", rounds, concurrent);
    CRT_CHECK(crt_cancel(ref, NULL));
    must_be_cancelled(&ref);
    crt_actor_drop(&busy);
    rmdir(directory);
    return 0;
}

int main(int argc, char **argv)
{
    use_own_cluster();
    TAKE_OPTIONS(argc, argv, OPTION("rounds", rounds, 1, ROUNDS_MAX));
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&listens, &deaf, &nothing),
                                .classes = CRT_CLASSES(&pair)),
                    driver);
}
