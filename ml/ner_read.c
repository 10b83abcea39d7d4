/* SPDX-License-Identifier: Apache-2.0 */
/* Reads corpora: a word in each line (CoNLL), or a sentence in each line (IOB).
 *
 * Where it sits
 *     file -> [ lines -> words and tags as they stand there -> BILUO ] -> ml/ner_corpus.c
 * How
 *     Whether a file is BILUO is known at its end only. So all its words are read first, each with
 *     the action that its tag names and its line; then the tags of each sentence are made BILUO, or
 *     checked to be it.
 * Failure
 *     Bytes are untrusted. Errors name file and line.
 */
#include <stdlib.h>
#include <string.h>

#include "ml/file.h"
#include "ml/gzip.h"
#include "ml/ner_corpus.h"
#include "ml/text.h"

#define FILE_MAX ((size_t)1 << 30)
#define DOCUMENT "-DOCSTART-"
#define LETTERS                                                                          \
    "-BILUOES" /* of tags; in the order of crt_ner_action_t, then those of IOBES */
#define NO_RESULT SIZE_MAX

typedef struct reader {
    const char *name;
    size_t line; /* that is read, from 1 */
    int sentences_each, sentences;
    bool is_iob;      /* a sentence in each line */
    bool is_biluo;    /* there was a tag "L-", "U-", "E-" or "S-" */
    bool in_sentence; /* a word of it was read */
    crt_ner_corpus_t *corpus;
    uint32_t *lines; /* of each word */
    size_t lines_room;
} reader_t;

typedef struct text {
    const char *at;
    size_t size;
} text_t;

static crt_status_t damaged(const reader_t *r, size_t line, const char *what, text_t text)
{
    return crt_raise(CRT_ERR_CORRUPT, "%s:%zu: %s: \"%.*s\"", r->name, line, what,
                     (int)(text.size < 100 ? text.size : 100), text.at);
}

static bool is_one_of(char c, const char *marks)
{
    return c && strchr(marks, c);
}

/* What stands before the next byte of `marks`; `rest` begins behind it. */
static text_t take(text_t *rest, const char *marks)
{
    size_t length = 0;
    text_t taken;

    while (length < rest->size && !is_one_of(rest->at[length], marks))
        length++;
    taken = (text_t){rest->at, length};
    length += length < rest->size;
    rest->at += length;
    rest->size -= length;
    return taken;
}

static text_t take_line(text_t *rest)
{
    const char *end = rest->at + rest->size, *to = crti_text_line_end(rest->at, end);
    text_t line = {rest->at, (size_t)(to - rest->at)};

    rest->at = crti_text_next_line(to, end);
    rest->size = (size_t)(end - rest->at);
    return line;
}

static text_t trim(text_t text)
{
    while (text.size > 0 && is_one_of(text.at[text.size - 1], " \t"))
        text.size--;
    return text;
}

/* "B-PER", "O" and "-": an action, and the label. */
static crt_status_t read_tag(reader_t *r, text_t text, crti_ner_tag_t *tag_out)
{
    const char *letter =
        text.size ? memchr(LETTERS, text.at[0], sizeof(LETTERS) - 1) : NULL;
    crti_ner_tag_t tag = {.label = CRTI_NER_NO_LABEL};

    if (!letter)
        return damaged(r, r->line, "no tag", text);
    tag.action = *letter == 'E'   ? CRT_NER_LAST
                 : *letter == 'S' ? CRT_NER_UNIT
                                  : (uint8_t)(letter - LETTERS);
    if (tag.action == CRT_NER_OUT || tag.action == CRT_NER_MISSING) {
        *tag_out = tag;
        return text.size == 1 ? CRT_OK : damaged(r, r->line, "no tag", text);
    }
    if (text.size < 3 || text.at[1] != '-')
        return damaged(r, r->line, "a tag without a label", text);
    r->is_biluo = r->is_biluo || tag.action == CRT_NER_LAST || tag.action == CRT_NER_UNIT;
    *tag_out = tag;
    return crti_ner_add_label(r->corpus, text.at + 2, text.size - 2, &tag_out->label);
}

static crt_status_t end_sentence(reader_t *r)
{
    if (!r->in_sentence)
        return CRT_OK;
    r->in_sentence = false;
    if (++r->sentences < r->sentences_each)
        return CRT_OK;
    r->sentences = 0;
    return crti_ner_end_document(r->corpus);
}

