/* SPDX-License-Identifier: Apache-2.0 */
/* Sort: records of a file that may be larger than all stores of the cluster, on nodes that come
 * and go.
 *
 *     ./sort [-p MIB_OF_A_PART] [-r RANGES] [-b BYTES_OF_A_RECORD] FILE FOLDER
 *
 *     sample  the driver reads some records: between which two of them a record lies is its range
 *     split   sorts the records of a part of the file into ranges: a result each
 *     merge   sorts one range, of all parts, into FOLDER/part-0000, FOLDER/part-0001, ...
 *
 * One behind the other the files of the folder are what `LC_ALL=C sort FILE` prints, where records
 * are lines of 100 bytes, the default. File and folder have to be seen by all nodes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <crt.h>

#define RANGES_MAX 1024
#define SAMPLES    64 /* of each range */

static _Thread_local size_t record_size = 100;

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, record_size);
}

static char *read_at(const char *path, int64_t offset, size_t size)
{
    char *bytes = malloc(size);
    FILE *file = fopen(path, "re");
    bool is_read = bytes && file && fseek(file, offset, SEEK_SET) == 0 &&
                   fread(bytes, 1, size, file) == size;

    if (file)
        fclose(file);
    if (!is_read)
        free(bytes);
    return is_read ? bytes : NULL;
}

/* ---------------------------------------------------------------- split */

