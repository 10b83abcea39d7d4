/* SPDX-License-Identifier: Apache-2.0 */
/* Word count: the most frequent words of files, which may be larger than all stores of the cluster,
 * on nodes that come and go.
 *
 *     ./word_count [-p MIB_OF_A_PART] [-r RANGES] [-n WORDS] FILE...
 *
 *     map     counts the words of a part of a file, and sorts them into ranges of their hash: a
 *             result each
 *     reduce  adds up the counts of one range, of all parts, and returns the most frequent words
 *
 * The files are read where tasks run, so all nodes have to see them. At /metrics of the dashboard:
 * crt_user_word_count_read_bytes_total, crt_user_word_count_counted_bytes_total.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crt.h>

#define RANGES_MAX 1024

typedef struct word {
    const char *text;
    size_t size;
    int64_t count;
} word_t;

static bool next_word(const char **at, const char *end, word_t *word)
{
    while (*at < end && isspace((unsigned char)**at))
        ++*at;
    *word = (word_t){.text = *at, .count = 1};
    while (*at < end && !isspace((unsigned char)**at))
        ++*at;
    word->size = (size_t)(*at - word->text);
    return word->size > 0;
}

static size_t hash_of(const word_t *word)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < word->size; i++)
        hash = (hash ^ (unsigned char)word->text[i]) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

static void add_to_metric(const char *name, size_t bytes)
{
    crt_counter_t *counter;

    if (crt_counter(name, "Bytes of words.", NULL, &counter) == CRT_OK)
        crt_counter_add(counter, (double)bytes);
}

/* ---------------------------------------------------------------- counting */

typedef struct table {
    word_t *words; /* each at the place of its hash, or at the next free one */
    size_t places, used;
} table_t;

static void add(table_t *table, const word_t *word)
{
    size_t i = hash_of(word) & (table->places - 1);
    word_t *here = &table->words[i];

    while (here->count > 0 &&
           (here->size != word->size || memcmp(here->text, word->text, word->size) != 0))
        here = &table->words[i = (i + 1) & (table->places - 1)];
    table->used += here->count == 0;
    *here = (word_t){word->text, word->size, here->count + word->count};
}

/* Less than half of the places are taken. */
static bool make_room(table_t *table)
{
    table_t larger = {.places = table->places ? 2 * table->places : 1024};

    if (2 * table->used < table->places)
        return true;
    larger.words = calloc(larger.places, sizeof(word_t));
    for (size_t i = 0; larger.words && i < table->places; i++)
        if (table->words[i].count > 0)
            add(&larger, &table->words[i]);
    free(table->words);
    *table = larger;
    return larger.words != NULL;
}

/* Counts the words of a text; with `are_counted` each has its count in front of it. */
static bool count_text(table_t *table, const char *at, size_t size, bool are_counted)
{
    const char *end = at + size;
    word_t word, count;

    while (next_word(&at, end, are_counted ? &count : &word)) {
        if (are_counted && next_word(&at, end, &word))
            word.count = atoll(count.text);
        if (!make_room(table))
            return false;
        add(table, &word);
    }
    return true;
}

/* ---------------------------------------------------------------- map */

/* Lines "count word" of each range. */
static crt_status_t return_ranges(crt_call_t *call, const table_t *table)
{
    size_t ranges = crt_return_count(call), sizes[RANGES_MAX];
    char *texts[RANGES_MAX];
    FILE *files[RANGES_MAX];
    crt_status_t status = CRT_OK;

    for (size_t r = 0; r < ranges; r++)
        files[r] = open_memstream(&texts[r], &sizes[r]);
    for (size_t i = 0; i < table->places; i++) {
        const word_t *word = &table->words[i];

        if (word->count > 0)
            fprintf(files[hash_of(word) % ranges], "%lld %.*s\n", (long long)word->count,
                    (int)word->size, word->text);
    }
    for (size_t r = 0; r < ranges; r++) {
        fclose(files[r]);
        if (status == CRT_OK)
            status = crt_return_at(call, r, crt_bytes(texts[r], sizes[r]));
        free(texts[r]);
    }
    return status;
}

static crt_status_t map_run(crt_call_t *call)
{
    table_t table = {0};
    const char *path;
    int64_t offset, size;
    crt_status_t status;
    char *text;
    FILE *file;

    CRT_TRY(crt_args(call, &path, &offset, &size));
    text = malloc((size_t)size);
    file = fopen(path, "re");
    if (text && file && fseek(file, offset, SEEK_SET) == 0 &&
        fread(text, 1, (size_t)size, file) == (size_t)size &&
        count_text(&table, text, (size_t)size, false))
        status = return_ranges(call, &table);
    else
        status = crt_fail(call, CRT_ERR_IO, "%s can't be read", path);
    if (file)
        fclose(file);
    free(table.words);
    free(text);
    add_to_metric("word_count_read_bytes", (size_t)size);
    return status;
}
static const crt_task_t map =
    CRT_TASK(.name = "map", .run = map_run, .signature = "string, int, int");

/* ---------------------------------------------------------------- reduce */

