/* SPDX-License-Identifier: Apache-2.0 */
/* A driver with more objects than its node's store holds, which does what it is told, a line each
 * (test_spill.py). The answer begins with the name of the status.
 *     node            where the driver is
 *     put N BYTES     so many objects of that size, all kept
 *     make N BYTES    the same, made by tasks; they can be made again
 *     get             all of them are got in random order and compared; how many bytes
 *     sum NODE        tasks there get all of them; how many bytes
 *     hold N          the first N are got and stay pinned
 *     drop N          the last N of those that are left are dropped
 *     count           how many are left */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <crt.h>

#define OBJECTS_MAX 20000

static struct {
    crt_ref_t *ref;
    uint64_t seed;
    size_t size;
} objects[OBJECTS_MAX];
static size_t object_count;
static uint64_t last_seed;

static void fill(uint64_t *words, size_t size, uint64_t seed)
{
    for (size_t i = 0; i < size / 8; i++)
        words[i] = (seed + i) * 0x9e3779b97f4a7c15u;
}

/* The first wrong byte, or `size`. */
static size_t first_wrong(const uint64_t *words, size_t size, uint64_t seed)
{
    for (size_t i = 0; i < size / 8; i++)
        if (words[i] != (seed + i) * 0x9e3779b97f4a7c15u)
            return 8 * i;
    return size;
}

static crt_status_t made_run(crt_call_t *call)
{
    int64_t seed, size;
    uint64_t *words;
    crt_status_t status;

    CRT_TRY(crt_args(call, &seed, &size));
    words = malloc((size_t)size);
    if (!words)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "no memory");
    fill(words, (size_t)size, (uint64_t)seed);
    status = crt_return(call, ((crt_bytes_t){words, (size_t)size}));
    free(words);
    return status;
}
static const crt_task_t made =
    CRT_TASK(.name = "made", .run = made_run, .signature = "int, int");

/* -1 when a byte is wrong. */
static crt_status_t length_run(crt_call_t *call)
{
    crt_bytes_t bytes;
    int64_t seed;

    CRT_TRY(crt_args(call, &bytes, &seed));
    return crt_return(call,
                      first_wrong(bytes.data, bytes.size, (uint64_t)seed) == bytes.size
                          ? (int64_t)bytes.size
                          : -1);
}
static const crt_task_t length =
    CRT_TASK(.name = "length", .run = length_run, .signature = "bytes, int");

static crt_status_t answer(crt_status_t status)
{
    const char *text = crt_error_detail();

    printf("%s %.*s\n", crt_status_name(status), (int)strcspn(text, "\n"), text);
    return status;
}

static void keep(crt_ref_t *ref, uint64_t seed, size_t size)
{
    objects[object_count].ref = ref;
    objects[object_count].seed = seed;
    objects[object_count++].size = size;
}

static crt_status_t put(size_t count, size_t size, bool is_made)
{
    uint64_t *words = malloc(size);
    crt_status_t status = words ? CRT_OK : CRT_ERR_NO_MEMORY;

    for (size_t i = 0; i < count && status == CRT_OK && object_count < OBJECTS_MAX; i++) {
        uint64_t seed = ++last_seed;
        size_t ready;
        const crt_error_t *error;
        crt_ref_t *ref;

        if (is_made) {
            ref = crt_submit(&made, NULL, (int64_t)seed, (int64_t)size);
            status = crt_wait(&ref, 1, 1, CRT_FOREVER, NULL, &ready);
        } else {
            fill(words, size, seed);
            ref = crt_put(((crt_bytes_t){words, size}));
        }
        error = crt_ref_error(ref);
        if (error)
            status = crt_get(ref, NULL);
        if (error)
            crt_ref_drop(&ref);
        else
            keep(ref, seed, size);
    }
    free(words);
    return status;
}

/* A ref that was got keeps its object in memory, so each is sent through a list. */
static crt_status_t get_all(uint64_t *bytes_out)
{
    crt_status_t status = CRT_OK;
    uint64_t random = 1;

    *bytes_out = 0;
    for (size_t i = object_count; i-- > 1;) {
        size_t other;

        random = random * 6364136223846793005u + 1442695040888963407u;
        other = (random >> 33) % (i + 1);
        typeof(objects[0]) one = objects[i];
        objects[i] = objects[other];
        objects[other] = one;
    }
    while (object_count > 0 && status == CRT_OK) {
        typeof(objects[0]) *o = &objects[--object_count];
        crt_bytes_t bytes;

        status = crt_get(o->ref, &bytes);
        if (status == CRT_OK && (bytes.size != o->size ||
                                 first_wrong(bytes.data, o->size, o->seed) != o->size)) {
            fprintf(stderr, "object %" PRIu64 " has wrong bytes\n", o->seed);
            abort();
        }
        *bytes_out += status == CRT_OK ? bytes.size : 0;
        if (status != CRT_OK)
            object_count++;
        else
            crt_ref_drop(&o->ref);
    }
    return status;
}

static crt_status_t sum(const char *node, uint64_t *bytes_out)
{
    crt_status_t status = CRT_OK;

    *bytes_out = 0;
    for (size_t i = 0; i < object_count && status == CRT_OK; i++) {
        crt_ref_t *ref = crt_submit(
            &length,
            CRT_TASK_OPTIONS(.scheduling = CRT_SCHEDULE_NODE_AFFINITY, .node_id = node),
            objects[i].ref, (int64_t)objects[i].seed);
        int64_t size = 0;

        status = crt_get(ref, &size);
        crt_ref_drop(&ref);
        if (status == CRT_OK && size < 0)
            abort();
        *bytes_out += (uint64_t)size;
    }
    return status;
}

static crt_status_t obey(char *line)
{
    char *words[4] = {"", "", "", ""}, *rest = line;
    size_t count, size;
    uint64_t bytes = 0;
    crt_status_t status = CRT_OK;

    for (int i = 0; i < 4 && (words[i] = strsep(&rest, " \n")); i++)
        ;
    count = words[1] ? strtoull(words[1], NULL, 10) : 0;
    size = words[2] ? strtoull(words[2], NULL, 10) : 0;
    if (strcmp(words[0], "node") == 0) {
        printf("CRT_OK %s\n", crt_node_id());
        return CRT_OK;
    }
    if (strcmp(words[0], "put") == 0 || strcmp(words[0], "make") == 0)
        status = put(count, size, *words[0] == 'm');
    else if (strcmp(words[0], "get") == 0)
        status = get_all(&bytes);
    else if (strcmp(words[0], "sum") == 0)
        status = sum(words[1], &bytes);
    else if (strcmp(words[0], "hold") == 0)
        for (size_t i = 0; i < count && i < object_count && status == CRT_OK; i++)
            status = crt_get(objects[i].ref, NULL);
    else if (strcmp(words[0], "count") == 0)
        bytes = object_count;
    else if (strcmp(words[0], "drop") == 0)
        for (; count > 0 && object_count > 0; count--)
            crt_ref_drop(&objects[--object_count].ref);
    else
        status = CRT_ERR_INVALID;
    if (status != CRT_OK)
        return answer(status);
    printf("CRT_OK %" PRIu64 "\n", bytes);
    return CRT_OK;
}

static int driver(int argc, char **argv)
{
    char line[256];

    while (fgets(line, sizeof(line), stdin)) {
        obey(line);
        fflush(stdout);
    }
    while (object_count > 0)
        crt_ref_drop(&objects[--object_count].ref);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&made, &length)), driver);
}
