/* SPDX-License-Identifier: Apache-2.0 */
/* The command `train`: makes members and evaluator, has the members train from one evaluation to
 * the next, and keeps what they have learned.
 *
 * Behind each stretch the driver asks the owners for weights and optimizer, gives the weights to
 * the evaluator, and sends the members on; while they train it prints the row and writes
 * model-last, and model-best when it is better. From model-last a training goes on with --resume.
 * When a member dies all are made anew from what the driver has: at most a stretch is lost.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <crt_fit.h>

#include "report.h"
#include "show.h"
#include "train_ner.h"

#define LABELS_MAX 511

/* What model-last keeps beside the weights. */
typedef struct note {
    uint64_t batches; /* that each member has made */
    uint64_t words, best_step;
    double best_score;
} note_t;

/* One training. */
typedef struct training {
    setup_t setup;
    char *text; /* of the configuration */
    char train_path[PATH_MAX], dev_path[PATH_MAX];
    const char *output;
    bool resume;
    int64_t gpu_id;         /* --gpu-id; -1: none was named */
    bool on_gpus;           /* members compute there */
    crt_ner_model_t *model; /* the state behind the last stretch */
    crt_optimizer_t *optimizer;
    note_t note;
    double began;
    uint64_t first; /* batches that were made before */
    uint64_t most;  /* batches of the whole training; 0: no limit */
    FILE *csv;

    int owners;
    owned_t *owned;
    crt_actor_t *members[MEMBERS_MAX], *evaluator;
    int count;                   /* of members, with one that only owns */
    int generation;              /* how often members were made */
    row_t row;                   /* of the last stretch */
    uint64_t late[LATE_MAX + 1]; /* gradients so far by the updates since their weights */
    show_t show;
    const char *labels[LABELS_MAX]; /* of the last evaluation, */
    crt_ner_count_t counts[LABELS_MAX];
    size_t label_count;
    crt_ref_t *evaluated; /* which the labels are borrowed from */
} training_t;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int failed(const char *what, crt_status_t status)
{
    fprintf(stderr, "train_ner: %s: %s: %s\n", what, crt_status_text(status),
            crt_error_detail());
    return 1;
}

static crt_model_t *network(training_t *t)
{
    return crt_ner_model_network(t->model);
}

/* ---------------------------------------------------------------- options */

/* As train_images names them: strategies are modes. */
static crt_status_t take_strategy(crt_configuration_t *c, const char *name)
{
    crt_fit_strategy_t strategy;

    CRT_TRY(crt_fit_strategy_parse(name, &strategy));
    if (strategy == CRT_FIT_SHARDED)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "strategy sharded: train_ner has none; with --mode peer each "
                         "member owns some of the parameters");
    return crt_configuration_override(c, strategy == CRT_FIT_SERVER
                                             ? "--distributed.mode=shared_optimizer"
                                             : "--distributed.mode=allreduce");
}

static crt_status_t take_accelerator(crt_configuration_t *c, const char *name)
{
    crt_accelerator_t accelerator;
    char override[64];

    CRT_TRY(crt_accelerator_parse(name, &accelerator));
    snprintf(override, sizeof(override), "--distributed.accelerator=%s", name);
    return crt_configuration_override(c, override);
}

/* As spaCy's: -1 for CPUs, else the number of a GPU of this host. */
static crt_status_t take_gpu_id(training_t *t, crt_configuration_t *c, const char *text)
{
    char *end;
    long id = strtol(text, &end, 10);

    if (!*text || *end || id < -1 || id > 1023)
        return crt_raise(CRT_ERR_INVALID,
                         "--gpu-id '%s' is neither -1 nor the number of a GPU", text);
    t->gpu_id = id;
    return take_accelerator(c, id < 0 ? "cpu" : "gpu");
}

/* What follows `name`, when words[*at] is it: "name VALUE" or "name=VALUE"; "": nothing does. */
static const char *value_of(const char *name, char **words, int *at)
{
    const char *word = words[*at];
    size_t length = strlen(name);

    if (strncmp(word, name, length) != 0 || (word[length] != '=' && word[length] != '\0'))
        return NULL;
    if (word[length] == '=')
        return word + length + 1;
    return words[*at + 1] ? words[++*at] : "";
}

