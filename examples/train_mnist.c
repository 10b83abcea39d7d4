/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a network that reads handwritten digits, with a parameter server and data
 * workers, or with trainers that sum their gradients among themselves.
 *
 *     train_mnist --data DIR|builtin --mode sync|async|allreduce|sharded --workers N --iterations N
 *     ...
 *
 * sync: every iteration each worker computes a gradient of the same weights, the server
 * sums them and makes one update. async: the server makes one update of each gradient as
 * it comes, and that worker goes on with the new weights; workers x iterations updates.
 * The driver hands refs around; weights and gradients never pass through it, except the
 * weights it evaluates.
 *
 * allreduce: each trainer has its own copy of the weights; all make the same update with the
 * average of their gradients. The driver only says how far to train, and makes a new trainer
 * when one dies and --on-death replace is given.
 *
 * sharded: as sync, with several servers, each of which has a range of the weights: no link carries
 * all gradients. The updates are the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "train_mnist.h"

/* One run: who takes part, and what was measured. */
typedef struct training {
    crt_model_t *model; /* evaluates */
    crt_dataset_t *test;
    crt_ref_t *features, *labels;
    crt_placement_group_t *group; /* a CPU for each worker */
    crt_actor_t *server, *workers[WORKERS_MAX];
    crt_ref_t *weights;              /* the newest */
    crt_actor_t *shards[SHARDS_MAX]; /* sharded: instead of `server`, */
    crt_ref_t *slices[SHARDS_MAX];   /* and the newest weights of each */
    int points;                      /* of the curve */
    double evaluation_s, accuracy;
    report_t report;
    /* allreduce: a trainer that died and was not replaced is NULL */
    char hash[32]; /* of all replicas' weights */
    int died;
    double update_ms[2][2048]; /* with overlap, without: of each stretch */
    int stretches[2];
} training_t;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Says why a ref failed, and where, and ends the program. */
static void check_ref(crt_ref_t *ref)
{
    const crt_error_t *error = crt_ref_error(ref);

    if (!error)
        return;
    fprintf(stderr, "train_mnist: %s%s%s: %s: %s (actor %s, node %s, pid %lld)\n",
            error->class_name, *error->method ? "." : "an object", error->method,
            crt_status_text(error->status), error->text,
            *error->actor ? error->actor : "-", error->node, (long long)error->pid);
    exit(1);
}

void check(crt_status_t status, const char *what)
{
    if (status == CRT_OK)
        return;
    fprintf(stderr, "train_mnist: %s: %s: %s\n", what, crt_status_text(status),
            crt_error_detail());
    exit(1);
}

/* Waits for the weights, which also shows the failure of any call they come from. */
static const crt_tensor_t *get_weights(const training_t *t)
{
    const crt_tensor_t *weights = NULL;
    crt_status_t status = crt_get(t->weights, &weights);

    check_ref(t->weights);
    check(status, "weights");
    return weights;
}

/* For the cluster's metrics, and for crt job submit --sweep. */
static void report(const training_t *t)
{
    static crt_gauge_t *accuracy;

    if (accuracy == NULL)
        check(crt_gauge("accuracy", "Part of the test set that is told right.", NULL,
                        &accuracy),
              "metrics");
    crt_gauge_set(accuracy, t->accuracy);
}

static void evaluate(training_t *t, int iteration)
{
    const crt_tensor_t *weights = get_weights(t);
    double start = now_s();

    check(crt_model_accuracy(t->model, weights, t->test, &t->accuracy), "evaluation");
    if (iteration >= 0) {
        show_nothing();
        report_update(&t->report, t->model, weights, t->test, iteration, t->accuracy,
                      start - t->report.began - t->evaluation_s);
    }
    t->evaluation_s += now_s() - start;
    report(t);
    if (iteration < 0)
        return;
    show_nothing();
    if (options.json)
        printf("%s[%d, %.4f]", t->points++ ? ", " : "", iteration, t->accuracy);
    else
        printf("iteration %4d  accuracy: %.3f\n", iteration, t->accuracy);
    fflush(stdout);
}

