/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of code points as Python has them: the C library's, and tables of where they differ.
 * The tables are of Unicode 14, as Python 3.11; later versions add to all of them. */
#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

#include "ml/ner_letters.h"

#define CAPITAL_SIGMA      0x3a3u
#define SMALL_SIGMA        0x3c3u
#define FINAL_SIGMA        0x3c2u
#define CAPITAL_I_WITH_DOT 0x130u
#define DOT_ABOVE          0x307u

typedef struct range {
    uint32_t first, last;
} range_t;

/* Of str.isdigit, without ASCII. */
static const range_t digits[] = {
    {0xb2, 0xb3},       {0xb9, 0xb9},       {0x660, 0x669},     {0x6f0, 0x6f9},
    {0x7c0, 0x7c9},     {0x966, 0x96f},     {0x9e6, 0x9ef},     {0xa66, 0xa6f},
    {0xae6, 0xaef},     {0xb66, 0xb6f},     {0xbe6, 0xbef},     {0xc66, 0xc6f},
    {0xce6, 0xcef},     {0xd66, 0xd6f},     {0xde6, 0xdef},     {0xe50, 0xe59},
    {0xed0, 0xed9},     {0xf20, 0xf29},     {0x1040, 0x1049},   {0x1090, 0x1099},
    {0x1369, 0x1371},   {0x17e0, 0x17e9},   {0x1810, 0x1819},   {0x1946, 0x194f},
    {0x19d0, 0x19da},   {0x1a80, 0x1a89},   {0x1a90, 0x1a99},   {0x1b50, 0x1b59},
    {0x1bb0, 0x1bb9},   {0x1c40, 0x1c49},   {0x1c50, 0x1c59},   {0x2070, 0x2070},
    {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},   {0x2474, 0x247c},
    {0x2488, 0x2490},   {0x24ea, 0x24ea},   {0x24f5, 0x24fd},   {0x24ff, 0x24ff},
    {0x2776, 0x277e},   {0x2780, 0x2788},   {0x278a, 0x2792},   {0xa620, 0xa629},
    {0xa8d0, 0xa8d9},   {0xa900, 0xa909},   {0xa9d0, 0xa9d9},   {0xa9f0, 0xa9f9},
    {0xaa50, 0xaa59},   {0xabf0, 0xabf9},   {0xff10, 0xff19},   {0x104a0, 0x104a9},
    {0x10a40, 0x10a43}, {0x10d30, 0x10d39}, {0x10e60, 0x10e68}, {0x11052, 0x1105a},
    {0x11066, 0x1106f}, {0x110f0, 0x110f9}, {0x11136, 0x1113f}, {0x111d0, 0x111d9},
    {0x112f0, 0x112f9}, {0x11450, 0x11459}, {0x114d0, 0x114d9}, {0x11650, 0x11659},
    {0x116c0, 0x116c9}, {0x11730, 0x11739}, {0x118e0, 0x118e9}, {0x11950, 0x11959},
    {0x11c50, 0x11c59}, {0x11d50, 0x11d59}, {0x11da0, 0x11da9}, {0x16a60, 0x16a69},
    {0x16ac0, 0x16ac9}, {0x16b50, 0x16b59}, {0x1d7ce, 0x1d7ff}, {0x1e140, 0x1e149},
    {0x1e2f0, 0x1e2f9}, {0x1e950, 0x1e959}, {0x1f100, 0x1f10a}, {0x1fbf0, 0x1fbf9}};

/* Numerals and letters in circles: letters to the C library alone. */
static const range_t numerals[] = {
    {0x16ee, 0x16f0},   {0x2160, 0x2182},   {0x2185, 0x2188},   {0x24b6, 0x24e9},
    {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303a},   {0xa6e6, 0xa6ef},
    {0x10140, 0x10174}, {0x10341, 0x10341}, {0x1034a, 0x1034a}, {0x103d1, 0x103d5},
    {0x12400, 0x1246e}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}};

/* Letters in title case. */
static const range_t titles[] = {{0x1c5, 0x1c5},   {0x1c8, 0x1c8},   {0x1cb, 0x1cb},
                                 {0x1f2, 0x1f2},   {0x1f88, 0x1f8f}, {0x1f98, 0x1f9f},
                                 {0x1fa8, 0x1faf}, {0x1fbc, 0x1fbc}, {0x1fcc, 0x1fcc},
                                 {0x1ffc, 0x1ffc}};

