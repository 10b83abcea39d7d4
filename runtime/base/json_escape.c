/* SPDX-License-Identifier: Apache-2.0 */
/* Texts inside JSON. See json_escape.h. */
#include "runtime/base/json_escape.h"

#include <stdio.h>
#include <string.h>

crt_status_t crti_json_escape(crti_span_t text, crti_buffer_t *out)
{
    static const char names[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    const unsigned char *data = text.data;
    size_t run = 0; /* [run, i) needs no escape and is not yet copied */
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < text.size && status == CRT_OK; i++) {
        const char *name;
        char escape[8];

        if (data[i] >= 0x20 && data[i] != '"' && data[i] != '\\')
            continue;
        name = data[i] ? strchr(names, data[i]) : NULL;
        if (name)
            snprintf(escape, sizeof(escape), "\\%c", letters[name - names]);
        else
            snprintf(escape, sizeof(escape), "\\u%04x", data[i]);
        status = crti_buffer_append(out, data + run, i - run);
        if (status == CRT_OK)
            status = crti_buffer_append(out, escape, strlen(escape));
        run = i + 1;
    }
    return status == CRT_OK && run < text.size
               ? crti_buffer_append(out, data + run, text.size - run)
               : status;
}
