/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a network on images: a parameter server, workers of which some may be late or die,
 * checkpoints.
 *
 *     train_images train cifar.cfg --training.workers=5 --training.needed=4
 *     --checkpoints.folder=out train_images evaluate cifar.cfg --checkpoints.folder=out
 *     another process, before, during or after
 *
 * With training.strategy, --devices or --accelerator crt_fit trains (train_images_fit.c); otherwise
 * the parameter server of this file does:
 *
 * Each step all workers that are free compute a gradient of the same weights, each of the next
 * batch of all images that has not counted and that nobody else computes: what a straggler does not
 * finish another one takes. When `needed` of them have come the server averages those and makes one
 * update; what comes later belongs to a step that is over: it is dropped and counted, or, with
 * training.cancel, the workers are told to stop. So workers - needed are backups. With
 * training.staleness = S a gradient that is up to S steps late counts, too. With needed = workers
 * the result depends on the settings alone, whoever dies meanwhile: batches and dropout are
 * numbered by step, a worker that died is replaced and makes its step again, and a server that died
 * goes on from the last checkpoint, as does a training that is started again with
 * --checkpoints.resume.
 */
#include "train_images.h"
#include "show.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEATHS_MAX 1000 /* of workers and server: then something else is wrong */

/* A worker, and what it was asked for. */
typedef struct crew {
    crt_actor_t *worker;
    /* What it tells, the gradient, unless that is with the server already; NULL: it is free. */
    crt_ref_t *results[2];
    uint64_t step, batch; /* of that call */
    bool is_cancelled, is_lost;
    bool gave_back; /* its batch: somebody else may have it */
} crew_t;

/* Numbers of batches that have not counted and are not under way. */
typedef struct order {
    uint64_t next;                  /* it and all above, */
    uint64_t returned[WORKERS_MAX]; /* and these */
    size_t count;
} order_t;

/* Of one step, and of all. */
typedef struct counts {
    int64_t arrived, late, cancelled, deaths, restores, bytes, samples;
    int64_t stale[STALENESS_MAX + 1]; /* gradients that were so many steps late */
    double loss, batch_s, compute_s, encode_s;
} counts_t;

typedef struct training {
    crt_ref_t *features, *labels;
    size_t samples;
    crt_actor_t *server;
    crt_ref_t *weights; /* the newest */
    uint64_t step;      /* updates made */
    bool lost;          /* what a step needs is lost with the server */
    crew_t crew[WORKERS_MAX];
    order_t order;
    counts_t all;
    FILE *csv;
    curve_t curve;
    show_t show;
    crt_histogram_t *staleness;
    double began;
    uint64_t first; /* step that this process began with */
} training_t;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void check(crt_status_t status, const char *what)
{
    if (status == CRT_OK)
        return;
    fprintf(stderr, "train_images: %s: %s: %s\n", what, crt_status_text(status),
            crt_error_detail());
    exit(1);
}

/* Says why a ref failed, and where, and ends the program. */
static void check_ref(crt_ref_t *ref)
{
    const crt_error_t *error = crt_ref_error(ref);

    if (!error)
        return;
    fprintf(stderr, "train_images: %s%s%s: %s: %s\n", error->class_name,
            *error->method ? "." : "an object", error->method,
            crt_status_text(error->status), error->text);
    exit(1);
}

/* A process or a node was lost, or what it knew. */
static bool is_death(crt_ref_t *ref)
{
    const crt_error_t *error = crt_ref_error(ref);

    return error && error->status <= CRT_ERR_ACTOR_DIED &&
           error->status > CRT_ERR_HEAD_LOST;
}

/* ---------------------------------------------------------------- the order of batches */

/* Of a training that has made so many steps. */
static void begin_order(training_t *t)
{
    t->order = (order_t){.next = t->step * (uint64_t)settings.needed};
}

/* The lowest number. */
static uint64_t take_batch(order_t *o)
{
    size_t least = 0;
    uint64_t number;

    if (o->count == 0)
        return o->next++;
    for (size_t i = 1; i < o->count; i++)
        if (o->returned[i] < o->returned[least])
            least = i;
    number = o->returned[least];
    o->returned[least] = o->returned[--o->count];
    return number;
}

