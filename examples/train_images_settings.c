/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of train_images: a configuration file, and what the command line changes of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crt_ml_gpu.h>
#include <crt_networks.h>

#include "train_images.h"

#define COUNT_MAX  1000000000
#define PERCEPTRON "mlp"

static const char usage[] =
    "usage: train_images [train|evaluate] [CONFIG.cfg] [--section.key=value ...]\n"
    "Trains a network on images with a parameter server and workers, or evaluates the "
    "checkpoints of\n"
    "such a training while they come. Keys, with their defaults:\n"
    "  [data]         format = mnist        mnist, cifar10, cifar100 or svhn\n"
    "                 source = builtin      a folder with its files; builtin: drawn\n"
    "                 limit = 0             training images; 0: all      test_limit = 0\n"
    "                 batch = 64            images for each gradient\n"
    "                 ahead = 2             batches that a thread prepares ahead\n"
    "                 order = shared        whoever is free takes the next batch of all "
    "images; "
    "shards:\n"
    "                                       each worker has its own part of them\n"
    "  [network]      name = mlp            hidden = 128    depth = 2    dropout = 0.2\n"
    "                 or lenet, cnn, fcnn, resnet18, resnet20, vgg11-bn ..., whole as "
    "they are\n"
    "  [training]     workers = 2           steps = 200     seed = 0\n"
    "                 needed = 0            gradients that a step waits for; 0: those of "
    "all "
    "workers\n"
    "                 cancel = true         ends the others' work when those have come; "
    "else it is "
    "dropped\n"
    "                 staleness = 0         steps that a gradient may be late by; with "
    "needed = 1 this is\n"
    "                                       asynchronous training\n"
    "                 device = cpu          where workers compute; gpu: on a GPU that "
    "the "
    "cluster gives each\n"
    "                 num_gpus = 1          of each worker; 0.5: two share one\n"
    "                 precision = float32   on a GPU: float32, tf32 or mixed\n"
    "                 limit_s = 60          in which workers come, when others have the "
    "CPUs or GPUs\n"
    "                 piece_kb = 0          gradients go to the server in pieces of at "
    "least so "
    "many KiB, each\n"
    "                                       while the others are still computed; 0: "
    "whole\n"
    "                 strategy =            allreduce, sharded or server: see crt_fit.h; "
    "these, too:\n"
    "                 accelerator = cpu     cpu, gpu, or auto; also as --accelerator\n"
    "                 devices = 2           members; auto: all; 2:8: as many as there "
    "are; "
    "also as\n"
    "                                       --devices\n"
    "                 epochs = 1            also as --epochs\n"
    "                 accumulate = 1        batches of each member in a step\n"
    "                 clip = 0              largest norm of a gradient; 0: any\n"
    "                 sync_norms = false    bfloat16 = false    validation = 0.2    test "
    "= "
    "true\n"
    "                 slow_worker = -1      this worker takes `slowdown` times as long\n"
    "                 slowdown = 10\n"
    "  [optimizer]    name = sgd            sgd, adam       learn_rate = 0.01    "
    "momentum = 0.9\n"
    "                 norm_limit = 0        ends a training whose gradient is larger\n"
    "  [compression]  method = none         lz4, float16, bfloat16, top_k, one_bit\n"
    "                 keep = 0.01           the part that top_k sends\n"
    "  [checkpoints]  folder =              where checkpoints are written\n"
    "                 every = 50            steps         keep = 3    the newest; 0: "
    "all\n"
    "                 resume = false        goes on from the newest; evaluate: after the "
    "last line "
    "of its csv\n"
    "  [output]       csv =                 a line for each step     svg =         the "
    "loss as a curve\n"
    "                 log_every = 10\n"
    "  [evaluation]   csv =                 a line for each checkpoint "
    "behind step 0\n"
    "                 svg =                 top-1 as a curve\n"
    "                 patience = 600        seconds without a new one\n";

struct settings settings;

static void bad(crt_configuration_t *c)
{
    fprintf(stderr, "train_images: %s\n", crt_error_detail());
    crt_configuration_drop(&c);
    exit(2);
}

static void use(crt_configuration_t *c, crt_status_t status)
{
    if (status != CRT_OK)
        bad(c);
}

