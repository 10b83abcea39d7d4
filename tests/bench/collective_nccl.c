/* SPDX-License-Identifier: Apache-2.0 */
/* Allreduce of float32 on GPUs through crt_collective.h, beside ncclAllReduce on the same buffers.
 *
 * Usage: collective_nccl [--json] [--ranks N] [--bytes B]... [--rounds R]
 *
 * Each rank is an actor with a GPU and two communicators: that of its crt group, and one of its
 * own. A round writes the buffer, meets the others, and times one operation until it has ended on
 * the GPU: ours, then NCCL's. A rank's figure is the median of its rounds, a size's the slowest
 * rank's. Both results are checked. Where there are fewer GPUs than ranks, ranks share them: NCCL
 * is told that they are on different hosts (NCCL_HOSTID), and then moves their bytes by sockets.
 */
#include <crt.h>
#include <crt_collective.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective/backends/nccl_library.h"
#include "own_cluster.h"
#include "timing.h"

#define RANKS 16
#define SIZES 16

static int ranks = 1, rounds = 20;
static bool as_json;
static size_t sizes[SIZES] = {1 << 10, 1 << 16, 1 << 20, 16 << 20, 256 << 20};
static int size_count;

/* ---------------------------------------------------------------- a rank */

struct rank {
    const crti_nccl_api_t *api;
    crt_group_t *group;
    ncclComm_t bare;
    cudaStream_t stream;
    int device;
};

static crt_status_t check_cuda(const struct rank *r, cudaError_t result, const char *what)
{
    return result == cudaSuccess ? CRT_OK
                                 : crt_raise(CRT_ERR_UNSUPPORTED, "%s: %s", what,
                                             r->api->cuda_text(result));
}

static crt_status_t check_nccl(const struct rank *r, ncclResult_t result,
                               const char *what)
{
    return result == ncclSuccess ? CRT_OK
                                 : crt_raise(CRT_ERR_UNSUPPORTED, "%s: %s", what,
                                             r->api->nccl_text(result));
}

/* What the others need to make a communicator with this one. */
static crt_status_t id_run(void *self, crt_call_t *call)
{
    struct rank *r = self;
    ncclUniqueId id;

    CRT_TRY(crti_nccl_library(&r->api));
    CRT_TRY(check_nccl(r, r->api->unique_id(&id), "ncclGetUniqueId"));
    return crt_return(call, ((crt_bytes_t){&id, sizeof(id)}));
}
static const crt_method_t rank_id =
    CRT_METHOD(.name = "id", .run = id_run, .signature = "");

static crt_status_t make_bare(struct rank *r, int size, int rank,
                              const crt_bytes_t *bytes)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t state = ncclInProgress;
    ncclUniqueId id;

    if (bytes->size != sizeof(id))
        return crt_raise(CRT_ERR_INVALID, "an id of %zu bytes", bytes->size);
    memcpy(&id, bytes->data, sizeof(id));
    config.blocking = 0;
    state = r->api->init(&r->bare, size, id, rank, &config);
    while (state == ncclInProgress)
        if (r->api->async_error(r->bare, &state) != ncclSuccess)
            break;
    return check_nccl(r, state, "ncclCommInitRankConfig");
}

static crt_status_t join_run(void *self, crt_call_t *call)
{
    struct rank *r = self;
    int size, rank, devices;
    crt_bytes_t id;
    char host[32];

    CRT_TRY(crt_args(call, &size, &rank, &id));
    CRT_TRY(crti_nccl_library(&r->api));
    CRT_TRY(check_cuda(r, r->api->device_count(&devices), "cudaGetDeviceCount"));
    if (devices == 0)
        return crt_raise(CRT_ERR_UNSUPPORTED, "there is no GPU");
    if (devices < size) {
        snprintf(host, sizeof(host), "rank-%d", rank);
        setenv("NCCL_HOSTID", host, 1);
    }
    r->device = rank % devices;
    CRT_TRY(check_cuda(r, r->api->set_device(r->device), "cudaSetDevice"));
    CRT_TRY(check_cuda(r, r->api->stream_create(&r->stream, cudaStreamNonBlocking),
                       "cudaStreamCreateWithFlags"));
    CRT_TRY(make_bare(r, size, rank, &id));
    return crt_group_join(size, rank,
                          CRT_GROUP_OPTIONS(.name = "bench", .backend = "nccl",
                                            .device = r->device, .stream = r->stream),
                          &r->group);
}
static const crt_method_t rank_join =
    CRT_METHOD(.name = "join", .run = join_run, .signature = "int, int, bytes");