/* The call's gradient does not count. */
static void give_back(order_t *o, crew_t *c)
{
    if (!c->gave_back && !c->is_lost)
        o->returned[o->count++] = c->batch;
    c->gave_back = true;
}

/* ---------------------------------------------------------------- the server */

static void fetch_weights(training_t *t)
{
    crt_ref_drop(&t->weights);
    t->weights = crt_call(t->server, crt_parameter_server_get_weights());
    crt_get(t->weights, NULL);
}

static void count_death(training_t *t, const char *who)
{
    fprintf(stderr, "train_images: %s died at step %llu\n", who,
            (unsigned long long)t->step);
    if (++t->all.deaths <= DEATHS_MAX)
        return;
    fprintf(stderr, "train_images: more than %d deaths\n", DEATHS_MAX);
    exit(1);
}

/* The one before a checkpoint that is damaged; the program ends where there is none. */
static void pass_over(char *path, size_t room, crt_ref_t *failed)
{
    const char *name = strrchr(path, '/');
    uint64_t step = 0;

    fprintf(stderr, "train_images: %s\n", crt_ref_error(failed)->text);
    if (!name || sscanf(name, "/step-%" SCNu64, &step) != 1 ||
        crt_checkpoint_before(settings.folder, step, path, room) != CRT_OK)
        check_ref(failed);
    fprintf(stderr, "train_images: goes on from the one before, %s\n", path);
}

/* Batches are those of a seed and a size. */
static void check_same(const char *path)
{
    crt_checkpoint_t c;

    check(crt_checkpoint_read(path, settings.network, NULL, NULL, sizeof(c), &c),
          "checkpoint");
    if (c.seed == (uint64_t)settings.seed &&
        (c.batch_size == 0 || c.batch_size == (uint64_t)settings.batch))
        return;
    fprintf(
        stderr,
        "train_images: %s: of a training with seed %llu and batches of %llu, not %lld "
        "and %lld\n",
        path, (unsigned long long)c.seed, (unsigned long long)c.batch_size,
        (long long)settings.seed, (long long)settings.batch);
    exit(1);
}

/* The server goes on from the newest checkpoint that is whole, and the training with it. */
static void restore(training_t *t)
{
    char path[4096];
    int64_t step;
    bool is_restored = false;

    check(crt_checkpoint_latest(settings.folder, path, sizeof(path)),
          "checkpoints.folder");
    while (!is_restored) {
        crt_ref_t *done =
            crt_call(t->server, crt_parameter_server_restore(), path, settings.network);
        crt_status_t status = crt_get(done, &step);

        if (is_death(done)) {
            count_death(t, "server");
        } else if (status == CRT_ERR_CORRUPT) {
            pass_over(path, sizeof(path), done);
        } else {
            check_ref(done);
            check_same(path);
            is_restored = true;
        }
        crt_ref_drop(&done);
    }
    t->step = (uint64_t)step;
    fetch_weights(t);
}

/* Whoever still computes for a step that is over. */
static void cancel_others(training_t *t)
{
    for (int i = 0; i < settings.workers; i++) {
        crew_t *c = &t->crew[i];

        if (!c->results[0] || c->is_cancelled)
            continue;
        crt_cancel(c->results[0], NULL); /* CRT_ERR_NOT_FOUND: it has ended just now */
        give_back(&t->order, c);
        c->is_cancelled = true;
    }
}

/* The server died: everything since the last checkpoint is lost. */
static void recover(training_t *t)
{
    t->lost = false;
    cancel_others(t);
    for (int i = 0; i < settings.workers; i++)
        t->crew[i].is_lost = true; /* of weights that are no more */
    do {
        count_death(t, "server");
        if (!settings.folder) {
            fprintf(stderr, "train_images: there is no checkpoint to go on from\n");
            exit(1);
        }
        t->all.restores++;
        restore(t);
    } while (is_death(t->weights));
    check_ref(t->weights);
    begin_order(t);
}

static void save(training_t *t)
{
    bool is_last = t->step == (uint64_t)settings.steps;
    crt_ref_t *done;

    if (!settings.folder || (t->step % (uint64_t)settings.every != 0 && !is_last))
        return;
    done = crt_call(t->server, crt_parameter_server_save(), settings.folder,
                    settings.network, t->step, settings.seed, is_last, settings.keep,
                    t->step * (uint64_t)settings.needed, settings.batch);
    crt_get(done, NULL);
    if (is_death(done))
        recover(t);
    else
        check_ref(done);
    crt_ref_drop(&done);
}