static void read_data(crt_configuration_t *c)
{
    struct settings *s = &settings;
    const char *format = "mnist", *order = "shared";

    s->source = "builtin";
    s->batch = 64;
    s->ahead = 2;
    use(c, crt_configuration_string(c, "data.format", &format));
    use(c, crt_configuration_string(c, "data.source", &s->source));
    use(c, crt_configuration_int(c, "data.limit", 0, COUNT_MAX, &s->limit));
    use(c, crt_configuration_int(c, "data.test_limit", 0, COUNT_MAX, &s->test_limit));
    use(c, crt_configuration_int(c, "data.batch", 1, 1000000, &s->batch));
    use(c, crt_configuration_int(c, "data.ahead", 0, 64, &s->ahead));
    use(c, crt_configuration_string(c, "data.order", &order));
    s->has_shards = strcmp(order, "shards") == 0;
    if (!s->has_shards && strcmp(order, "shared") != 0)
        use(c, crt_configuration_raise(c, "data.order", CRT_ERR_INVALID,
                                       "order '%s', not shared or shards", order));
    s->format = crt_image_format(format);
    if (!s->format)
        use(c, crt_configuration_raise(c, "data.format", CRT_ERR_INVALID,
                                       "no format of images is called '%s' (mnist, "
                                       "cifar10, cifar100, svhn)",
                                       format));
}

static bool is_perceptron(void)
{
    return strcmp(settings.network, PERCEPTRON) == 0;
}

/* Makes the name what crt_networks.h calls it. */
static void find_network(crt_configuration_t *c)
{
    char why[256];

    if (crt_network_parse(settings.network, &settings.network) == CRT_OK)
        return;
    snprintf(why, sizeof(why), "%s", crt_error_detail());
    use(c, crt_configuration_raise(c, "network.name", CRT_ERR_INVALID, "%s", why));
}

static void read_network(crt_configuration_t *c)
{
    struct settings *s = &settings;

    s->network = PERCEPTRON;
    use(c, crt_configuration_string(c, "network.name", &s->network));
    if (!is_perceptron()) {
        find_network(c);
        return;
    }
    s->hidden = 128;
    s->depth = 2;
    s->dropout = 0.2;
    use(c, crt_configuration_int(c, "network.hidden", 1, 65536, &s->hidden));
    use(c, crt_configuration_int(c, "network.depth", 0, LAYERS_MAX, &s->depth));
    use(c, crt_configuration_float(c, "network.dropout", 0, 0.999, &s->dropout));
}

static void read_limit(crt_configuration_t *c)
{
    settings.limit_s = 60;
    use(c, crt_configuration_float(c, "training.limit_s", 0.001, 1e6, &settings.limit_s));
}

static void read_device(crt_configuration_t *c)
{
    struct settings *s = &settings;
    const char *device = "cpu", *precision = "float32";

    s->num_gpus = 1;
    use(c, crt_configuration_string(c, "training.device", &device));
    use(c, crt_configuration_string(c, "training.precision", &precision));
    use(c, crt_configuration_float(c, "training.num_gpus", 0.0001, 1, &s->num_gpus));
    if (strcmp(device, "cpu") != 0 && strcmp(device, "gpu") != 0)
        use(c, crt_configuration_raise(c, "training.device", CRT_ERR_INVALID,
                                       "device '%s', not cpu or gpu", device));
    if (crt_precision_parse(precision, &(crt_precision_t){0}) != CRT_OK)
        use(c, crt_configuration_raise(c, "training.precision", CRT_ERR_INVALID,
                                       "precision '%s', not float32, tf32 or mixed",
                                       precision));
    s->precision = strcmp(device, "gpu") == 0 ? precision : NULL;
    if (s->precision && s->piece_kb > 0)
        use(c, crt_configuration_raise(c, "training.piece_kb", CRT_ERR_UNSUPPORTED,
                                       "gradients of a GPU go to the server whole"));
}