static bool evaluates_at(int update)
{
    return options.eval_every > 0 && update % options.eval_every == 0;
}

static void train_sync(training_t *t)
{
    crt_ref_t *gradients[WORKERS_MAX];
    size_t count = (size_t)options.workers;

    for (int i = 0; i < options.iterations; i++) {
        crt_arg_t spread = crt_arg_each(gradients, count);

        for (size_t k = 0; k < count; k++)
            gradients[k] =
                crt_call(t->workers[k], crt_data_worker_compute_gradients(), t->weights);
        crt_ref_drop(&t->weights); /* the calls keep what they need */
        t->weights = crt_call(t->server, crt_parameter_server_apply_gradients(), spread);
        crt_refs_drop(gradients, count);
        get_weights(t); /* so that no work piles up and an error ends the loop */
        if (evaluates_at(i))
            evaluate(t, i);
    }
}

/* Gradients under way, oldest first, so that each worker gets its turn. */
typedef struct flight {
    crt_ref_t *gradients[WORKERS_MAX];
    crt_actor_t *workers[WORKERS_MAX];
    int updates[WORKERS_MAX]; /* that their weights have seen */
    size_t count;
} flight_t;

static void send_on(flight_t *f, crt_actor_t *worker, crt_ref_t *weights, int updates)
{
    f->gradients[f->count] =
        crt_call(worker, crt_data_worker_compute_gradients(), weights);
    f->updates[f->count] = updates;
    f->workers[f->count++] = worker;
}

/* Takes the oldest ready gradient off the list; the caller drops it. */
static crt_ref_t *take_ready(flight_t *f, crt_actor_t **worker_out, int *updates_out)
{
    size_t ready[WORKERS_MAX], count, at;
    crt_ref_t *gradient;

    check(crt_wait(f->gradients, f->count, 1, -1, ready, &count),
          "waiting for a gradient");
    at = ready[0];
    gradient = f->gradients[at];
    *worker_out = f->workers[at];
    *updates_out = f->updates[at];
    f->count--;
    memmove(&f->gradients[at], &f->gradients[at + 1], (f->count - at) * sizeof(gradient));
    memmove(&f->workers[at], &f->workers[at + 1], (f->count - at) * sizeof(*f->workers));
    memmove(&f->updates[at], &f->updates[at + 1], (f->count - at) * sizeof(*f->updates));
    check_ref(gradient);
    return gradient;
}

static void train_async(training_t *t)
{
    flight_t flight = {.count = 0};
    int updates = options.iterations * options.workers, sent = 0;

    for (; sent < options.workers && sent < updates; sent++)
        send_on(&flight, t->workers[sent], t->weights, 0);
    for (int i = 0; i < updates; i++) {
        crt_actor_t *worker;
        int seen;
        crt_ref_t *gradient = take_ready(&flight, &worker, &seen);

        report_late(&t->report, i - seen);
        crt_ref_drop(&t->weights);
        t->weights =
            crt_call(t->server, crt_parameter_server_apply_gradients(), gradient);
        crt_ref_drop(&gradient);
        if (sent++ < updates)
            send_on(&flight, worker, t->weights, i + 1);
        if (evaluates_at(i))
            evaluate(t, i);
    }
    get_weights(t);
}

/* ---------------------------------------------------------------- sharded */

/* The weights in one piece, for evaluation and --save. */
static void gather_weights(training_t *t)
{
    int64_t shape = (int64_t)crt_model_parameters(t->model);
    float *whole = malloc((size_t)shape * sizeof(float)), *to = whole;
    crt_tensor_t weights = crt_tensor_view(CRT_DTYPE_FLOAT32, 1, &shape, whole);

    if (!whole)
        check(CRT_ERR_NO_MEMORY, "weights");
    for (int s = 0; s < options.shards; s++) {
        const crt_tensor_t *slice = NULL;
        crt_status_t status = crt_get(t->slices[s], &slice);

        check_ref(t->slices[s]);
        check(status, "weights");
        memcpy(to, slice->data, crt_tensor_count(slice) * sizeof(float));
        to += crt_tensor_count(slice);
    }
    crt_ref_drop(&t->weights);
    t->weights = crt_put(&weights);
    free(whole);
}

