/* SPDX-License-Identifier: Apache-2.0 */
/* The options of train_mnist. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crt_configuration.h>

#include "train_mnist.h"

static const char usage[] =
    "usage: train_mnist [CONFIG.cfg] [--section.key=value ...] [options]\n"
    "  --data DIR|builtin   folder with the four IDX files, or drawn digits (builtin)\n"
    "  --mode sync|async|allreduce|sharded\n"
    "                       one update per round of all workers, or per gradient, by a "
    "server;\n"
    "                       or by all workers with the average of their gradients;\n"
    "                       or as sync, by several servers with a range of the weights "
    "each "
    "(sync)\n"
    "  --shards S           servers of --mode sharded (2)\n"
    "  --workers N          data workers or trainers (2)\n"
    "As for train_images, which trains on GPUs and on a changing number of devices, "
    "too:\n"
    "  --training.strategy=server|allreduce|sharded\n"
    "                       --mode sync; allreduce; allreduce with --optimizer sharded\n"
    "  --devices N          --workers N\n"
    "  --accelerator cpu|auto   where workers compute: on CPUs\n"
    "Others:\n"
    "  --iterations N       rounds; async makes N x workers updates (200)\n"
    "  --epochs N           times that all samples are used, in the place of "
    "--iterations\n"
    "  --batch N            samples per gradient (128)\n"
    "  --hidden N           width of each of the two hidden layers (128)\n"
    "  --dropout P          (0.2)\n"
    "  --lr RATE            of Adam (0.001)\n"
    "  --eval-every N       updates between two evaluations; 0: only at the end (10)\n"
    "  --seed S             (0)\n"
    "  --save FILE          write the weights at the end\n"
    "  --load FILE          start from these weights\n"
    "  --csv FILE           a line for each evaluation: loss, accuracy, throughput, "
    "staleness\n"
    "  --svg PREFIX         the same as curves: PREFIX-loss.svg and so on\n"
    "  --json               print one JSON object at the end, nothing else\n"
    "With --mode allreduce:\n"
    "  --overlap on|off|both    sum gradients during the backward pass, after it, or in "
    "turns,\n"
    "                           to see what it saves (on)\n"
    "  --gradients float32|bfloat16   how they travel (float32)\n"
    "  --optimizer whole|sharded      state kept by each worker: all, or its part "
    "(whole)\n"
    "  --bucket BYTES           of gradients that are summed at once (1048576)\n"
    "  --on-death fail|shrink|replace  what becomes of a training that loses a worker "
    "(shrink)\n"
    "CONFIG.cfg is in the manner of Thinc: iterations, batch_size, mode and seed in "
    "[training], frequency in\n"
    "[evaluation], hidden_width and dropout in [model], learn_rate in [optimizer], "
    "num_workers in [ray].\n"
    "  --cluster CLUSTER    local:4 (nodes of this host), HOST:PORT, file:lab.yaml, "
    "slurm:4 "
    "or\n"
    "                       kubernetes\n"
    "  --help\n"
    "Without --cluster: joins the cluster of CRT_ADDRESS or this user's only one, else "
    "starts its own.\n";

static const char *const modes[] = {"sync", "async", "allreduce", "sharded", NULL};
static const char *const strategies[] = {"server", "allreduce", "sharded", NULL};
static const char *const accelerators[] = {"cpu", "gpu", "auto", NULL};
static const char *const overlaps[] = {"on", "off", "both", NULL};
static const char *const gradients_as[] = {"float32", "bfloat16", NULL};
static const char *const optimizers[] = {"whole", "sharded", NULL};
static const char *const deaths[] = {"fail", "shrink", "replace", NULL};

struct options options = {.mode_name = "sync",
                          .data = "builtin",
                          .workers = 2,
                          .shards = 2,
                          .iterations = 200,
                          .batch = 128,
                          .hidden = 128,
                          .eval_every = 10,
                          .bucket = 1 << 20,
                          .on_death = CRT_DEATH_SHRINKS,
                          .dropout = 0.2,
                          .lr = 0.001};

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

/* Which of the words it is. */
static int one_of(const char *name, const char *text, const char *const *words)
{
    char wanted[64] = "not ";
    size_t length = strlen(wanted);

    for (int i = 0; words[i]; i++) {
        if (strcmp(text, words[i]) == 0)
            return i;
        length += (size_t)snprintf(wanted + length, sizeof(wanted) - length, "%s%s",
                                   i == 0         ? ""
                                   : words[i + 1] ? ", "
                                                  : " or ",
                                   words[i]);
    }
    bad_option(name, text, wanted);
    return 0;
}