static crt_status_t take_option(training_t *t, crt_configuration_t *c, char **words,
                                int *at)
{
    static const char *const own[][2] = {{"--n-workers", "distributed.workers"},
                                         {"-w", "distributed.workers"},
                                         {"--devices", "distributed.workers"},
                                         {"--epochs", "training.max_epochs"},
                                         {"--mode", "distributed.mode"}};
    const char *value;
    char override[512];

    if (strcmp(words[*at], "--resume") == 0) {
        t->resume = true;
        return CRT_OK;
    }
    if ((value = value_of("--training.strategy", words, at)))
        return take_strategy(c, value);
    if ((value = value_of("--accelerator", words, at)))
        return take_accelerator(c, value);
    if ((value = value_of("--gpu-id", words, at)) || (value = value_of("-g", words, at)))
        return take_gpu_id(t, c, value);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        value = value_of(own[i][0], words, at);
        if (!value)
            continue;
        if (!*value)
            return crt_raise(CRT_ERR_INVALID, "%s wants a value", own[i][0]);
        snprintf(override, sizeof(override), "--%s=%s", own[i][1], value);
        return crt_configuration_override(c, override);
    }
    if ((value = value_of("--output", words, at)) ||
        (value = value_of("-o", words, at))) {
        if (!*value)
            return crt_raise(CRT_ERR_INVALID, "--output wants a folder");
        t->output = value;
        return CRT_OK;
    }
    return crt_configuration_override(c, words[*at]);
}

/* A path that means the same in every process; what is not there is told when it is opened. */
static void make_absolute(const char *path, char whole[PATH_MAX])
{
    if (strncmp(path, "builtin:", 8) == 0 || !realpath(path, whole))
        snprintf(whole, PATH_MAX, "%s", path);
}

static crt_status_t read_words(training_t *t, int count, char **words)
{
    crt_configuration_t *c;
    crt_status_t status;

    t->output = "output";
    t->gpu_id = -1;
    if (count < 1)
        return crt_raise(CRT_ERR_INVALID, "a configuration is wanted");
    CRT_TRY(crt_configuration_read(words[0], &c));
    status = setup_add_defaults(c);
    for (int i = 1; i < count && status == CRT_OK; i++)
        status = take_option(t, c, words, &i);
    if (status == CRT_OK)
        status = crt_configuration_resolve(c);
    if (status != CRT_OK) {
        crt_configuration_drop(&c);
        return status;
    }
    return setup_init(&t->setup, c);
}

/* The entry `number` of CUDA_VISIBLE_DEVICES, or, where nothing hides GPUs, the number itself. */
static crt_status_t see_one_gpu(int64_t number)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *at = visible;
    char name[128];

    if (getenv("CRT_ADDRESS"))
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "--gpu-id %lld: a cluster gives the GPUs that it has; "
                         "--accelerator=gpu asks it for them",
                         (long long)number);
    for (int64_t i = 0; visible && *at && i < number; i++)
        at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',');
    if (visible && !*at)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "--gpu-id %lld: CUDA_VISIBLE_DEVICES=%s has no such entry",
                         (long long)number, visible);
    snprintf(name, sizeof(name), "%lld", (long long)number);
    if (visible)
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, ","), at);
    return setenv("CUDA_VISIBLE_DEVICES", name, 1) == 0
               ? CRT_OK
               : crt_raise(CRT_ERR_NO_MEMORY, "CUDA_VISIBLE_DEVICES");
}

crt_status_t train_prepare(int count, char **words, double *cpus_out)
{
    training_t t = {0};
    crt_status_t status = read_words(&t, count, words);

    if (status == CRT_OK)
        *cpus_out = (double)t.setup.workers;
    setup_fini(&t.setup);
    if (status == CRT_OK && t.gpu_id >= 0 && !getenv("CRT_WORKER"))
        status = see_one_gpu(t.gpu_id);
    return status;
}

/* ---------------------------------------------------------------- state */

static const char *path_of(const training_t *t, const char *name)
{
    static char paths[2][PATH_MAX];
    static int next;
    char *path = paths[next++ % 2];

    snprintf(path, PATH_MAX, "%s/%s", t->output, name);
    return path;
}