static void read_training(crt_configuration_t *c)
{
    struct settings *s = &settings;

    s->workers = 2;
    s->steps = 200;
    s->cancel = true;
    s->slow_worker = -1;
    s->slowdown = 10;
    use(c, crt_configuration_int(c, "training.workers", 1, WORKERS_MAX, &s->workers));
    use(c, crt_configuration_int(c, "training.needed", 0, WORKERS_MAX, &s->needed));
    use(c,
        crt_configuration_int(c, "training.staleness", 0, STALENESS_MAX, &s->staleness));
    use(c, crt_configuration_int(c, "training.steps", 1, COUNT_MAX, &s->steps));
    use(c, crt_configuration_int(c, "training.seed", 0, COUNT_MAX, &s->seed));
    use(c, crt_configuration_bool(c, "training.cancel", &s->cancel));
    use(c,
        crt_configuration_int(c, "training.piece_kb", 0, COUNT_MAX / 1024, &s->piece_kb));
    use(c, crt_configuration_int(c, "training.slow_worker", -1, WORKERS_MAX - 1,
                                 &s->slow_worker));
    use(c, crt_configuration_float(c, "training.slowdown", 1, 1000, &s->slowdown));
    if (s->needed > s->workers)
        use(c, crt_configuration_raise(
                   c, "training.needed", CRT_ERR_INVALID,
                   "a step can't wait for %lld gradients of %lld workers",
                   (long long)s->needed, (long long)s->workers));
    if (s->piece_kb > 0 && s->staleness > 0)
        use(c, crt_configuration_raise(
                   c, "training.piece_kb", CRT_ERR_INVALID,
                   "pieces are of the newest step; staleness must be 0"));
    if (s->needed == 0)
        s->needed = s->workers;
}

/* "3", "2:8" or "auto". */
static bool parse_devices(const char *text)
{
    struct settings *s = &settings;
    char *end;

    s->devices = s->devices_most = 0;
    if (strcmp(text, "auto") == 0)
        return true;
    s->devices = strtoll(text, &end, 10);
    if (end == text || s->devices < 1 || s->devices > WORKERS_MAX)
        return false;
    if (*end == ':') {
        text = end + 1;
        s->devices_most = strtoll(text, &end, 10);
        if (end == text || s->devices_most < s->devices || s->devices_most > WORKERS_MAX)
            return false;
    }
    return *end == '\0';
}

/* A number, a range or a word. */
static void read_devices(crt_configuration_t *c)
{
    const char *devices = "2";
    int64_t number = 2;

    if (crt_configuration_string(c, "training.devices", &devices) != CRT_OK) {
        use(c, crt_configuration_int(c, "training.devices", 1, WORKERS_MAX, &number));
        settings.devices = number;
        return;
    }
    if (!parse_devices(devices))
        use(c, crt_configuration_raise(c, "training.devices", CRT_ERR_INVALID,
                                       "devices '%s', not a number up to %d, two numbers "
                                       "as 2:8, or auto",
                                       devices, WORKERS_MAX));
}

