/* SPDX-License-Identifier: Apache-2.0 */
/* Supervisors: actors that make others and make them anew when they die. One for one: only the one
 * that died. All for one: the whole group. Too many deaths within a time end the supervisor itself,
 * and its own supervisor decides what then: so it escalates, up to the driver.
 *
 *     ./supervisor
 *     ./supervisor --deaths 10000     kills children so often, and counts what was restarted
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <crt_watch.h>

enum { CHILDREN = 3, ONE_FOR_ONE = 0, ALL_FOR_ONE = 1, LIMIT_MAX = 16 };

/* ---------------------------------------------------------------- a child */

struct worker {
    int64_t calls;
};

CRT_DEFINE_ACTOR(worker, struct worker)
{
    self->calls = 0;
    return CRT_OK;
}

CRT_DEFINE_METHOD(worker, crash)
{
    raise(SIGKILL);
    return CRT_OK;
}

/* ---------------------------------------------------------------- a supervisor */

struct supervisor {
    int64_t strategy, limit, depth,
        deaths; /* limit 0: none; depth 0: its children are workers */
    double window_s, died_at[LIMIT_MAX]; /* a ring of `limit` */
    crt_actor_t *children[CHILDREN];
};

static crt_status_t supervisor_start(struct supervisor *self, crt_call_t *call,
                                     int child);
static bool supervisor_is_beyond(struct supervisor *self);

CRT_DEFINE_ACTOR(supervisor, struct supervisor, (int64_t, strategy), (int64_t, limit),
                 (double, window_s), (int64_t, depth))
{
    *self = (struct supervisor){strategy, limit, depth, .window_s = window_s};
    if (limit < 0 || limit > LIMIT_MAX)
        return crt_fail(call, CRT_ERR_INVALID, "a limit of 0 (none) to %d", LIMIT_MAX);
    for (int i = 0; i < CHILDREN; i++)
        CRT_TRY(supervisor_start(self, call, i));
    return CRT_OK;
}

CRT_DEFINE_METHOD(supervisor, hear, (crt_notice_t, notice, crt_notice_t_type))
{
    int died = 0;

    while (died < CHILDREN &&
           strcmp(crt_actor_id(self->children[died]), notice.actor_id) != 0)
        died++;
    if (notice.kind != CRT_EVENT_ACTOR_END || died == CHILDREN)
        return CRT_OK; /* one that this supervisor has ended itself */
    self->deaths++;
    if (supervisor_is_beyond(self))
        return crt_actor_exit(call); /* its children end with it */
    for (int i = 0; i < CHILDREN; i++) {
        if (i != died && self->strategy == ONE_FOR_ONE)
            continue;
        if (i != died)
            CRT_TRY(crt_actor_kill(self->children[i], NULL));
        CRT_TRY(supervisor_start(self, call, i));
    }
    return CRT_OK;
}

/* Makes a child in the place of the one before, and watches it. */
static crt_status_t supervisor_start(struct supervisor *self, crt_call_t *call, int child)
{
    crt_status_t status;
    crt_actor_t *own;

    CRT_TRY(crt_actor_self(call, &own));
    crt_actor_drop(&self->children[child]);
    self->children[child] =
        self->depth ? supervisor_new(NULL, ONE_FOR_ONE, 2, 60.0, self->depth - 1)
                    : worker_new(NULL);
    status = crt_actor_watch(self->children[child], own, &supervisor_hear);
    crt_actor_drop(&own); /* a handle of its own would keep it alive */
    return status;
}

/* This death and `limit` before it were within the time. */
static bool supervisor_is_beyond(struct supervisor *self)
{
    double *oldest = &self->died_at[self->limit ? self->deaths % self->limit : 0];
    double before = *oldest;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    *oldest = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    return self->limit && self->deaths > self->limit && *oldest - before < self->window_s;
}

/* A child, and how many deaths it has heard of. */
CRT_DEFINE_METHOD(supervisor, child, (int64_t, index))
{
    return crt_return(call, self->children[index % CHILDREN]);
}

CRT_DEFINE_METHOD(supervisor, deaths)
{
    return crt_return(call, self->deaths);
}

/* ---------------------------------------------------------------- the driver */

