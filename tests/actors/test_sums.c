/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of the gradients of a group's members, bucket by bucket during the backward pass: the
 * same bits on all of them, whichever way it was made. */
#include <crt_actors.h>
#include <crt_collective.h>

#include "../ml/ml_test.h"

#define MOST    4
#define SAMPLES 128
#define BATCHES 3
#define BUCKET  20000 /* bytes: of this model seven buckets */

static const int widths[] = {784, 48, 32, 10, 0};

typedef struct summer {
    crt_group_t *group;
    crt_model_t *model;
} summer_t;

static uint64_t mix(uint64_t hash, const float *numbers, size_t count)
{
    const unsigned char *bytes = (const unsigned char *)numbers;

    for (size_t i = 0; i < count * sizeof(float); i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

/* One gradient of this member's own batch, and the average of all. */
static crt_status_t add_average(summer_t *s, crt_buckets_t *buckets,
                                const crt_batch_t *batch, uint64_t *hash)
{
    crt_tensor_t gradients = *crt_buckets_gradients(buckets);
    size_t count = crt_tensor_count(&gradients);
    double loss;

    crt_model_watch_gradients(s->model, crt_buckets_seen, buckets);
    CRT_TRY(crt_model_compute_gradients(s->model, NULL, batch, &gradients, &loss));
    crt_model_watch_gradients(s->model, NULL, NULL);
    CRT_TRY(crt_buckets_finish(buckets));
    CRT_TRY(crt_buckets_gather(buckets, &gradients)); /* of scatter: the others' parts */
    *hash = mix(*hash, gradients.data, count);
    return CRT_OK;
}

static crt_status_t add_averages(summer_t *s, crt_buckets_t *buckets, uint64_t *hash)
{
    crt_dataset_t *all, *shard;
    crt_batches_t *batches;
    crt_status_t status = CRT_OK;

    CRT_TRY(crt_dataset_new_digits(SAMPLES, 4, &all));
    CRT_TRY(crt_dataset_new_shard(all, crt_group_rank(s->group), crt_group_size(s->group),
                                  &shard));
    CRT_TRY(crt_batches_new(shard, 16, (uint64_t)crt_group_rank(s->group), &batches));
    for (int i = 0; i < BATCHES && status == CRT_OK; i++)
        status = add_average(s, buckets, crt_batches_next(batches), hash);
    crt_batches_drop(&batches);
    crt_dataset_drop(&shard);
    crt_dataset_drop(&all);
    return status;
}

static crt_status_t sum_run(void *self, crt_call_t *call)
{
    summer_t *s = self;
    crt_buckets_options_t options = {.struct_size = sizeof(options),
                                     .bucket_bytes = BUCKET};
    crt_buckets_t *buckets;
    const char *name, *backend;
    uint64_t hash = 0xcbf29ce484222325u;
    int size, rank;
    crt_status_t status;

    CRT_TRY(crt_args(call, &name, &backend, &size, &rank, &options.scatter,
                     &options.at_end, &options.bfloat16));
    CRT_TRY(crt_mlp_new(widths, 0.2, 3, &s->model));
    CRT_TRY(crt_group_join(
        size, rank, CRT_GROUP_OPTIONS(.name = name, .backend = backend), &s->group));
    CRT_TRY(
        crt_buckets_new(s->group, crt_model_parameters(s->model), &options, &buckets));
    status = add_averages(s, buckets, &hash);
    crt_buckets_drop(&buckets);
    crt_group_drop(&s->group);
    crt_model_drop(&s->model);
    return status == CRT_OK ? crt_return(call, hash >> 1) : status;
}
static const crt_method_t summer_sum =
    CRT_METHOD(.name = "sum", .run = sum_run,
               .signature = "string, string, int, int, bool, bool, bool");

static const crt_actor_class_t summer =
    CRT_ACTOR_CLASS(.name = "Summer", .size = sizeof(summer_t),
                    .methods = CRT_METHODS(&summer_sum));

/* ---------------------------------------------------------------- in the driver */

static crt_actor_t *summers[MOST];

static int setup(void **state)
{
    for (int i = 0; i < MOST; i++)
        summers[i] = crt_actor_new(&summer, CRT_ACTOR_OPTIONS(.num_cpus = 0));
    return 0;
}

static int teardown(void **state)
{
    for (int i = 0; i < MOST; i++) {
        assert_ok(crt_actor_kill(summers[i], NULL));
        crt_actor_drop(&summers[i]);
    }
    return 0;
}

/* What all have, as a hash. */
static uint64_t sum_of_all(const char *backend, int size, bool scatter, bool at_end,
                           bool bfloat16)
{
    static int groups;
    crt_ref_t *refs[MOST];
    uint64_t hashes[MOST];
    char name[32];

    snprintf(name, sizeof(name), "sums-%d", groups++);
    for (int i = 0; i < size; i++)
        refs[i] = crt_call(summers[i], &summer_sum, (const char *)name, backend, size, i,
                           scatter, at_end, bfloat16);
    for (int i = 0; i < size; i++) {
        if (crt_get_for(refs[i], 100000, &hashes[i]) != CRT_OK)
            fail_msg("rank %d: %s", i, crt_error_detail());
        if (hashes[i] != hashes[0])
            fail_msg("%s, %d members, %s: rank %d has other bits than rank 0", backend,
                     size, scatter ? "sharded" : "allreduce", i);
    }
    crt_refs_drop(refs, (size_t)size);
    return hashes[0];
}

static void all_members_have_the_same_bits(void **state)
{
    static const char *const backends[] = {"shm", "ring"};

    for (int b = 0; b < 2; b++)
        for (int size = 2; size <= MOST; size += 2)
            for (int way = 0; way < 4; way++)
                assert_true(sum_of_all(backends[b], size, way % 2, false, way / 2) != 0);
}

static void a_sum_during_the_pass_has_the_bits_of_one_after_it(void **state)
{
    for (int scatter = 0; scatter < 2; scatter++)
        assert_true(sum_of_all("auto", MOST, scatter, false, false) ==
                    sum_of_all("auto", MOST, scatter, true, false));
}

static void parts_of_a_sharded_sum_have_the_bits_of_the_whole(void **state)
{
    for (int size = 2; size <= MOST; size += 2)
        assert_true(sum_of_all("auto", size, false, false, false) ==
                    sum_of_all("auto", size, true, false, false));
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_members_have_the_same_bits),
        cmocka_unit_test(a_sum_during_the_pass_has_the_bits_of_one_after_it),
        cmocka_unit_test(parts_of_a_sharded_sum_have_the_bits_of_the_whole),
    };

    return cmocka_run_group_tests_name("sums", tests, setup, teardown);
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.classes = CRT_CLASSES(&summer), .object_store_memory = 64 << 20),
        driver);
}
