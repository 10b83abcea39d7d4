/* SPDX-License-Identifier: Apache-2.0 */
/* Trainers on a private cluster: equal copies, killed ones, replacements, wrong calls. */
#include <signal.h>
#include <unistd.h>

#include <crt_actors.h>

#include "../ml/ml_test.h"

#define MOST    4
#define SAMPLES 600
#define STEPS   200 /* of a training in which one dies */

static const int widths[] = {784, 48, 32, 10, 0};
static crt_ref_t *features, *labels;
static int groups; /* made so far: each has a name of its own */

typedef struct scene {
    int size;
    crt_actor_t *trainers[MOST];
    char name[32];
    crt_replica_options_t options;
} scene_t;

/* What `train` says. */
typedef struct answer {
    int64_t steps;
    int size, recoveries;
    double loss;
    char hash[32];
} answer_t;

static int setup(void **state)
{
    crt_dataset_t *digits;

    assert_ok(crt_dataset_new_digits(SAMPLES, 5, &digits));
    features = crt_put(crt_dataset_features(digits));
    labels = crt_put(crt_dataset_labels(digits));
    crt_dataset_drop(&digits);
    return 0;
}

static int teardown(void **state)
{
    crt_ref_drop(&features);
    crt_ref_drop(&labels);
    return 0;
}

static crt_actor_t *new_trainer(const scene_t *s, int number)
{
    crt_model_spec_t spec =
        CRT_MODEL_SPEC(.widths = widths, .dropout = 0.2, .seed = (uint64_t)number + 11);
    crt_data_spec_t data =
        CRT_DATA_SPEC(.features = features, .labels = labels, .classes = 10,
                      .shard = number, .shards = s->size, .batch_size = 32);

    return crt_trainer_new(NULL, &spec, &data, &s->options);
}

static void assert_ref_ok(crt_ref_t *ref)
{
    if (crt_get_for(ref, 100000, NULL) != CRT_OK)
        fail_msg("%s", crt_error_detail());
}

static void start(scene_t *s, int size)
{
    crt_ref_t *joined[MOST];

    s->size = size;
    s->options.struct_size = sizeof(s->options);
    s->options.bucket_bytes = 20000;
    snprintf(s->name, sizeof(s->name), "trainers-%d", groups++);
    for (int i = 0; i < size; i++) {
        s->trainers[i] = new_trainer(s, i);
        joined[i] = crt_call(s->trainers[i], crt_trainer_join(), s->name, size, i);
    }
    for (int i = 0; i < size; i++)
        assert_ref_ok(joined[i]);
    crt_refs_drop(joined, (size_t)size);
}

static void end(scene_t *s)
{
    for (int i = 0; i < s->size; i++)
        if (s->trainers[i]) {
            assert_ok(crt_actor_kill(s->trainers[i], NULL));
            crt_actor_drop(&s->trainers[i]);
        }
}

static crt_ref_t *call_train(const scene_t *s, int number, int steps, crt_on_death_t then)
{
    return crt_call(s->trainers[number], crt_trainer_train(), steps, (int)then, false);
}

static answer_t read_answer(crt_ref_t *ref)
{
    answer_t a;
    const crt_value_t *map;
    const char *hash;

    assert_ref_ok(ref);
    assert_ok(crt_get(ref, &map));
    assert_ok(crt_value_read(crt_value_find(map, "steps"), &a.steps));
    assert_ok(crt_value_read(crt_value_find(map, "size"), &a.size));
    assert_ok(crt_value_read(crt_value_find(map, "recoveries"), &a.recoveries));
    assert_ok(crt_value_read(crt_value_find(map, "loss"), &a.loss));
    assert_ok(crt_value_read(crt_value_find(map, "hash"), &hash));
    snprintf(a.hash, sizeof(a.hash), "%s", hash);
    crt_ref_drop(&ref);
    return a;
}

/* All that live to `steps`; they end alike. */
static answer_t train_all(scene_t *s, int steps, int living)
{
    crt_ref_t *refs[MOST] = {NULL};
    answer_t one = {.steps = -1}, a;

    for (int i = 0; i < s->size; i++)
        if (s->trainers[i])
            refs[i] = call_train(s, i, steps, CRT_DEATH_SHRINKS);
    for (int i = 0; i < s->size; i++) {
        if (!refs[i])
            continue;
        a = read_answer(refs[i]);
        one = one.steps < 0 ? a : one;
        assert_int_equal(a.steps, steps);
        assert_int_equal(a.size, living);
        assert_string_equal(a.hash, one.hash);
    }
    return one;
}