/* What one worker computed: a list of refs, one for each shard, which are kept in `slices`. */
static void take_slices(crt_ref_t *computed, crt_ref_t **slices, size_t stride)
{
    const crt_value_t *list = NULL;
    crt_status_t status = crt_get(computed, &list);

    check_ref(computed);
    check(status, "gradient");
    for (int s = 0; s < options.shards; s++) {
        crt_ref_t *slice;

        check(crt_value_read(crt_value_at(list, (size_t)s), &slice), "slice");
        slices[(size_t)s * stride] = crt_ref_keep(slice);
    }
}

/* One update of all shards with slices[shard][worker]. */
static void update_shards(training_t *t, crt_ref_t **slices)
{
    crt_ref_t *squares[SHARDS_MAX];
    size_t shards = (size_t)options.shards, workers = (size_t)options.workers;

    for (size_t s = 0; s < shards; s++)
        squares[s] = crt_call(t->shards[s], crt_shard_server_measure(),
                              crt_arg_each(slices + s * workers, workers));
    for (size_t s = 0; s < shards; s++) {
        crt_ref_drop(&t->slices[s]);
        t->slices[s] = crt_call(t->shards[s], crt_shard_server_apply(),
                                crt_arg_each(squares, shards));
    }
    crt_refs_drop(squares, shards);
    crt_refs_drop(slices, shards * workers);
}

static void train_sharded(training_t *t)
{
    crt_ref_t *computed[WORKERS_MAX];
    size_t workers = (size_t)options.workers, shards = (size_t)options.shards;
    crt_ref_t **slices = calloc(shards * workers, sizeof(crt_ref_t *));

    if (!slices)
        check(CRT_ERR_NO_MEMORY, "slices");
    for (int i = 0; i < options.iterations; i++) {
        for (size_t k = 0; k < workers; k++)
            computed[k] = crt_call(t->workers[k], crt_data_worker_compute_slices(),
                                   crt_arg_each(t->slices, shards));
        for (size_t k = 0; k < workers; k++)
            take_slices(computed[k], slices + k, workers);
        crt_refs_drop(computed, workers);
        update_shards(t, slices);
        if (evaluates_at(i)) {
            gather_weights(t);
            evaluate(t, i);
        }
    }
    gather_weights(t);
    free(slices);
}

static void start_shards(training_t *t, const crt_model_spec_t *spec,
                         const crt_optimizer_options_t *adam)
{
    size_t count = crt_model_parameters(t->model);

    for (int s = 0; s < options.shards; s++) {
        crt_part_t part = crt_shard_part(count, s, options.shards);
        int64_t shape = (int64_t)part.count;
        crt_tensor_t slice =
            crt_tensor_view(CRT_DTYPE_FLOAT32, 1, &shape,
                            (float *)crt_model_weights(t->model)->data + part.first);
        crt_ref_t *done;

        t->shards[s] = crt_shard_server_new(NULL, spec, adam, part);
        done = crt_call(t->shards[s], crt_shard_server_set_weights(), &slice);
        crt_get(done, NULL);
        check_ref(done);
        crt_ref_drop(&done);
        t->slices[s] = crt_call(t->shards[s], crt_shard_server_get_weights());
    }
    gather_weights(t);
}

/* ---------------------------------------------------------------- where workers run */

/* All of them or none: half a gang would wait for ever, and keep its CPUs from others. */
static void reserve_cpus(training_t *t)
{
    crt_bundle_t bundles[WORKERS_MAX];

    for (int i = 0; i < options.workers; i++)
        bundles[i] = CRT_BUNDLE(.num_cpus = 1);
    t->group = crt_placement_group_new(
        bundles, (size_t)options.workers,
        CRT_PLACEMENT_GROUP_OPTIONS(.if_infeasible = CRT_INFEASIBLE_FAILS));
    check(crt_placement_group_wait(t->group, -1), "a CPU for each worker");
}