/* The states of the optimizer and the weights in one piece. */
static crt_ref_t *put_state(training_t *t)
{
    size_t floats = crt_model_parameters(network(t));
    int states = crt_optimizer_states(t->optimizer);
    float *all = malloc(floats * (size_t)(1 + states) * sizeof(float));
    crt_tensor_t state;
    crt_ref_t *ref;

    if (!all)
        exit(failed("state", CRT_ERR_NO_MEMORY));
    memcpy(all, crt_model_weights(network(t))->data, floats * sizeof(float));
    for (int i = 0; i < states; i++)
        memcpy(all + (size_t)(i + 1) * floats, crt_optimizer_state(t->optimizer, i)->data,
               floats * sizeof(float));
    state = crt_tensor_floats(all, floats * (size_t)(1 + states));
    ref = crt_put(&state);
    free(all);
    return ref;
}

static crt_status_t take_owned(training_t *t, int owner, const crt_value_t *map)
{
    const owned_t *owned = &t->owned[owner];
    int states = crt_optimizer_states(t->optimizer);
    const crt_tensor_t *state;
    const crt_value_t *late = crt_value_find(map, "late");
    uint64_t steps, accepted, dropped, count;

    CRT_TRY(crt_value_read(crt_value_find(map, "state"), &state));
    CRT_TRY(crt_value_read(crt_value_find(map, "steps"), &steps));
    CRT_TRY(crt_value_read(crt_value_find(map, "accepted"), &accepted));
    CRT_TRY(crt_value_read(crt_value_find(map, "dropped"), &dropped));
    if (crt_tensor_count(state) != owned->floats * (size_t)(1 + states))
        return crt_raise(CRT_ERR_INVALID, "the state of owner %d has %zu numbers", owner,
                         crt_tensor_count(state));
    unpack(owned, state->data, crt_model_weights(network(t))->data);
    for (int i = 0; i < states; i++)
        unpack(owned, (const float *)state->data + (size_t)(i + 1) * owned->floats,
               crt_optimizer_state(t->optimizer, i)->data);
    if (owner == 0)
        crt_optimizer_set_steps(t->optimizer, steps);
    t->row.accepted += accepted;
    t->row.dropped += dropped;
    for (size_t i = 0; i <= LATE_MAX; i++) {
        CRT_TRY(crt_value_read(crt_value_at(late, i), &count));
        t->late[i] += count;
    }
    return CRT_OK;
}

/* All owners' states, all or none: a death meanwhile must not leave half of a new one. */
static crt_status_t gather_state(training_t *t)
{
    crt_ref_t *refs[MEMBERS_MAX];
    const crt_value_t *maps[MEMBERS_MAX];
    crt_status_t status = CRT_OK;

    for (int i = 0; i < t->owners; i++)
        refs[i] =
            crt_call(t->members[t->setup.mode == SHARED_OPTIMIZER ? t->setup.workers : i],
                     &member_give_state);
    for (int i = 0; i < t->owners && status == CRT_OK; i++)
        status = crt_get(refs[i], &maps[i]);
    t->row.accepted = t->row.dropped = 0;
    memset(t->late, 0, sizeof(t->late));
    for (int i = 0; i < t->owners && status == CRT_OK; i++)
        status = take_owned(t, i, maps[i]);
    crt_refs_drop(refs, (size_t)t->owners);
    return status;
}

/* ---------------------------------------------------------------- members */

/* Members have handles of each other, and of themselves: dropped alone they would live on. */
static void drop_members(training_t *t)
{
    for (int i = 0; i < t->count; i++) {
        crt_actor_kill(t->members[i], NULL); /* fails when it is dead, which is fine */
        crt_actor_drop(&t->members[i]);
    }
    t->count = 0;
}

static crt_status_t begin_members(training_t *t)
{
    crt_arg_t handles[MEMBERS_MAX];
    crt_ref_t *begun[MEMBERS_MAX], *state = put_state(t);
    crt_status_t status = CRT_OK;
    char group[64];

    snprintf(group, sizeof(group), "train_ner.%d.%d", (int)getpid(), t->generation++);
    for (int i = 0; i < t->count; i++)
        handles[i] = crt_arg_actor(t->members[i]);
    for (int i = 0; i < t->count; i++)
        begun[i] =
            crt_call(t->members[i], &member_begin, crt_list(handles, (size_t)t->count),
                     group, state, crt_optimizer_steps(t->optimizer), t->note.batches);
    for (int i = 0; i < t->count && status == CRT_OK; i++)
        status = crt_get(begun[i], NULL);
    crt_refs_drop(begun, (size_t)t->count);
    crt_ref_drop(&state);
    return status;
}

