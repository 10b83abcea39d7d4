/* SPDX-License-Identifier: Apache-2.0 */
/* An actor that does wrong what only the inside of a group can do. See saboteur.h. */
#include "saboteur.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "collective/group_int.h"
#include "collective/shm_int.h"
#include "runtime/base/clock.h"

struct saboteur {
    crt_group_t *group;
};

static crt_status_t sabotage_join(void *self, crt_call_t *call)
{
    const char *name;

    CRT_TRY(crt_args(call, &name));
    return crt_group_join(2, 1, CRT_GROUP_OPTIONS(.name = name, .backend = "shm"),
                          &((struct saboteur *)self)->group);
}
const crt_method_t saboteur_join =
    CRT_METHOD(.name = "join", .run = sabotage_join, .signature = "string");

/* Describes an input that lies nowhere, as a member with a defect might. */
static crt_status_t sabotage_run(void *self, crt_call_t *call)
{
    crti_region_t *region = ((struct saboteur *)self)->group->private->region;
    crti_shm_slot_t *slot = &region->head->slots[0];
    int what;

    CRT_TRY(crt_args(call, &what));
    slot->call = (crti_operation_signature_t){.sequence = 1,
                                              .count = 100000,
                                              .kind = CRT_COLLECTIVE_BROADCAST,
                                              .dtype = CRT_DTYPE_FLOAT32,
                                              .peer = 1};
    slot->input = (crti_memory_handle_t){.nonce = 77, .segment_bytes = 1 << 26, .fd = 0};
    if (what == 1)
        slot->input =
            (crti_memory_handle_t){.nonce = 77, .segment_bytes = UINT64_MAX, .fd = -1};
    if (what == 2) { /* the segment is right, the place is outside */
        void *memory;

        CRT_TRY(crt_group_alloc(400000, &memory));
        crti_memory_find(memory, 400000, &slot->input);
        slot->input.offset = slot->input.segment_bytes - 16;
    }
    atomic_fetch_add(&region->head->flag, 1);
    crti_shm_wake(((struct saboteur *)self)->group->private->state, &region->head->flag);
    return CRT_OK;
}
const crt_method_t saboteur_spoil =
    CRT_METHOD(.name = "spoil", .run = sabotage_run, .signature = "int");

/* Dies when it has told where its memory is, and before the other, which sleeps, has seen it. */
static crt_status_t sabotage_death(void *self, crt_call_t *call)
{
    crt_group_t *group = ((struct saboteur *)self)->group;
    const crti_shm_t *team = group->private->state;
    crti_region_t *region = group->private->region;
    crti_shm_slot_t *slot = &region->head->slots[0];
    uint64_t deadline = crti_now_ns() + 30 * CRTI_S;
    void *memory;

    CRT_TRY(crt_group_alloc(400000, &memory));
    slot->call = (crti_operation_signature_t){.sequence = 1,
                                              .count = 100000,
                                              .kind = CRT_COLLECTIVE_BROADCAST,
                                              .dtype = CRT_DTYPE_FLOAT32,
                                              .peer = 1};
    crti_memory_find(memory, 400000, &slot->input);
    while (!atomic_load(&team->peers[0].head->sleepers) && crti_now_ns() < deadline)
        sched_yield();
    atomic_fetch_add(&region->head->flag, 1); /* it is not woken: it looks by itself */
    kill(getpid(), SIGKILL);
    return CRT_OK;
}
const crt_method_t saboteur_die =
    CRT_METHOD(.name = "die", .run = sabotage_death, .signature = "");

const crt_actor_class_t saboteur_class =
    CRT_ACTOR_CLASS(.name = "Saboteur", .size = sizeof(struct saboteur),
                    .methods =
                        CRT_METHODS(&saboteur_join, &saboteur_spoil, &saboteur_die));