/* Until everything on the stream has ended. */
static crt_status_t settle(struct rank *r)
{
    cudaError_t state;

    do
        state = r->api->stream_query(r->stream);
    while (state == cudaErrorNotReady);
    return check_cuda(r, state, "cudaStreamQuery");
}

static crt_status_t reduce_bare(struct rank *r, const crt_tensor_t *view)
{
    ncclResult_t state = r->api->allreduce(view->data, view->data, crt_tensor_count(view),
                                           ncclFloat32, ncclSum, r->bare, r->stream);

    while (state == ncclInProgress)
        if (r->api->async_error(r->bare, &state) != ncclSuccess)
            break;
    CRT_TRY(check_nccl(r, state, "ncclAllReduce"));
    return settle(r);
}

/* One operation on a buffer of ones, timed; checks the first and the last sum. */
static crt_status_t one_round(struct rank *r, const crt_tensor_t *view, float *host,
                              bool bare, double *us_out)
{
    size_t count = crt_tensor_count(view), bytes = count * sizeof(float);
    float wanted = (float)crt_group_size(r->group);
    double start;

    for (size_t i = 0; i < count; i++)
        host[i] = 1;
    CRT_TRY(check_cuda(
        r, r->api->copy(view->data, host, bytes, cudaMemcpyHostToDevice, r->stream),
        "cudaMemcpyAsync"));
    CRT_TRY(settle(r));
    CRT_TRY(crt_group_barrier(r->group));
    start = now_us();
    CRT_TRY(bare ? reduce_bare(r, view)
                 : crt_group_allreduce(r->group, view, view, CRT_REDUCE_SUM));
    *us_out = now_us() - start;
    CRT_TRY(check_cuda(
        r, r->api->copy(host, view->data, bytes, cudaMemcpyDeviceToHost, r->stream),
        "cudaMemcpyAsync"));
    CRT_TRY(settle(r));
    if (host[0] != wanted || host[count - 1] != wanted)
        return crt_raise(CRT_ERR_CORRUPT, "%g and %g instead of %g", (double)host[0],
                         (double)host[count - 1], (double)wanted);
    return CRT_OK;
}

/* A list: the median microseconds of ours, and of the bare call. */
static crt_status_t measure_run(void *self, crt_call_t *call)
{
    struct rank *r = self;
    int64_t bytes, times;
    double *us[2];
    crt_tensor_t view;
    crt_status_t status;
    float *host;

    CRT_TRY(crt_args(call, &bytes, &times));
    host = malloc((size_t)bytes);
    us[0] = calloc((size_t)times, sizeof(double));
    us[1] = calloc((size_t)times, sizeof(double));
    view = crt_tensor_floats(NULL, (size_t)bytes / sizeof(float));
    view.device = crt_device_gpu(r->device);
    status = check_cuda(r, r->api->allocate(&view.data, (size_t)bytes), "cudaMalloc");
    for (int64_t i = -2; i < times && status == CRT_OK; i++)
        for (int bare = 0; bare < 2 && status == CRT_OK; bare++)
            status = one_round(r, &view, host, bare, &us[bare][i < 0 ? 0 : i]);
    if (view.data)
        r->api->release(view.data);
    if (status == CRT_OK) {
        crt_arg_t medians[2] = {crt_arg_float(median(us[0], (int)times)),
                                crt_arg_float(median(us[1], (int)times))};

        status = crt_return(call, crt_list(medians, 2));
    }
    free(us[0]);
    free(us[1]);
    free(host);
    return status;
}
static const crt_method_t rank_measure =
    CRT_METHOD(.name = "measure", .run = measure_run, .signature = "int, int");

static crt_status_t leave_run(void *self, crt_call_t *call)
{
    struct rank *r = self;

    crt_group_drop(&r->group);
    r->api->abort(r->bare); /* nothing is in flight: no need to agree on the end */
    r->api->stream_destroy(r->stream);
    return CRT_OK;
}
static const crt_method_t rank_leave =
    CRT_METHOD(.name = "leave", .run = leave_run, .signature = "");

