/* SPDX-License-Identifier: Apache-2.0 */
/* A member of a training: computes gradients of its own batches, and owns parameters.
 *
 * With allreduce each member owns all parameters: in every step all make the same update with the
 * average of their gradients, which one operation sums.
 *
 * In the other modes each parameter has one owner. Gradients go to their owners and new weights
 * come from them, while the members train on. All parameters of an owner have a version; a gradient
 * carries the version that it was computed with, and is dropped and counted when the owner has made
 * more updates since then than `staleness` allows. When the owner has as many as the quorum, it
 * makes an update with their average, and tells everybody. A pass uses the same weights from its
 * first layer to its last: what comes meanwhile is taken over before the next one.
 *
 * Threads: `train` runs beside the methods of the group "exchange"; `lock` guards what both use.
 * The pass has a model of its own, and reads the copy `used`. A member waits for the answers to
 * what it sent in the step before, so no more than a step of each is under way.
 *
 * On a GPU: the model of the passes is there. Weights go there before each pass, its gradients come
 * back behind it; updates, sums and messages are the host's, so members may share a GPU.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <crt_ml_gpu.h>

#include "show.h"
#include "train_ner.h"

typedef struct member {
    setup_t setup;
    crt_ner_corpus_t *corpus;
    crt_ner_batches_t *batches;
    crt_ner_model_t *model;  /* of the passes */
    float *used, *gradients; /* flat: the weights of a pass, and what it gives */
    float *packed;           /* room for a message */
    uint64_t steps;          /* batches made */
    int rank, members;       /* rank == members: owns, but does not train */
    int owners, own;         /* own: -1 when it owns nothing */
    owned_t *owned;          /* of each owner */
    crt_actor_t *actors[MEMBERS_MAX];
    int actor_count;
    crt_group_t *group;
    crt_ref_t *sent[MEMBERS_MAX];
    size_t sent_count;

    pthread_mutex_t lock;
    crt_ner_model_t *newest; /* its network's weights are the newest that are known */
    crt_optimizer_t *optimizer;
    int64_t versions[MEMBERS_MAX]; /* of the newest, of each owner */
    float *sum;                    /* of gradients, where it owns */
    double *squares;
    int64_t counted;            /* gradients in `sum` */
    uint64_t accepted, dropped; /* gradients that came here */
    uint64_t late
        [LATE_MAX +
         1]; /* the same by the updates since their weights; the last: that many and more */
    crt_histogram_t *staleness;
} member_t;

static crt_model_t *newest_network(member_t *m)
{
    return crt_ner_model_network(m->newest);
}

static float *newest_weights(member_t *m)
{
    return crt_model_weights(newest_network(m))->data;
}

static size_t count_floats(member_t *m)
{
    return crt_model_parameters(newest_network(m));
}

/* ---------------------------------------------------------------- create */

/* The first GPU that the member was given, if it is the one that was named. */
static crt_status_t move_passes(member_t *m, const char *gpu)
{
    if (strcmp(gpu, "any") != 0 && strcmp(gpu, crt_gpu_ids()) != 0)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "--gpu-id names GPU %s, and the cluster gave GPU %s: "
                         "--accelerator=gpu takes any",
                         gpu, crt_gpu_ids());
    return crt_model_to_gpu(crt_ner_model_network(m->model), 0, CRT_PRECISION_FLOAT32);
}

static crt_status_t make_models(member_t *m, const char *gpu)
{
    const setup_t *s = &m->setup;
    uint64_t seed = (uint64_t)s->seed;

    CRT_TRY(crt_ner_model_new(&s->model, m->corpus, seed, &m->model));
    CRT_TRY(crt_ner_model_new(&s->model, m->corpus, seed, &m->newest));
    if (*gpu)
        CRT_TRY(move_passes(m, gpu));
    return crt_optimizer_new(newest_network(m), &s->optimizer, &m->optimizer);
}

static crt_status_t make_room(member_t *m)
{
    size_t bytes = count_floats(m) * sizeof(float);
    void *gradients;

    CRT_TRY(crt_group_alloc(bytes, &gradients)); /* members on one node sum it in place */
    m->gradients = gradients;
    m->used = malloc(bytes);
    m->packed = malloc(bytes);
    m->sum = calloc(1, bytes);
    m->squares = calloc(crt_model_arrays(newest_network(m)), sizeof(*m->squares));
    return m->used && m->packed && m->sum && m->squares
               ? CRT_OK
               : crt_raise(CRT_ERR_NO_MEMORY, "a member of a training");
}

