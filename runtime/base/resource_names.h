/* SPDX-License-Identifier: Apache-2.0 */
/* Resource names: those that were ever seen, so that one that nobody has had can be told together
 * with the nearest one that exists. Pure.
 *
 * At most CRTI_RESOURCE_NAMES are kept; behind them nothing is said of unknown ones, nor is it of
 * those that name a node.
 */
#ifndef CRTI_BASE_RESOURCE_NAMES_H
#define CRTI_BASE_RESOURCE_NAMES_H

#include "runtime/base/resources.h"

#define CRTI_RESOURCE_NAMES 64

typedef struct crti_resource_names {
    unsigned count;
    char name[CRTI_RESOURCE_NAMES][CRTI_RESOURCE_NAME];
} crti_resource_names_t;

void crti_resource_names_note(crti_resource_names_t *names,
                              const crti_resources_t *resources);

/* The name that differs from `name` by the fewest letters: those added, left out, changed, or
 * exchanged with their neighbour; upper case is lower case. NULL: none is near. */
const char *crti_resource_names_nearest(const crti_resource_names_t *names,
                                        const char *name);

/* ", which no node has ever had; the nearest name is GPU" of a name that was never seen, else "".
 * Returns `text`. */
const char *crti_resource_names_hint(const crti_resource_names_t *names, const char *name,
                                     char *text, size_t size);

#endif
