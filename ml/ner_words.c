/* SPDX-License-Identifier: Apache-2.0 */
/* Features of words as spaCy has them. */
#include <string.h>

#include "ml/ner_corpus.h"
#include "ml/ner_letters.h"

#define LONG_SHAPE    100 /* code points from which on a word has no shape of its own */
#define RUN_MAX       4   /* of one class of letters in a shape */
#define SUFFIX_LENGTH 3

/* Words whose NORM is not their lower case, in every language. */
static const struct {
    const char *norm, *words[17];
} norms[] = {
    {"'s", {"’s", "’S"}},
    {"'", {"’", "‘", "´", "`"}},
    {"\"", {"”", "“", "''", "``", "´´", "„", "»", "«", "‘‘", "’’"}},
    {"?", {"？"}},
    {"!", {"！"}},
    {",", {"，"}},
    {";", {"；"}},
    {":", {"："}},
    {".", {"。", "।"}},
    {"...", {"…"}},
    {"-", {"—", "–", "--", "---", "——"}},
    {"$", {"€", "£", "¥", "฿", "US$", "C$", "A$", "₺", "₹", "৳", "₩", "Mex$", "₣", "E£"}},
};

typedef struct piece {
    char *text;
    size_t size;
} piece_t;

static uint32_t shape_of(uint32_t point)
{
    if (crti_letter_is_digit(point))
        return 'd';
    if (!crti_letter_is_alpha(point))
        return point;
    return crti_letter_is_upper(point) ? 'X' : 'x';
}

static crt_status_t walk(const char *word, size_t size, piece_t *shape, size_t *starts,
                         size_t *count_out, bool *is_space_out)
{
    size_t count = 0, run = 0;
    uint32_t last = 0, point;

    *is_space_out = true;
    for (size_t at = 0, length; at < size; at += length) {
        uint32_t kind;

        length = crti_letter_decode(word + at, size - at, &point);
        if (length == 0)
            return crt_raise(CRT_ERR_INVALID, "byte %zu of a word is not UTF-8", at);
        starts[count++ % SUFFIX_LENGTH] = at;
        kind = shape_of(point);
        run = kind == last ? run + 1 : 0;
        last = kind;
        if (run < RUN_MAX)
            shape->size += crti_letter_encode(kind, shape->text + shape->size);
        *is_space_out = *is_space_out && crti_letter_is_space(point);
    }
    if (count >= LONG_SHAPE) {
        memcpy(shape->text, "LONG", 4);
        shape->size = 4;
    }
    *count_out = count;
    return CRT_OK;
}

static uint64_t hash_lower_case(const char *word, size_t size)
{
    char lower[4 * CRTI_NER_WORD_MAX];

    return crt_hash_string(lower, crti_letters_lower(word, size, lower));
}

static bool is_plain(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9');
}

static uint64_t hash_norm(const char *word, size_t size)
{
    if (is_plain(word[0]) && is_plain(word[size - 1])) /* as no word of the table */
        return hash_lower_case(word, size);
    for (size_t i = 0; i < sizeof(norms) / sizeof(norms[0]); i++)
        for (const char *const *at = norms[i].words; *at; at++)
            if (strlen(*at) == size && memcmp(*at, word, size) == 0)
                return crt_hash_string(norms[i].norm, strlen(norms[i].norm));
    return hash_lower_case(word, size);
}

crt_status_t crti_ner_features(const char *word, size_t size, uint64_t *keys_out,
                               bool *is_space_out)
{
    char room[4 * CRTI_NER_WORD_MAX];
    piece_t shape = {room, 0};
    size_t starts[SUFFIX_LENGTH] = {0}, count, suffix;
    crt_status_t status;
    uint32_t point;

    if (!crti_letters_open())
        return crt_raise(CRT_ERR_UNSUPPORTED, "the C library has no locale C.UTF-8");
    if (size < 1 || size > CRTI_NER_WORD_MAX)
        return crt_raise(CRT_ERR_INVALID, "a word of %zu bytes, not 1..%d", size,
                         CRTI_NER_WORD_MAX);
    status = walk(word, size, &shape, starts, &count, is_space_out);
    if (status != CRT_OK)
        return status;
    suffix = count <= SUFFIX_LENGTH ? 0 : starts[count % SUFFIX_LENGTH];
    keys_out[CRT_NER_NORM] = hash_norm(word, size);
    keys_out[CRT_NER_PREFIX] =
        crt_hash_string(word, crti_letter_decode(word, size, &point));
    keys_out[CRT_NER_SUFFIX] = crt_hash_string(word + suffix, size - suffix);
    keys_out[CRT_NER_SHAPE] = crt_hash_string(shape.text, shape.size);
    keys_out[CRT_NER_ORTH] = crt_hash_string(word, size);
    return CRT_OK;
}

