/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a network that reads handwritten digits, with a parameter server and data
 * workers.
 *
 *     train_mnist --data DIR|builtin --mode sync|async --workers N --iterations N ...
 *
 * sync: every iteration each worker computes a gradient of the same weights, the server
 * sums them and makes one update. async: the server makes one update of each gradient as
 * it comes, and that worker goes on with the new weights; workers x iterations updates.
 * The driver hands refs around; weights and gradients never pass through it, except the
 * weights it evaluates.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <crt_actors.h>

#define WORKERS_MAX 1024

static const char usage[] =
    "usage: train_mnist [options]\n"
    "  --data DIR|builtin   folder with the four IDX files, or drawn digits (builtin)\n"
    "  --mode sync|async    one update per round of all workers, or per gradient (sync)\n"
    "  --workers N          data workers (2)\n"
    "  --iterations N       rounds; async makes N x workers updates (200)\n"
    "  --batch N            samples per gradient (128)\n"
    "  --hidden N           width of each of the two hidden layers (128)\n"
    "  --dropout P          (0.2)\n"
    "  --lr RATE            of Adam (0.001)\n"
    "  --eval-every N       updates between two evaluations; 0: only at the end (10)\n"
    "  --seed S             (0)\n"
    "  --save FILE          write the weights at the end\n"
    "  --load FILE          start from these weights\n"
    "  --json               print one JSON object at the end, nothing else\n"
    "  --help\n"
    "Joins the cluster of CRT_ADDRESS or this user's only one, else starts its own.\n";

static struct options {
    const char *data, *save, *load;
    bool async, json;
    int workers, iterations, batch, hidden, eval_every;
    double dropout, lr;
    uint64_t seed;
} options = {.data = "builtin",
             .workers = 2,
             .iterations = 200,
             .batch = 128,
             .hidden = 128,
             .eval_every = 10,
             .dropout = 0.2,
             .lr = 0.001};

/* One run: who takes part, and what was measured. */
typedef struct training {
    crt_model_t *model; /* evaluates */
    crt_dataset_t *test;
    crt_ref_t *features, *labels;
    crt_actor_t *server, *workers[WORKERS_MAX];
    crt_ref_t *weights; /* the newest */
    int points;         /* of the curve */
    double evaluation_s, accuracy;
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
    fprintf(stderr, "train_mnist: %s.%s: %s: %s (actor %s, node %s, pid %lld)\n",
            error->class_name, error->method, crt_status_text(error->status), error->text,
            error->actor, error->node, (long long)error->pid);
    exit(1);
}

static void check(crt_status_t status, const char *what)
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

static void evaluate(training_t *t, int iteration)
{
    const crt_tensor_t *weights = get_weights(t);
    double start = now_s();

    check(crt_model_accuracy(t->model, weights, t->test, &t->accuracy), "evaluation");
    t->evaluation_s += now_s() - start;
    if (iteration < 0)
        return;
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
        crt_arg_t spread = crt_spread(gradients, count);

        for (size_t k = 0; k < count; k++)
            gradients[k] =
                crt_call(t->workers[k], &crt_data_worker_compute_gradients, t->weights);
        crt_ref_drop(&t->weights); /* the calls keep what they need */
        t->weights = crt_call(t->server, &crt_parameter_server_apply_gradients, spread);
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
    size_t count;
} flight_t;

static void send_on(flight_t *f, crt_actor_t *worker, crt_ref_t *weights)
{
    f->gradients[f->count] =
        crt_call(worker, &crt_data_worker_compute_gradients, weights);
    f->workers[f->count++] = worker;
}

/* Takes the oldest ready gradient off the list; the caller drops it. */
static crt_ref_t *take_ready(flight_t *f, crt_actor_t **worker_out)
{
    size_t ready[WORKERS_MAX], count, at;
    crt_ref_t *gradient;

    check(crt_wait(f->gradients, f->count, 1, -1, ready, &count),
          "waiting for a gradient");
    at = ready[0];
    gradient = f->gradients[at];
    *worker_out = f->workers[at];
    f->count--;
    memmove(&f->gradients[at], &f->gradients[at + 1], (f->count - at) * sizeof(gradient));
    memmove(&f->workers[at], &f->workers[at + 1], (f->count - at) * sizeof(*f->workers));
    check_ref(gradient);
    return gradient;
}

