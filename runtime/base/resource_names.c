/* SPDX-License-Identifier: Apache-2.0 */
/* Resource names. See resource_names.h. */
#include "runtime/base/resource_names.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/spelling.h"

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

static const char *name_at(const void *user, size_t index)
{
    const crti_resource_names_t *names = user;

    return index < names->count ? names->name[index] : NULL;
}

const char *crti_resource_names_nearest(const crti_resource_names_t *names,
                                        const char *name)
{
    return crti_spelling_nearest(name, name_at, names);
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