static void read_fit(crt_configuration_t *c)
{
    struct settings *s = &settings;
    static const char *const of_workers[] = {"training.workers",     "training.needed",
                                             "training.cancel",      "training.staleness",
                                             "training.device",      "training.piece_kb",
                                             "training.slow_worker", "training.slowdown"};
    const char *strategy = "allreduce", *accelerator = "cpu", *precision = "float32";

    s->epochs = 0;
    s->accumulate = 1;
    s->validation = 0.2;
    s->tests = true;
    use(c, crt_configuration_string(c, "training.strategy", &strategy));
    use(c, crt_configuration_string(c, "training.accelerator", &accelerator));
    use(c, crt_configuration_string(c, "training.precision", &precision));
    use(c, crt_configuration_int(c, "training.epochs", 0, COUNT_MAX, &s->epochs));
    use(c, crt_configuration_int(c, "training.steps", 0, COUNT_MAX, &s->steps));
    use(c, crt_configuration_int(c, "training.seed", 0, COUNT_MAX, &s->seed));
    use(c, crt_configuration_int(c, "training.accumulate", 1, 10000, &s->accumulate));
    use(c, crt_configuration_float(c, "training.clip", 0, 1e30, &s->clip));
    use(c, crt_configuration_float(c, "training.validation", 0, 0.999, &s->validation));
    use(c, crt_configuration_float(c, "training.num_gpus", 0.0001, 1, &s->num_gpus));
    use(c, crt_configuration_bool(c, "training.sync_norms", &s->sync_norms));
    use(c, crt_configuration_bool(c, "training.bfloat16", &s->bfloat16));
    use(c, crt_configuration_bool(c, "training.test", &s->tests));
    read_devices(c);
    if (crt_fit_strategy_parse(strategy, &s->strategy) != CRT_OK)
        use(c, crt_configuration_raise(c, "training.strategy", CRT_ERR_INVALID,
                                       "strategy '%s', not server, allreduce or sharded",
                                       strategy));
    if (crt_accelerator_parse(accelerator, &s->accelerator) != CRT_OK)
        use(c, crt_configuration_raise(c, "training.accelerator", CRT_ERR_INVALID,
                                       "accelerator '%s', not cpu, gpu or auto",
                                       accelerator));
    if (crt_precision_parse(precision, &(crt_precision_t){0}) != CRT_OK)
        use(c, crt_configuration_raise(c, "training.precision", CRT_ERR_INVALID,
                                       "precision '%s', not float32, tf32 or mixed",
                                       precision));
    for (size_t i = 0; i < sizeof(of_workers) / sizeof(of_workers[0]); i++)
        if (crt_configuration_has(c, of_workers[i]))
            use(c, crt_configuration_raise(
                       c, of_workers[i], CRT_ERR_UNSUPPORTED,
                       "%s is of trainings by workers, without strategy, devices, "
                       "accelerator and epochs",
                       of_workers[i]));
    s->fit_precision = precision;
    if (s->has_shards)
        use(c, crt_configuration_raise(c, "data.order", CRT_ERR_UNSUPPORTED,
                                       "members take batches in turns from one order; "
                                       "shards are of training.workers"));
}

static void read_optimizer(crt_configuration_t *c)
{
    struct settings *s = &settings;
    const char *name = "sgd";
    double rate, momentum = 0.9, limit = 0;

    use(c, crt_configuration_string(c, "optimizer.name", &name));
    if (strcmp(name, "sgd") != 0 && strcmp(name, "adam") != 0)
        use(c, crt_configuration_raise(c, "optimizer.name", CRT_ERR_INVALID,
                                       "no optimizer is called '%s' (sgd, adam)", name));
    rate = *name == 's' ? 0.01 : 0.001;
    use(c, crt_configuration_float(c, "optimizer.learn_rate", 0, 1e6, &rate));
    use(c, crt_configuration_float(c, "optimizer.momentum", 0, 0.9999, &momentum));
    use(c, crt_configuration_float(c, "optimizer.norm_limit", 0, 1e30, &limit));
    s->optimizer =
        *name == 's' ? crt_sgd_options(rate, momentum) : crt_adam_options(rate);
    s->optimizer.norm_limit = limit;
}

static void read_rest(crt_configuration_t *c)
{
    struct settings *s = &settings;
    crt_compression_t method;

    s->compression = "none";
    s->keep_part = 0.01;
    s->every = 50;
    s->keep = 3;
    s->log_every = 10;
    s->patience_s = 600;
    use(c, crt_configuration_string(c, "compression.method", &s->compression));
    use(c, crt_configuration_float(c, "compression.keep", 1e-9, 1, &s->keep_part));
    use(c, crt_configuration_string(c, "checkpoints.folder", &s->folder));
    use(c, crt_configuration_int(c, "checkpoints.every", 1, COUNT_MAX, &s->every));
    use(c, crt_configuration_int(c, "checkpoints.keep", 0, COUNT_MAX, &s->keep));
    use(c, crt_configuration_bool(c, "checkpoints.resume", &s->resume));
    use(c, crt_configuration_string(c, "output.csv", &s->csv));
    use(c, crt_configuration_string(c, "output.svg", &s->svg));
    use(c, crt_configuration_string(c, "evaluation.svg", &s->evaluation_svg));
    use(c, crt_configuration_int(c, "output.log_every", 0, COUNT_MAX, &s->log_every));
    use(c, crt_configuration_string(c, "evaluation.csv", &s->evaluation_csv));
    use(c, crt_configuration_int(c, "evaluation.patience", 1, COUNT_MAX, &s->patience_s));
    use(c, crt_compression_parse(s->compression, &method));
    if (s->fits && strcmp(s->compression, "none") != 0)
        use(c, crt_configuration_raise(c, "compression.method", CRT_ERR_UNSUPPORTED,
                                       "compression is of training.workers; "
                                       "training.bfloat16 = true halves what members "
                                       "send"));
    if (s->resume && !s->folder)
        use(c, crt_configuration_raise(c, "checkpoints.resume", CRT_ERR_INVALID,
                                       "resume needs checkpoints.folder"));
}

