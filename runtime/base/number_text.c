/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as machines write and read them. See number_text.h. */
#include "runtime/base/number_text.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static locale_t
    plain; /* made once, for the life of the process; 0: there was no memory for it */

static void make_plain(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* What the thread had; uselocale of 0 changes nothing. */
static locale_t enter_plain(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_plain);
    return uselocale(plain);
}

int crti_vformat(char *text, size_t size, const char *format, va_list args)
{
    locale_t before = enter_plain();
    int length = vsnprintf(text, size, format, args);

    uselocale(before);
    return length;
}

int crti_format(char *text, size_t size, const char *format, ...)
{
    va_list args;
    int length;

    va_start(args, format);
    length = crti_vformat(text, size, format, args);
    va_end(args);
    return length;
}

double crti_read_number(const char *text, char **end)
{
    locale_t before = enter_plain();
    double number = strtod(text, end);

    uselocale(before);
    return number;
}

bool crti_read_whole_number(const char *text, double *value)
{
    char *end;

    *value = crti_read_number(text, &end);
    return end != text && *end == '\0';
}
