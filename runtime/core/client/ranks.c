/* SPDX-License-Identifier: Apache-2.0 */
/* Makes ranks, waits for them, and runs the driver in one. See ranks.h. */
#include "runtime/core/client/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/core/client/slow_waits.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"

#define GRACE_MS 300 /* for the death that made other ranks fail */
#define CAUSE_MS                                                                         \
    5000 /* for the result of a rank that has returned and is blamed by another */
#define KILLED_BY 128 /* exit statuses as shells have them */

static struct {
    int argc;
    char **argv;
    int (*driver)(int argc, char **argv);
    const crt_actor_class_t **classes; /* as long as the program */
    int rank, size;                    /* of this process */
    int (*leave)(void);                /* at the driver's end; may be NULL */
    /* in the driver */
    bool is_tagged;
    int count;
    crti_id_t actors[CRTI_RANKS_MAX]; /* by rank */
} ranks = {.rank = -1};

int crt_world_rank(void)
{
    return ranks.rank;
}

int crt_world_size(void)
{
    return ranks.size;
}

/* Constant while this process is in a cluster; "" else. */
static const char *own_node(void)
{
    crti_core_t *core = crti_enter();
    const char *node = core ? core->node_hex : "";

    if (core)
        crti_leave(core);
    return node;
}

/* ---------------------------------------------------------------- who has ended */

/* The head deletes keys below collective/JOB with the job. */
static void ended_key(int rank, char *key, size_t size)
{
    crti_core_t *core = crti_enter();

    snprintf(key, size, "collective/%s/ranks.ended/%d", core ? core->job_hex : "", rank);
    if (core)
        crti_leave(core);
}

static void tell_end(int rank)
{
    char key[160];

    ended_key(rank, key, sizeof(key));
    if (crt_kv_put(key, "1", 1, true) != CRT_OK)
        crti_log(CRTI_LOG_WARN, "ranks",
                 "the others are not told that rank %d has ended: %s", rank,
                 crt_error_detail());
}

bool crti_ranks_has_ended(int rank)
{
    char key[160];
    void *value = NULL;
    size_t size;
    bool has_ended;

    ended_key(rank, key, sizeof(key));
    has_ended = crt_kv_get(key, &value, &size) == CRT_OK;
    free(value);
    return has_ended;
}

/* ---------------------------------------------------------------- in a rank */

static _Thread_local bool is_driving; /* this thread runs the driver */

/* The driver has called exit. Another thread that does ends it in the middle of something. */
static void leave_at_exit(void)
{
    if (is_driving && !crti_is_forked())
        ranks.leave();
}

void crti_ranks_at_end(int (*leave)(void))
{
    if (!ranks.leave)
        atexit(leave_at_exit);
    ranks.leave = leave;
}

static crt_status_t place_run(void *self, crt_call_t *call)
{
    return crt_return(call, own_node());
}
static const crt_method_t rank_place =
    CRT_METHOD(.name = "place", .run = place_run, .signature = "");

/* Returns the exit status and, above its byte, 1 + the rank that is blamed for it. */
static crt_status_t run_run(void *self, crt_call_t *call)
{
    int result, blamed = -1;

    CRT_TRY(crt_args(call, &ranks.rank, &ranks.size));
    is_driving = true;
    result = ranks.driver(ranks.argc, ranks.argv);
    is_driving = false;
    if (ranks.leave)
        blamed = ranks.leave();
    return crt_return(call, (blamed + 1) << 8 | (result & 255));
}
static const crt_method_t rank_run =
    CRT_METHOD(.name = "run", .run = run_run, .signature = "int, int");

static const crt_actor_class_t rank_class =
    CRT_ACTOR_CLASS(.name = "crt.Rank", .methods = CRT_METHODS(&rank_place, &rank_run));

/* ---------------------------------------------------------------- what the program was given */

static crt_status_t add_class(crt_options_t *options)
{
    size_t count = 0;

    while (options->classes && options->classes[count])
        count++;
    free(ranks.classes); /* of a start before this one */
    ranks.classes = calloc(count + 2, sizeof(const crt_actor_class_t *));
    if (!ranks.classes)
        return crt_raise(CRT_ERR_NO_MEMORY, "%zu classes", count + 1);
    for (size_t i = 0; i < count; i++)
        ranks.classes[i] = options->classes[i];
    ranks.classes[count] = &rank_class;
    options->classes = ranks.classes;
    return CRT_OK;
}

