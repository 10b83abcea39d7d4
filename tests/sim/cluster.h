/* SPDX-License-Identifier: Apache-2.0 */
/* Cluster: the head's tables among 20 nodes, an admin client and a store, on virtual time.
 *
 * Where it sits
 *     test_control.c (who acts, weather) -> cluster_*.c -> runtime/control (the real machines)
 * What is modelled
 *     links   streams between a node and the head: in order, late, broken at any moment (what is
 *             under way is lost and both sides hear of it), or cut (nothing moves, nobody hears)
 *     store   operations done in order, late, or refused for a while; when the head dies some of
 *             those under way are done and some are not
 *     nodes   what crt-node does on its link: registers, repeats its questions after each
 *             registration, keeps processes by actor and incarnation, dies, comes back
 *     admin   submits and stops jobs
 * What is true is kept beside it (truth_*): what was acknowledged, what was killed, what ran.
 */
#ifndef TESTS_SIM_CLUSTER_H
#define TESTS_SIM_CLUSTER_H

#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/control/control_state.h"
#include "tests/sim/world.h"

#define SIM_NODES   20
#define ADMIN_PLACE SIM_NODES /* the admin client's place among the nodes */
#define PLACES      (SIM_NODES + 1)
#define ACTORS      600
#define JOBS        300
#define PROCESSES   4000
#define LINKS       4000
#define ROOM_OF_JOB 1000 /* so that what each asks for is told apart */

typedef struct scene scene_t;

/* ---------------------------------------------------------------- links */

typedef struct sim_link {
    unsigned place;
    bool open[2]; /* the node's end, the head's end */
    crti_list_t queue[2];
    uint64_t arrival[2]; /* of the last message, per direction */
} sim_link_t;

enum { TO_NODE, TO_HEAD };

/* ---------------------------------------------------------------- truth */

typedef struct truth_actor {
    crti_id_t id;
    unsigned job, owner_place;
    char name[16];
    bool detached, fenced, acked, refused, killed,
        failed; /* failed: create function or program */
    int64_t max_restarts;
    uint64_t serial; /* the head's, once it was seen: in which order they were made */
    uint64_t ran;    /* incarnations that were begun, a bit each */
    unsigned deaths; /* of its processes, and of nodes while it was placed there */
    bool never_fits;
} truth_actor_t;

typedef struct truth_job {
    crti_id_t id, driver;
    unsigned place;
    bool added, over; /* over: somebody who may decide it said that the driver is gone */
    uint64_t room_asked, room_acked; /* amounts; each is more than the one before */
    bool room_busy;
    /* a submission */
    char submission[16];
    bool acked, refused, stop_asked;
    crti_id_t run; /* the job id that it was started with */
    unsigned executions;
    uint64_t incarnation; /* of the host that ran it */
} truth_job_t;

/* A process that hosts an actor. */
typedef struct process {
    unsigned actor, place;
    uint64_t incarnation;
    crti_id_t id;
    bool running, gone;
    uint64_t request; /* of ACTOR_START, while it starts */
} process_t;

/* What a node (or the admin client) asked and must ask again until it is answered. */
typedef struct question {
    crti_list_t in_list;
    uint64_t number;
    crti_message_kind_t kind;
    crti_buffer_t bytes;
    unsigned subject; /* index of the actor or job */
    uint64_t value;   /* KV */
    bool again;
} question_t;

typedef struct sim_place {
    scene_t *scene;
    unsigned index;
    crti_id_t id;
    uint64_t incarnation;
    bool up, registered, connecting;
    int link;          /* -1: none */
    uint64_t fence_ns; /* when the last heartbeat was sent that the head acknowledged */
    uint64_t heard_ns, cut_until,
        life; /* life counts starts: what belongs to an older one is void */
    crti_list_t questions;
    uint64_t last_number;
    crti_resources_t available;
    int driver; /* job that runs here, -1: none */
    uint64_t kv_asked, kv_acked, kv_seen;
    bool kv_busy;
    uint64_t watched[ACTORS / 64 + 1]; /* bits */
    struct {
        uint64_t incarnation;
        unsigned state;
    } seen[ACTORS];
} sim_place_t;