/* Those that wait for what others have do so to a limit; to begin anew would not help them. */
static crt_status_t wait_for_members(training_t *t)
{
    crt_status_t status =
        crt_members_ready(t->members, t->count, 1, t->on_gpus ? t->setup.num_gpus : 0,
                          (int64_t)(t->setup.limit_s * 1000));

    return status == CRT_ERR_TIMED_OUT
               ? crt_raise(CRT_ERR_UNSCHEDULABLE, "%s", crt_error_detail())
               : status;
}

static crt_status_t make_members(training_t *t)
{
    const char *gpu = t->gpu_id < 0 ? "any" : getenv("CUDA_VISIBLE_DEVICES");
    int workers = (int)t->setup.workers;

    t->count = workers + (t->setup.mode == SHARED_OPTIMIZER);
    for (int i = 0; i < t->count; i++) {
        bool on_gpu = t->on_gpus && i < workers;

        t->members[i] =
            crt_actor_new(&ner_member,
                          CRT_ACTOR_OPTIONS(.num_cpus = i < workers,
                                            .num_gpus = on_gpu ? t->setup.num_gpus : 0,
                                            .if_infeasible = CRT_INFEASIBLE_FAILS,
                                            .scheduling = CRT_SCHEDULE_SPREAD),
                          t->text, i, t->train_path, on_gpu ? gpu : "");
    }
    CRT_TRY(wait_for_members(t));
    return begin_members(t);
}

/* Whether members compute on GPUs, which the cluster must have. */
static crt_status_t choose_accelerator(training_t *t)
{
    const setup_t *s = &t->setup;
    double total = 0;

    if (s->accelerator == CRT_ACCELERATOR_CPU)
        return CRT_OK;
    CRT_TRY(crt_resource_total("GPU", &total, NULL));
    if (total == 0 && s->accelerator == CRT_ACCELERATOR_AUTO) {
        printf("accelerator auto: no node of the cluster has a GPU; members compute on "
               "CPUs\n");
        return CRT_OK;
    }
    if (total == 0)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "accelerator gpu: no node of the cluster has a GPU; nodes have "
                         "those of CUDA_VISIBLE_DEVICES, or all that the driver tells");
    if ((double)s->workers * s->num_gpus > total + 1e-6)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "%lld members of %g GPU: the cluster has %g; members with a "
                         "smaller distributed.num_gpus share one",
                         (long long)s->workers, s->num_gpus, total);
    t->on_gpus = true;
    return CRT_OK;
}

/* ---------------------------------------------------------------- stretches */

typedef struct stretch {
    crt_ref_t *refs[MEMBERS_MAX];
    int count;
    uint64_t until;
    double began;
} stretch_t;

static void send_on(training_t *t, stretch_t *s, uint64_t until)
{
    s->until = until;
    s->began = now_s();
    s->count = (int)t->setup.workers;
    for (int i = 0; i < s->count; i++)
        s->refs[i] = crt_call(t->members[i], &member_train, until);
}

static crt_status_t take_answer(training_t *t, int member, const crt_value_t *map,
                                int64_t *hash)
{
    double loss;
    uint64_t words, epoch;
    int64_t own;

    CRT_TRY(crt_value_read(crt_value_find(map, "loss"), &loss));
    CRT_TRY(crt_value_read(crt_value_find(map, "words"), &words));
    CRT_TRY(crt_value_read(crt_value_find(map, "epoch"), &epoch));
    CRT_TRY(crt_value_read(crt_value_find(map, "hash"), &own));
    if (member > 0 && t->setup.mode == ALLREDUCE && own != *hash)
        return crt_raise(CRT_ERR_CORRUPT,
                         "the weights of member %d are not those of member 0", member);
    *hash = own;
    t->row.loss += loss;
    t->row.words += words;
    t->row.epoch = epoch;
    return CRT_OK;
}

