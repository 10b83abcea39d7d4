/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that are the same, shown once. See line_fold.h. */
#include "runtime/base/line_fold.h"

#include <stdlib.h>
#include <string.h>

/* A text that was shown, and what was held since. */
typedef struct entry {
    crti_list_t in_order;
    uint64_t first_ns;
    size_t held;
    bool is_stderr;
    char *first; /* who said it first, */
    char *last;  /* and who of those that are held did last; NULL: none is */
    char key[];  /* the stream, and the text */
} entry_t;

static crti_span_t span_of(const char *text)
{
    return crti_span(text, strlen(text));
}

static void forget(crti_line_fold_t *fold, entry_t *entry)
{
    if (entry->held)
        fold->show(fold->user, entry->is_stderr, span_of(entry->last),
                   span_of(entry->key + 1), entry->held);
    crti_map_remove(&fold->by_text, entry->key);
    crti_list_remove(&entry->in_order);
    free(entry->first);
    free(entry->last);
    free(entry);
}

static entry_t *oldest(const crti_line_fold_t *fold)
{
    return CRTI_CONTAINER(fold->order.next, entry_t, in_order);
}

void crti_line_fold_init(crti_line_fold_t *fold, crti_fold_show_t *show, void *user)
{
    *fold = (crti_line_fold_t){.show = show, .user = user};
    crti_map_init(&fold->by_text, 0);
    crti_list_init(&fold->order);
}

void crti_line_fold_fini(crti_line_fold_t *fold)
{
    while (!crti_list_is_empty(&fold->order))
        forget(fold, oldest(fold));
    crti_map_fini(&fold->by_text);
}

/* The text that is kept from now on; NULL: no memory, or it is no text that can be. */
static entry_t *remember(crti_line_fold_t *fold, bool is_stderr, crti_span_t source,
                         const char *key, uint64_t now_ns)
{
    size_t size = strlen(key) + 1;
    entry_t *entry = calloc(1, sizeof(*entry) + size);

    if (!entry)
        return NULL;
    memcpy(entry->key, key, size);
    entry->first = strndup(source.data, source.size);
    if (!entry->first || crti_map_put(&fold->by_text, key, entry) != CRT_OK) {
        free(entry->first);
        free(entry);
        return NULL;
    }
    entry->first_ns = now_ns;
    entry->is_stderr = is_stderr;
    crti_list_append(&fold->order, &entry->in_order);
    if (fold->by_text.count > CRTI_FOLD_LINES)
        forget(fold, oldest(fold));
    return entry;
}

static bool is_source(const char *text, crti_span_t source)
{
    return strlen(text) == source.size && memcmp(text, source.data, source.size) == 0;
}

/* False: it is shown instead. */
static bool hold(entry_t *entry, crti_span_t source)
{
    char *last;

    if (entry->held == 0 && is_source(entry->first, source))
        return false;
    last = strndup(source.data, source.size);
    if (!last)
        return false;
    free(entry->last);
    entry->last = last;
    entry->held++;
    return true;
}

void crti_line_fold_add(crti_line_fold_t *fold, bool is_stderr, crti_span_t source,
                        crti_span_t line, uint64_t now_ns)
{
    char key[CRTI_FOLD_BYTES + 2];
    entry_t *entry;

    crti_line_fold_tick(fold, now_ns);
    if (line.size && line.size <= CRTI_FOLD_BYTES && !memchr(line.data, 0, line.size)) {
        key[0] = is_stderr ? '2' : '1';
        memcpy(key + 1, line.data, line.size);
        key[line.size + 1] = '\0';
        entry = crti_map_get(&fold->by_text, key);
        if (entry && hold(entry, source))
            return;
        if (!entry)
            remember(fold, is_stderr, source, key, now_ns);
    }
    fold->show(fold->user, is_stderr, source, line, 0);
}

uint64_t crti_line_fold_tick(crti_line_fold_t *fold, uint64_t now_ns)
{
    while (!crti_list_is_empty(&fold->order)) {
        entry_t *entry = oldest(fold);

        if (entry->first_ns + CRTI_FOLD_NS > now_ns)
            return entry->first_ns + CRTI_FOLD_NS;
        forget(fold, entry);
    }
    return UINT64_MAX;
}