static void train_async(training_t *t)
{
    flight_t flight = {.count = 0};
    int updates = options.iterations * options.workers, sent = 0;

    for (; sent < options.workers && sent < updates; sent++)
        send_on(&flight, t->workers[sent], t->weights);
    for (int i = 0; i < updates; i++) {
        crt_actor_t *worker;
        crt_ref_t *gradient = take_ready(&flight, &worker);

        crt_ref_drop(&t->weights);
        t->weights = crt_call(t->server, &crt_parameter_server_apply_gradients, gradient);
        crt_ref_drop(&gradient);
        if (sent++ < updates)
            send_on(&flight, worker, t->weights);
        if (evaluates_at(i))
            evaluate(t, i);
    }
    get_weights(t);
}

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
    t->features = crt_put(crt_dataset_features(train));
    t->labels = crt_put(crt_dataset_labels(train));
    check_ref(t->features);
    check_ref(t->labels);
    crt_dataset_free(train);
}

static void start_actors(training_t *t)
{
    int widths[] = {crt_dataset_width(t->test), options.hidden, options.hidden,
                    crt_dataset_classes(t->test), 0};
    crt_mlp_spec_t spec = {
        .widths = widths, .dropout = options.dropout, .seed = options.seed};
    crt_optimizer_options_t adam = crt_adam_options(options.lr);
    crt_data_spec_t data = {.features = t->features,
                            .labels = t->labels,
                            .classes = crt_dataset_classes(t->test),
                            .shards = options.workers,
                            .batch = options.batch};

    check(crt_mlp_new(widths, options.dropout, options.seed, &t->model), "model");
    if (options.load)
        check(crt_model_load(t->model, options.load), "--load");
    t->server = crt_parameter_server_new(NULL, &spec, &adam);
    for (int i = 0; i < options.workers; i++) {
        spec.seed = options.seed * 1000 + (uint64_t)i + 1;
        data.shard = i;
        t->workers[i] =
            crt_data_worker_new(CRT_ACTOR_OPTIONS(.num_cpus = 1), &spec, &data);
    }
    if (options.load) {
        crt_ref_t *done = crt_call(t->server, &crt_parameter_server_set_weights,
                                   crt_model_weights(t->model));

        crt_get(done, NULL);
        check_ref(done);
        crt_ref_drop(&done);
    }
    t->weights = crt_call(t->server, &crt_parameter_server_get_weights);
    get_weights(t);
    for (int i = 0; i < options.workers; i++)
        check(crt_actor_ready(t->workers[i], -1), "data worker");
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
        crt_actor_drop(&t->workers[i]);
    crt_actor_drop(&t->server);
    crt_model_free(t->model);
    crt_dataset_free(t->test);
}

static void print_result(const training_t *t, double loop_s)
{
    int updates = options.iterations * (options.async ? options.workers : 1);

    if (options.json)
        printf(
            "], \"mode\": \"%s\", \"workers\": %d, \"iterations\": %d, \"updates\": %d, "
            "\"batch\": %d, \"hidden\": %d, \"seed\": %llu, \"loop_seconds\": %.4f, "
            "\"evaluation_seconds\": %.4f, \"final_accuracy\": %.4f}\n",
            options.async ? "async" : "sync", options.workers, options.iterations,
            updates, options.batch, options.hidden, (unsigned long long)options.seed,
            loop_s, t->evaluation_s, t->accuracy);
    else
        printf("%d updates, seconds in the loop: %.3f, in evaluation: %.3f\n"
               "final accuracy: %.3f\n",
               updates, loop_s, t->evaluation_s, t->accuracy);
}