/* As train_images names them. */
static void set_strategy(const char *text)
{
    int strategy = one_of("training.strategy", text, strategies);

    options.mode = strategy == 0 ? SYNC : ALLREDUCE;
    options.mode_name = modes[options.mode];
    options.sharded = strategy == 2;
}

static void check_accelerator(const char *text)
{
    if (one_of("accelerator", text, accelerators) == 1)
        bad_option("accelerator", text,
                   "this program computes on CPUs; train_images train --accelerator=gpu "
                   "trains the same network");
}

/* `name` is an option of getopt_long, `text` its value. */
static void set_option(const char *name, const char *text)
{
    struct options *o = &options;

    if (strcmp(name, "accelerator") == 0) {
        check_accelerator(text);
        return;
    }
    if (strcmp(name, "data") == 0)
        o->data = text;
    else if (strcmp(name, "save") == 0)
        o->save = text;
    else if (strcmp(name, "load") == 0)
        o->load = text;
    else if (strcmp(name, "csv") == 0)
        o->csv = text;
    else if (strcmp(name, "svg") == 0)
        o->svg = text;
    else if (strcmp(name, "json") == 0)
        o->json = true;
    else if (strcmp(name, "workers") == 0 || strcmp(name, "devices") == 0)
        o->workers = whole(name, text, 1, WORKERS_MAX);
    else if (strcmp(name, "shards") == 0)
        o->shards = whole(name, text, 1, SHARDS_MAX);
    else if (strcmp(name, "iterations") == 0)
        o->iterations = whole(name, text, 1, 1000000);
    else if (strcmp(name, "epochs") == 0)
        o->epochs = whole(name, text, 1, 100000);
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
    else if (strcmp(name, "bucket") == 0)
        o->bucket = whole(name, text, 64, 1 << 30);
    else if (strcmp(name, "overlap") == 0)
        o->overlap = (overlap_t)one_of(name, text, overlaps);
    else if (strcmp(name, "gradients") == 0)
        o->bfloat16 = one_of(name, text, gradients_as) == 1;
    else if (strcmp(name, "optimizer") == 0)
        o->sharded = one_of(name, text, optimizers) == 1;
    else if (strcmp(name, "on-death") == 0)
        o->on_death = (crt_on_death_t)one_of(name, text, deaths);
    else
        o->mode = (train_mode_t)one_of(name, text, modes);
    o->mode_name = modes[o->mode];
}

/* ---------------------------------------------------------------- a configuration */

static crt_status_t make_model(crt_configuration_t *c, const char *section, void *made)
{
    int64_t hidden = options.hidden;
    crt_status_t status =
        crt_configuration_int(c, "model.hidden_width", 1, 65536, &hidden);

    options.hidden = (int)hidden;
    if (status != CRT_OK)
        return status;
    return crt_configuration_float(c, "model.dropout", 0, 0.999, &options.dropout);
}

static crt_status_t make_adam(crt_configuration_t *c, const char *section, void *made)
{
    return crt_configuration_float(c, "optimizer.learn_rate", 0, 1e6, &options.lr);
}

static crt_status_t read_numbers(crt_configuration_t *c)
{
    const struct {
        const char *key;
        int low, *value;
    } numbers[] = {{"training.iterations", 1, &options.iterations},
                   {"training.batch_size", 1, &options.batch},
                   {"evaluation.frequency", 0, &options.eval_every},
                   {"ray.num_workers", 1, &options.workers}};
    int64_t seed = (int64_t)options.seed;
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && status == CRT_OK;
         i++) {
        int64_t wide = *numbers[i].value;

        status = crt_configuration_int(
            c, numbers[i].key, numbers[i].low,
            numbers[i].value == &options.workers ? WORKERS_MAX : 1000000, &wide);
        *numbers[i].value = (int)wide;
    }
    if (status == CRT_OK)
        status = crt_configuration_int(c, "training.seed", 0, 1000000000, &seed);
    options.seed = (uint64_t)seed;
    return status;
}