/* ---------------------------------------------------------------- allreduce */

#define GROUP    "train_mnist"
#define READY_MS 10000 /* for the cluster to say whether an actor died */
#define JOINS    5

static crt_actor_t *new_trainer(training_t *t, int number)
{
    int widths[] = {crt_dataset_width(t->test), options.hidden, options.hidden,
                    crt_dataset_classes(t->test), 0};
    crt_optimizer_options_t adam = crt_adam_options(options.lr);
    crt_model_spec_t spec =
        CRT_MODEL_SPEC(.widths = widths, .dropout = options.dropout,
                       .seed = options.seed * 1000 + (uint64_t)number + 1);
    crt_data_spec_t data =
        CRT_DATA_SPEC(.features = t->features, .labels = t->labels,
                      .classes = crt_dataset_classes(t->test), .shard = number,
                      .shards = options.workers, .batch_size = options.batch);
    crt_actor_t *trainer = crt_trainer_new(
        CRT_ACTOR_OPTIONS(.num_cpus = 1, CRT_IN_BUNDLE(t->group, number)), &spec, &data,
        CRT_REPLICA_OPTIONS(.optimizer = &adam, .sharded = options.sharded,
                            .bfloat16 = options.bfloat16,
                            .bucket_bytes = (size_t)options.bucket));
    crt_ref_t *set =
        crt_call(trainer, crt_trainer_set_weights(), crt_model_weights(t->model));

    crt_ref_drop(&set); /* a failure also fails what comes after it */
    return trainer;
}

/* A trainer died: with --on-death replace there is a new one in its place, which has not joined. */
static void bury(training_t *t, int number, const crt_error_t *error)
{
    fprintf(stderr, "train_mnist: trainer %d died: %s\n", number, error->text);
    t->died++;
    crt_actor_drop(&t->workers[number]);
    if (options.on_death == CRT_DEATH_REPLACES)
        t->workers[number] = new_trainer(t, number);
}

/* Whether the end of another trainer may be why one could not join. */
static bool is_of_another(crt_status_t status)
{
    return status <= CRT_ERR_ACTOR_DIED || status == CRT_ERR_CANCELLED ||
           status == CRT_ERR_CLOSED;
}

/* Why a trainer could not join: it died, or another one did. */
static void judge_joining(training_t *t, int number, crt_ref_t *joined)
{
    const crt_error_t *error = crt_ref_error(joined);

    if (!error)
        return;
    if (!is_of_another(error->status) || options.on_death == CRT_DEATH_FAILS)
        check_ref(joined);
    if (crt_actor_ready(t->workers[number], READY_MS) != CRT_OK)
        bury(t, number, error);
}

/* All trainers into one group, which is declared so that one that dies before it joins ends the
 * joining of the others. False: one died, and the others are to join anew. */
static bool join_trainers(training_t *t)
{
    crt_ref_t *joined[WORKERS_MAX] = {NULL};
    crt_actor_t *members[WORKERS_MAX];
    int size = 0, rank = 0;
    bool have_joined = true;

    for (int i = 0; i < options.workers; i++)
        if (t->workers[i])
            members[size++] = t->workers[i];
    if (size == 0)
        return false;
    check(crt_group_declare(members, NULL, size, CRT_GROUP_OPTIONS(.name = GROUP)),
          "the group of the trainers");
    for (int i = 0; i < options.workers; i++)
        if (t->workers[i])
            joined[i] = crt_call(t->workers[i], crt_trainer_join(), GROUP, size, rank++);
    for (int i = 0; i < options.workers; i++)
        if (joined[i])
            have_joined &= crt_get(joined[i], NULL) == CRT_OK;
    for (int i = 0; i < options.workers; i++)
        if (joined[i])
            judge_joining(t, i, joined[i]);
    crt_refs_drop(joined, (size_t)options.workers);
    return have_joined;
}

