/* SPDX-License-Identifier: Apache-2.0 */
/* A program that gives every struct of the interface of libcrt_ml to the library: see program.c,
 * which does the same for libcrt.
 *
 * Usage: program_ml [case]: without a case, all that the headers have.
 */
#include <crt_actors.h>
#include <crt_configuration.h>
#include <crt_ner.h>
#include <crt_networks.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef GROWN
#    define NEW           , .grown_flag = true
#    define SET_NEW(made) ((made).grown_flag = true)
#else
#    define NEW
#    define SET_NEW(made) ((void)0)
#endif
#define WAIT_MS 60000
#define ROWS    4
#define CLASSES 2

static int fails(const char *what, crt_status_t status)
{
    printf("%s: %s: %s\n", what, crt_status_name(status), crt_error_detail());
    return 1;
}
#define TRY(what, call)                                                                  \
    do {                                                                                 \
        crt_status_t try_status = (call);                                                \
        if (try_status != CRT_OK)                                                        \
            return fails(what, try_status);                                              \
    } while (0)

/* ---------------------------------------------------------------- models */

static float numbers[ROWS * 3] = {0, 1, 2, 3, 2, 1, 0, 1, 1, 2, 2, 3};
static uint8_t marks[ROWS] = {0, 1, 0, 1};

static crt_tensor_t inputs(void)
{
    return crt_tensor_view(CRT_DTYPE_FLOAT32, 2, (const int64_t[]){ROWS, 3}, numbers);
}

static crt_tensor_t labels(void)
{
    return crt_tensor_view(CRT_DTYPE_UINT8, 1, (const int64_t[]){ROWS}, marks);
}

static int new_model(crt_model_t **model_out)
{
    const crt_layer_t layers[] = {CRT_DENSE(4), CRT_RELU(), CRT_DENSE_ZERO(CLASSES)};
    crt_input_t input = CRT_INPUT(.channels = 3);

    TRY("model", crt_model_new(&input, layers, 3, 1, model_out));
    return 0;
}

/* What the library tells of a model: no member that this program does not have is written. */
static int describe(const crt_model_t *model)
{
    struct {
        crt_model_array_t array;
        char behind[64];
    } told;

    memset(&told, 0x5a, sizeof(told));
    TRY("array", crt_model_array(model, 1, sizeof(told.array), &told.array));
    if (told.array.first != 12 || told.array.count != 4 || told.behind[0] != 0x5a)
        return printf("array: at %zu of %zu\n", told.array.first, told.array.count);
    return 0;
}

static int train(crt_model_t *model, crt_optimizer_t *optimizer)
{
    crt_batch_t batch = CRT_BATCH(.inputs = inputs(), .labels = labels());
    double first, last;

    SET_NEW(batch);
    TRY("gradients", crt_model_compute_gradients(model, NULL, &batch, NULL, &first));
    for (int i = 0; i < 50; i++) {
        TRY("step", crt_optimizer_step(optimizer, model));
        TRY("gradients", crt_model_compute_gradients(model, NULL, &batch, NULL, &last));
    }
    return last < first ? 0 : printf("training: a loss of %g after %g\n", last, first);
}

static int keep(crt_model_t *model, crt_optimizer_t *optimizer)
{
    char folder[] = "/tmp/crt_abi_XXXXXX", path[256];
    crt_checkpoint_t written = CRT_CHECKPOINT(.network = "abi", .step = 7 NEW), read;
    crt_status_t status;
    int failed;

    if (!mkdtemp(folder))
        return printf("no folder\n");
    status = crt_checkpoint_write(folder, &written, model, optimizer, 0);
    if (status != CRT_OK) {
        remove(folder);
        return fails("checkpoint", status);
    }
    TRY("latest", crt_checkpoint_latest(folder, path, sizeof(path)));
    TRY("read", crt_checkpoint_read(path, "abi", model, optimizer, sizeof(read), &read));
    failed = read.step != 7 || read.struct_size != sizeof(read);
    remove(path);
    remove(folder);
    return failed ? printf("checkpoint: step %d\n", (int)read.step) : 0;
}