static crt_status_t read_sections(crt_configuration_t *c)
{
    static const crt_factory_t models[] = {CRT_FACTORY(.registry = "layers",
                                                       .name = "relu_relu_softmax.v1",
                                                       .make = make_model),
                                           {0}};
    static const crt_factory_t adams[] = {
        CRT_FACTORY(.registry = "optimizers", .name = "Adam.v1", .make = make_adam), {0}};
    const char *strategy = NULL;
    crt_status_t status = read_numbers(c);

    crt_configuration_skip(c, "evaluation.batch_size"); /* all test images at once */
    crt_configuration_skip(c, "ray.object_store_memory");
    crt_configuration_skip(c, "ray.num_cpus");
    if (status == CRT_OK)
        status = crt_configuration_string(c, "training.mode", &options.mode_name);
    if (status == CRT_OK)
        status = crt_configuration_string(c, "training.strategy", &strategy);
    if (status == CRT_OK && strategy)
        set_strategy(strategy);
    if (status == CRT_OK && crt_configuration_has(c, "model"))
        status = crt_configuration_make(c, "model", "layers", models, NULL);
    if (status == CRT_OK && crt_configuration_has(c, "optimizer"))
        status = crt_configuration_make(c, "optimizer", "optimizers", adams, NULL);
    return status == CRT_OK ? crt_configuration_finish(c) : status;
}

static bool is_override(const char *word)
{
    size_t name = strcspn(word, "=");

    return strncmp(word, "--", 2) == 0 && memchr(word, '.', name);
}

/* Reads the configuration and what changes it, and gives the other words. It stays, since texts of
 * the options lie in it. */
static int read_configuration(int argc, char **argv, char **words)
{
    static crt_configuration_t *c;
    crt_status_t status = CRT_OK;
    int left = 0;

    words[left++] = argv[0];
    for (int i = 1; i < argc && status == CRT_OK; i++) {
        bool is_file = i == 1 && argv[i][0] != '-';

        if (!c && (is_file || is_override(argv[i])))
            status = is_file ? crt_configuration_read(argv[i], &c)
                             : crt_configuration_parse("train_mnist", "", 0, &c);
        if (status == CRT_ERR_NOT_FOUND && is_file) {
            options.missing = argv[i];
            status = crt_configuration_parse("train_mnist", "", 0, &c);
        }
        if (status == CRT_OK && !is_file && is_override(argv[i]))
            status = crt_configuration_override(c, argv[i]);
        else if (!is_file)
            words[left++] = argv[i];
    }
    if (status == CRT_OK && c)
        status = crt_configuration_resolve(c);
    if (status == CRT_OK && c)
        status = read_sections(c);
    if (status != CRT_OK) {
        fprintf(stderr, "train_mnist: %s\n", crt_error_detail());
        exit(2);
    }
    options.mode = (train_mode_t)one_of("mode", options.mode_name, modes);
    return left;
}

/* What is written at the end is known to be possible at the start. */
static void check_outputs(void)
{
    char curve[PATH_MAX];

    if (options.save && !curve_can_write(options.save))
        bad_option("save", options.save, strerror(errno));
    snprintf(curve, sizeof(curve), "%s-loss.svg", options.svg ? options.svg : "");
    if (options.svg && !curve_can_write(curve))
        bad_option("svg", options.svg, strerror(errno));
}

void read_options(int argc, char **argv)
{
    static const struct option known[] = {{"data", required_argument, NULL, 0},
                                          {"mode", required_argument, NULL, 0},
                                          {"workers", required_argument, NULL, 0},
                                          {"devices", required_argument, NULL, 0},
                                          {"accelerator", required_argument, NULL, 0},
                                          {"shards", required_argument, NULL, 0},
                                          {"iterations", required_argument, NULL, 0},
                                          {"epochs", required_argument, NULL, 0},
                                          {"batch", required_argument, NULL, 0},
                                          {"hidden", required_argument, NULL, 0},
                                          {"dropout", required_argument, NULL, 0},
                                          {"lr", required_argument, NULL, 0},
                                          {"seed", required_argument, NULL, 0},
                                          {"eval-every", required_argument, NULL, 0},
                                          {"save", required_argument, NULL, 0},
                                          {"load", required_argument, NULL, 0},
                                          {"csv", required_argument, NULL, 0},
                                          {"svg", required_argument, NULL, 0},
                                          {"overlap", required_argument, NULL, 0},
                                          {"gradients", required_argument, NULL, 0},
                                          {"optimizer", required_argument, NULL, 0},
                                          {"bucket", required_argument, NULL, 0},
                                          {"on-death", required_argument, NULL, 0},
                                          {"json", no_argument, NULL, 0},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int index, c;

    static char **words;

    words = calloc((size_t)argc + 1, sizeof(*words));
    if (!words)
        bad_option("", argv[0], "not enough memory");
    argc = read_configuration(argc, argv, words);
    argv = words;
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
    check_outputs();
}
