/* SPDX-License-Identifier: Apache-2.0 */
/* How far one name is from another one, so that the nearest one can be told of a name that does not
 * exist. Pure. */
#ifndef CRTI_BASE_SPELLING_H
#define CRTI_BASE_SPELLING_H

/* Edits that lead from one name to the other (optimal string alignment): letters that are added,
 * left out, changed, or exchanged with their neighbour. Upper case is lower case. The first 63
 * bytes count. */
unsigned crti_spelling_edits(const char *a, const char *b);

/* As many edits of `name` or more make another word of it. */
unsigned crti_spelling_limit(const char *name);

#endif