static crt_status_t make_batches(member_t *m)
{
    crt_ner_batching_t batching = m->setup.batching;

    if (m->rank == m->members)
        return CRT_OK;
    batching.member = m->rank;
    batching.members = m->members;
    return crt_ner_batches_new(m->corpus, &batching, &m->batches);
}

static crt_status_t create(void *self, crt_call_t *call)
{
    member_t *m = self;
    crt_configuration_t *configuration;
    const char *text, *train, *gpu;

    pthread_mutex_init(&m->lock, NULL);
    CRT_TRY(crt_args(call, &text, &m->rank, &train, &gpu));
    CRT_TRY(
        crt_configuration_parse("the configuration", text, strlen(text), &configuration));
    if (crt_configuration_resolve(configuration) != CRT_OK) {
        crt_configuration_drop(&configuration);
        return crt_raise(CRT_ERR_INVALID, "the configuration can't be read again");
    }
    CRT_TRY(setup_init(&m->setup, configuration));
    crt_ml_set_threads(1);
    CRT_TRY(open_corpus(train, &m->setup.train.selection, &m->corpus));
    m->members = (int)m->setup.workers;
    m->owners = count_owners(m->setup.mode, m->members);
    CRT_TRY(make_models(m, gpu));
    CRT_TRY(make_room(m));
    CRT_TRY(show_staleness(&m->staleness));
    m->owned = divide(newest_network(m), m->owners);
    if (!m->owned)
        return crt_raise(CRT_ERR_NO_MEMORY, "owners");
    m->own = m->setup.mode == ALLREDUCE                                  ? 0
             : m->setup.mode == PEER                                     ? m->rank
             : m->rank == (m->setup.mode == HEAD_CHILD ? 0 : m->members) ? 0
                                                                         : -1;
    return make_batches(m);
}

static void destroy(void *self)
{
    member_t *m = self;

    crt_refs_drop(m->sent, m->sent_count);
    for (int i = 0; i < m->actor_count; i++)
        crt_actor_drop(&m->actors[i]);
    crt_group_drop(&m->group);
    free_owned(m->owned, m->owners);
    crt_group_free(m->gradients);
    free(m->used);
    free(m->packed);
    free(m->sum);
    free(m->squares);
    crt_optimizer_drop(&m->optimizer);
    crt_ner_model_drop(&m->model);
    crt_ner_model_drop(&m->newest);
    crt_ner_batches_drop(&m->batches);
    crt_ner_corpus_drop(&m->corpus);
    setup_fini(&m->setup);
    pthread_mutex_destroy(&m->lock);
}

/* ---------------------------------------------------------------- begin */

/* Weights and the optimizer's numbers of all parameters, one flat buffer behind the other. */
static crt_status_t take_state(member_t *m, const crt_tensor_t *state, uint64_t steps)
{
    size_t floats = count_floats(m);
    int states = crt_optimizer_states(m->optimizer);
    const float *from = state->data;

    if (crt_tensor_count(state) != floats * (size_t)(1 + states))
        return crt_raise(CRT_ERR_INVALID, "a state of %zu numbers, not %zu",
                         crt_tensor_count(state), floats * (size_t)(1 + states));
    memcpy(newest_weights(m), from, floats * sizeof(float));
    for (int i = 0; i < states; i++)
        memcpy(crt_optimizer_state(m->optimizer, i)->data,
               from + (size_t)(i + 1) * floats, floats * sizeof(float));
    crt_optimizer_set_steps(m->optimizer, steps);
    return CRT_OK;
}

static crt_status_t take_actors(member_t *m, const crt_value_t *list)
{
    size_t count = crt_value_count(list);

    if (count > MEMBERS_MAX)
        return crt_raise(CRT_ERR_INVALID, "%zu members", count);
    for (size_t i = 0; i < count; i++) {
        crt_actor_t *actor;

        CRT_TRY(crt_value_read(crt_value_at(list, i), &actor));
        m->actors[m->actor_count++] = crt_actor_keep(actor);
    }
    return CRT_OK;
}

static crt_status_t begin(void *self, crt_call_t *call)
{
    member_t *m = self;
    const crt_value_t *actors;
    const crt_tensor_t *state;
    const crt_ner_batch_t *batch;
    const char *group;
    uint64_t optimizer_steps, steps;

    CRT_TRY(crt_args(call, &actors, &group, &state, &optimizer_steps, &steps));
    CRT_TRY(take_actors(m, actors));
    CRT_TRY(take_state(m, state, optimizer_steps));
    for (m->steps = 0; m->batches && m->steps < steps; m->steps++)
        CRT_TRY(crt_ner_batches_next(m->batches, &batch)); /* where it was */
    if (m->setup.mode != ALLREDUCE || m->members == 1)
        return CRT_OK;
    return crt_group_join(m->members, m->rank, CRT_GROUP_OPTIONS(.name = group),
                          &m->group);
}