static void start_trainers(training_t *t)
{
    int attempts = 0;

    for (int i = 0; i < options.workers; i++)
        t->workers[i] = new_trainer(t, i);
    while (!join_trainers(t))
        if (++attempts == JOINS) {
            fprintf(stderr, "train_mnist: trainers died in each of %d beginnings\n",
                    JOINS);
            exit(1);
        }
}

static crt_ref_t *call_train(const training_t *t, int number, int steps, bool at_end)
{
    return crt_call(t->workers[number], crt_trainer_train(), steps, (int)options.on_death,
                    at_end);
}

/* A trainer died: the others go on. With --on-death replace a new one joins them and trains, which
 * is the new ref. */
static crt_ref_t *replace(training_t *t, int number, crt_ref_t *failed, int steps,
                          bool at_end)
{
    const crt_error_t *error = crt_ref_error(failed);
    crt_ref_t *joined;

    if (error->status > CRT_ERR_ACTOR_DIED || options.on_death == CRT_DEATH_FAILS)
        check_ref(failed);
    bury(t, number, error);
    crt_ref_drop(&failed);
    if (!t->workers[number])
        return NULL;
    joined = crt_call(t->workers[number], crt_trainer_join(), GROUP, options.workers,
                      CRT_RANK_ANY);
    crt_ref_drop(&joined);
    return call_train(t, number, steps, at_end);
}

/* What one trainer said: its hash must be that of the others. */
static double read_answer(training_t *t, crt_ref_t *ref)
{
    const crt_value_t *map;
    const char *hash;
    double seconds;

    check(crt_get(ref, &map), "training");
    check(crt_value_read(crt_value_find(map, "hash"), &hash), "hash");
    check(crt_value_read(crt_value_find(map, "seconds"), &seconds), "seconds");
    if (t->hash[0] && strcmp(hash, t->hash) != 0) {
        fprintf(stderr, "train_mnist: replicas differ: %s and %s\n", hash, t->hash);
        exit(1);
    }
    snprintf(t->hash, sizeof(t->hash), "%s", hash);
    return seconds;
}

/* All trainers to that many steps; gives the seconds of the slowest. */
static double train_to(training_t *t, int steps, bool at_end)
{
    crt_ref_t *refs[WORKERS_MAX];
    int who[WORKERS_MAX];
    size_t count = 0, ready[WORKERS_MAX], ready_count;
    double slowest = 0;

    t->hash[0] = 0;
    for (int i = 0; i < options.workers; i++)
        if (t->workers[i]) {
            who[count] = i;
            refs[count++] = call_train(t, i, steps, at_end);
        }
    while (count > 0) {
        size_t at;

        check(crt_wait(refs, count, 1, -1, ready, &ready_count), "training");
        at = ready[0];
        if (crt_ref_error(refs[at])) {
            refs[at] = replace(t, who[at], refs[at], steps, at_end);
        } else {
            double seconds = read_answer(t, refs[at]);

            slowest = seconds > slowest ? seconds : slowest;
            crt_ref_drop(&refs[at]);
        }
        if (!refs[at]) {
            refs[at] = refs[--count];
            who[at] = who[count];
        }
    }
    return slowest;
}

/* The weights are the same everywhere: from any trainer that lives. */
static void fetch_weights(training_t *t)
{
    for (int i = 0; i < options.workers; i++) {
        if (!t->workers[i])
            continue;
        crt_ref_drop(&t->weights);
        t->weights = crt_call(t->workers[i], crt_trainer_get_weights());
        if (crt_get(t->weights, NULL) == CRT_OK)
            return;
    }
    get_weights(t); /* says why there are none */
}