static crt_status_t add_word(reader_t *r, text_t word, text_t tag_text)
{
    crti_ner_tag_t tag;
    crt_status_t status = read_tag(r, tag_text, &tag);

    if (word.size == 0)
        word = (text_t){" ", 1}; /* a word of white space that some tool took away */
    if (status == CRT_OK)
        status = crti_ner_grow((void **)&r->lines, &r->lines_room, r->corpus->words + 1,
                               sizeof(*r->lines));
    if (status != CRT_OK)
        return status;
    tag.starts_sentence = !r->in_sentence;
    r->lines[r->corpus->words] = (uint32_t)r->line;
    r->in_sentence = true;
    status = crti_ner_add_word(r->corpus, word.at, word.size, tag);
    return status == CRT_ERR_INVALID
               ? damaged(r, r->line,
                         word.size > CRTI_NER_WORD_MAX ? "a word that is too long"
                                                       : "a word that is not UTF-8",
                         word)
               : status;
}

static crt_status_t read_word_line(reader_t *r, text_t line)
{
    text_t rest = trim(line), word, last = {0};
    const char *marks = memchr(rest.at, '\t', rest.size) ? "\t" : " ";

    if (rest.size == 0)
        return end_sentence(r);
    word = take(&rest, marks);
    if (word.size == strlen(DOCUMENT) && memcmp(word.at, DOCUMENT, word.size) == 0) {
        crt_status_t status = end_sentence(r);

        r->sentences = 0;
        return status == CRT_OK ? crti_ner_end_document(r->corpus) : status;
    }
    while (rest.size > 0)
        last = take(&rest, marks);
    if (!last.at)
        return damaged(r, r->line, "a word and its tag are wanted", line);
    return add_word(r, word, last);
}

/* The last byte `mark` of a text. */
static size_t find_last(text_t text, char mark)
{
    while (text.size > 0 && text.at[text.size - 1] != mark)
        text.size--;
    return text.size == 0 ? NO_RESULT : text.size - 1;
}

/* "Word|tag" or "Word|POS|tag". */
static bool split(text_t item, text_t *word_out, text_t *tag_out)
{
    size_t bar = find_last(item, '|'), before;

    if (bar == NO_RESULT || bar == 0)
        return false;
    *tag_out = (text_t){item.at + bar + 1, item.size - bar - 1};
    item.size = bar;
    before = find_last(item, '|');
    item.size = before == NO_RESULT || before == 0 ? bar : before;
    *word_out = item;
    return true;
}

static crt_status_t read_sentence_line(reader_t *r, text_t line)
{
    text_t rest = trim(line), word, tag;
    crt_status_t status = CRT_OK;

    while (rest.size > 0 && status == CRT_OK) {
        text_t item = take(&rest, " \t");

        if (item.size == 0)
            continue;
        if (!split(item, &word, &tag))
            return damaged(r, r->line, "Word|POS|tag is wanted", item);
        status = add_word(r, word, tag);
    }
    return status == CRT_OK ? end_sentence(r) : status;
}

/* Whether the first line that is not empty is a sentence of words with bars. */
static bool looks_like_iob(text_t text)
{
    text_t line = {0}, item, word, tag;

    while (text.size > 0 && line.size == 0)
        line = trim(take_line(&text));
    if (line.size == 0 || memchr(line.at, '\t', line.size))
        return false;
    item = take(&line, " ");
    return split(item, &word, &tag) && tag.size > 0 && is_one_of(tag.at[0], LETTERS) &&
           (tag.size == 1 || tag.at[1] == '-');
}

static crt_status_t read_lines(reader_t *r, text_t text)
{
    crt_status_t status = CRT_OK;

    r->is_iob = looks_like_iob(text);
    while (text.size > 0 && status == CRT_OK) {
        text_t line = take_line(&text);

        r->line++;
        if (memchr(line.at, '\0', line.size))
            return damaged(r, r->line, "a byte of zero", line);
        status = r->is_iob ? read_sentence_line(r, line) : read_word_line(r, line);
    }
    if (status == CRT_OK)
        status = end_sentence(r);
    return status == CRT_OK ? crti_ner_end_document(r->corpus) : status;
}