static void start_server(training_t *t)
{
    int widths[LAYERS_MAX + 3];
    crt_model_spec_t spec;
    char path[4096];

    fill_spec(&spec, widths);
    t->server = crt_parameter_server_new(CRT_ACTOR_OPTIONS(.max_restarts = -1), &spec,
                                         &settings.optimizer);
    fetch_weights(t);
    check_ref(t->weights);
    if (settings.resume)
        restore(t);
    else if (settings.folder &&
             crt_checkpoint_latest(settings.folder, path, sizeof(path)) == CRT_OK) {
        fprintf(
            stderr,
            "train_images: %s has checkpoints; --checkpoints.resume goes on from them\n",
            settings.folder);
        exit(1);
    }
    begin_order(t);
    if (t->step == 0)
        save(t);
}

/* ---------------------------------------------------------------- the workers */

static int64_t limit_ms(void)
{
    return (int64_t)(settings.limit_s * 1000);
}

/* All of them, or the program ends with what the missing one waits for. */
static void wait_for_workers(training_t *t)
{
    crt_actor_t *workers[WORKERS_MAX];

    for (int i = 0; i < settings.workers; i++)
        workers[i] = t->crew[i].worker;
    check(crt_members_ready(workers, (int)settings.workers, 1,
                            settings.precision ? settings.num_gpus : 0, limit_ms()),
          "worker");
}

static void start_workers(training_t *t)
{
    int widths[LAYERS_MAX + 3];
    crt_model_spec_t spec;
    crt_image_worker_spec_t data =
        CRT_IMAGE_WORKER_SPEC(.features = t->features, .labels = t->labels,
                              .classes = settings.format->classes,
                              .format = settings.format->name,
                              .batch_size = (int)settings.batch,
                              .ahead = (int)settings.ahead,
                              .compression = settings.compression,
                              .keep = settings.keep_part,
                              .piece_floats = (size_t)settings.piece_kb * 256,
                              .precision = settings.precision);

    fill_spec(&spec, widths);
    spec.seed = (uint64_t)settings.seed * 1000 + 1;
    data.stride = settings.has_shards ? 1 : (int)settings.workers;
    for (int i = 0; i < settings.workers; i++) {
        if (settings.has_shards) {
            spec.seed = (uint64_t)settings.seed * 1000 + (uint64_t)i + 1;
            data.shard = i;
            data.shards = (int)settings.workers;
        }
        data.slowdown = i == settings.slow_worker ? settings.slowdown : 1;
        t->crew[i].worker = crt_image_worker_new(
            CRT_ACTOR_OPTIONS(.num_cpus = 1,
                              .num_gpus = settings.precision ? settings.num_gpus : 0,
                              .if_infeasible = settings.precision
                                                   ? CRT_INFEASIBLE_FAILS
                                                   : CRT_INFEASIBLE_DEFAULT,
                              .max_restarts = -1),
            &spec, &data);
    }
    wait_for_workers(t);
}

static void send_work(training_t *t, crew_t *c)
{
    c->batch = settings.has_shards ? t->step : take_batch(&t->order);
    c->gave_back = settings.has_shards;
    if (settings.piece_kb > 0)
        c->results[0] = crt_call(c->worker, crt_image_worker_send_step(), c->batch,
                                 t->weights, t->step, t->server, (int)(c - t->crew));
    else
        crt_call_returns(c->results, 2, c->worker, crt_image_worker_compute_step(), NULL,
                         c->batch, t->weights);
    c->step = t->step;
    c->is_cancelled = c->is_lost = false;
}

static void free_worker(crew_t *c)
{
    crt_ref_drop(&c->results[0]);
    crt_ref_drop(&c->results[1]);
}

/* What a worker told of a gradient of this step. */
static void take(counts_t *now, crew_t *c)
{
    const crt_value_t *list;
    double numbers[4];
    int64_t bytes, samples;

    check(crt_get(c->results[0], &list), "gradient");
    for (size_t i = 0; i < 4; i++)
        check(crt_value_read(crt_value_at(list, i), &numbers[i]), "gradient");
    check(crt_value_read(crt_value_at(list, 4), &bytes), "gradient");
    check(crt_value_read(crt_value_at(list, 5), &samples), "gradient");
    now->arrived++;
    now->loss += numbers[0];
    now->batch_s += numbers[1];
    now->compute_s += numbers[2];
    now->encode_s += numbers[3];
    now->bytes += bytes;
    now->samples += samples;
}