static locale_t unicode;
static wctype_t combining;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_locale(void)
{
    unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (unicode)
        combining = wctype_l("combining", unicode);
}

bool crti_letters_open(void)
{
    pthread_once(&once, open_locale);
    return unicode != (locale_t)0;
}

size_t crti_letter_decode(const char *text, size_t size, uint32_t *point_out)
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

size_t crti_letter_encode(uint32_t point, char *out)
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

static int compare(const void *point, const void *range)
{
    uint32_t wanted = *(const uint32_t *)point;
    const range_t *r = range;

    return wanted < r->first ? -1 : wanted > r->last;
}

static bool is_in(uint32_t point, const range_t *ranges, size_t bytes)
{
    return bsearch(&point, ranges, bytes / sizeof(*ranges), sizeof(*ranges), compare) !=
           NULL;
}

/* Combining marks: no letters, and without effect on the case of what is beside them. */
static bool is_mark(uint32_t point)
{
    return iswctype_l((wint_t)point, combining, unicode) != 0;
}

bool crti_letter_is_digit(uint32_t point)
{
    return point < 0x80 ? point >= '0' && point <= '9'
                        : is_in(point, digits, sizeof(digits));
}

bool crti_letter_is_alpha(uint32_t point)
{
    if (!iswalpha_l((wint_t)point, unicode))
        return false;
    return point < 0x80 || (!is_mark(point) && !crti_letter_is_digit(point) &&
                            !is_in(point, numerals, sizeof(numerals)));
}

bool crti_letter_is_space(uint32_t point)
{
    return iswspace_l((wint_t)point, unicode) || (point >= 0x1c && point <= 0x1f) ||
           point == 0x85 || point == 0xa0 || point == 0x2007 || point == 0x202f;
}

bool crti_letter_is_title(uint32_t point)
{
    return point >= 0x80 && is_in(point, titles, sizeof(titles));
}

bool crti_letter_is_lower(uint32_t point)
{
    return iswlower_l((wint_t)point, unicode) && !crti_letter_is_title(point);
}

bool crti_letter_is_upper(uint32_t point)
{
    return iswupper_l((wint_t)point, unicode) && !crti_letter_is_title(point);
}

/* ---------------------------------------------------------------- lower case */

static bool has_case(uint32_t point)
{
    return iswlower_l((wint_t)point, unicode) || iswupper_l((wint_t)point, unicode);
}

/* What does not part letters of a word: of Unicode's Case_Ignorable the marks and what stands in
 * words. */
static bool is_between(uint32_t point)
{
    return is_mark(point) || point == '\'' || point == '.' || point == ':' ||
           point == 0xad || point == 0xb7 || point == 0x2019;
}

static bool goes_on_with_case(const char *text, size_t size)
{
    uint32_t point = 0;

    for (size_t at = 0, length; at < size; at += length) {
        length = crti_letter_decode(text + at, size - at, &point);
        if (length == 0 || !is_between(point))
            return length > 0 && has_case(point);
    }
    return false;
}

size_t crti_letters_lower(const char *text, size_t size, char *out)
{
    bool has_sigma = memmem(text, size, "Σ", strlen("Σ")) != NULL, follows_case = false;
    size_t made = 0;
    uint32_t point, lower;

    for (size_t at = 0, length; at < size; at += length) {
        length = crti_letter_decode(text + at, size - at, &point);
        if (length == 0)
            break;
        lower = (uint32_t)towlower_l((wint_t)point, unicode);
        if (point == CAPITAL_SIGMA)
            lower =
                follows_case && !goes_on_with_case(text + at + length, size - at - length)
                    ? FINAL_SIGMA
                    : SMALL_SIGMA;
        if (has_sigma && !is_between(point))
            follows_case = has_case(point);
        made += crti_letter_encode(lower, out + made);
        if (point == CAPITAL_I_WITH_DOT)
            made += crti_letter_encode(DOT_ABOVE, out + made);
    }
    return made;
}