static const crt_actor_class_t rank_class =
    CRT_ACTOR_CLASS(.name = "Rank", .size = sizeof(struct rank),
                    .methods =
                        CRT_METHODS(&rank_id, &rank_join, &rank_measure, &rank_leave));

/* ---------------------------------------------------------------- the driver */

static void measure(crt_actor_t **actors, size_t bytes, double us[2])
{
    crt_ref_t *refs[RANKS];

    us[0] = us[1] = 0;
    for (int r = 0; r < ranks; r++)
        refs[r] = crt_call(actors[r], &rank_measure, (int64_t)bytes, rounds);
    for (int r = 0; r < ranks; r++) {
        const crt_value_t *pair;

        CRT_CHECK(crt_get(refs[r], &pair));
        for (size_t bare = 0; bare < 2; bare++) {
            double figure = 0;

            CRT_CHECK(crt_value_read(crt_value_at(pair, bare), &figure));
            us[bare] = figure > us[bare] ? figure : us[bare];
        }
        crt_ref_drop(&refs[r]);
    }
}

static void print_row(size_t bytes, const double us[2], bool is_last)
{
    double bus = 2.0 * (ranks - 1) / ranks * (double)bytes / us[0] / 1e3;

    if (as_json)
        printf("  {\"op\": \"allreduce\", \"ranks\": %d, \"bytes\": %zu, \"us\": %.3f, "
               "\"bus_gb_per_s\": %.3f, \"nccl_us\": %.3f}%s\n",
               ranks, bytes, us[0], bus, us[1], is_last ? "" : ",");
    else
        printf("%10zu  %10.2f us  %8.2f GB/s  NCCL %10.2f us  %6.3f x its time\n", bytes,
               us[0], bus, us[1], us[0] / us[1]);
    fflush(stdout);
}

static void join_all(crt_actor_t **actors)
{
    crt_ref_t *refs[RANKS], *id = crt_call(actors[0], &rank_id);

    for (int r = 0; r < ranks; r++)
        refs[r] = crt_call(actors[r], &rank_join, ranks, r, id);
    crt_ref_drop(&id);
    for (int r = 0; r < ranks; r++) {
        CRT_CHECK(crt_get(refs[r], NULL));
        crt_ref_drop(&refs[r]);
    }
}

static void leave_all(crt_actor_t **actors)
{
    crt_ref_t *refs[RANKS];

    for (int r = 0; r < ranks; r++)
        refs[r] = crt_call(actors[r], &rank_leave);
    for (int r = 0; r < ranks; r++) {
        CRT_CHECK(crt_get(refs[r], NULL));
        crt_ref_drop(&refs[r]);
        crt_actor_drop(&actors[r]);
    }
}

static int driver(int argc, char **argv)
{
    crt_actor_t *actors[RANKS];

    for (int r = 0; r < ranks; r++)
        actors[r] = crt_actor_new(&rank_class, NULL);
    join_all(actors);
    if (as_json)
        printf("[\n");
    for (int i = 0; i < size_count; i++) {
        double us[2];

        measure(actors, sizes[i], us);
        print_row(sizes[i], us, i == size_count - 1);
    }
    if (as_json)
        printf("]\n");
    leave_all(actors);
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: collective_nccl [--json] [--ranks N] [--bytes B]... "
                    "[--rounds R]\n");
    return 2;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        long long value = i + 1 < argc ? atoll(argv[i + 1]) : 0;

        if (strcmp(argv[i], "--json") == 0)
            as_json = true;
        else if (strcmp(argv[i], "--ranks") == 0 && value > 0 && value <= RANKS)
            ranks = (int)value, i++;
        else if (strcmp(argv[i], "--rounds") == 0 && value > 0)
            rounds = (int)value, i++;
        else if (strcmp(argv[i], "--bytes") == 0 && value >= 4 && size_count < SIZES)
            sizes[size_count++] = (size_t)value, i++;
        else
            return usage();
    }
    if (size_count == 0)
        size_count = 5;
    use_own_cluster();
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.classes = CRT_CLASSES(&rank_class), .object_store_memory = 64 << 20),
        driver);
}