crt_status_t crti_ranks_prepare(int argc, char **argv, crt_options_t *options,
                                int (*driver)(int argc, char **argv), int *count_out)
{
    const char *text = getenv("CRT_RANKS");
    crt_status_t status = add_class(options);
    long count = 0;
    char *end;

    ranks.argc = argc;
    ranks.argv = argv;
    ranks.driver = driver;
    ranks.is_tagged = getenv("CRT_TAG_OUTPUT") != NULL;
    if (text && getenv("CRT_RANKS_MARK"))
        unlink(getenv("CRT_RANKS_MARK")); /* crt run sees that this was called */
    if (status == CRT_OK && text) {
        count = strtol(text, &end, 10);
        if (*end || count < 1 || count > CRTI_RANKS_MAX)
            status = crt_raise(CRT_ERR_INVALID, "CRT_RANKS=%.40s is not 1 to %d", text,
                               CRTI_RANKS_MAX);
        options->no_log_to_driver = false; /* it is the program's own output */
        options->execute_workers = true;   /* each runs main itself, as with mpirun */
    }
    unsetenv("CRT_RANKS"); /* programs that a rank executes are programs of their own */
    unsetenv("CRT_TAG_OUTPUT");
    unsetenv("CRT_RANKS_MARK");
    *count_out = (int)count;
    return status;
}

/* ---------------------------------------------------------------- output */

int crti_ranks_find(crti_id_t actor)
{
    for (int i = 0; i < ranks.count; i++)
        if (crti_id_equal(ranks.actors[i], actor))
            return i;
    return -1;
}

void crti_ranks_print(int rank, bool is_stderr, const char *line, size_t size)
{
    FILE *to = is_stderr ? stderr : stdout;

    if (ranks.is_tagged)
        fprintf(to, "[1,%d]<%s>:", rank, is_stderr ? "stderr" : "stdout");
    fwrite(line, 1, size, to);
    putc('\n', to);
}

/* ---------------------------------------------------------------- making them */

typedef struct place {
    crt_actor_t *actor;
    crti_id_t id;
    char node[CRTI_ID_HEX];
} place_t;

/* This node's first, then node by node, so that neighbours are near. */
static int compare_places(const void *a, const void *b)
{
    const place_t *x = a, *y = b;
    int order = strcmp(x->node, y->node);

    if (order == 0)
        return crti_id_less(x->id, y->id) ? -1 : 1;
    if (strcmp(x->node, own_node()) == 0)
        return -1;
    return strcmp(y->node, own_node()) == 0 ? 1 : order;
}

static crt_status_t make_actors(place_t *places, crt_ref_t **refs, int count)
{
    crt_status_t status = CRT_OK;
    const char *node;

    for (int i = 0; i < count; i++) {
        places[i].actor = crt_actor_new(&rank_class, NULL);
        refs[i] = crt_call(places[i].actor, &rank_place);
    }
    for (int i = 0; i < count; i++) {
        if (status == CRT_OK)
            status = crt_get(refs[i], &node);
        crti_id_parse(crt_actor_id(places[i].actor), &places[i].id);
        if (status == CRT_OK)
            snprintf(places[i].node, sizeof(places[i].node), "%s", node);
        crt_ref_drop(&refs[i]);
    }
    return status;
}

static void start_ranks(place_t *places, crt_ref_t **refs, int count)
{
    crti_core_t *core;

    qsort(places, (size_t)count, sizeof(*places), compare_places);
    core = crti_enter();
    for (int i = 0; core && i < count; i++)
        ranks.actors[i] = places[i].id;
    ranks.count = count;
    if (core) {
        crti_slow_waits_end(core);
        crti_leave(core);
    }
    for (int i = 0; i < count; i++)
        refs[i] = crt_call(places[i].actor, &rank_run, i, count);
}

/* ---------------------------------------------------------------- waiting for them */

typedef struct outcome {
    int rank;        /* -1: nothing has failed */
    int exit_status; /* 0 to 255 */
    bool was_killed;
    int blamed; /* the rank whose end made this one fail; -1: none */
    char text[1200];
} outcome_t;

/* The node's report says how a process ended. */
static void read_death(const crt_error_t *error, outcome_t *o)
{
    static const char killed[] = " killed by signal ", left[] = " exited with status ";
    const char *found = strstr(error->text, killed);

    o->exit_status = 1;
    if (found) {
        o->was_killed = true;
        o->exit_status = KILLED_BY + atoi(found + strlen(killed));
    } else if ((found = strstr(error->text, left)) != NULL)
        o->exit_status = atoi(found + strlen(left)) & 255;
    snprintf(o->text, sizeof(o->text), "%s", error->text);
}