static int models(void)
{
    crt_model_t *model;
    crt_optimizer_t *optimizer;
    crt_optimizer_options_t options = crt_adamw_options(0.1);
    int failed = new_model(&model);

    if (failed)
        return failed;
    if (options.grad_clip != 0 || options.l2 != 0.01 || options.beta2 != 0.999)
        return printf("options: %g %g\n", options.grad_clip, options.l2);
    TRY("optimizer", crt_optimizer_new(model, &options, &optimizer));
    failed = describe(model) || train(model, optimizer);
    crt_optimizer_drop(&optimizer);
    crt_model_drop(&model);
    return failed;
}

static int checkpoints(void)
{
    crt_model_t *model;
    crt_optimizer_t *optimizer;
    int failed = new_model(&model);

    if (failed)
        return failed;
    TRY("optimizer", crt_optimizer_new(model, NULL, &optimizer));
    failed = keep(model, optimizer);
    crt_optimizer_drop(&optimizer);
    crt_model_drop(&model);
    return failed;
}

/* Each in a case of its own: with members that an older library does not have, the first
 * refuses. */
static int layers(void)
{
    crt_layer_t layer[] = {CRT_RELU(),
                           CRT_LAYER(.kind = CRT_LAYER_DENSE, .width = 2 NEW)};
    crt_input_t input = CRT_INPUT(.channels = 3);
    crt_model_t *model;

    TRY("layers", crt_model_new(&input, layer, 2, 1, &model));
    crt_model_drop(&model);
    return 0;
}

static int input(void)
{
    crt_layer_t layer = CRT_DENSE(2);
    crt_input_t wanted = CRT_INPUT(.channels = 3 NEW);
    crt_model_t *model;

    TRY("input", crt_model_new(&wanted, &layer, 1, 1, &model));
    crt_model_drop(&model);
    return 0;
}

static int optimizer(void)
{
    crt_optimizer_options_t options = crt_sgd_options(0.1, 0.9);
    crt_optimizer_t *made;
    crt_model_t *model;
    crt_status_t status;
    int failed = new_model(&model);

    SET_NEW(options);
    if (failed)
        return failed;
    status = crt_optimizer_new(model, &options, &made);
    if (status == CRT_OK)
        crt_optimizer_drop(&made);
    crt_model_drop(&model);
    return status == CRT_OK ? 0 : fails("optimizer", status);
}

static int schedule(void)
{
    crt_schedule_t rate = crt_schedule_step(1, 0.5, 10);
    double value;

    SET_NEW(rate);
    TRY("schedule", crt_schedule_at(&rate, 10, &value));
    return value == 0.5 ? 0 : printf("schedule: %g\n", value);
}

static int images(void)
{
    crt_image_format_t format =
        CRT_IMAGE_FORMAT(.name = "abi", .height = 8, .width = 8, .channels = 3,
                         .classes = 4, .mean[0] = 0.5f NEW);
    crt_dataset_t *set;
    crt_image_batches_t *batches;
    crt_status_t status;

    TRY("images", crt_images_open(&format, "builtin", CRT_SPLIT_TRAIN, 10, &set));
    status = crt_image_batches_new(
        &format, set, CRT_IMAGE_BATCHES_OPTIONS(.batch_size = 4 NEW), &batches);
    if (status == CRT_OK) {
        status = crt_image_batches_next(batches)->labels.shape[0] == 4 ? CRT_OK
                                                                       : CRT_ERR_CORRUPT;
        crt_image_batches_drop(&batches);
    }
    crt_dataset_drop(&set);
    return status == CRT_OK ? 0 : fails("batches of images", status);
}

/* ---------------------------------------------------------------- configurations and entities */

static crt_status_t make_number(crt_configuration_t *configuration, const char *section,
                                void *made)
{
    (void)configuration;
    *(int *)made = section[0] == 'a';
    return CRT_OK;
}

static int factories(void)
{
    static const char text[] = "[a]\n@numbers = \"one\"\n";
    static const crt_factory_t all[] = {
        CRT_FACTORY(.registry = "other", .name = "one", .make = NULL),
        CRT_FACTORY(.registry = "numbers", .name = "one", .make = make_number NEW),
        {0}};
    crt_configuration_t *c;
    crt_status_t status;
    int made = 0;

    TRY("configuration", crt_configuration_parse("abi", text, strlen(text), &c));
    status = crt_configuration_resolve(c);
    if (status == CRT_OK)
        status = crt_configuration_make(c, "a", "numbers", all, &made);
    crt_configuration_drop(&c);
    return status == CRT_OK ? made != 1 : fails("factory", status);
}