static int64_t deaths_of(crt_actor_t *boss)
{
    crt_ref_t *ref = supervisor_deaths_call(boss, NULL);
    int64_t deaths;

    CRT_CHECK(crt_get(ref, &deaths));
    crt_ref_drop(&ref);
    return deaths;
}

/* The child that is there now; NULL: the supervisor has ended. */
static crt_actor_t *child_of(crt_actor_t *boss, int index)
{
    crt_ref_t *ref = supervisor_child_call(boss, NULL, index);
    crt_actor_t *child = NULL;

    if (crt_get(ref, &child) == CRT_OK)
        child = crt_actor_keep(child);
    crt_ref_drop(&ref);
    return child;
}

/* Ends a child, and waits until another one is in its place, or the supervisor has ended. */
static void crash(crt_actor_t *boss, int index)
{
    crt_actor_t *child = child_of(boss, index), *next = NULL;
    crt_ref_t *ended = crt_actor_ended(child), *ref = worker_crash_call(child, NULL);

    CRT_CHECK(crt_get(ended, NULL));
    do {
        crt_actor_drop(&next);
        next = child_of(boss, index);
    } while (next && strcmp(crt_actor_id(next), crt_actor_id(child)) == 0);
    crt_ref_drop(&ended);
    crt_ref_drop(&ref);
    crt_actor_drop(&child);
    crt_actor_drop(&next);
}

static void show_strategy(const char *name, int64_t strategy)
{
    crt_actor_t *boss = supervisor_new(NULL, strategy, 2, 60.0, 0);
    crt_actor_t *before[CHILDREN], *after[CHILDREN];
    int changed = 0;

    for (int i = 0; i < CHILDREN; i++)
        before[i] = child_of(boss, i);
    crash(boss, 1);
    for (int i = 0; i < CHILDREN; i++) {
        after[i] = child_of(boss, i);
        changed += strcmp(crt_actor_id(before[i]), crt_actor_id(after[i])) != 0;
        crt_actor_drop(&before[i]);
        crt_actor_drop(&after[i]);
    }
    printf("%s: one has died, %d of %d are new\n", name, changed, CHILDREN);
    crt_actor_drop(&boss);
}

/* A group may lose two, and its supervisor one group. */
static void show_escalation(void)
{
    crt_actor_t *root = supervisor_new(NULL, ONE_FOR_ONE, 1, 60.0, 1);
    crt_ref_t *ended = crt_actor_ended(root);
    crt_notice_t notice;

    for (int groups = 1; groups <= 2; groups++) {
        crt_actor_t *group = child_of(root, 0);

        for (int i = 0; i < 3; i++)
            crash(group, 0);
        printf("group %d has lost three, and its supervisor has ended\n", groups);
        while (groups == 1 && deaths_of(root) < 1)
            continue;
        crt_actor_drop(&group);
    }
    CRT_CHECK(crt_get_typed(ended, CRT_FOREVER, &crt_notice_t_type, &notice));
    puts("two groups were lost, and so the supervisor of all has ended");
    crt_ref_drop(&ended);
    crt_actor_drop(&root);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* All children at once, again and again. */
static int count_deaths(int64_t wanted)
{
    crt_actor_t *boss = supervisor_new(NULL, ONE_FOR_ONE, 0, 0.0, 0);
    double began = now_s();
    int64_t killed = 0, heard;

    while (killed < wanted) {
        int64_t target = killed + CHILDREN < wanted ? killed + CHILDREN : wanted;

        for (int i = 0; killed < target; i++, killed++) {
            crt_actor_t *child = child_of(boss, i);

            crt_ref_t *ref = worker_crash_call(child, NULL);

            crt_ref_drop(&ref);
            crt_actor_drop(&child);
        }
        while (deaths_of(boss) < killed)
            continue;
    }
    heard = deaths_of(boss);
    printf("%lld deaths, %lld restarts\n", (long long)killed, (long long)heard);
    fprintf(stderr, "%.0f per second\n", (double)killed / (now_s() - began));
    crt_actor_drop(&boss);
    return heard == killed ? 0 : 1;
}

static int driver(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--deaths") == 0)
        return count_deaths(atoll(argv[2]));
    show_strategy("one for one", ONE_FOR_ONE);
    show_strategy("all for one", ALL_FOR_ONE);
    show_escalation();
    return 0;
}

CRT_MAIN(driver)
