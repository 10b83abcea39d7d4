/* SPDX-License-Identifier: Apache-2.0 */
/* Resources: named amounts in units of 1/10000, with the arithmetic that leases and placement
 * are made of. "CPU", "GPU" and "memory" (in bytes) are written so, whatever case a user writes
 * them in. "node:10.0.0.1" is one unit of the node with that address.
 *
 * A vector holds at most CRTI_RESOURCES_MAX names; a name that is absent has amount 0.
 */
#ifndef CRTI_BASE_RESOURCES_H
#define CRTI_BASE_RESOURCES_H

#include "runtime/base/crt_base.h"

#define CRTI_RESOURCES_MAX 16
#define CRTI_RESOURCE_NAME 48    /* bytes of a name with its final zero */
#define CRTI_RESOURCE_ONE  10000 /* amount of one whole unit */
/* The largest amount there is: 1e12 units, so that bytes of memory may be counted too. A sum over a
 * thousand nodes fits into 64 bits, and sums that would not stay at the edge. */
#define CRTI_RESOURCE_MAX (INT64_C(1000000000000) * CRTI_RESOURCE_ONE)

/* What a node has without being told: its memory, and itself. */
#define CRTI_RESOURCE_MEMORY "memory"
#define CRTI_RESOURCE_NODE   "node:" /* and its address */

typedef struct crti_resources {
    unsigned count;
    struct crti_resource {
        char name[CRTI_RESOURCE_NAME];
        int64_t amount;
    } item[CRTI_RESOURCES_MAX];
} crti_resources_t;

int64_t crti_resources_get(const crti_resources_t *r, const char *name);

/* Sets a name's amount; 0 removes it. CRT_ERR_INVALID: too many names, a bad name
 * (letters, digits and . _ : - only, at most 47 bytes), or an amount beyond CRTI_RESOURCE_MAX
 * either way. */
crt_status_t crti_resources_set(crti_resources_t *r, const char *name, int64_t amount);

/* What a user gave as a number, in units: 0, or 0.0001 to 1e12. False for others, also for what is
 * not finite. */
bool crti_resources_amount(double amount, int64_t *amount_out);

/* The same set from an option of the user: 0 is none; CRT_ERR_INVALID for what is no
 * such amount, and for a name that is there. */
crt_status_t crti_resources_set_option(crti_resources_t *r, const char *name,
                                       double amount);

/* Parses "name=amount,name=amount"; amounts are decimals >= 0 with at most four digits behind
 * the point. Adds to `r`. CRT_ERR_INVALID: it is written otherwise, or names a resource twice, or
 * one that is in `r`. */
crt_status_t crti_resources_parse(const char *text, crti_resources_t *r);

/* True when both hold the same of the same names, in one order; false for others that are alike. */
bool crti_resources_equal(const crti_resources_t *a, const crti_resources_t *b);

/* True when `have` holds at least `need` of every name. */
bool crti_resources_fit(const crti_resources_t *have, const crti_resources_t *need);

/* CRT_ERR_INVALID when an amount is below zero, which no node has and no task needs (what is
 * available may be, see take), and for more than one GPU that are not whole. */
crt_status_t crti_resources_check(const crti_resources_t *r);

/* have -= need, below zero too: a worker that blocks lends its CPU out. An amount never leaves
 * -CRTI_RESOURCE_MAX..CRTI_RESOURCE_MAX, so that no sum of what peers say overflows. */
void crti_resources_take(crti_resources_t *have, const crti_resources_t *need);

/* have += back. */
void crti_resources_give(crti_resources_t *have, const crti_resources_t *back);

/* How much of `total` is in use with `need` more, in parts of `scale`; at most 100 times that, and
 * `scale` where there is none. */
int64_t crti_resource_part_in_use(int64_t total, int64_t available, int64_t need,
                                  int64_t scale);
/* The same of the amounts of `name`. */
int64_t crti_resources_part_in_use(const crti_resources_t *all,
                                   const crti_resources_t *available,
                                   const crti_resources_t *need, const char *name,
                                   int64_t scale);

/* "2 CPU, 0.5 GPU, 512 MiB memory", or "nothing"; returns `text`. */
const char *crti_resources_format(const crti_resources_t *r, char *text, size_t size);

/* The same of one name: "2 CPU", "0 GPU". */
const char *crti_resources_format_one(const char *name, int64_t amount, char *text,
                                      size_t size);

#endif