static crt_status_t wait_for(training_t *t, stretch_t *s)
{
    crt_status_t status = CRT_OK;
    int64_t hash = 0;
    double loss = t->row.loss;
    uint64_t words = t->row.words;

    t->row.loss = 0;
    for (int i = 0; i < s->count && status == CRT_OK; i++) {
        const crt_value_t *map;

        status = crt_get(s->refs[i], &map);
        if (status == CRT_OK)
            status = take_answer(t, i, map, &hash);
    }
    crt_refs_drop(s->refs, (size_t)s->count);
    s->count = 0;
    t->row.words_per_s = (double)(t->row.words - words) / (now_s() - s->began);
    if (status == CRT_OK)
        status = gather_state(t);
    if (status == CRT_OK) {
        t->row.step = s->until - 1;
        t->note.batches = s->until;
        t->note.words = t->row.words;
        return CRT_OK;
    }
    t->row.loss = loss;
    t->row.words = words;
    return status;
}

/* The end of the next stretch: evaluations are behind batch 0, eval_frequency and so on, and behind
 * the last one. */
static uint64_t next_end(const training_t *t)
{
    uint64_t every = (uint64_t)t->setup.eval_frequency, done = t->note.batches;
    uint64_t next = done == 0 ? 1 : (done - 1) / every * every + every + 1;

    return t->most > 0 && next > t->most ? t->most : next;
}

static bool is_done(const training_t *t)
{
    return t->most > 0 && t->note.batches >= t->most;
}

static bool is_patience_over(const training_t *t)
{
    return t->setup.patience > 0 &&
           t->row.step - t->note.best_step >= (uint64_t)t->setup.patience;
}

/* ---------------------------------------------------------------- scores */

static crt_ref_t *send_to_evaluator(training_t *t)
{
    const crt_tensor_t *averages = crt_optimizer_averages(t->optimizer);

    return crt_call(t->evaluator, &evaluator_evaluate,
                    averages ? averages : crt_model_weights(network(t)));
}

static crt_status_t read_scores(training_t *t, crt_ref_t *ref)
{
    const crt_value_t *list;

    CRT_TRY(crt_get(ref, &list));
    t->label_count =
        crt_value_count(list) < LABELS_MAX ? crt_value_count(list) : LABELS_MAX;
    for (size_t i = 0; i < t->label_count; i++) {
        const crt_value_t *row = crt_value_at(list, i);
        crt_ner_count_t *count = &t->counts[i];

        CRT_TRY(crt_value_read(crt_value_at(row, 0), &t->labels[i]));
        CRT_TRY(crt_value_read(crt_value_at(row, 1), &count->gold));
        CRT_TRY(crt_value_read(crt_value_at(row, 2), &count->predicted));
        CRT_TRY(crt_value_read(crt_value_at(row, 3), &count->correct));
    }
    return CRT_OK;
}

static crt_status_t save_best(training_t *t)
{
    const crt_tensor_t *averages = crt_optimizer_averages(t->optimizer);
    size_t bytes = crt_model_parameters(network(t)) * sizeof(float);
    float *weights = crt_model_weights(network(t))->data, *kept;
    crt_status_t status;

    if (!averages)
        return crt_ner_model_save(t->model, NULL, NULL, 0, path_of(t, "model-best"));
    kept = malloc(bytes);
    if (!kept)
        return crt_raise(CRT_ERR_NO_MEMORY, "weights");
    memcpy(kept, weights, bytes);
    memcpy(weights, averages->data, bytes);
    status = crt_ner_model_save(t->model, NULL, NULL, 0, path_of(t, "model-best"));
    memcpy(weights, kept, bytes);
    free(kept);
    return status;
}

/* The score of the last stretch: printed, and kept. */
static crt_status_t finish_evaluation(training_t *t, crt_ref_t **ref)
{
    row_t *row = &t->row;

    CRT_TRY(read_scores(t, *ref));
    crt_ref_drop(&t->evaluated);
    t->evaluated = *ref;
    *ref = NULL;
    row->count = t->counts[0];
    row->seconds = now_s() - t->began;
    row->score = t->setup.weight_f * crt_ner_f(&row->count) +
                 t->setup.weight_p * crt_ner_precision(&row->count) +
                 t->setup.weight_r * crt_ner_recall(&row->count);
    show_nothing();
    print_row(t->setup.has_plain_logger, row);
    write_csv_row(t->csv, row);
    CRT_TRY(show_row(&t->show, (double)row->step, row->loss, crt_ner_f(&row->count),
                     row->words_per_s));
    show_progress((double)(t->note.batches - t->first),
                  t->most > 0 ? (double)(t->most - t->first) : 1, t->began);
    if (row->score >= t->note.best_score) {
        t->note.best_score = row->score;
        t->note.best_step = row->step;
        CRT_TRY(save_best(t));
    }
    return crt_ner_model_save(t->model, t->optimizer, &t->note, sizeof(t->note),
                              path_of(t, "model-last"));
}