/* A call has ended. True when it brought a gradient of this step; else its worker is free. */
static bool judge(training_t *t, counts_t *now, crew_t *c)
{
    const crt_error_t *error = crt_ref_error(c->results[0]);

    if (error && c->is_lost)
        now->late++;
    else if (error && error->status == CRT_ERR_OBJECT_LOST)
        t->lost = true; /* the weights it was to read, or the server it sent to */
    else if (is_death(c->results[0]))
        count_death(t, "worker");
    else if (error && error->status == CRT_ERR_CANCELLED)
        now->cancelled++;
    else if (error)
        check_ref(c->results[0]);
    else if (c->is_lost || t->step - c->step > (uint64_t)settings.staleness)
        now->late++;
    else {
        take(now, c);
        now->stale[t->step - c->step]++;
        crt_histogram_observe(t->staleness, (double)(t->step - c->step));
        return true;
    }
    give_back(&t->order, c);
    free_worker(c);
    return false;
}

/* Waits for one call more, of all that are under way and have not arrived. */
static void wait_for_one(training_t *t, counts_t *now, bool *arrived)
{
    crt_ref_t *refs[WORKERS_MAX];
    int who[WORKERS_MAX];
    size_t count = 0, ready[WORKERS_MAX], ready_count;
    crt_status_t status;

    for (int i = 0; i < settings.workers; i++) {
        if (!t->crew[i].results[0])
            send_work(t, &t->crew[i]);
        if (!arrived[i]) {
            who[count] = i;
            refs[count++] = t->crew[i].results[0];
        }
    }
    while ((status = crt_wait(refs, count, 1, limit_ms(), ready, &ready_count)) ==
           CRT_ERR_TIMED_OUT)
        wait_for_workers(
            t); /* one that died may not come back; a gradient may take long */
    check(status, "waiting for a gradient");
    for (size_t i = 0; i < ready_count && now->arrived < settings.needed; i++)
        arrived[who[ready[i]]] = judge(t, now, &t->crew[who[ready[i]]]);
}

/* The call that makes an update of what has arrived. */
static crt_ref_t *call_update(training_t *t, const bool *arrived)
{
    crt_ref_t *gradients[WORKERS_MAX];
    crt_arg_t numbers[WORKERS_MAX + 1] = {crt_arg_int((int64_t)t->step)};
    size_t count = 0;

    for (int i = 0; i < settings.workers; i++)
        if (arrived[i]) {
            gradients[count++] = t->crew[i].results[1];
            numbers[count] = crt_arg_int(i);
        }
    if (settings.piece_kb > 0)
        return crt_call_v(t->server, crt_parameter_server_apply_deposits(), NULL, numbers,
                          count + 1);
    return crt_call(t->server, crt_parameter_server_apply_step(), t->step,
                    crt_arg_each(gradients, count));
}

/* One update with what has arrived; false when the server died. */
static bool update(training_t *t, const bool *arrived)
{
    crt_ref_t *weights = call_update(t, arrived);

    crt_get(weights, NULL);
    for (int i = 0; i < settings.workers; i++)
        if (arrived[i])
            free_worker(&t->crew[i]);
    if (is_death(weights)) {
        crt_ref_drop(&weights);
        return false;
    }
    check_ref(weights);
    crt_ref_drop(&t->weights);
    t->weights = weights;
    t->step++;
    return true;
}

/* ---------------------------------------------------------------- the loop */

static void add_counts(counts_t *all, const counts_t *now)
{
    all->arrived += now->arrived;
    all->late += now->late;
    all->cancelled += now->cancelled;
    all->bytes += now->bytes;
    all->samples += now->samples;
    for (int i = 0; i <= STALENESS_MAX; i++)
        all->stale[i] += now->stale[i];
}

