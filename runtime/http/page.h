/* SPDX-License-Identifier: Apache-2.0 */
/* The dashboard's files, compiled in. The table is made by embed.py from page/ at build time. */
#ifndef CRTI_HTTP_PAGE_H
#define CRTI_HTTP_PAGE_H

#include "runtime/base/buffer.h"

typedef struct crti_page_file {
    const char *name; /* "" is the page itself */
    const char *type; /* media type */
    crti_span_t bytes;
} crti_page_file_t;

/* Borrowed for ever; NULL when there is no such file. */
const crti_page_file_t *crti_page_find(const char *name);

#endif