/* ---------------------------------------------------------------- exchange */

static crt_tensor_t view_of(float *data, size_t count)
{
    return crt_tensor_floats(data, count);
}

/* Tells all others the weights that this one owns. */
static crt_status_t tell_others(member_t *m)
{
    const owned_t *owned = &m->owned[m->own];
    float *packed = malloc(owned->floats * sizeof(float));
    crt_tensor_t weights = view_of(packed, owned->floats);
    crt_status_t status = CRT_OK;
    crt_ref_t *ref;

    if (!packed)
        return crt_raise(CRT_ERR_NO_MEMORY, "weights for the others");
    pack(owned, newest_weights(m), packed);
    ref = crt_put(&weights);
    free(packed);
    for (int i = 0; i < m->members && status == CRT_OK; i++)
        if (i != m->rank)
            status = crt_tell(m->actors[i], &member_set_parameters, m->own,
                              m->versions[m->own], ref);
    crt_ref_drop(&ref);
    return status;
}

static crt_status_t set_learn_rate(member_t *m, uint64_t step)
{
    double learn_rate;

    CRT_TRY(crt_schedule_at(&m->setup.learn_rate, step, &learn_rate));
    return crt_optimizer_set_learn_rate(m->optimizer, learn_rate);
}

/* An update with the average of what was counted. */
static crt_status_t update(member_t *m)
{
    const owned_t *owned = &m->owned[m->own];
    crt_tensor_t sum = view_of(m->sum, count_floats(m));

    for (size_t i = 0; i < owned->count; i++)
        for (size_t k = 0; k < owned->parts[i].count; k++)
            m->sum[owned->parts[i].first + k] /= (float)m->counted;
    m->counted = 0;
    CRT_TRY(set_learn_rate(m, crt_optimizer_steps(m->optimizer)));
    CRT_TRY(crt_optimizer_measure(m->optimizer, newest_network(m), &sum, owned->parts,
                                  owned->count, m->squares));
    CRT_TRY(crt_optimizer_update(m->optimizer, newest_network(m), &sum, owned->parts,
                                 owned->count, m->squares, 0));
    m->versions[m->own]++;
    return tell_others(m);
}

/* Gradients, packed, of what this member owns. */
static crt_status_t count_gradients(member_t *m, int64_t version, const float *packed)
{
    const owned_t *owned = &m->owned[m->own];
    int64_t late = m->versions[m->own] - version;

    m->late[late < LATE_MAX ? late : LATE_MAX]++;
    crt_histogram_observe(m->staleness, (double)late);
    if (late > m->setup.staleness) {
        m->dropped++;
        return CRT_OK;
    }
    m->accepted++;
    for (size_t i = 0; i < owned->count; i++)
        for (size_t k = 0; k < owned->parts[i].count; k++)
            m->sum[owned->parts[i].first + k] += *packed++;
    return ++m->counted >= m->setup.quorum ? update(m) : CRT_OK;
}

static crt_status_t add_gradients(void *self, crt_call_t *call)
{
    member_t *m = self;
    const crt_tensor_t *gradients;
    int64_t version;
    crt_status_t status = crt_args(call, &version, &gradients);

    if (status == CRT_OK &&
        (m->own < 0 || crt_tensor_count(gradients) != m->owned[m->own].floats))
        return crt_raise(CRT_ERR_INVALID, "gradients of what member %d does not own",
                         m->rank);
    if (status != CRT_OK)
        return status;
    pthread_mutex_lock(&m->lock);
    status = count_gradients(m, version, gradients->data);
    pthread_mutex_unlock(&m->lock);
    return status;
}

static crt_status_t set_parameters(void *self, crt_call_t *call)
{
    member_t *m = self;
    const crt_tensor_t *weights;
    int64_t version;
    int owner;

    CRT_TRY(crt_args(call, &owner, &version, &weights));
    if (owner < 0 || owner >= m->owners || owner == m->own ||
        crt_tensor_count(weights) != m->owned[owner].floats)
        return crt_raise(CRT_ERR_INVALID, "weights of owner %d for member %d", owner,
                         m->rank);
    pthread_mutex_lock(&m->lock);
    if (version > m->versions[owner]) {
        unpack(&m->owned[owner], weights->data, newest_weights(m));
        m->versions[owner] = version;
    }
    pthread_mutex_unlock(&m->lock);
    return CRT_OK;
}

/* ---------------------------------------------------------------- train */