/* Of the gradients of a step: how many steps late, in the mean. */
static double staleness_of(const counts_t *now)
{
    double sum = 0;

    for (int i = 1; i <= STALENESS_MAX; i++)
        sum += (double)now->stale[i] * i;
    return sum / (double)now->arrived;
}

void check_curve(const char *path)
{
    if (path && !curve_can_write(path)) {
        perror(path);
        exit(1);
    }
}

void save_curve(curve_t *curve, const char *path)
{
    if (path && !curve_write(curve, path)) {
        perror(path);
        exit(1);
    }
    curve_free(curve);
}

static void report(training_t *t, const counts_t *now, double seconds)
{
    double share = 1.0 / (double)now->arrived;
    int64_t counting = settings.has_shards ? settings.workers : settings.needed;
    uint64_t images = t->step * (uint64_t)(settings.batch * counting);

    if (t->csv &&
        fprintf(t->csv, "%llu,%.6f,%.1f,%.6f,%lld,%lld,%lld,%lld,%.3f\n",
                (unsigned long long)t->step, now->loss * share,
                (double)now->samples / seconds, seconds, (long long)now->arrived,
                (long long)now->late, (long long)now->cancelled, (long long)now->bytes,
                staleness_of(now)) < 0) {
        perror(settings.csv);
        exit(1);
    }
    if (!curve_add(&t->curve, (double)t->step, now->loss * share))
        check(CRT_ERR_NO_MEMORY, "curve");
    check(show_row(&t->show, (double)t->step, now->loss * share, NAN,
                   (double)now->samples / seconds),
          "metrics");
    if (settings.log_every == 0)
        show_progress((double)(t->step - t->first),
                      (double)settings.steps - (double)t->first, t->began);
    if (settings.log_every == 0 || t->step % (uint64_t)settings.log_every != 0)
        return;
    printf("Step: %llu, Epoch: %llu, Loss: %.4f, Time Cost: %.4f, Batch: %.4f, "
           "Computation: %.4f, Encoding: %.4f, Comm Cost: %.4f, gradients: %lld of %lld, "
           "late: %lld, bytes: %lld\n",
           (unsigned long long)t->step, (unsigned long long)(images / t->samples),
           now->loss * share, seconds, now->batch_s * share, now->compute_s * share,
           now->encode_s * share,
           seconds - (now->batch_s + now->compute_s + now->encode_s) * share,
           (long long)now->arrived, (long long)settings.workers,
           (long long)(now->late + now->cancelled), (long long)now->bytes);
    fflush(stdout);
}

static void train(training_t *t)
{
    while (t->step < (uint64_t)settings.steps) {
        bool arrived[WORKERS_MAX] = {false};
        counts_t now = {.arrived = 0};
        double start = now_s();

        while (now.arrived < settings.needed && !t->lost)
            wait_for_one(t, &now, arrived);
        if (t->lost || !update(t, arrived)) {
            recover(t);
            continue;
        }
        if (settings.cancel && settings.staleness == 0)
            cancel_others(t);
        add_counts(&t->all, &now);
        report(t, &now, now_s() - start);
        save(t);
    }
}

/* ---------------------------------------------------------------- start and end */

/* What is still under way when the last step was made: so each gradient that was asked for is one
 * that counted, one that was late, one that was cancelled, or a death. */
static void count_rest(training_t *t)
{
    for (int i = 0; i < settings.workers; i++) {
        const crew_t *c = &t->crew[i];

        if (c->results[0] && c->is_cancelled)
            t->all.cancelled++;
        else if (c->results[0])
            t->all.late++;
    }
}

/* The training data go into the store once; workers on every node map them from there. */
static void open_data(training_t *t)
{
    crt_dataset_t *train;

    check(crt_images_open(settings.format, settings.source, CRT_SPLIT_TRAIN,
                          (size_t)settings.limit, &train),
          "training data");
    t->samples = crt_dataset_count(train);
    if (t->samples < (size_t)settings.workers) {
        fprintf(stderr, "train_images: %zu images for %lld workers\n", t->samples,
                (long long)settings.workers);
        exit(1);
    }
    t->features = crt_put(crt_dataset_features(train));
    t->labels = crt_put(crt_dataset_labels(train));
    check_ref(t->features);
    check_ref(t->labels);
    crt_dataset_drop(&train);
}

