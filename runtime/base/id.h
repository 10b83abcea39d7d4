/* SPDX-License-Identifier: Apache-2.0 */
/* Identities: 128 random bits for processes, nodes, actors, jobs and clusters; an object is
 * named by its owner's process id and a number that the owner counts up. */
#ifndef CRTI_BASE_ID_H
#define CRTI_BASE_ID_H

#include <stdbool.h>
#include <stdint.h>

#define CRTI_ID_HEX 33 /* bytes that crti_id_hex writes, with the final zero */

typedef struct crti_id {
    uint64_t high;
    uint64_t low;
} crti_id_t;

typedef struct crti_object_id {
    crti_id_t owner; /* process that made the ref */
    uint64_t number; /* 1, 2, 3, ... within that process; 0 is no object */
} crti_object_id_t;

/* From the kernel's random source. */
crti_id_t crti_id_random(void);

/* A new one for a process of that node: its last 48 bits are the node's first. So a finder of
 * objects of a process knows the node with which it ends. */
crti_id_t crti_id_of_node(crti_id_t node);

static inline bool crti_id_is_of_node(crti_id_t process, crti_id_t node)
{
    return ((process.low ^ node.high >> 16) & UINT64_C(0xffffffffffff)) == 0;
}

/* Processes of these two can't be told apart. */
static inline bool crti_id_nodes_clash(crti_id_t a, crti_id_t b)
{
    return (a.high ^ b.high) >> 16 == 0;
}

static inline bool crti_id_is_zero(crti_id_t id)
{
    return (id.high | id.low) == 0;
}

static inline bool crti_id_equal(crti_id_t a, crti_id_t b)
{
    return a.high == b.high && a.low == b.low;
}

/* An order, of no meaning. */
static inline bool crti_id_less(crti_id_t a, crti_id_t b)
{
    return a.high != b.high ? a.high < b.high : a.low < b.low;
}

static inline bool crti_object_id_equal(crti_object_id_t a, crti_object_id_t b)
{
    return a.number == b.number && crti_id_equal(a.owner, b.owner);
}

/* 16 bytes, big endian, as in messages and lists of ids. */
void crti_id_pack(crti_id_t id, unsigned char bytes[16]);
crti_id_t crti_id_unpack(const unsigned char bytes[16]);

/* Writes 32 lower-case hex digits and a zero; returns `text`. */
const char *crti_id_hex(crti_id_t id, char text[CRTI_ID_HEX]);

/* False unless `text` is exactly 32 hex digits. */
bool crti_id_parse(const char *text, crti_id_t *id_out);

#endif
