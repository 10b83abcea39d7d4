/* SPDX-License-Identifier: Apache-2.0 */
/* How far one name is from another one, so that the nearest one can be told of a name that does not
 * exist. Pure. */
#ifndef CRTI_BASE_SPELLING_H
#define CRTI_BASE_SPELLING_H

#include <stddef.h>

/* Edits that lead from one name to the other (optimal string alignment): letters that are added,
 * left out, changed, or exchanged with their neighbour. Upper case is lower case. The first 63
 * bytes count. */
unsigned crti_spelling_edits(const char *a, const char *b);

/* The one of the names that `name` was meant to be; NULL: it is another word than all of them.
 * `name_at` gives one by one, with NULL behind the last one. */
const char *crti_spelling_nearest(const char *name,
                                  const char *(*name_at)(const void *user, size_t index),
                                  const void *user);

#endif