static void train_allreduce(training_t *t)
{
    int stretch = options.eval_every        ? options.eval_every
                  : options.overlap == BOTH ? 20
                                            : options.iterations;
    int steps = 0, turn = 0;

    while (steps < options.iterations) {
        int next = steps == 0 && options.eval_every ? 1 : steps + stretch;
        bool at_end =
            options.overlap == OFF || (options.overlap == BOTH && turn++ % 2 == 1);
        double seconds;
        int made;

        next = next < options.iterations ? next : options.iterations;
        made = next - steps;
        seconds = train_to(t, next, at_end);
        steps = next;
        if (made > 1 && t->stretches[at_end] < 2048)
            t->update_ms[at_end][t->stretches[at_end]++] = seconds / made * 1e3;
        if (evaluates_at(steps - 1)) {
            fetch_weights(t);
            evaluate(t, steps - 1);
        }
    }
    fetch_weights(t);
}

/* Of the stretches with or without overlap; 0 when there were none. */
static double median_ms(training_t *t, bool at_end)
{
    return report_median(t->update_ms[at_end], (size_t)t->stretches[at_end]);
}

/* ---------------------------------------------------------------- all modes */

/* The training data go into the store once; workers on every node map them from there. */
static void open_data(training_t *t)
{
    crt_dataset_t *train;

    check(crt_dataset_open(options.data, CRT_SPLIT_TRAIN, &train), "training data");
    check(crt_dataset_open(options.data, CRT_SPLIT_TEST, &t->test), "test data");
    if (crt_dataset_count(train) < (size_t)options.workers) {
        fprintf(stderr, "train_mnist: %zu samples for %d workers\n",
                crt_dataset_count(train), options.workers);
        exit(1);
    }
    if (options.epochs) { /* of rounds in which each worker computes a gradient */
        size_t round = (size_t)options.batch * (size_t)options.workers;
        size_t samples = (size_t)options.epochs * crt_dataset_count(train);

        options.iterations = (int)((samples + round - 1) / round);
    }
    t->features = crt_put(crt_dataset_features(train));
    t->labels = crt_put(crt_dataset_labels(train));
    check_ref(t->features);
    check_ref(t->labels);
    crt_dataset_drop(&train);
}

static void start_server(training_t *t, const crt_model_spec_t *spec,
                         const crt_optimizer_options_t *adam)
{
    t->server = crt_parameter_server_new(NULL, spec, adam);
    if (options.load) {
        crt_ref_t *done = crt_call(t->server, crt_parameter_server_set_weights(),
                                   crt_model_weights(t->model));

        crt_get(done, NULL);
        check_ref(done);
        crt_ref_drop(&done);
    }
    t->weights = crt_call(t->server, crt_parameter_server_get_weights());
    get_weights(t);
}

static void start_actors(training_t *t)
{
    int widths[] = {crt_dataset_width(t->test), options.hidden, options.hidden,
                    crt_dataset_classes(t->test), 0};
    crt_model_spec_t spec = CRT_MODEL_SPEC(.widths = widths, .dropout = options.dropout,
                                           .seed = options.seed);
    crt_optimizer_options_t adam = crt_adam_options(options.lr);
    crt_data_spec_t data =
        CRT_DATA_SPEC(.features = t->features, .labels = t->labels,
                      .classes = crt_dataset_classes(t->test), .shards = options.workers,
                      .batch_size = options.batch);

    if (options.mode == SHARDED)
        start_shards(t, &spec, &adam);
    else
        start_server(t, &spec, &adam);
    for (int i = 0; i < options.workers; i++) {
        spec.seed = options.seed * 1000 + (uint64_t)i + 1;
        data.shard = i;
        t->workers[i] = crt_data_worker_new(
            CRT_ACTOR_OPTIONS(.num_cpus = 1, CRT_IN_BUNDLE(t->group, i)), &spec, &data);
    }
    for (int i = 0; i < options.workers; i++)
        check(crt_actor_ready(t->workers[i], -1), "data worker");
}