static crt_configuration_t *open_configuration(int *argc, char ***argv)
{
    crt_configuration_t *c = NULL;

    if (*argc > 0 && strncmp((*argv)[0], "--", 2) != 0) {
        use(NULL, crt_configuration_read((*argv)[0], &c));
        (*argc)--;
        (*argv)++;
    } else {
        use(NULL, crt_configuration_parse("train_images", "", 0, &c));
    }
    return c;
}

/* One argument, or, of --devices N, --accelerator NAME and --epochs N, two. */
static crt_status_t override(crt_configuration_t *c, const char *argument,
                             const char *next, int *at)
{
    static const char *const plain[] = {"--devices", "--accelerator", "--epochs"};
    static const char *const of_fit[] = {"--training.strategy",    "--training.devices",
                                         "--training.accelerator", "--training.epochs",
                                         "--training.accumulate",  "--training.clip",
                                         "--training.sync_norms",  "--training.bfloat16",
                                         "--training.validation",  "--training.test"};
    char text[256];

    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        size_t length = strlen(plain[i]);

        if (strncmp(argument, plain[i], length) != 0 ||
            (argument[length] != '=' && argument[length] != '\0'))
            continue;
        if (argument[length] == '\0' && !next)
            return crt_raise(CRT_ERR_INVALID, "%s needs a value", argument);
        settings.fits = true;
        *at += argument[length] == '\0';
        snprintf(text, sizeof(text), "--training.%s=%s", plain[i] + 2,
                 argument[length] == '=' ? argument + length + 1 : next);
        return crt_configuration_override(c, text);
    }
    for (size_t i = 0; i < sizeof(of_fit) / sizeof(of_fit[0]); i++)
        if (strncmp(argument, of_fit[i], strlen(of_fit[i])) == 0)
            settings.fits = true;
    return crt_configuration_override(c, argument);
}

crt_configuration_t *read_settings(int argc, char **argv)
{
    crt_configuration_t *c;

    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            exit(0);
        }
    c = open_configuration(&argc, &argv);
    for (int i = 0; i < argc; i++)
        use(c, override(c, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &i));
    use(c, crt_configuration_resolve(c));
    read_data(c);
    read_network(c);
    read_limit(c);
    if (settings.fits) {
        read_fit(c);
    } else {
        read_training(c);
        read_device(c);
    }
    read_optimizer(c);
    read_rest(c);
    use(c, crt_configuration_finish(c));
    settings.configuration = c;
    return c;
}

void fill_spec(crt_model_spec_t *spec, int widths[LAYERS_MAX + 3])
{
    const struct settings *s = &settings;
    const crt_image_format_t *f = s->format;
    int at = 0;

    *spec = CRT_MODEL_SPEC(.widths = widths, .seed = (uint64_t)s->seed);
    if (is_perceptron()) {
        spec->dropout = s->dropout;
        widths[at++] = f->height * f->width * f->channels;
        for (int64_t i = 0; i < s->depth; i++)
            widths[at++] = (int)s->hidden;
    } else {
        spec->network = s->network;
        widths[at++] = f->height;
        widths[at++] = f->width;
        widths[at++] = f->channels;
    }
    widths[at++] = f->classes;
    widths[at] = 0;
}

crt_model_t *make_model(void)
{
    const crt_image_format_t *f = settings.format;
    const crt_input_t input =
        CRT_INPUT(.height = f->height, .width = f->width, .channels = f->channels);
    int widths[LAYERS_MAX + 3];
    crt_model_spec_t spec;
    crt_model_t *model;

    fill_spec(&spec, widths);
    if (spec.network)
        check(crt_network_by_name(spec.network, &input, f->classes, spec.seed, &model),
              "network");
    else
        check(crt_mlp_new(widths, spec.dropout, spec.seed, &model), "network");
    return model;
}