typedef struct row {
    crti_list_t in_rows;
    crti_store_table_t table;
    char key[CRTI_ID_HEX + 16]; /* with the table's number in front */
    crti_buffer_t value;
} row_t;

typedef struct stored {
    crti_list_t in_pending;
    uint64_t ticket, due_ns;
    crti_store_verb_t verb;
    crti_store_table_t table;
    char key[CRTI_ID_HEX + 16];
    crti_buffer_t value;
} stored_t;

struct scene {
    sim_world_t *world;
    crti_control_t *control; /* NULL: the head is down */
    uint64_t head_life, head_first_link, tick_at;
    sim_link_t link[LINKS];
    unsigned links;
    sim_place_t place[PLACES];
    process_t process[PROCESSES];
    unsigned processes;
    truth_actor_t actor[ACTORS];
    unsigned actors;
    truth_job_t job[JOBS];
    unsigned jobs;
    crti_map_t actor_by_id, job_by_id;

    crti_list_t rows, pending;
    crti_map_t row_by_key;
    uint64_t store_due, store_stall_until, store_fail_until;
    crti_map_t revoked; /* outlives the head, too */

    bool calm; /* nothing dies but the head */
    bool is_ending;
};

/* ---------------------------------------------------------------- cluster_links.c */

/* A connection of the place to the head, when the head is there and it is not cut. */
bool links_connect(scene_t *s, unsigned place);
void links_send(scene_t *s, unsigned link, int direction, const void *data, size_t size);
/* Both ends break; what is under way is lost. */
void links_break(scene_t *s, unsigned link);
/* One end closes; the other one hears of it behind what was sent. */
void links_close(scene_t *s, unsigned link, int end);
void links_head_died(scene_t *s);
void links_free(scene_t *s);

/* ---------------------------------------------------------------- cluster_store.c */

void store_add(scene_t *s, const crti_store_operation_t *operation);
void store_head_died(scene_t *s);
void store_load(scene_t *s);
size_t store_count(const scene_t *s, crti_store_table_t table);
void store_free(scene_t *s);

/* ---------------------------------------------------------------- cluster_node.c */

void node_start(scene_t *s, unsigned place);
void node_kill(scene_t *s, unsigned place);
void node_reconnect(scene_t *s, unsigned place, uint64_t delay);
void node_link_lost(scene_t *s, unsigned place);
void node_receive(scene_t *s, unsigned place, const crti_message_t *m);
/* False: the place is down. */
bool node_ask(scene_t *s, unsigned place, crti_message_kind_t kind, const void *body,
              unsigned subject, uint64_t value);
void node_notice(scene_t *s, unsigned place, crti_message_kind_t kind, const void *body);
void node_end_process(scene_t *s, unsigned process, bool tell, bool created);
void node_end_driver(scene_t *s, unsigned place, bool tell);
void node_free(scene_t *s);

/* ---------------------------------------------------------------- cluster_admin.c */

void admin_receive(scene_t *s, const crti_message_t *m);
void admin_connected(scene_t *s);
/* The head's own host was asked to run a submission, or to stop it. */
void admin_start(scene_t *s, unsigned place, const crti_message_t *m);
void admin_stop(scene_t *s, unsigned place, const crti_message_t *m);
void admin_place_died(scene_t *s, unsigned place);
void admin_submit(scene_t *s);
void admin_stop_some(scene_t *s);

/* ---------------------------------------------------------------- cluster_head.c */

void head_start(scene_t *s);
void head_kill(scene_t *s);
/* After every event of control: its next tick. */
void head_settle(scene_t *s);

/* ---------------------------------------------------------------- cluster_check.c */

void check_rest(scene_t *s);
/* A process is about to run: no incarnation runs twice. */
void check_start(scene_t *s, unsigned actor, uint64_t incarnation, unsigned place);
/* A process may take calls from now on, or longer: no other one of its actor, if that is fenced,
 * and none of a fenced actor that had its name, does. */
void check_fence(scene_t *s, const process_t *process);

/* The index, or -1. */
int truth_actor_of(const scene_t *s, crti_id_t id);
int truth_job_of(const scene_t *s, crti_id_t id);

#endif