/* The most frequent ones first, those of one count in the order of their bytes. */
static int by_count(const void *a, const void *b)
{
    const word_t *x = a, *y = b;
    int order = (x->count < y->count) - (x->count > y->count);

    if (order == 0 && x->count > 0)
        order = memcmp(x->text, y->text, x->size < y->size ? x->size : y->size);
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

/* word, count, word, count, ... */
static crt_status_t return_first(crt_call_t *call, table_t *table, int64_t wanted)
{
    size_t count = (size_t)wanted < table->used ? (size_t)wanted : table->used;
    crt_arg_t *items = calloc(2 * count + 1, sizeof(*items));
    crt_status_t status;

    qsort(table->words, table->places, sizeof(word_t), by_count); /* free places last */
    for (size_t i = 0; items && i < count; i++) {
        items[2 * i] = CRT_ARG(crt_bytes(table->words[i].text, table->words[i].size));
        items[2 * i + 1] = CRT_ARG(table->words[i].count);
    }
    status = items ? crt_return(call, crt_list(items, 2 * count)) : CRT_ERR_NO_MEMORY;
    free(items);
    return status;
}

static crt_status_t reduce_run(crt_call_t *call)
{
    table_t table = {0};
    int64_t wanted;
    crt_status_t status = crt_arg_at(call, 0, &wanted);

    for (size_t i = 1; i < crt_arg_count(call) && status == CRT_OK; i++) {
        crt_bytes_t range;

        status = crt_arg_at(call, i, &range);
        if (status == CRT_OK && !count_text(&table, range.data, range.size, true))
            status = crt_fail(call, CRT_ERR_NO_MEMORY, "too many words");
        add_to_metric("word_count_counted_bytes", range.size);
    }
    if (status == CRT_OK)
        status = return_first(call, &table, wanted);
    free(table.words);
    return status;
}
static const crt_task_t reduce =
    CRT_TASK(.name = "reduce", .run = reduce_run, .signature = "int, bytes...");

/* ---------------------------------------------------------------- the driver */

static struct {
    int64_t part, ranges, wanted;
} options = {16, 32, 10};

/* Where the part that begins at `from` ends: behind a word. */
static int64_t end_of_part(FILE *file, int64_t from)
{
    int byte;

    fseek(file, from + options.part, SEEK_SET);
    while ((byte = getc(file)) != EOF && !isspace(byte))
        continue;
    if (byte == EOF)
        fseek(file, 0, SEEK_END);
    return ftell(file);
}

/* The refs of all parts, one for each range, part behind part. */
static crt_ref_t **map_file(char *name, crt_ref_t **refs, size_t *parts)
{
    size_t ranges = (size_t)options.ranges;
    char *path = realpath(name, NULL);
    FILE *file = path ? fopen(path, "re") : NULL;
    int64_t end;

    if (!file) {
        perror(name);
        exit(1);
    }
    for (int64_t from = 0; (end = end_of_part(file, from)) > from; from = end) {
        refs = realloc(refs, ++*parts * ranges * sizeof(*refs));
        crt_submit_returns(refs + (*parts - 1) * ranges, ranges, &map, NULL, path, from,
                           end - from);
    }
    fclose(file);
    free(path);
    return refs;
}

static void print_first(crt_ref_t **results)
{
    word_t *words = NULL;
    size_t count = 0;

    for (int64_t r = 0; r < options.ranges; r++) {
        const crt_value_t *list;
        crt_bytes_t text;

        CRT_CHECK(crt_get(results[r], &list));
        words = realloc(words, (count + crt_value_count(list) / 2 + 1) * sizeof(*words));
        for (size_t i = 0; i < crt_value_count(list); i += 2) {
            CRT_CHECK(crt_value_read(crt_value_at(list, i), &text));
            words[count] = (word_t){.text = text.data, .size = text.size};
            CRT_CHECK(crt_value_read(crt_value_at(list, i + 1), &words[count++].count));
        }
    }
    qsort(words, count, sizeof(word_t), by_count);
    for (size_t i = 0; i < count && (int64_t)i < options.wanted; i++)
        printf("%lld %.*s\n", (long long)words[i].count, (int)words[i].size,
               words[i].text);
    free(words);
}

static void count_words(char **names)
{
    crt_ref_t **refs = NULL, **range, *results[RANGES_MAX];
    size_t parts = 0, ranges = (size_t)options.ranges;

    for (; *names; names++)
        refs = map_file(*names, refs, &parts);
    range = calloc(parts + 1, sizeof(*range));
    for (size_t r = 0; r < ranges; r++) {
        for (size_t i = 0; i < parts; i++)
            range[i] = refs[i * ranges + r];
        results[r] =
            crt_submit(&reduce, NULL, options.wanted, crt_arg_each(range, parts));
    }
    crt_refs_drop(refs, parts * ranges); /* the calls keep what they need */
    print_first(results);
    crt_refs_drop(results, ranges);
    free(range);
    free(refs);
}

static int driver(int argc, char **argv)
{
    int option;

    while ((option = getopt(argc, argv, "p:r:n:")) != -1)
        switch (option) {
        case 'p': options.part = atoll(optarg); break;
        case 'r': options.ranges = atoll(optarg); break;
        case 'n': options.wanted = atoll(optarg); break;
        default: return 2;
        }
    if (options.part < 1 || options.ranges < 1 || options.ranges > RANGES_MAX ||
        options.wanted < 0 || optind == argc) {
        fprintf(stderr, "word_count [-p MIB_OF_A_PART] [-r RANGES] [-n WORDS] FILE...\n");
        return 2;
    }
    options.part <<= 20;
    count_words(argv + optind);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(.tasks = CRT_TASKS(&map, &reduce)), driver);
}