static void open_output(training_t *t)
{
    char config[PATH_MAX + 16];
    static char absolute[PATH_MAX]; /* the server may have another working directory */

    if (settings.folder) {
        if ((mkdir(settings.folder, 0777) != 0 && access(settings.folder, W_OK) != 0) ||
            !realpath(settings.folder, absolute)) {
            perror(settings.folder);
            exit(1);
        }
        settings.folder = absolute;
        snprintf(config, sizeof(config), "%s/config.cfg", absolute);
        check(crt_configuration_write(settings.configuration, config), "configuration");
    }
    check_curve(settings.svg);
    if (!settings.csv)
        return;
    t->csv = fopen(settings.csv, "we");
    if (!t->csv) {
        perror(settings.csv);
        exit(1);
    }
    fprintf(t->csv,
            "step,loss,images_per_s,seconds,arrived,late,cancelled,bytes,staleness\n");
}

static void finish(training_t *t)
{
    if (t->csv && fclose(t->csv) != 0) {
        perror(settings.csv);
        exit(1);
    }
    for (int i = 0; i < settings.workers; i++) {
        if (t->crew[i].results[0])
            free_worker(&t->crew[i]);
        crt_actor_drop(&t->crew[i].worker);
    }
    crt_ref_drop(&t->weights);
    crt_ref_drop(&t->features);
    crt_ref_drop(&t->labels);
    crt_actor_drop(&t->server);
}

/* FNV-1a, to compare two trainings by. */
static uint64_t hash_of(crt_ref_t *ref)
{
    const crt_tensor_t *weights;
    const unsigned char *at;
    uint64_t hash = 0xcbf29ce484222325u;

    check(crt_get(ref, &weights), "weights");
    at = weights->data;
    for (size_t i = 0; i < crt_tensor_count(weights) * sizeof(float); i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

static void print_staleness(const counts_t *all)
{
    if (settings.staleness == 0)
        return;
    printf("steps late: gradients\n");
    for (int64_t i = 0; i <= settings.staleness; i++)
        if (all->stale[i] > 0)
            printf("%10lld: %lld\n", (long long)i, (long long)all->stale[i]);
}

static int driver(int argc, char **argv)
{
    static training_t t;
    crt_model_t *model;
    double seconds;

    crt_ml_set_threads(1);
    model = make_model(); /* says what does not fit before anything is started */
    crt_model_drop(&model);
    open_data(&t);
    open_output(&t);
    start_server(&t);
    start_workers(&t);
    t.first = t.step;
    t.began = now_s();
    t.curve.title = "loss by step";
    check(show_open(&t.show, "images"), "metrics");
    check(show_staleness(&t.staleness), "metrics");
    train(&t);
    seconds = now_s() - t.began;
    count_rest(&t);
    printf(
        "%llu steps in %.3f s (%.2f steps/s, %.1f images/s), gradients: %lld, late: "
        "%lld, "
        "cancelled: %lld, bytes: %lld, deaths: %lld, restores: %lld, weights: %016llx\n",
        (unsigned long long)(t.step - t.first), seconds,
        (double)(t.step - t.first) / seconds, (double)t.all.samples / seconds,
        (long long)t.all.arrived, (long long)t.all.late, (long long)t.all.cancelled,
        (long long)t.all.bytes, (long long)t.all.deaths, (long long)t.all.restores,
        (unsigned long long)hash_of(t.weights));
    print_staleness(&t.all);
    save_curve(&t.curve, settings.svg);
    show_close(&t.show);
    finish(&t);
    return 0;
}

int main(int argc, char **argv)
{
    const char *cluster = crt_context_option(&argc, argv, "--cluster");
    bool evaluates = argc > 1 && strcmp(argv[1], "evaluate") == 0;
    int taken = evaluates || (argc > 1 && strcmp(argv[1], "train") == 0) ? 2 : 1;
    crt_configuration_t *configuration = read_settings(argc - taken, argv + taken);
    double cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    int64_t members = settings.fits ? settings.devices : settings.workers;
    int result;

    if (evaluates)
        result = evaluate_checkpoints();
    else
        result = crt_main(
            argc, argv,
            CRT_OPTIONS(.num_cpus = (double)members > cores ? (double)members : cores,
                        .cluster = cluster),
            settings.fits ? fit_images : driver);
    crt_configuration_drop(&configuration);
    return result;
}