/* Of a trainer's process, as the cluster tells it. */
static pid_t pid_of(crt_actor_t *actor)
{
    char *json, *at;
    long pid = 0;

    assert_ok(crt_cluster_state("actors", &json));
    at = strstr(json, crt_actor_id(actor));
    at = at ? strstr(at, "\"pid\"") : NULL;
    if (at)
        sscanf(at, "\"pid\" : %ld", &pid);
    if (pid <= 1)
        fail_msg("no pid of %s in %s", crt_actor_id(actor), json);
    crt_free(json);
    return (pid_t)pid;
}

/* ---------------------------------------------------------------- without deaths */

static void check_learning(crt_replica_options_t options)
{
    scene_t s = {.options = options};
    answer_t first, last;

    start(&s, 3);
    first = train_all(&s, 1, 3);
    last = train_all(&s, 150, 3);
    assert_string_not_equal(first.hash, last.hash);
    assert_true(last.loss < 0.9 * first.loss);
    end(&s);
}

static void trainers_learn_and_stay_alike(void **state)
{
    crt_optimizer_options_t adam = crt_adam_options(0.003);

    check_learning((crt_replica_options_t){.optimizer = &adam});
    check_learning((crt_replica_options_t){.optimizer = &adam, .sharded = true});
    check_learning((crt_replica_options_t){
        .optimizer = &adam, .bfloat16 = true, .clip = 1.0, .at_end = true});
}

/* ---------------------------------------------------------------- deaths */

/* At a random moment of a training of many steps, long before its end. */
static void kill_soon(pid_t pid, unsigned *seed)
{
    usleep((useconds_t)(rand_r(seed) % 20000));
    assert_int_equal(kill(pid, SIGKILL), 0);
}

/* The others' calls of `train`; NULL for those that are gone and for `victim`. */
static void call_others(const scene_t *s, int victim, int steps, crt_on_death_t then,
                        crt_ref_t **refs)
{
    for (int i = 0; i < s->size; i++)
        refs[i] = s->trainers[i] && i != victim ? call_train(s, i, steps, then) : NULL;
}

/* Gives the size that all answers tell. */
static int read_alike(const scene_t *s, crt_ref_t **refs, int steps)
{
    char hash[32] = "";
    int size = 0;

    for (int i = 0; i < s->size; i++) {
        answer_t a;

        if (!refs[i])
            continue;
        a = read_answer(refs[i]);
        assert_int_equal(a.steps, steps);
        if (hash[0]) {
            assert_int_equal(a.size, size);
            assert_string_equal(a.hash, hash);
        }
        size = a.size;
        snprintf(hash, sizeof(hash), "%s", a.hash);
    }
    return size;
}

static void assert_alike(const scene_t *s, crt_ref_t **refs, int steps, int living)
{
    assert_int_equal(read_alike(s, refs, steps), living);
}

/* Kills `victim` in the middle of a training, or, if that went by too fast, after it: then the next
 * training is under way. `refs` are the others' calls. Gives the steps that they go to. */
static int train_and_kill(scene_t *s, int victim, int steps, int living,
                          crt_on_death_t then, unsigned *seed, crt_ref_t **refs)
{
    pid_t pid = pid_of(s->trainers[victim]);
    crt_ref_t *last;

    steps += STEPS;
    call_others(s, victim, steps, then, refs);
    last = call_train(s, victim, steps, then);
    kill_soon(pid, seed);
    if (crt_get_for(last, 100000, NULL) == CRT_OK) {
        assert_alike(s, refs, steps, living);
        steps += STEPS;
        call_others(s, victim, steps, then, refs);
    } else {
        assert_int_equal(crt_ref_error(last)->status, CRT_ERR_ACTOR_DIED);
    }
    crt_ref_drop(&last);
    crt_actor_drop(&s->trainers[victim]);
    return steps;
}

static void check_survivors(crt_replica_options_t options, unsigned seed)
{
    static const int victims[] = {0, 3, 2};
    scene_t s = {.options = options};
    int steps = 1;

    start(&s, 4);
    train_all(&s, steps, 4);
    for (int i = 0; i < 3; i++) {
        crt_ref_t *refs[MOST];

        steps =
            train_and_kill(&s, victims[i], steps, 4 - i, CRT_DEATH_SHRINKS, &seed, refs);
        if (read_alike(&s, refs, steps) == 3 - i)
            continue;
        /* It died after its last step, and the comparison counts. */
        steps += STEPS;
        call_others(&s, victims[i], steps, CRT_DEATH_SHRINKS, refs);
        assert_alike(&s, refs, steps, 3 - i);
    }
    end(&s);
}