/* How many letters of each kind a word has. */
typedef struct kinds {
    uint64_t letters, alpha, ascii, digits, spaces, lower, upper, title;
    bool is_title; /* capitals stand where no letter is before them, and only there */
} kinds_t;

static kinds_t count_kinds(const char *word)
{
    kinds_t k = {.is_title = true};
    size_t left = strlen(word);
    bool goes_on = false;
    uint32_t point;

    for (size_t length; left > 0; word += length, left -= length) {
        bool lower, upper, title;

        length = crti_letter_decode(word, left, &point);
        if (length == 0) /* no word of a corpus */
            break;
        lower = crti_letter_is_lower(point);
        upper = crti_letter_is_upper(point);
        title = crti_letter_is_title(point);
        k.letters++;
        k.alpha += crti_letter_is_alpha(point);
        k.ascii += point < 0x80;
        k.digits += crti_letter_is_digit(point);
        k.spaces += crti_letter_is_space(point);
        k.lower += lower;
        k.upper += upper;
        k.title += title;
        k.is_title = k.is_title && (upper || title ? !goes_on : !lower || goes_on);
        goes_on = lower || upper || title;
    }
    return k;
}

uint64_t crti_ner_key(const char *word, const uint64_t *keys, crt_ner_feature_t feature)
{
    kinds_t k;

    if (feature < CRTI_NER_KEYS)
        return keys[feature];
    if (feature == CRT_NER_LOWER)
        return hash_lower_case(word, strlen(word));
    k = count_kinds(word);
    switch (feature) {
    case CRT_NER_LENGTH: return k.letters;
    case CRT_NER_IS_ALPHA: return k.alpha == k.letters;
    case CRT_NER_IS_ASCII: return k.ascii == k.letters;
    case CRT_NER_IS_DIGIT: return k.digits == k.letters;
    case CRT_NER_IS_LOWER: return k.lower > 0 && k.upper + k.title == 0;
    case CRT_NER_IS_UPPER: return k.upper > 0 && k.lower + k.title == 0;
    case CRT_NER_IS_TITLE: return k.is_title && k.lower + k.upper + k.title > 0;
    case CRT_NER_IS_SPACE: return k.spaces == k.letters;
    case CRT_NER_SPACY: return 1;
    default: return UINT64_MAX; /* CRT_NER_ID */
    }
}

const char *crt_ner_feature_name(crt_ner_feature_t feature)
{
    static const char *const names[CRT_NER_FEATURES] = {
        "NORM",     "PREFIX",   "SUFFIX",   "SHAPE",    "ORTH",     "LOWER",
        "LENGTH",   "IS_ALPHA", "IS_ASCII", "IS_DIGIT", "IS_LOWER", "IS_UPPER",
        "IS_TITLE", "IS_SPACE", "SPACY",    "ID"};

    return (unsigned)feature < CRT_NER_FEATURES ? names[feature] : NULL;
}

crt_status_t crt_ner_word_keys(const char *word, size_t size,
                               uint64_t keys_out[CRT_NER_FEATURES])
{
    char text[CRTI_NER_WORD_MAX + 1];
    bool is_space;
    crt_status_t status = crti_ner_features(word, size, keys_out, &is_space);

    if (status != CRT_OK)
        return status;
    memcpy(text, word, size);
    text[size] = '\0';
    for (int i = CRTI_NER_KEYS; i < CRT_NER_FEATURES; i++)
        keys_out[i] = crti_ner_key(text, keys_out, (crt_ner_feature_t)i);
    return CRT_OK;
}
