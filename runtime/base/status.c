/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes and the detail text of the calling thread.
 *
 * Threads: the detail is thread-local; nothing here is shared.
 */
#include "runtime/base/crt_base.h"
#include "runtime/base/crt_printable.h"
#include "runtime/base/number_text.h"
#include "runtime/base/thread_local.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DETAIL_MAX 1024

/* Thread-local, the one mutable global besides the log level: a detail must survive the
 * stack frames it passes through. Made when the thread has its first error, freed when it ends. */
static CRTI_THREAD_LOCAL char *detail;
static char spare[DETAIL_MAX]; /* of the threads that no memory was there for */
static pthread_key_t at_exit;  /* of a thread */
static bool has_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void free_detail(void *text)
{
    free(text);
    detail = NULL;
}

static void make_key(void)
{
    has_key = pthread_key_create(&at_exit, free_detail) == 0;
}

static char *own_detail(void)
{
    if (detail && detail != spare)
        return detail;
    pthread_once(&once, make_key);
    detail = has_key ? malloc(DETAIL_MAX) : NULL;
    if (detail && pthread_setspecific(at_exit, detail) != 0) {
        free(detail);
        detail = NULL;
    }
    if (!detail)
        detail = spare;
    return detail;
}

const char *crt_status_text(crt_status_t status)
{
    switch (status) {
#define TEXT(name, value, text)                                                          \
    case CRT_##name: return text;
        CRT_STATUS_MAP(TEXT)
#undef TEXT
    case CRT_ANY_ERROR: break;
    }
    return "unknown status";
}

const char *crt_status_name(crt_status_t status)
{
    switch (status) {
#define NAME(name, value, text)                                                          \
    case CRT_##name: return "CRT_" #name;
        CRT_STATUS_MAP(NAME)
#undef NAME
    case CRT_ANY_ERROR: break;
    }
    return "unknown status";
}

int crt_error_set_detail(const char *format, ...)
{
    /* An argument may be the old detail itself, so the text is made elsewhere first. */
    char text[DETAIL_MAX];
    va_list args;

    va_start(args, format);
    crti_vformat(text, sizeof(text), format, args);
    va_end(args);
    crt_make_printable(text); /* names and messages of others are in it */
    memcpy(own_detail(), text, strlen(text) + 1);
    return 0;
}

void crt_free(void *memory)
{
    free(memory);
}

crt_status_t crt_raise_text(crt_status_t status, const char *text)
{
    return crt_raise(status, "%s", text ? text : "");
}

const char *crt_error_detail(void)
{
    return detail ? detail : "";
}

void crt_check(crt_status_t status, const char *expression, const char *file, int line)
{
    if (status >= 0)
        return;
    fprintf(stderr, "%s:%d: %s: %s: %s\n", file, line, expression,
            crt_status_text(status), crt_error_detail());
    exit(1);
}