static int driver(int argc, char **argv)
{
    training_t t = {.points = 0};
    double start, loop_s;

    crt_ml_set_threads(1); /* idle BLAS threads would spin on the workers' CPUs */
    open_data(&t);
    start_actors(&t);
    if (options.json)
        printf("{\"curve\": [");
    start = now_s();
    if (options.async)
        train_async(&t);
    else
        train_sync(&t);
    loop_s = now_s() - start - t.evaluation_s;
    evaluate(&t, -1);
    print_result(&t, loop_s);
    if (options.save)
        save(&t);
    finish(&t);
    return 0;
}

static void bad_option(const char *name, const char *text, const char *wanted)
{
    fprintf(stderr, "train_mnist: --%s %s: %s\n", name, text, wanted);
    exit(2);
}

static int whole(const char *name, const char *text, int low, int high)
{
    char wanted[64], *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (end == text || *end || errno || value < low || value > high) {
        snprintf(wanted, sizeof(wanted), "not a whole number in %d..%d", low, high);
        bad_option(name, text, wanted);
    }
    return (int)value;
}

static double number(const char *name, const char *text, double below)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= 0) || value >= below)
        bad_option(name, text,
                   below <= 1 ? "not a number in [0, 1)" : "not a number of at least 0");
    return value;
}

/* `name` is an option of getopt_long, `text` its value. */
static void set_option(const char *name, const char *text)
{
    struct options *o = &options;

    if (strcmp(name, "data") == 0)
        o->data = text;
    else if (strcmp(name, "save") == 0)
        o->save = text;
    else if (strcmp(name, "load") == 0)
        o->load = text;
    else if (strcmp(name, "json") == 0)
        o->json = true;
    else if (strcmp(name, "workers") == 0)
        o->workers = whole(name, text, 1, WORKERS_MAX);
    else if (strcmp(name, "iterations") == 0)
        o->iterations = whole(name, text, 1, 1000000);
    else if (strcmp(name, "batch") == 0)
        o->batch = whole(name, text, 1, 1000000);
    else if (strcmp(name, "hidden") == 0)
        o->hidden = whole(name, text, 1, 65536);
    else if (strcmp(name, "eval-every") == 0)
        o->eval_every = whole(name, text, 0, 1000000);
    else if (strcmp(name, "seed") == 0)
        o->seed = (uint64_t)whole(name, text, 0, 1000000000);
    else if (strcmp(name, "dropout") == 0)
        o->dropout = number(name, text, 1);
    else if (strcmp(name, "lr") == 0)
        o->lr = number(name, text, INFINITY);
    else if (strcmp(text, "sync") != 0 && strcmp(text, "async") != 0)
        bad_option(name, text, "not sync or async");
    else
        o->async = strcmp(text, "async") == 0;
}

static void read_options(int argc, char **argv)
{
    static const struct option known[] = {{"data", required_argument, NULL, 0},
                                          {"mode", required_argument, NULL, 0},
                                          {"workers", required_argument, NULL, 0},
                                          {"iterations", required_argument, NULL, 0},
                                          {"batch", required_argument, NULL, 0},
                                          {"hidden", required_argument, NULL, 0},
                                          {"dropout", required_argument, NULL, 0},
                                          {"lr", required_argument, NULL, 0},
                                          {"seed", required_argument, NULL, 0},
                                          {"eval-every", required_argument, NULL, 0},
                                          {"save", required_argument, NULL, 0},
                                          {"load", required_argument, NULL, 0},
                                          {"json", no_argument, NULL, 0},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int index, c;

    while ((c = getopt_long(argc, argv, "h", known, &index)) != -1) {
        if (c == 'h') {
            fputs(usage, stdout);
            exit(0);
        }
        if (c != 0) {
            fputs("train_mnist: --help lists the options\n", stderr);
            exit(2);
        }
        set_option(known[index].name, optarg);
    }
    if (optind < argc)
        bad_option("", argv[optind], "options only");
}

int main(int argc, char **argv)
{
    double cores;

    read_options(argc,
                 argv); /* before the cluster: a wrong option should start nothing */
    /* A cluster of this program's own has a CPU for each worker, and if they must share it; on a
     * cluster that runs already the workers wait for free ones. */
    cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.classes = CRT_CLASSES(&crt_parameter_server, &crt_data_worker),
                    .num_cpus = options.workers > cores ? options.workers : cores),
        driver);
}
