/* SPDX-License-Identifier: Apache-2.0 */
/* Which cluster a text means. See context_text.h. */
#include "runtime/core/client/context_text.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/core/client/private_cluster.h"

#define SLURM_NODES_MAX 100000
#define CPUS_MAX        100000
#define PORT_FIRST      1024 /* "yarn:4" is meant as a mode, not as a host */
#define PORT_LAST       65535

static crt_status_t not_understood(const char *text)
{
    return crt_raise(CRT_ERR_INVALID,
                     "\"%.200s\" is no cluster: give local, local:NODES (1 to %d), "
                     "local:NODESxCPUS, HOST:PORT of a head (a port from %d on), "
                     "file:CLUSTER-FILE, slurm, slurm:NODES, kubernetes or "
                     "kubernetes:SERVICE.NAMESPACE",
                     text, CRTI_PRIVATE_NODES_MAX, PORT_FIRST);
}

/* A whole number of 1 to `most` at the beginning of the text; NULL: there is none. */
static const char *read_number(const char *text, unsigned most, unsigned *number_out)
{
    unsigned long value = 0;
    const char *at = text;

    for (; *at >= '0' && *at <= '9' && value <= most; at++)
        value = 10 * value + (unsigned long)(*at - '0');
    if (at == text || value < 1 || value > most)
        return NULL;
    *number_out = (unsigned)value;
    return at;
}

/* The text behind "NAME:"; "" where it is NAME alone; NULL: it is another mode. */
static const char *behind(const char *text, const char *name)
{
    size_t length = strlen(name);

    if (strncmp(text, name, length) != 0)
        return NULL;
    if (!text[length])
        return "";
    return text[length] == ':' && text[length + 1] ? text + length + 1 : NULL;
}

static bool read_local(const char *size, crti_context_text_t *read_out)
{
    read_out->mode = CRTI_CONTEXT_LOCAL;
    read_out->nodes = 1;
    if (!*size)
        return true;
    size = read_number(size, CRTI_PRIVATE_NODES_MAX, &read_out->nodes);
    if (size && *size == 'x')
        size = read_number(size + 1, CPUS_MAX, &read_out->num_cpus);
    return size && !*size;
}

static bool read_slurm(const char *size, crti_context_text_t *read_out)
{
    read_out->mode = CRTI_CONTEXT_SLURM;
    if (!*size)
        return true;
    size = read_number(size, SLURM_NODES_MAX, &read_out->nodes);
    return size && !*size;
}

/* A name of DNS, SERVICE or SERVICE.NAMESPACE, where a service begins with a letter: so
 * "kubernetes:6380" is an address. */
static bool read_kubernetes(const char *service, crti_context_text_t *read_out)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz",
                      all[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";
    const char *dot = strchr(service, '.');

    read_out->mode = CRTI_CONTEXT_KUBERNETES;
    read_out->where = service;
    return !*service ||
           (strchr(letters, *service) && service[strspn(service, all)] == '\0' &&
            (!dot || (dot[1] && !strchr(dot + 1, '.'))));
}

static bool read_address(const char *text, crti_context_text_t *read_out)
{
    const char *colon = strrchr(text, ':'), *end;
    unsigned port = 0;

    read_out->mode = CRTI_CONTEXT_ADDRESS;
    read_out->where = text;
    end = colon && colon > text ? read_number(colon + 1, PORT_LAST, &port) : NULL;
    return end && !*end && port >= PORT_FIRST && strcspn(text, " /") == strlen(text);
}

crt_status_t crti_context_text_read(const char *text, crti_context_text_t *read_out)
{
    const char *rest;
    bool is_understood;

    *read_out = (crti_context_text_t){.mode = CRTI_CONTEXT_FOUND};
    if (!text)
        return CRT_OK;
    if ((rest = behind(text, "local"))) {
        is_understood = read_local(rest, read_out);
    } else if ((rest = behind(text, "slurm"))) {
        is_understood = read_slurm(rest, read_out);
    } else if ((rest = behind(text, "file"))) {
        read_out->mode = CRTI_CONTEXT_FILE;
        read_out->where = rest;
        is_understood = *rest != '\0';
    } else if ((rest = behind(text, "kubernetes")) && read_kubernetes(rest, read_out)) {
        is_understood = true;
    } else {
        is_understood = read_address(text, read_out);
    }
    return is_understood ? CRT_OK : not_understood(text);
}