static void start(training_t *t)
{
    int widths[] = {crt_dataset_width(t->test), options.hidden, options.hidden,
                    crt_dataset_classes(t->test), 0};

    check(crt_mlp_new(widths, options.dropout, options.seed, &t->model), "model");
    if (options.load)
        check(crt_model_load(t->model, options.load), "--load");
    reserve_cpus(t);
    if (options.mode == ALLREDUCE)
        start_trainers(t);
    else
        start_actors(t);
}

static void train(training_t *t)
{
    switch (options.mode) {
    case SYNC: train_sync(t); break;
    case ASYNC: train_async(t); break;
    case ALLREDUCE: train_allreduce(t); break;
    case SHARDED: train_sharded(t); break;
    }
}

static void save(training_t *t)
{
    check(crt_model_set_weights(t->model, get_weights(t)), "weights");
    check(crt_model_save(t->model, options.save), "--save");
}

static void finish(training_t *t)
{
    crt_ref_drop(&t->weights);
    crt_ref_drop(&t->features);
    crt_ref_drop(&t->labels);
    for (int i = 0; i < options.workers; i++)
        if (t->workers[i])
            crt_actor_drop(&t->workers[i]);
    if (t->server)
        crt_actor_drop(&t->server);
    for (int s = 0; s < options.shards && t->shards[s]; s++) {
        crt_ref_drop(&t->slices[s]);
        crt_actor_drop(&t->shards[s]);
    }
    crt_placement_group_drop(&t->group);
    crt_model_drop(&t->model);
    crt_dataset_drop(&t->test);
}

static void print_result(training_t *t, double loop_s)
{
    int updates = options.iterations * (options.mode == ASYNC ? options.workers : 1);
    double with = median_ms(t, false), without = median_ms(t, true);

    if (options.json)
        printf(
            "], \"mode\": \"%s\", \"workers\": %d, \"iterations\": %d, \"updates\": %d, "
            "\"batch\": %d, \"hidden\": %d, \"seed\": %llu, \"loop_seconds\": %.4f, "
            "\"evaluation_seconds\": %.4f, \"final_accuracy\": %.4f, \"hash\": \"%s\", "
            "\"died\": %d, \"update_ms_overlapped\": %.4f, \"update_ms_at_end\": %.4f}\n",
            options.mode_name, options.workers, options.iterations, updates,
            options.batch, options.hidden, (unsigned long long)options.seed, loop_s,
            t->evaluation_s, t->accuracy, t->hash, t->died, with, without);
    else
        printf("%d updates, seconds in the loop: %.3f, in evaluation: %.3f\n"
               "final accuracy: %.3f\n",
               updates, loop_s, t->evaluation_s, t->accuracy);
    if (options.json || options.mode != ALLREDUCE)
        return;
    printf("replicas are identical, hash %s\n", t->hash);
    if (with > 0)
        printf("median update with overlap: %.3f ms\n", with);
    if (without > 0)
        printf("median update without overlap: %.3f ms\n", without);
}

static int driver(int argc, char **argv)
{
    static training_t t;
    double loop_s;

    if (options.missing) {
        fprintf(stderr, "train_mnist: %s: No such file or directory\n", options.missing);
        return 2;
    }
    crt_ml_set_threads(1); /* idle BLAS threads would spin on the workers' CPUs */
    open_data(&t);
    start(&t);
    report_open(&t.report);
    if (options.json)
        printf("{\"curve\": [");
    t.report.began = now_s();
    train(&t);
    loop_s = now_s() - t.report.began - t.evaluation_s;
    evaluate(&t, -1);
    print_result(&t, loop_s);
    report_close(&t.report);
    if (options.save)
        save(&t);
    finish(&t);
    return 0;
}

int main(int argc, char **argv)
{
    const char *cluster = crt_context_option(&argc, argv, "--cluster");
    double cores;

    read_options(argc,
                 argv); /* before the cluster: a wrong option should start nothing */
    /* A cluster of this program's own has a CPU for each worker, and if they must share it; on a
     * cluster that runs already the workers wait for free ones. */
    cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.num_cpus = options.workers > cores ? options.workers : cores,
                    .cluster = cluster),
        driver);
}
