/* SPDX-License-Identifier: Apache-2.0 */
/* Resource names. See resource_names.h. */
#include "runtime/base/resource_names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* There are as many as nodes. */
static bool is_node(const char *name)
{
    return strncmp(name, CRTI_RESOURCE_NODE, strlen(CRTI_RESOURCE_NODE)) == 0;
}

static bool has(const crti_resource_names_t *names, const char *name)
{
    for (unsigned i = 0; i < names->count; i++)
        if (strcmp(names->name[i], name) == 0)
            return true;
    return false;
}

void crti_resource_names_note(crti_resource_names_t *names,
                              const crti_resources_t *resources)
{
    for (unsigned i = 0; i < resources->count; i++)
        if (names->count < CRTI_RESOURCE_NAMES && !is_node(resources->item[i].name) &&
            !has(names, resources->item[i].name))
            memcpy(names->name[names->count++], resources->item[i].name,
                   CRTI_RESOURCE_NAME);
}

static bool is_same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Edits that lead from one name to the other (optimal string alignment). */
static unsigned distance(const char *a, const char *b)
{
    unsigned rows[3][CRTI_RESOURCE_NAME];
    size_t a_size = strnlen(a, CRTI_RESOURCE_NAME - 1),
           b_size = strnlen(b, CRTI_RESOURCE_NAME - 1);

    for (size_t j = 0; j <= b_size; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= a_size; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i - 1) % 3];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_size; j++) {
            row[j] = least(above[j - 1] + !is_same(a[i - 1], b[j - 1]),
                           least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && is_same(a[i - 1], b[j - 2]) &&
                is_same(a[i - 2], b[j - 1]))
                row[j] = least(row[j], rows[(i - 2) % 3][j - 2] + 1);
        }
    }
    return rows[a_size % 3][b_size];
}

const char *crti_resource_names_nearest(const crti_resource_names_t *names,
                                        const char *name)
{
    unsigned best = (unsigned)strlen(name) / 2 + 1; /* more than half is another word */
    const char *nearest = NULL;

    for (unsigned i = 0; i < names->count; i++) {
        unsigned edits = distance(name, names->name[i]);

        if (edits < best) {
            best = edits;
            nearest = names->name[i];
        }
    }
    return nearest;
}

const char *crti_resource_names_hint(const crti_resource_names_t *names, const char *name,
                                     char *text, size_t size)
{
    const char *nearest;

    *text = '\0';
    if (is_node(name) || has(names, name) || names->count == CRTI_RESOURCE_NAMES)
        return text;
    nearest = crti_resource_names_nearest(names, name);
    snprintf(text, size, ", which no node has ever had%s%s",
             nearest ? "; the nearest name is " : "", nearest ? nearest : "");
    return text;
}