/* How many of the sorted `bounds` are not behind the record. */
static size_t range_of(const char *record, const char *bounds, size_t count)
{
    size_t low = 0;

    while (low < count) {
        size_t middle = (low + count) / 2;

        if (by_bytes(bounds + middle * record_size, record) <= 0)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* `bounds` are one less than ranges, and as long as records are. */
static crt_status_t return_ranges(crt_call_t *call, const char *records, size_t size,
                                  const char *bounds, char *sorted)
{
    size_t ranges = crt_return_count(call), ends[RANGES_MAX + 1] = {0};

    for (const char *at = records; at < records + size; at += record_size)
        ends[range_of(at, bounds, ranges - 1) + 1] += record_size;
    for (size_t r = 0; r < ranges; r++)
        ends[r + 1] += ends[r];
    for (const char *at = records; at < records + size; at += record_size) {
        size_t *to = &ends[range_of(at, bounds, ranges - 1)];

        memcpy(sorted + *to, at, record_size); /* where its range begins, at first */
        *to += record_size;
    }
    for (size_t r = 0, from = 0; r < ranges; from = ends[r++])
        CRT_TRY(crt_return_at(call, r, crt_bytes(sorted + from, ends[r] - from)));
    return CRT_OK;
}

static crt_status_t split_run(crt_call_t *call)
{
    const char *path;
    int64_t offset, size;
    crt_bytes_t bounds;
    crt_status_t status;
    char *records, *sorted;

    CRT_TRY(crt_args(call, &path, &offset, &size, &record_size, &bounds));
    records = read_at(path, offset, (size_t)size);
    sorted = malloc((size_t)size);
    if (records && sorted)
        status = return_ranges(call, records, (size_t)size, bounds.data, sorted);
    else
        status = crt_fail(call, CRT_ERR_IO, "%s can't be read", path);
    free(records);
    free(sorted);
    return status;
}
static const crt_task_t split = CRT_TASK(.name = "split", .run = split_run,
                                         .signature = "string, int, int, int, bytes");

/* ---------------------------------------------------------------- merge */

/* Pointers are sorted by the first bytes of the records, which lie beside them. */
typedef struct item {
    uint64_t first;
    const char *record;
} item_t;

static int by_key(const void *a, const void *b)
{
    const item_t *x = a, *y = b;

    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return by_bytes(x->record, y->record);
}

static size_t list_records(item_t *items, crt_bytes_t range)
{
    const char *at = range.data, *end = at + range.size;
    size_t count = 0;

    for (; at < end; at += record_size, count++) {
        items[count] = (item_t){.first = 0, .record = at};
        for (size_t i = 0; i < 8; i++)
            items[count].first =
                items[count].first << 8 | (i < record_size ? (unsigned char)at[i] : 0);
    }
    return count;
}

/* Under another name until it is whole: a task may run more than once. */
static crt_status_t write_records(crt_call_t *call, const char *path, const item_t *items,
                                  size_t count)
{
    const char *name = strrchr(path, '/') + 1;
    char *other = NULL;
    FILE *file = NULL;
    bool is_written = asprintf(&other, "%.*s.%s-%s-%d", (int)(name - path), path, name,
                               crt_node_id(), getpid()) > 0 &&
                      (file = fopen(other, "we")) != NULL;

    for (size_t i = 0; is_written && i < count; i++)
        is_written = fwrite(items[i].record, record_size, 1, file) == 1;
    if (file)
        is_written = fclose(file) == 0 && is_written && rename(other, path) == 0;
    free(other);
    return is_written ? CRT_OK : crt_fail(call, CRT_ERR_IO, "%s can't be written", path);
}

static crt_status_t merge_run(crt_call_t *call)
{
    const char *path;
    size_t count = 0, bytes = 0, ranges = crt_arg_count(call);
    crt_bytes_t range;
    crt_status_t status;
    item_t *items;

    CRT_TRY(crt_arg_at(call, 0, &path));
    CRT_TRY(crt_arg_at(call, 1, &record_size));
    for (size_t i = 2; i < ranges; i++) {
        CRT_TRY(crt_arg_at(call, i, &range));
        bytes += range.size;
    }
    items = calloc(bytes / record_size + 1, sizeof(*items));
    if (!items)
        return crt_fail(call, CRT_ERR_NO_MEMORY, "%zu bytes of records", bytes);
    for (size_t i = 2; i < ranges; i++) {
        (void)crt_arg_at(call, i, &range);
        count += list_records(items + count, range);
    }
    qsort(items, count, sizeof(*items), by_key);
    status = write_records(call, path, items, count);
    free(items);
    return status;
}
static const crt_task_t merge =
    CRT_TASK(.name = "merge", .run = merge_run, .signature = "string, int, bytes...");

/* ---------------------------------------------------------------- the driver */

static struct {
    int64_t part, ranges;
} options = {16, 32};

static void check(bool is_right, const char *what)
{
    if (is_right)
        return;
    fprintf(stderr, "sort: %s\n", what);
    exit(1);
}

/* Records that lie evenly in the file, sorted; every one of so many is where a range begins. */
static char *sample_bounds(const char *path, int64_t records)
{
    int64_t count = SAMPLES * options.ranges, size = (int64_t)record_size;
    char *samples = malloc((size_t)(count * size)), *record;

    check(samples != NULL, "no memory for samples");
    for (int64_t i = 0; i < count; i++) {
        record = read_at(path, records * i / count * size, record_size);
        check(record != NULL, path);
        memcpy(samples + i * size, record, record_size);
        free(record);
    }
    qsort(samples, (size_t)count, record_size, by_bytes);
    for (int64_t r = 1; r < options.ranges; r++)
        memmove(samples + (r - 1) * size, samples + r * SAMPLES * size, record_size);
    return samples;
}

static void sort_file(const char *path, int64_t records, const char *folder)
{
    int64_t size = (int64_t)record_size, part = options.part / size;
    size_t parts = (size_t)((records + part - 1) / part), ranges = (size_t)options.ranges;
    crt_ref_t **refs = calloc(parts * ranges + parts, sizeof(*refs)),
              **range = refs + parts * ranges, *results[RANGES_MAX];
    char *bounds = sample_bounds(path, records), name[4096];

    check(refs != NULL, "no memory for refs");
    for (size_t i = 0; i < parts; i++) {
        int64_t from = (int64_t)i * part, left = records - from;

        crt_submit_returns(refs + i * ranges, ranges, &split, NULL, path, from * size,
                           (left < part ? left : part) * size, size,
                           crt_bytes(bounds, (ranges - 1) * record_size));
    }
    for (size_t r = 0; r < ranges; r++) {
        for (size_t i = 0; i < parts; i++)
            range[i] = refs[i * ranges + r];
        snprintf(name, sizeof(name), "%s/part-%04zu", folder, r);
        results[r] = crt_submit(&merge, NULL, (const char *)name, size,
                                crt_arg_each(range, parts));
    }
    crt_refs_drop(refs, parts * ranges); /* the calls keep what they need */
    for (size_t r = 0; r < ranges; r++)
        CRT_CHECK(crt_get(results[r], NULL));
    crt_refs_drop(results, ranges);
    free(bounds);
    free(refs);
}

static int driver(int argc, char **argv)
{
    struct stat file = {0};
    char *path, *folder;
    int option;

    while ((option = getopt(argc, argv, "p:r:b:")) != -1)
        switch (option) {
        case 'p': options.part = atoll(optarg); break;
        case 'r': options.ranges = atoll(optarg); break;
        case 'b': record_size = (size_t)atoll(optarg); break;
        default: return 2;
        }
    options.part <<= 20;
    if (optind + 2 != argc || options.ranges < 1 || options.ranges > RANGES_MAX ||
        record_size < 1 || options.part < (int64_t)record_size) {
        fprintf(stderr, "sort [-p MIB_OF_A_PART] [-r RANGES] [-b BYTES_OF_A_RECORD] FILE "
                        "FOLDER\n");
        return 2;
    }
    (void)mkdir(argv[optind + 1], 0777); /* it may be there */
    path = realpath(argv[optind], NULL);
    folder = realpath(argv[optind + 1], NULL);
    check(path && stat(path, &file) == 0, argv[optind]);
    check(folder != NULL, argv[optind + 1]);
    check(file.st_size % (long)record_size == 0, "the file ends within a record");
    sort_file(path, file.st_size / (long)record_size, folder);
    free(path);
    free(folder);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&split, &merge)), driver);
}