static void the_others_go_on_when_one_is_killed(void **state)
{
    check_survivors((crt_replica_options_t){.bucket_bytes = 0}, 1);
    check_survivors((crt_replica_options_t){.sharded = true}, 2);
}

static void check_replacements(crt_replica_options_t options, unsigned seed)
{
    scene_t s = {.options = options};
    int steps = 1;

    start(&s, 3);
    train_all(&s, steps, 3);
    for (int victim = 0; victim < 3; victim++) {
        crt_ref_t *refs[MOST], *joined;

        steps = train_and_kill(&s, victim, steps, 3, CRT_DEATH_REPLACES, &seed, refs);
        s.trainers[victim] = new_trainer(&s, victim);
        joined =
            crt_call(s.trainers[victim], crt_trainer_join(), s.name, 3, CRT_RANK_ANY);
        refs[victim] = call_train(&s, victim, steps, CRT_DEATH_REPLACES);
        assert_ref_ok(joined);
        crt_ref_drop(&joined);
        assert_alike(&s, refs, steps, 3);
    }
    end(&s);
}

static void a_replacement_gets_the_weights_and_trains_with_the_others(void **state)
{
    check_replacements((crt_replica_options_t){.bucket_bytes = 0}, 3);
    check_replacements((crt_replica_options_t){.sharded = true}, 4);
}

static void without_a_rule_for_deaths_all_are_told_who_died(void **state)
{
    scene_t s = {.size = 0};
    crt_ref_t *refs[MOST];
    unsigned seed = 5;

    start(&s, 3);
    for (int i = 0; i < 3; i++)
        refs[i] = call_train(&s, i, 1000000, CRT_DEATH_FAILS);
    kill_soon(pid_of(s.trainers[1]), &seed);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(crt_get_for(refs[i], 100000, NULL), CRT_ERR_ACTOR_DIED);
        if (i != 1 && !strstr(crt_error_detail(), "rank 1"))
            fail_msg("rank 1 is not in '%s'", crt_error_detail());
    }
    crt_refs_drop(refs, 3);
    crt_actor_drop(&s.trainers[1]);
    end(&s);
}

/* ---------------------------------------------------------------- the last comparison */

/* A member that is no trainer: has the weights like all, and settles without having compared. */
typedef struct partner {
    crt_group_t *group;
    crt_model_t *model;
    crt_replica_t *replica;
} partner_t;

static crt_status_t partner_join_run(void *self, crt_call_t *call)
{
    partner_t *p = self;
    const char *name;
    int size, rank;

    CRT_TRY(crt_args(call, &name, &size, &rank));
    CRT_TRY(crt_mlp_new(widths, 0.2, 1, &p->model));
    CRT_TRY(crt_group_join(size, rank, CRT_GROUP_OPTIONS(.name = name), &p->group));
    return crt_replica_new(p->group, p->model, NULL, &p->replica);
}
static const crt_method_t partner_join =
    CRT_METHOD(.name = "join", .run = partner_join_run, .signature = "string, int, int");

static crt_status_t partner_settle_run(void *self, crt_call_t *call)
{
    partner_t *p = self;

    return crt_group_settle(p->group);
}
static const crt_method_t partner_settle =
    CRT_METHOD(.name = "settle", .run = partner_settle_run, .signature = "");

static void partner_destroy(void *self)
{
    partner_t *p = self;

    crt_replica_drop(&p->replica);
    p->replica = NULL;
    crt_group_drop(&p->group);
    crt_model_drop(&p->model);
    p->model = NULL;
}

static crt_status_t partner_leave_run(void *self, crt_call_t *call)
{
    partner_destroy(self);
    return CRT_OK;
}
static const crt_method_t partner_leave =
    CRT_METHOD(.name = "leave", .run = partner_leave_run, .signature = "");

static const crt_actor_class_t partner_class =
    CRT_ACTOR_CLASS(.name = "Partner", .size = sizeof(partner_t),
                    .destroy = partner_destroy,
                    .methods =
                        CRT_METHODS(&partner_join, &partner_settle, &partner_leave));

