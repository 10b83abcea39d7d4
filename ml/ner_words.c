/* SPDX-License-Identifier: Apache-2.0 */
/* Features of words as spaCy has them.
 *
 * Letters are those of Unicode, by the C.UTF-8 locale of the C library: a key must not depend on
 * the locale of the process that computes it. */
#include <locale.h>
#include <pthread.h>
#include <string.h>
#include <wctype.h>

#include "ml/ner_corpus.h"

#define LONG_SHAPE    100 /* code points from which on a word has no shape of its own */
#define RUN_MAX       4   /* of one class of letters in a shape */
#define SUFFIX_LENGTH 3

static locale_t unicode;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_locale(void)
{
    unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

/* Bytes of the code point at `at`; 0 when it is none. */
static size_t decode(const char *text, size_t size, uint32_t *point_out)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    size_t length = at[0] < 0x80   ? 1
                    : at[0] < 0xc0 ? 0
                    : at[0] < 0xe0 ? 2
                    : at[0] < 0xf0 ? 3
                    : at[0] < 0xf8 ? 4
                                   : 0;
    uint32_t point = length == 1 ? at[0] : length ? at[0] & (0x7fu >> length) : 0;

    if (length == 0 || length > size)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (at[i] & 0x3f);
    }
    if (point < smallest[length] || point > 0x10ffff ||
        (point >= 0xd800 && point < 0xe000))
        return 0;
    *point_out = point;
    return length;
}

static size_t encode(uint32_t point, char *out)
{
    size_t length = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;

    if (length == 1) {
        out[0] = (char)point;
        return 1;
    }
    for (size_t i = length; i-- > 1; point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3f));
    out[0] = (char)((0xf00u >> length) | point);
    return length;
}

typedef struct piece {
    char *text;
    size_t size;
} piece_t;

static uint32_t shape_of(uint32_t point)
{
    if (iswdigit_l((wint_t)point, unicode))
        return 'd';
    if (!iswalpha_l((wint_t)point, unicode))
        return point;
    return iswupper_l((wint_t)point, unicode) ? 'X' : 'x';
}

/* Lower case may need more bytes than the word: at most 4 for each code point. */
static crt_status_t walk(const char *word, size_t size, piece_t *norm, piece_t *shape,
                         size_t *starts, size_t *count_out, bool *is_space_out)
{
    size_t count = 0, run = 0;
    uint32_t last = 0, point;

    *is_space_out = true;
    for (size_t at = 0, length; at < size; at += length) {
        uint32_t kind;

        length = decode(word + at, size - at, &point);
        if (length == 0)
            return crt_raise(CRT_ERR_INVALID, "byte %zu of a word is not UTF-8", at);
        starts[count++ % SUFFIX_LENGTH] = at;
        kind = shape_of(point);
        run = kind == last ? run + 1 : 0;
        last = kind;
        norm->size +=
            encode((uint32_t)towlower_l((wint_t)point, unicode), norm->text + norm->size);
        if (run < RUN_MAX)
            shape->size += encode(kind, shape->text + shape->size);
        *is_space_out = *is_space_out && iswspace_l((wint_t)point, unicode);
    }
    if (count >= LONG_SHAPE) {
        memcpy(shape->text, "LONG", 4);
        shape->size = 4;
    }
    *count_out = count;
    return CRT_OK;
}

crt_status_t crti_ner_features(const char *word, size_t size, uint64_t *keys_out,
                               bool *is_space_out)
{
    char room[2][4 * CRTI_NER_WORD_MAX];
    piece_t norm = {room[0], 0}, shape = {room[1], 0};
    size_t starts[SUFFIX_LENGTH] = {0}, count, suffix;
    crt_status_t status;
    uint32_t point;

    pthread_once(&once, open_locale);
    if (!unicode)
        return crt_raise(CRT_ERR_UNSUPPORTED, "the C library has no locale C.UTF-8");
    if (size < 1 || size > CRTI_NER_WORD_MAX)
        return crt_raise(CRT_ERR_INVALID, "a word of %zu bytes, not 1..%d", size,
                         CRTI_NER_WORD_MAX);
    status = walk(word, size, &norm, &shape, starts, &count, is_space_out);
    if (status != CRT_OK)
        return status;
    suffix = count <= SUFFIX_LENGTH ? 0 : starts[count % SUFFIX_LENGTH];
    keys_out[CRT_NER_NORM] = crt_hash_string(norm.text, norm.size);
    keys_out[CRT_NER_PREFIX] = crt_hash_string(word, decode(word, size, &point));
    keys_out[CRT_NER_SUFFIX] = crt_hash_string(word + suffix, size - suffix);
    keys_out[CRT_NER_SHAPE] = crt_hash_string(shape.text, shape.size);
    keys_out[CRT_NER_ORTH] = crt_hash_string(word, size);
    return CRT_OK;
}

size_t crti_ner_lower_case(const char *word, size_t size, char *out)
{
    size_t made = 0;
    uint32_t point;

    for (size_t at = 0, length; at < size; at += length) {
        length = decode(word + at, size - at, &point);
        if (length == 0) /* no word of a corpus */
            break;
        made += encode((uint32_t)towlower_l((wint_t)point, unicode), out + made);
    }
    return made;
}

/* How many letters of each kind a word has. */
typedef struct kinds {
    uint64_t letters, alpha, ascii, digits, spaces, lower, upper;
    bool is_title; /* capitals stand where no letter is before them, and only there */
} kinds_t;

static kinds_t count_kinds(const char *word)
{
    kinds_t k = {.is_title = true};
    size_t left = strlen(word);
    bool goes_on = false;
    uint32_t point;

    for (size_t length; left > 0; word += length, left -= length) {
        bool lower, upper;

        length = decode(word, left, &point);
        if (length == 0) /* no word of a corpus */
            break;
        lower = iswlower_l((wint_t)point, unicode);
        upper = iswupper_l((wint_t)point, unicode);
        k.letters++;
        k.alpha += iswalpha_l((wint_t)point, unicode) != 0;
        k.ascii += point < 0x80;
        k.digits += iswdigit_l((wint_t)point, unicode) != 0;
        k.spaces += iswspace_l((wint_t)point, unicode) != 0;
        k.lower += lower;
        k.upper += upper;
        k.is_title = k.is_title && (upper ? !goes_on : !lower || goes_on);
        goes_on = lower || upper;
    }
    return k;
}

uint64_t crti_ner_key(const char *word, const uint64_t *keys, crt_ner_feature_t feature)
{
    kinds_t k;

    if (feature < CRTI_NER_KEYS)
        return keys[feature];
    if (feature == CRT_NER_LOWER)
        return keys[CRT_NER_NORM];
    k = count_kinds(word);
    switch (feature) {
    case CRT_NER_LENGTH: return k.letters;
    case CRT_NER_IS_ALPHA: return k.alpha == k.letters;
    case CRT_NER_IS_ASCII: return k.ascii == k.letters;
    case CRT_NER_IS_DIGIT: return k.digits == k.letters;
    case CRT_NER_IS_LOWER: return k.lower > 0 && k.upper == 0;
    case CRT_NER_IS_UPPER: return k.upper > 0 && k.lower == 0;
    case CRT_NER_IS_TITLE: return k.is_title && k.lower + k.upper > 0;
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
