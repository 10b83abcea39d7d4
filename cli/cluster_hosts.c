/* SPDX-License-Identifier: Apache-2.0 */
/* Names of hosts. See cluster_hosts.h. */
#include "cli/cluster_hosts.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MOST 9

/* A name becomes an argument of ssh: one that begins with "-" would be an option. */
static bool is_host(const char *name)
{
    if (!isalnum((unsigned char)*name) && *name != ':' && *name != '_')
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr("._-:%", *name))
            return false;
    return true;
}

static crt_status_t add_host(const char *name, json_t *hosts)
{
    if (!is_host(name))
        return crt_raise(CRT_ERR_INVALID,
                         "\"%s\" is no name of a host: letters, digits and . _ - : %%",
                         name);
    if (json_array_size(hosts) >= CLUSTER_HOSTS_MAX)
        return crt_raise(CRT_ERR_INVALID, "more than %d hosts", CLUSTER_HOSTS_MAX);
    json_array_append_new(hosts, json_string(name));
    return CRT_OK;
}

/* "01-16": digits on both sides, of the first one the width. */
static bool read_range(const char *part, size_t size, unsigned *first, unsigned *last,
                       int *width)
{
    char text[2 * DIGITS_MOST + 2];
    size_t left, right;

    if (size >= sizeof(text))
        return false;
    snprintf(text, sizeof(text), "%.*s", (int)size, part);
    left = strspn(text, "0123456789");
    if (left == 0 || left > DIGITS_MOST || text[left] != '-')
        return false;
    right = strspn(text + left + 1, "0123456789");
    if (right == 0 || right > DIGITS_MOST || text[left + 1 + right])
        return false;
    *first = (unsigned)strtoul(text, NULL, 10);
    *last = (unsigned)strtoul(text + left + 1, NULL, 10);
    *width = (int)left;
    return true;
}

static crt_status_t expand(const char *before, const char *rest, json_t *hosts);

/* The name so far with one more part. */
static crt_status_t go_on(const char *before, const char *part, size_t size,
                          const char *rest, json_t *hosts)
{
    char name[CLUSTER_HOST_NAME];

    if (snprintf(name, sizeof(name), "%s%.*s", before, (int)size, part) >=
        (int)sizeof(name))
        return crt_raise(CRT_ERR_INVALID, "a name of more than %d bytes",
                         CLUSTER_HOST_NAME - 1);
    return expand(name, rest, hosts);
}

static crt_status_t expand_range(const char *before, const char *part, size_t size,
                                 const char *rest, json_t *hosts)
{
    unsigned first, last;
    int width;

    if (!memchr(part, '-', size))
        return go_on(before, part, size, rest, hosts);
    if (!read_range(part, size, &first, &last, &width))
        return crt_raise(CRT_ERR_INVALID, "\"%.*s\" is no range such as 01-16",
                         size < 40 ? (int)size : 40, part);
    if (first > last)
        return crt_raise(CRT_ERR_INVALID, "the range %.*s runs backwards", (int)size,
                         part);
    if (last - first >= CLUSTER_HOSTS_MAX)
        return crt_raise(CRT_ERR_INVALID, "the range %.*s has more than %d hosts",
                         (int)size, part, CLUSTER_HOSTS_MAX);
    for (unsigned i = first; i <= last; i++) {
        char number[24];
        int length = snprintf(number, sizeof(number), "%0*u", width, i);

        CRT_TRY(go_on(before, number, (size_t)length, rest, hosts));
    }
    return CRT_OK;
}

/* `before` is plain; `rest` may have brackets. The depth is that of the brackets in a name, and
 * each level has a part of at least one byte. */
static crt_status_t expand(const char *before, const char *rest, json_t *hosts)
{
    size_t plain = strcspn(rest, "[");
    const char *open = rest + plain, *close = strchr(open, ']');

    if (!*open)
        return plain ? go_on(before, rest, plain, open, hosts) : add_host(before, hosts);
    if (!close || close == open + 1)
        return crt_raise(CRT_ERR_INVALID, "\"[\" without a range and \"]\" behind it");
    if (plain)
        return go_on(before, rest, plain, open, hosts);
    for (const char *part = open + 1; part <= close;) {
        size_t size = strcspn(part, ",]");

        if (size == 0)
            return crt_raise(CRT_ERR_INVALID, "an empty part between \"[\" and \"]\"");
        CRT_TRY(expand_range(before, part, size, close + 1, hosts));
        part += size + 1;
    }
    return CRT_OK;
}

crt_status_t crti_cluster_hosts_add(const char *text, json_t *hosts)
{
    if (strlen(text) >= CLUSTER_HOST_NAME)
        return crt_raise(CRT_ERR_INVALID, "a name of more than %d bytes",
                         CLUSTER_HOST_NAME - 1);
    return expand("", text, hosts);
}

crt_status_t crti_cluster_hosts_add_lines(const char *text, json_t *hosts,
                                          size_t *line_out)
{
    for (*line_out = 1; *text; (*line_out)++) {
        size_t size = strcspn(text, "\n"), used = strcspn(text, "#\n");
        const char *next = text + size + (text[size] == '\n');
        char name[CLUSTER_HOST_NAME];

        for (; used > 0 && isspace((unsigned char)*text); used--)
            text++;
        while (used > 0 && isspace((unsigned char)text[used - 1]))
            used--;
        if (used >= sizeof(name))
            return crt_raise(CRT_ERR_INVALID, "a name of more than %d bytes",
                             CLUSTER_HOST_NAME - 1);
        snprintf(name, sizeof(name), "%.*s", (int)used, text);
        if (*name)
            CRT_TRY(crti_cluster_hosts_add(name, hosts));
        text = next;
    }
    return CRT_OK;
}
