/* SPDX-License-Identifier: Apache-2.0 */
/* A group made by hand: every member a process, links over loopback, no cluster. */
#ifndef CRTI_TEST_RING_BED_H
#define CRTI_TEST_RING_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#include "collective/links.h"

#define BED_SIZE 20

typedef struct bed bed_t;

/* What a member does. Fails by BED_CHECK; returning is success. */
typedef void bed_member_t(bed_t *bed);

struct bed {
    int size, rank;
    int per_node; /* members on each node; 0: one */
    bool plain;   /* streams are not encrypted */
    int64_t timeout_ms;
    crti_links_t *links; /* before the group is made; NULL inside the group's test */
    crt_group_t *group;
    void *state; /* of the backend */
    const crti_backend_t *backend;
    uint64_t sequence;
    struct bed_board *board;
};

#define BED_CHECK(condition)                                                             \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "%s:%d: rank %d: %s (%s)\n", __FILE__, __LINE__, bed->rank,  \
                    #condition, crt_error_detail());                                     \
            fflush(stderr);                                                              \
            _exit(1);                                                                    \
        }                                                                                \
    } while (0)

/* Runs `member` in `size` processes whose group is ready and whose backend is open; asserts that
 * all but those in the bit set `killed` succeed. */
void bed_run(int size, const crti_backend_t *backend, bed_member_t *member);
void bed_run_as(const bed_t *how, bed_member_t *member, unsigned killed);

/* Waits until all members (but killed ones) came here. */
void bed_meet(bed_t *bed);

/* A word that all members see. */
uint64_t bed_word(bed_t *bed, int index);
void bed_set_word(bed_t *bed, int index, uint64_t value);

/* One operation. */
crt_status_t bed_step(bed_t *bed, crti_step_t step);
/* A send or receive that goes on beside others, and its end. */
crt_status_t bed_post(bed_t *bed, crti_step_t step, crti_pair_t *pair);
crt_status_t bed_await(bed_t *bed, crti_pair_t *pair);

crti_stream_place_t bed_place(const bed_t *bed);

/* A new group of the same members: fails as a whole if one can't. */
void bed_rebuild(bed_t *bed, uint64_t incarnation);

#endif