static void wait_and_drop(crt_ref_t *ref)
{
    assert_ref_ok(ref);
    crt_ref_drop(&ref);
}

/* Nothing is left to be trained, so the comparison is the only operation. Rank 2 dies in it; rank 0
 * says that it has seen it succeed, and waits for its next call. */
static void who_dies_in_the_last_comparison_keeps_nobody_waiting(void **state)
{
    scene_t s = {.size = 3, .options = {.struct_size = sizeof(crt_replica_options_t)}};
    crt_ref_t *refs[MOST];
    answer_t a;

    snprintf(s.name, sizeof(s.name), "trainers-%d", groups++);
    s.trainers[0] = crt_actor_new(&partner_class, NULL);
    refs[0] = crt_call(s.trainers[0], &partner_join, s.name, 3, 0);
    for (int i = 1; i < 3; i++) {
        s.trainers[i] = new_trainer(&s, i);
        refs[i] = crt_call(s.trainers[i], crt_trainer_join(), s.name, 3, i);
    }
    for (int i = 0; i < 3; i++)
        wait_and_drop(refs[i]);
    for (int i = 1; i < 3; i++)
        refs[i] = call_train(&s, i, 0, CRT_DEATH_SHRINKS);
    assert_int_equal(kill(pid_of(s.trainers[2]), SIGKILL), 0);
    assert_int_equal(crt_get_for(refs[2], 100000, NULL), CRT_ERR_ACTOR_DIED);
    crt_ref_drop(&refs[2]);
    crt_actor_drop(&s.trainers[2]);
    wait_and_drop(crt_call(s.trainers[0], &partner_settle));
    if (crt_get_for(refs[1], 30000, NULL) != CRT_OK) /* half of the group's timeout */
        fail_msg("%s", crt_error_detail());
    a = read_answer(refs[1]);
    assert_int_equal(a.size, 3);
    assert_int_equal(a.recoveries, 0);
    wait_and_drop(crt_call(s.trainers[0], &partner_leave));
    a = read_answer(call_train(&s, 1, 5, CRT_DEATH_SHRINKS));
    assert_int_equal(a.steps, 5);
    assert_int_equal(a.size, 1);
    assert_int_equal(a.recoveries, 1);
    end(&s);
}

/* ---------------------------------------------------------------- wrong calls */

static void assert_ref_fails(crt_ref_t *ref, crt_status_t status, const char *part)
{
    assert_fails(crt_get_for(ref, 100000, NULL), status, part);
    crt_ref_drop(&ref);
}

static void wrong_calls_are_named(void **state)
{
    scene_t s = {.size = 1, .options = {.struct_size = sizeof(crt_replica_options_t)}};
    crt_optimizer_options_t odd = crt_adam_options(0.001);
    float few[3] = {0};
    crt_tensor_t weights = crt_tensor_floats(few, 3);

    s.trainers[0] = new_trainer(&s, 0);
    assert_ref_fails(call_train(&s, 0, 5, CRT_DEATH_FAILS), CRT_ERR_INVALID,
                     "in no group");
    assert_ref_fails(crt_call(s.trainers[0], crt_trainer_set_weights(), &weights),
                     CRT_ERR_INVALID, "3 numbers");
    end(&s);
    start(&s, 1);
    assert_ref_fails(crt_call(s.trainers[0], crt_trainer_set_weights(), &weights),
                     CRT_ERR_INVALID, "in a group already");
    end(&s);
    odd.kind = (crt_optimizer_kind_t)9;
    s.options.optimizer = &odd;
    s.trainers[0] = new_trainer(&s, 0);
    assert_ref_fails(crt_call(s.trainers[0], crt_trainer_get_weights()), CRT_ERR_INVALID,
                     "(adam, sgd, adamw, radam)");
    crt_actor_drop(&s.trainers[0]);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trainers_learn_and_stay_alike),
        cmocka_unit_test(the_others_go_on_when_one_is_killed),
        cmocka_unit_test(a_replacement_gets_the_weights_and_trains_with_the_others),
        cmocka_unit_test(without_a_rule_for_deaths_all_are_told_who_died),
        cmocka_unit_test(who_dies_in_the_last_comparison_keeps_nobody_waiting),
        cmocka_unit_test(wrong_calls_are_named),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, setup, teardown);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&partner_class), .num_cpus = 4),
                    driver);
}