/* ---------------------------------------------------------------- training */

/* A process or a node died, or could not be reached; the training itself is not wrong. */
static bool is_loss(crt_status_t status)
{
    return status <= CRT_ERR_ACTOR_DIED || status == CRT_ERR_CANCELLED ||
           status == CRT_ERR_TIMED_OUT;
}

static crt_status_t begin_again(training_t *t, crt_status_t status)
{
    while (status != CRT_OK && is_loss(status) &&
           t->generation <= (int)t->setup.restarts) {
        fprintf(stderr, "train_ner: going on from batch %llu with new members: %s\n",
                (unsigned long long)t->note.batches, crt_error_detail());
        drop_members(t);
        status = make_members(t);
    }
    return status;
}

static crt_status_t run(training_t *t)
{
    stretch_t stretch = {.count = 0};
    crt_ref_t *scores = NULL;
    crt_status_t status;

    if (is_done(t)) {
        printf("nothing is left to do: %llu batches were made\n",
               (unsigned long long)t->note.batches);
        return CRT_OK;
    }
    status = begin_again(t, make_members(t));

    if (status == CRT_OK)
        send_on(t, &stretch, next_end(t));
    while (status == CRT_OK) {
        status = wait_for(t, &stretch);
        if (status != CRT_OK) {
            status = begin_again(t, status);
            if (status == CRT_OK)
                send_on(t, &stretch, next_end(t));
            continue;
        }
        scores = send_to_evaluator(t);
        if (!is_done(t))
            send_on(t, &stretch, next_end(t));
        status = finish_evaluation(t, &scores);
        crt_ref_drop(&scores);
        if (status != CRT_OK || stretch.count == 0 || is_patience_over(t))
            break;
    }
    crt_refs_drop(stretch.refs, (size_t)stretch.count); /* which cancels it */
    drop_members(t);
    return status;
}

static crt_status_t open_files(training_t *t)
{
    bool again = t->resume && access(path_of(t, "model-last"), F_OK) == 0;

    if (mkdir(t->output, 0777) != 0 && errno != EEXIST)
        return crt_raise(CRT_ERR_IO, "%s: %s", t->output, strerror(errno));
    if (t->resume && !again)
        return crt_raise(CRT_ERR_NOT_FOUND, "%s: there is none to go on from",
                         path_of(t, "model-last"));
    if (again) {
        CRT_TRY(crt_ner_model_restore(t->model, t->optimizer, &t->note, sizeof(t->note),
                                      path_of(t, "model-last")));
        t->row.words = t->note.words;
        t->first = t->note.batches;
    }
    CRT_TRY(crt_configuration_write(t->setup.configuration, path_of(t, "config.cfg")));
    t->csv = fopen(path_of(t, "log.csv"), again ? "a" : "w");
    if (!t->csv)
        return crt_raise(CRT_ERR_IO, "%s: %s", path_of(t, "log.csv"), strerror(errno));
    if (!again)
        write_csv_header(t->csv);
    return CRT_OK;
}

/* Batches that member 0 makes of so many passes, which all others end with. */
static crt_status_t count_batches(const training_t *t, const crt_ner_corpus_t *corpus,
                                  uint64_t passes, uint64_t *count_out)
{
    crt_ner_batching_t batching = t->setup.batching;
    const crt_ner_batch_t *batch;
    crt_ner_batches_t *batches;
    crt_status_t status;

    batching.members = (int)t->setup.workers;
    CRT_TRY(crt_ner_batches_new(corpus, &batching, &batches));
    *count_out = 0;
    while ((status = crt_ner_batches_next(batches, &batch)) == CRT_OK &&
           crt_ner_batches_epoch(batches) < passes)
        (*count_out)++;
    crt_ner_batches_drop(&batches);
    return status;
}

/* As spaCy's, whose step 0 is the first batch. */
static crt_status_t find_end(training_t *t, const crt_ner_corpus_t *corpus)
{
    uint64_t count;

    t->most = t->setup.max_steps > 0 ? (uint64_t)t->setup.max_steps + 1 : 0;
    if (t->setup.max_epochs == 0)
        return CRT_OK;
    CRT_TRY(count_batches(t, corpus, (uint64_t)t->setup.max_epochs, &count));
    t->most = t->most == 0 || count < t->most ? count : t->most;
    return CRT_OK;
}

