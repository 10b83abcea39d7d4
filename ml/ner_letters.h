/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of code points, and lower case, as `str` of Python has them.
 *
 * They are those of Unicode in the C.UTF-8 locale of the C library, which calls marks, and
 * digits and numerals of all scripts, letters; a key must not depend on the locale of the process
 * that computes it. crti_letters_open comes before everything else; any thread may call anything.
 */
#ifndef CRTI_ML_NER_LETTERS_H
#define CRTI_ML_NER_LETTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False: the C library has no locale C.UTF-8. */
bool crti_letters_open(void);

/* Bytes of the code point at the start of a text of UTF-8; 0 when it is none. */
size_t crti_letter_decode(const char *text, size_t size, uint32_t *point_out);

/* Writes a code point, in at most 4 bytes; how many they are. */
size_t crti_letter_encode(uint32_t point, char *out);

/* A letter is no digit. Letters in title case, such as one for D and z, are neither upper nor
 * lower case. */
bool crti_letter_is_alpha(uint32_t point);
bool crti_letter_is_digit(uint32_t point);
bool crti_letter_is_space(uint32_t point);
bool crti_letter_is_lower(uint32_t point);
bool crti_letter_is_upper(uint32_t point);
bool crti_letter_is_title(uint32_t point);

/* A text of UTF-8 in lower case, into at most 4 times as many bytes; how many they are. */
size_t crti_letters_lower(const char *text, size_t size, char *out);

#endif
