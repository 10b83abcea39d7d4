/* SPDX-License-Identifier: Apache-2.0 */
/* Number text: numbers as machines write and read them, with a decimal point, whatever locale the
 * program has set.
 *
 * Where it sits
 *     everything that the library writes for others or reads from them -> [ number_text.c ] -> libc
 * Threads
 *     Any: only the calling thread is in the other locale, and only meanwhile.
 * Why
 *     printf and strtod obey LC_NUMERIC, which a program sets by setlocale(LC_ALL, ""): with a
 *     decimal comma 2.5 becomes "2,5". tests/tools/check_locale.py fails where the library calls
 *     them with floating point.
 */
#ifndef CRTI_BASE_NUMBER_TEXT_H
#define CRTI_BASE_NUMBER_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/crt_base.h"

/* snprintf and vsnprintf. */
int crti_format(char *text, size_t size, const char *format, ...) CRT_PRINTF(3, 4);
int crti_vformat(char *text, size_t size, const char *format, va_list args)
    CRT_PRINTF(3, 0);
/* strtod. */
double crti_read_number(const char *text, char **end);
/* Of a text that is a number and nothing else. False: it is not. */
bool crti_read_whole_number(const char *text, double *value);

#endif