static int find_entities(const crt_ner_corpus_t *corpus, crt_ner_model_t *model)
{
    const size_t documents[] = {0, 1};
    crt_ner_batch_t batch = CRT_NER_BATCH(.documents = documents, .count = 2 NEW);
    crt_ner_scores_t *scores;
    size_t count;

    TRY("entities", crt_ner_compute_gradients(model, NULL, corpus, &batch, NULL, NULL));
    TRY("scores", crt_ner_evaluate(model, NULL, corpus, &scores));
    count = crt_ner_scores_labels(scores);
    crt_ner_scores_drop(&scores);
    return count == crt_ner_corpus_labels(corpus) ? 0 : printf("%zu labels\n", count);
}

static int entities(void)
{
    crt_ner_options_t options = crt_ner_options();
    crt_ner_corpus_t *corpus;
    crt_ner_model_t *model;
    crt_status_t status;
    int failed;

    TRY("corpus", crt_ner_corpus_new_synthetic(20, 1, &corpus));
    options.depth = 1;
    options.width = 16;
    status = crt_ner_model_new(&options, corpus, 1, &model);
    if (status != CRT_OK)
        return fails("entity model", status);
    failed = find_entities(corpus, model);
    crt_ner_model_drop(&model);
    crt_ner_corpus_drop(&corpus);
    return failed;
}

static int entity_options(void)
{
    crt_ner_options_t options = crt_ner_options();
    crt_ner_corpus_t *corpus;
    crt_ner_model_t *model;
    crt_status_t status;

    SET_NEW(options);
    options.depth = 0;
    TRY("corpus", crt_ner_corpus_new_synthetic(20, 1, &corpus));
    status = crt_ner_model_new(&options, corpus, 1, &model);
    if (status == CRT_OK)
        crt_ner_model_drop(&model);
    crt_ner_corpus_drop(&corpus);
    return status == CRT_OK ? 0 : fails("entity options", status);
}

static int selection(void)
{
    crt_ner_selection_t some = CRT_NER_SELECTION(.limit = 5 NEW);
    crt_ner_corpus_t *corpus, *part;
    crt_status_t status;
    size_t count = 5;

    TRY("corpus", crt_ner_corpus_new_synthetic(20, 1, &corpus));
    status = crt_ner_corpus_new_selection(corpus, &some, &part);
    if (status == CRT_OK) {
        count = crt_ner_corpus_documents(part);
        crt_ner_corpus_drop(&part);
    }
    crt_ner_corpus_drop(&corpus);
    return status == CRT_OK ? count != 5 : fails("selection", status);
}

static int batching(void)
{
    crt_ner_batching_t how = crt_ner_batching(1);
    crt_ner_corpus_t *corpus;
    crt_ner_batches_t *batches;
    crt_status_t status;

    SET_NEW(how);
    TRY("corpus", crt_ner_corpus_new_synthetic(20, 1, &corpus));
    status = crt_ner_batches_new(corpus, &how, &batches);
    if (status == CRT_OK)
        crt_ner_batches_drop(&batches);
    crt_ner_corpus_drop(&corpus);
    return status == CRT_OK ? 0 : fails("batching", status);
}

/* ---------------------------------------------------------------- actors */

static const int widths[] = {3, 4, CLASSES, 0};

static int ask(const char *what, crt_ref_t *ref)
{
    const crt_tensor_t *tensor;
    crt_status_t status = crt_get_for(ref, WAIT_MS, &tensor);
    size_t count = status == CRT_OK ? crt_tensor_count(tensor) : 26;

    if (status != CRT_OK)
        fails(what, status);
    crt_ref_drop(&ref);
    return status != CRT_OK || count != 26;
}

static int servers(void)
{
    crt_model_spec_t spec = CRT_MODEL_SPEC(.widths = widths, .seed = 1 NEW);
    crt_actor_t *server = crt_parameter_server_new(NULL, &spec, NULL);
    int failed = ask("server", crt_call(server, crt_parameter_server_get_weights()));

    crt_actor_drop(&server);
    return failed;
}