static void read_outcome(crt_ref_t *ref, int rank, outcome_t *o)
{
    const crt_error_t *error = crt_ref_error(ref);
    int returned = 0;

    *o = (outcome_t){.rank = rank, .blamed = -1};
    if (error) {
        read_death(error, o);
        return;
    }
    if (crt_get(ref, &returned) != CRT_OK)
        returned = 1;
    o->exit_status = returned & 255;
    o->blamed = (returned >> 8) - 1;
    snprintf(o->text, sizeof(o->text), "it ended with exit status %d", o->exit_status);
}

typedef struct waiting {
    crt_ref_t **refs; /* of those that run: the first `left` */
    int *rank_of;
    size_t *ready;
    int left;
} waiting_t;

/* The one that was killed or is blamed is reported rather than those which failed because of it;
 * else the first. */
static bool is_reported_instead(const outcome_t *o, const outcome_t *first)
{
    return o->exit_status && (first->rank < 0 || (o->was_killed && !first->was_killed) ||
                              o->rank == first->blamed);
}

/* Takes out those that have ended. */
static void take_ended(waiting_t *w, size_t ready_count, outcome_t *first)
{
    int kept = 0;
    outcome_t o;

    for (size_t i = 0; i < ready_count; i++) {
        size_t at = w->ready[i];

        read_outcome(w->refs[at], w->rank_of[at], &o);
        if (o.exit_status == 0 && w->left > 1)
            tell_end(o.rank);
        if (is_reported_instead(&o, first))
            *first = o;
        crt_ref_drop(&w->refs[at]);
    }
    for (int i = 0; i < w->left; i++) {
        if (!w->refs[i])
            continue;
        w->rank_of[kept] = w->rank_of[i];
        w->refs[kept++] = w->refs[i];
    }
    w->left = kept;
}

/* The rank that is blamed has returned, but its result may come later than that of the other. */
static void wait_for_cause(waiting_t *w, outcome_t *first)
{
    size_t count;

    for (int i = 0; i < w->left; i++)
        if (w->rank_of[i] == first->blamed &&
            crt_wait(&w->refs[i], 1, 1, CAUSE_MS, w->ready, &count) == CRT_OK) {
            w->ready[0] = (size_t)i;
            take_ended(w, 1, first);
            return;
        }
}

static void wait_all(waiting_t *w, outcome_t *first)
{
    size_t count;

    while (w->left && first->rank < 0) {
        crt_status_t status = crt_wait(w->refs, (size_t)w->left, 1, -1, w->ready, &count);

        if (status == CRT_OK)
            take_ended(w, count, first);
        else if (status != CRT_ERR_INTERRUPTED) {
            *first = (outcome_t){.rank = w->rank_of[0], .exit_status = 1, .blamed = -1};
            snprintf(first->text, sizeof(first->text), "%s", crt_error_detail());
        }
    }
    if (first->blamed >= 0)
        wait_for_cause(w, first);
    if (w->left && !first->was_killed) {
        crt_status_t status = crt_wait(w->refs, (size_t)w->left, (size_t)w->left,
                                       GRACE_MS, w->ready, &count);

        if (status == CRT_OK || status == CRT_ERR_TIMED_OUT)
            take_ended(w, count, first);
    }
}

int crti_ranks_run(int count)
{
    size_t room = (size_t)count;
    CRTI_AUTO(free) place_t *places = calloc(room, sizeof(*places));
    CRTI_AUTO(free) crt_ref_t **refs = calloc(room, sizeof(crt_ref_t *));
    CRTI_AUTO(free) int *rank_of = calloc(room, sizeof(*rank_of));
    CRTI_AUTO(free) size_t *ready = calloc(room, sizeof(*ready));
    waiting_t waiting = {refs, rank_of, ready, count};
    outcome_t first = {.rank = -1, .blamed = -1};

    if (!places || !refs || !rank_of || !ready) {
        fprintf(stderr, "crt: no memory for %d ranks\n", count);
        return 1;
    }
    if (make_actors(places, refs, count) != CRT_OK) {
        fprintf(stderr, "crt: not all of %d ranks began: %s\n", count,
                crt_error_detail());
        first.exit_status = 1;
    } else {
        start_ranks(places, refs, count);
        for (int i = 0; i < count; i++)
            rank_of[i] = i;
        wait_all(&waiting, &first);
    }
    if (first.rank >= 0)
        fprintf(stderr, "crt: rank %d of %d failed, which ends all: %s\n", first.rank,
                count, first.text);
    crt_refs_drop(refs, (size_t)waiting.left);
    for (int i = 0; i < count; i++)
        crt_actor_drop(&places[i].actor);
    return first.exit_status;
}