typedef struct progress {
    double loss;
    uint64_t words;
} progress_t;

/* Each batch of each member has random numbers of its own, whoever computed the one before. */
static uint64_t seed_of(const member_t *m)
{
    return ((uint64_t)m->setup.seed * 0x9e3779b97f4a7c15u + m->steps) * 1000003u +
           (uint64_t)m->rank;
}

/* On a GPU: there with these weights, and back with the gradients. */
static crt_status_t compute_there(member_t *m, const crt_tensor_t *weights,
                                  const crt_ner_batch_t *batch, crt_tensor_t *gradients,
                                  double *loss)
{
    crt_model_t *network = crt_ner_model_network(m->model);

    CRT_TRY(crt_model_set_weights(network, weights));
    CRT_TRY(crt_ner_compute_gradients(m->model, NULL, m->corpus, batch, NULL, loss));
    return crt_model_copy_tensor(network, crt_model_gradients(network), gradients);
}

static crt_status_t pass(member_t *m, const crt_tensor_t *weights, progress_t *progress)
{
    crt_tensor_t gradients = view_of(m->gradients, count_floats(m));
    const crt_ner_batch_t *batch;
    double loss;

    CRT_TRY(crt_ner_batches_next(m->batches, &batch));
    crt_ner_model_set_seed(m->model, seed_of(m));
    if (crt_model_gpu(crt_ner_model_network(m->model)) == CRT_NO_GPU)
        CRT_TRY(crt_ner_compute_gradients(m->model, weights, m->corpus, batch, &gradients,
                                          &loss));
    else
        CRT_TRY(compute_there(m, weights, batch, &gradients, &loss));
    progress->loss += loss;
    progress->words += batch->words;
    return CRT_OK;
}

static crt_status_t step_together(member_t *m, progress_t *progress)
{
    crt_tensor_t gradients = view_of(m->gradients, count_floats(m));
    const crt_tensor_t *all = &gradients;

    CRT_TRY(pass(m, crt_model_weights(newest_network(m)), progress));
    if (m->group)
        CRT_TRY(
            crt_group_allreduce(m->group, &gradients, &gradients, CRT_REDUCE_AVERAGE));
    CRT_TRY(set_learn_rate(m, m->steps));
    return crt_optimizer_apply(m->optimizer, newest_network(m), &all, 1, NULL);
}

/* The answers to what was sent last. */
static crt_status_t wait_for_owners(member_t *m)
{
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < m->sent_count && status == CRT_OK; i++)
        status = crt_get(m->sent[i], NULL);
    crt_refs_drop(m->sent, m->sent_count);
    m->sent_count = 0;
    return status;
}

static crt_actor_t *owner_of(const member_t *m, int owner)
{
    return m->actors[m->setup.mode == PEER         ? owner
                     : m->setup.mode == HEAD_CHILD ? 0
                                                   : m->members];
}

static crt_status_t send_gradients(member_t *m, const int64_t *versions)
{
    crt_status_t status = CRT_OK;

    for (int i = 0; i < m->owners && status == CRT_OK; i++) {
        crt_tensor_t packed = view_of(m->packed, m->owned[i].floats);

        if (m->owned[i].count == 0)
            continue;
        pack(&m->owned[i], m->gradients, m->packed);
        if (i == m->own) {
            pthread_mutex_lock(&m->lock);
            status = count_gradients(m, versions[i], m->packed);
            pthread_mutex_unlock(&m->lock);
        } else {
            m->sent[m->sent_count++] =
                crt_call(owner_of(m, i), &member_add_gradients, versions[i], &packed);
        }
    }
    return status;
}

static crt_status_t step_alone(member_t *m, progress_t *progress)
{
    size_t floats = count_floats(m);
    crt_tensor_t used = view_of(m->used, floats);
    int64_t versions[MEMBERS_MAX];

    pthread_mutex_lock(&m->lock);
    memcpy(m->used, newest_weights(m), floats * sizeof(float));
    memcpy(versions, m->versions, sizeof(versions));
    pthread_mutex_unlock(&m->lock);
    CRT_TRY(pass(m, &used, progress));
    CRT_TRY(wait_for_owners(m));
    return send_gradients(m, versions);
}

/* FNV-1a over the bits of the weights. */
static uint64_t hash_weights(member_t *m)
{
    const uint32_t *bits = (const void *)newest_weights(m);
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < count_floats(m); i++)
        hash = (hash ^ bits[i]) * 0x100000001b3u;
    return hash;
}