static int workers(void)
{
    crt_tensor_t x = inputs(), y = labels();
    crt_ref_t *features = crt_put(&x), *classes = crt_put(&y);
    crt_model_spec_t spec = CRT_MODEL_SPEC(.widths = widths, .seed = 1);
    crt_data_spec_t data = CRT_DATA_SPEC(.features = features, .labels = classes,
                                         .classes = CLASSES, .batch_size = 2 NEW);
    crt_actor_t *server = crt_parameter_server_new(NULL, &spec, NULL);
    crt_actor_t *worker = crt_data_worker_new(NULL, &spec, &data);
    crt_ref_t *weights = crt_call(server, crt_parameter_server_get_weights());
    int failed =
        ask("worker", crt_call(worker, crt_data_worker_compute_gradients(), weights));

    crt_ref_drop(&weights);
    crt_ref_drop(&features);
    crt_ref_drop(&classes);
    crt_actor_drop(&worker);
    crt_actor_drop(&server);
    return failed;
}

static int trainers(void)
{
    crt_tensor_t x = inputs(), y = labels();
    crt_ref_t *features = crt_put(&x), *classes = crt_put(&y);
    crt_model_spec_t spec = CRT_MODEL_SPEC(.widths = widths, .seed = 1);
    crt_data_spec_t data = CRT_DATA_SPEC(.features = features, .labels = classes,
                                         .classes = CLASSES, .batch_size = 2);
    crt_actor_t *trainer =
        crt_trainer_new(NULL, &spec, &data, CRT_REPLICA_OPTIONS(.clip = 1 NEW));
    int failed = ask("trainer", crt_call(trainer, crt_trainer_get_weights()));

    crt_ref_drop(&features);
    crt_ref_drop(&classes);
    crt_actor_drop(&trainer);
    return failed;
}

static int image_workers(void)
{
    static uint8_t pixels[2 * 28 * 28];
    int64_t shape[] = {2, 28, 28, 1};
    const int network[] = {28, 28, 1, 10, 0};
    crt_tensor_t x = crt_tensor_view(CRT_DTYPE_UINT8, 4, shape, pixels);
    crt_tensor_t y = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, marks);
    crt_ref_t *features = crt_put(&x), *classes = crt_put(&y), *refs[2], *weights;
    crt_model_spec_t spec = CRT_MODEL_SPEC(.widths = network, .network = "convnet");
    crt_image_worker_spec_t data =
        CRT_IMAGE_WORKER_SPEC(.features = features, .labels = classes, .classes = 10,
                              .batch_size = 2 NEW);
    crt_actor_t *server = crt_parameter_server_new(NULL, &spec, NULL);
    crt_actor_t *worker = crt_image_worker_new(NULL, &spec, &data);
    const crt_value_t *told;
    crt_status_t status;

    weights = crt_call(server, crt_parameter_server_get_weights());
    crt_call_returns(refs, 2, worker, crt_image_worker_compute_step(), NULL, 0, weights);
    status = crt_get_for(refs[0], WAIT_MS, &told);
    if (status != CRT_OK)
        fails("image worker", status);
    crt_refs_drop(refs, 2);
    crt_ref_drop(&weights);
    crt_ref_drop(&features);
    crt_ref_drop(&classes);
    crt_actor_drop(&worker);
    crt_actor_drop(&server);
    return status != CRT_OK;
}

static int driver(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } cases[] = {{"models", models},       {"checkpoints", checkpoints},
                 {"layers", layers},       {"input", input},
                 {"optimizer", optimizer}, {"schedule", schedule},
                 {"images", images},       {"factories", factories},
                 {"entities", entities},   {"entity_options", entity_options},
                 {"selection", selection}, {"batching", batching},
                 {"servers", servers},     {"workers", workers},
                 {"trainers", trainers},   {"image_workers", image_workers}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        if ((argc < 2 || strcmp(argv[1], cases[i].name) == 0) && cases[i].run())
            return 1;
    printf("all done by %s with headers of %s\n", crt_version(), CRT_VERSION_TEXT);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.num_cpus = 2), driver);
}