static crt_status_t make_model(training_t *t, const crt_ner_corpus_t *corpus)
{
    if (crt_ner_corpus_documents(corpus) < (size_t)t->setup.workers)
        return crt_raise(CRT_ERR_INVALID, "%s: %zu documents for %lld members",
                         t->setup.train.path, crt_ner_corpus_documents(corpus),
                         (long long)t->setup.workers);
    CRT_TRY(find_end(t, corpus));
    return crt_ner_model_new(&t->setup.model, corpus, (uint64_t)t->setup.seed, &t->model);
}

static crt_status_t prepare(training_t *t)
{
    const reading_t *train = &t->setup.train, *dev = &t->setup.dev;
    crt_ner_corpus_t *corpus;
    crt_status_t status;

    t->began = now_s();
    if (t->setup.absent_logger)
        fprintf(stderr, "train_ner: %s is not here: rows are printed and written to %s\n",
                t->setup.absent_logger, path_of(t, "log.csv"));
    make_absolute(train->path, t->train_path);
    make_absolute(dev->path, t->dev_path);
    /* To say now what is wrong with it. */
    CRT_TRY(open_corpus(dev->path, &dev->selection, &corpus));
    crt_ner_corpus_drop(&corpus);
    CRT_TRY(open_corpus(train->path, &train->selection, &corpus));
    status = make_model(t, corpus);
    crt_ner_corpus_drop(&corpus);
    if (status != CRT_OK)
        return status;
    CRT_TRY(crt_optimizer_new(network(t), &t->setup.optimizer, &t->optimizer));
    CRT_TRY(crt_configuration_text(t->setup.configuration, &t->text));
    t->owners = count_owners(t->setup.mode, (int)t->setup.workers);
    t->owned = divide(network(t), t->owners);
    if (!t->owned)
        return crt_raise(CRT_ERR_NO_MEMORY, "owners");
    return open_files(t);
}

/* How late gradients were that came to an owner. */
static void print_staleness(const training_t *t)
{
    printf("gradients used: %llu, dropped since they were stale: %llu\n",
           (unsigned long long)t->row.accepted, (unsigned long long)t->row.dropped);
    printf("updates late: gradients\n");
    for (int i = 0; i <= LATE_MAX; i++)
        if (t->late[i] > 0)
            printf("%12d%s %llu\n", i,
                   i < LATE_MAX ? ": " : "+:", (unsigned long long)t->late[i]);
}

static void finish(training_t *t)
{
    show_close(&t->show);
    crt_ref_drop(&t->evaluated);
    if (t->evaluator)
        crt_actor_drop(&t->evaluator);
    if (t->csv)
        fclose(t->csv);
    free_owned(t->owned, t->owners);
    crt_free(t->text);
    crt_optimizer_drop(&t->optimizer);
    crt_ner_model_drop(&t->model);
    setup_fini(&t->setup);
}

int train(int count, char **words)
{
    static training_t t;
    crt_status_t status = read_words(&t, count, words);

    crt_ml_set_threads(1); /* idle threads would spin on the members' processors */
    if (status == CRT_OK)
        status = choose_accelerator(&t);
    if (status == CRT_OK)
        status = prepare(&t);
    if (status == CRT_OK)
        status = show_open(&t.show, "words");
    t.show.curves[SHOW_ACCURACY].title = "F by step";
    if (status != CRT_OK)
        return failed("train", status);
    t.evaluator = crt_actor_new(
        &ner_evaluator, CRT_ACTOR_OPTIONS(.max_restarts = -1, .max_task_retries = -1),
        t.text, t.train_path, t.dev_path);
    print_header(t.setup.has_plain_logger);
    status = run(&t);
    if (status != CRT_OK)
        return failed("train", status);
    print_labels(t.labels, t.counts, t.label_count);
    status = show_write(&t.show, path_of(&t, "curve"));
    if (status != CRT_OK)
        return failed("train", status);
    if (t.setup.mode != ALLREDUCE)
        print_staleness(&t);
    printf("best score %.4f at step %llu: %s\n", t.note.best_score,
           (unsigned long long)t.note.best_step, path_of(&t, "model-best"));
    finish(&t);
    return 0;
}
