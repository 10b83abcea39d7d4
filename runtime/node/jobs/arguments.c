/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments and variables of programs that are executed. See job_int.h. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/node/jobs/job_int.h"

void crti_arguments_fini_auto(crti_arguments_t *a)
{
    for (size_t i = 0; i < a->count; i++)
        free(a->list[i]);
    free(a->list);
}

static crt_status_t add(crti_arguments_t *a, crti_span_t text)
{
    char **list;

    if (a->most && a->count + 1 >= a->most)
        return crt_raise(CRT_ERR_TOO_LARGE, "more than %zu arguments or variables",
                         a->most - 1);
    list = realloc(a->list, (a->count + 2) * sizeof(char *));
    if (list == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "arguments");
    a->list = list;
    list[a->count] = crti_str_dup(text);
    if (list[a->count] == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "arguments");
    list[++a->count] = NULL;
    return CRT_OK;
}

void crti_arguments_add(crti_arguments_t *a, crti_span_t text)
{
    if (a->status == CRT_OK)
        a->status = add(a, text);
}

void crti_arguments_add_list(crti_arguments_t *a, crti_span_t list)
{
    crti_span_t entry;

    while (a->status == CRT_OK && crti_list_unpack(&list, &entry) == CRT_OK)
        if (memchr(entry.data, 0, entry.size))
            a->status = crt_raise(CRT_ERR_PROTOCOL, "a zero byte in a job's arguments");
        else
            crti_arguments_add(a, entry);
}

bool crti_arguments_have(const crti_arguments_t *a, const char *name, size_t length)
{
    for (size_t i = 0; i < a->count; i++)
        if (strncmp(a->list[i], name, length) == 0 && a->list[i][length] == '=')
            return true;
    return false;
}

void crti_arguments_format(crti_arguments_t *a, const char *format, ...)
{
    char line[CRTI_NODE_PATH + 64];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    crti_arguments_add(a, crti_str(line));
}
