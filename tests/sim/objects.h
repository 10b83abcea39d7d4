/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the objects scenario share: test_objects.c (programs, deaths),
 * objects_stores.c (the nodes' stores and pulls), objects_checks.c (what must hold). */
#ifndef TESTS_SIM_OBJECTS_H
#define TESTS_SIM_OBJECTS_H

#include "runtime/node/objects/pull_table.h"
#include "runtime/node/objects/share_table.h"
#include "tests/sim/holder.h"

#define NODES   20
#define PLACES  60
#define HANDLES 8
#define DEATHS  200

/* The refs that a program has. */
typedef struct program {
    sim_ref_t *handle[HANDLES];
    unsigned count;
} program_t;

typedef struct node {
    crti_id_t id;
    bool is_alive;
    crti_pull_table_t *pulls;
    crti_share_table_t *shares;
    uint64_t tick_at;
    crti_map_t store;   /* object -> stored_t */
    crti_list_t stored; /* stored_t */
} node_t;

/* A registration that was made for a process by somebody else, and has not arrived there. */
typedef struct grant {
    crti_object_id_t object;
    crti_id_t to, via;
} grant_t;

/* What an object was made of: refs in values must not lead back to it, or nobody could ever free
 * it. Programs are told so, and the simulated ones look. */
typedef struct made {
    crti_list_t link;
    crti_object_id_t inner[SIM_REFS];
    unsigned count;
} made_t;

/* A part of an object on its way between nodes, or what is said about it. */
typedef struct transfer {
    crti_object_id_t object;
    crti_id_t from, to;
    uint64_t offset, hops;
    uint32_t attempt;
    bool direct;
    crti_id_t elsewhere; /* the answer is that this node is to be asked */
    unsigned pair;       /* an ASK: of scene_t.asks */
} transfer_t;

typedef struct scene {
    sim_world_t *world;
    sim_network_t net;
    sim_holder_t holder[PLACES];
    program_t program[PLACES];
    node_t node[NODES];
    unsigned node_of[PLACES];
    crti_id_t dead[DEATHS], dead_nodes[DEATHS];
    size_t dead_count, dead_node_count;
    grant_t *grants;
    size_t grant_count, grant_room;
    crti_map_t made_by_id; /* object -> made_t */
    crti_list_t made;
    transfer_t *transfers; /* all of the run: events name them */
    size_t transfer_count, transfer_room;
    unsigned asks[NODES * NODES +
                  1]; /* on their way, by who asks whom; the last: to the dead */
    bool is_ending, has_deaths, is_tight; /* stores are full now and then */
} scene_t;

/* objects_stores.c: parts of sim_holder_ops_t, and what happens to nodes. */
bool sim_stores_has(sim_holder_t *h, crti_object_id_t object);
void sim_stores_pull(sim_holder_t *h, sim_ref_t *ref);
void sim_stores_store(sim_holder_t *h, crti_object_id_t object);
void sim_stores_unstore(sim_holder_t *h, crti_object_id_t object, crti_id_t node);
crti_id_t sim_stores_node_id(sim_holder_t *h);
void sim_stores_on_copy(sim_holder_t *h, crti_object_id_t object);
/* No living node has a copy that its owner was told of by a process that lives, too. */
void sim_stores_check_lost(sim_holder_t *h, sim_ref_t *ref);
void sim_stores_start(scene_t *scene, unsigned node);
void sim_stores_kill(scene_t *scene, unsigned node);
void sim_stores_process_died(scene_t *scene, unsigned node, crti_id_t process);
void sim_stores_node_died(scene_t *scene, unsigned node, crti_id_t dead);
/* No bytes are left, but what nobody could tell the owner of (who made or pulled them died), and
 * results for an owner whose death the node had heard of before. */
void sim_stores_check_empty(scene_t *scene);

/* objects_checks.c */
bool sim_objects_is_dead(const scene_t *scene, crti_id_t process);
sim_holder_t *sim_objects_holder(scene_t *scene, crti_id_t process);
void sim_objects_check_free(sim_holder_t *h, sim_ref_t *ref);
void sim_objects_check_content(scene_t *scene, sim_holder_t *h, sim_ref_t *ref,
                               crt_status_t status);
void sim_objects_on_grant(sim_holder_t *owner, sim_ref_t *ref, crti_id_t to,
                          crti_id_t via);
void sim_objects_on_token(sim_holder_t *h, sim_ref_t *ref, crti_id_t via);
void sim_objects_made_of(scene_t *scene, crti_object_id_t object, sim_ref_t *const *inner,
                         unsigned count);
/* Does the value of `from`, or of something in it, have a ref to `to`? */
bool sim_objects_lead_to(const scene_t *scene, crti_object_id_t from,
                         crti_object_id_t to);
uint64_t sim_objects_serial(sim_holder_t *h);
/* What was registered through a giver that died before its reply came. */
void sim_objects_end_lost_grants(scene_t *scene);
void sim_objects_check_rest(scene_t *scene);

#endif