static crt_status_t answer(member_t *m, crt_call_t *call, const progress_t *progress)
{
    crt_arg_t items[14];
    size_t n = 0;

    pthread_mutex_lock(&m->lock);
    items[n++] = crt_arg_string("loss");
    items[n++] = crt_arg_float(progress->loss);
    items[n++] = crt_arg_string("words");
    items[n++] = crt_arg_unsigned(progress->words);
    items[n++] = crt_arg_string("epoch");
    items[n++] = crt_arg_unsigned(crt_ner_batches_epoch(m->batches));
    items[n++] = crt_arg_string("hash");
    items[n++] = crt_arg_int((int64_t)(hash_weights(m) >> 1));
    items[n++] = crt_arg_string("accepted");
    items[n++] = crt_arg_unsigned(m->accepted);
    items[n++] = crt_arg_string("dropped");
    items[n++] = crt_arg_unsigned(m->dropped);
    pthread_mutex_unlock(&m->lock);
    return crt_return(call, crt_map(items, n));
}

static crt_status_t train_until(void *self, crt_call_t *call)
{
    member_t *m = self;
    progress_t progress = {0};
    uint64_t until;
    crt_status_t status = crt_args(call, &until);

    while (status == CRT_OK && m->steps < until) {
        if (crt_cancelled(call))
            return crt_raise(CRT_ERR_CANCELLED, "nobody waits for the training any more");
        status = m->setup.mode == ALLREDUCE ? step_together(m, &progress)
                                            : step_alone(m, &progress);
        m->steps += status == CRT_OK;
    }
    if (status == CRT_OK)
        status = wait_for_owners(m);
    return status == CRT_OK ? answer(m, call, &progress) : status;
}

/* ---------------------------------------------------------------- state */

static crt_status_t give_state(void *self, crt_call_t *call)
{
    member_t *m = self;
    const owned_t *owned = &m->owned[m->own < 0 ? 0 : m->own];
    int states = crt_optimizer_states(m->optimizer);
    int64_t shape = (int64_t)(owned->floats * (size_t)(1 + states));
    float *packed = malloc((size_t)(shape > 0 ? shape : 1) * sizeof(float));
    crt_tensor_t state = crt_tensor_view(CRT_DTYPE_FLOAT32, 1, &shape, packed);
    crt_arg_t late[LATE_MAX + 1];
    crt_status_t status;

    if (!packed)
        return crt_raise(CRT_ERR_NO_MEMORY, "the state of member %d", m->rank);
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i <= LATE_MAX; i++)
        late[i] = crt_arg_unsigned(m->late[i]);
    pack(owned, newest_weights(m), packed);
    for (int i = 0; i < states; i++)
        pack(owned, crt_optimizer_state(m->optimizer, i)->data,
             packed + (size_t)(i + 1) * owned->floats);
    crt_arg_t items[] = {
        crt_arg_string("state"),    crt_arg_tensor(&state),
        crt_arg_string("steps"),    crt_arg_unsigned(crt_optimizer_steps(m->optimizer)),
        crt_arg_string("accepted"), crt_arg_unsigned(m->accepted),
        crt_arg_string("dropped"),  crt_arg_unsigned(m->dropped),
        crt_arg_string("late"),     crt_list(late, LATE_MAX + 1)};
    status = crt_return(call, crt_map(items, sizeof(items) / sizeof(items[0])));
    pthread_mutex_unlock(&m->lock);
    free(packed);
    return status;
}

const crt_method_t member_begin =
    CRT_METHOD(.name = "begin", .run = begin,
               .signature = "list, string, tensor, int, int");
const crt_method_t member_train =
    CRT_METHOD(.name = "train", .run = train_until, .signature = "int");
const crt_method_t member_give_state =
    CRT_METHOD(.name = "give_state", .run = give_state, .signature = "");
const crt_method_t member_add_gradients =
    CRT_METHOD(.name = "add_gradients", .run = add_gradients, .signature = "int, tensor");
const crt_method_t member_set_parameters =
    CRT_METHOD(.name = "set_parameters", .run = set_parameters,
               .signature = "int, int, tensor");

static const crt_concurrency_group_t exchange =
    CRT_CONCURRENCY_GROUP(.name = "exchange", .max_concurrency = 1,
                          .methods =
                              CRT_METHODS(&member_add_gradients, &member_set_parameters));

const crt_actor_class_t ner_member =
    CRT_ACTOR_CLASS(.name = "NerMember", .size = sizeof(member_t), .create = create,
                    .signature = "string, int, string, string", .destroy = destroy,
                    .methods =
                        CRT_METHODS(&member_begin, &member_train, &member_give_state,
                                    &member_add_gradients, &member_set_parameters),
                    .concurrency_groups = CRT_CONCURRENCY_GROUPS(&exchange));