/* From word `i` on: where the entity that begins there ends. */
static size_t entity_end(const crt_ner_corpus_t *c, size_t i, size_t end)
{
    uint8_t label = c->tags[i].label;

    for (i++; i < end && c->tags[i].action == CRT_NER_IN && c->tags[i].label == label;)
        i++;
    return i;
}

static void make_biluo(crt_ner_corpus_t *c, size_t first, size_t end)
{
    for (size_t i = first, next; i < end; i = next) {
        next = i + 1;
        if (c->tags[i].label == CRTI_NER_NO_LABEL)
            continue;
        next = entity_end(c, i, end);
        c->tags[i].action = next == i + 1 ? CRT_NER_UNIT : CRT_NER_BEGIN;
        if (next > i + 1)
            c->tags[next - 1].action = CRT_NER_LAST;
    }
}

static crt_status_t check_biluo(const reader_t *r, size_t first, size_t end)
{
    const crti_ner_tag_t *tags = r->corpus->tags, *open = NULL;

    for (size_t i = first; i < end; i++) {
        const crti_ner_tag_t *tag = &tags[i];
        bool goes_on = tag->action == CRT_NER_IN || tag->action == CRT_NER_LAST;
        text_t word = {r->corpus->text + r->corpus->word_at[i], 0};

        word.size = strlen(word.at);
        if (goes_on && !open)
            return damaged(r, r->lines[i], "goes on with an entity that has not begun",
                           word);
        if (open && (!goes_on || tag->label != open->label))
            return damaged(r, r->lines[i], "an entity before it has no end", word);
        open = tag->action == CRT_NER_BEGIN || tag->action == CRT_NER_IN ? tag : NULL;
    }
    if (open)
        return damaged(r, r->lines[end - 1], "an entity has no end in its sentence",
                       (text_t){"", 0});
    return CRT_OK;
}

static crt_status_t convert_tags(reader_t *r)
{
    crt_ner_corpus_t *c = r->corpus;
    crt_status_t status = CRT_OK;

    for (size_t first = 0, end; first < c->words && status == CRT_OK; first = end) {
        for (end = first + 1; end < c->words && !c->tags[end].starts_sentence;)
            end++;
        if (r->is_biluo)
            status = check_biluo(r, first, end);
        else
            make_biluo(c, first, end);
    }
    return status;
}

crt_status_t crt_ner_corpus_parse(const char *name, const char *text, size_t size,
                                  int sentences, crt_ner_corpus_t **corpus_out)
{
    reader_t r = {.name = name, .sentences_each = sentences};
    crt_status_t status;

    if (sentences < 1)
        return crt_raise(CRT_ERR_INVALID, "documents of %d sentences", sentences);
    if (size > FILE_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "%s: %zu bytes, the limit is %zu", name, size,
                         FILE_MAX);
    status = crti_text_begin(name, &text, &size);
    if (status != CRT_OK)
        return status;
    r.corpus = calloc(1, sizeof(*r.corpus));
    if (!r.corpus)
        return crt_raise(CRT_ERR_NO_MEMORY, "a corpus");
    status = read_lines(&r, (text_t){text, size});
    if (status == CRT_OK)
        status = convert_tags(&r);
    if (status == CRT_OK && r.corpus->documents == 0)
        status = crt_raise(CRT_ERR_CORRUPT, "%s: no words", name);
    free(r.lines);
    if (status != CRT_OK) {
        crt_ner_corpus_drop(&r.corpus);
        return status;
    }
    crti_ner_count(r.corpus);
    *corpus_out = r.corpus;
    return CRT_OK;
}

crt_status_t crt_ner_corpus_read(const char *path, int sentences,
                                 crt_ner_corpus_t **corpus_out)
{
    unsigned char *bytes, *unpacked;
    size_t size;
    crt_status_t status = crti_file_read(path, FILE_MAX, &bytes, &size);

    if (status != CRT_OK)
        return status;
    if (crti_gzip_is_packed(bytes, size)) {
        status = crti_gzip_unpack(path, bytes, size, FILE_MAX, &unpacked, &size);
        free(bytes);
        if (status != CRT_OK)
            return status;
        bytes = unpacked;
    }
    status = crt_ner_corpus_parse(path, (const char *)bytes, size, sentences, corpus_out);
    free(bytes);
    return status;
}
