/* SPDX-License-Identifier: Apache-2.0 */
/* Says what lies in a node's object store: one line for each object, with its owner, who made it
 * and who has it pinned. chaos.py asks when bytes are left that nobody should need.
 *
 *     store_objects FILE      of a node daemon: /proc/PID/fd/N
 *
 * It attaches in the last slot for the time of the walk, as any process of the node would, and
 * needs the right to open another process's file.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/store/space.h"

static const char *const states[CRTI_ENTRY_STATES] = {
    "gone", "being written", "being written, freed", "sealed", "freed, pinned"};

static void say_process(const crti_store_t *store, const char *what, unsigned number)
{
    const crti_arena_slot_t *slot = crti_arena_slot(store, number);
    crti_id_t id = {crti_read(&slot->process_high), crti_read(&slot->process_low)};
    char hex[CRTI_ID_HEX];

    if (number == 0)
        printf(", %s the daemon", what);
    else if (atomic_load(&slot->state) == CRTI_SLOT_LIVE)
        printf(", %s process %.8s (pid %u)", what, crti_id_hex(id, hex),
               atomic_load(&slot->pid));
    else
        printf(", %s a process that ended", what);
}

/* Who has the object pinned: the pin units that name an entry of that id. */
static void say_pins(crti_store_t *store, crti_object_id_t id)
{
    for (uint64_t page = store->geometry.first_record;
         page <= store->geometry.last_record;) {
        uint64_t run = crti_read(&crti_page(store, page)->run);
        bool has_pins =
            crti_run_kind(run) == CRTI_PAGE_SLAB && crti_run_class(run) == CRTI_CLASS_PIN;

        for (uint64_t unit = 0; has_pins && unit < CRTI_PAGE_BYTES / CRTI_RECORD_BYTES;
             unit++) {
            const crti_pin_t *pin =
                crti_slab_unit(store, page << 6 | unit, CRTI_CLASS_PIN, NULL);
            const crti_entry_t *entry =
                pin ? crti_slab_unit(store, crti_read(&pin->entry), CRTI_CLASS_ENTRY,
                                     NULL)
                    : NULL;

            if (entry && crti_object_id_equal(crti_entry_id(entry), id))
                say_process(store, "pinned by", crti_run_slot(run));
        }
        page += crti_run_length(run) ? crti_run_length(run) : 1;
    }
}

static void say_object(void *user, const crti_seen_t *seen)
{
    crti_store_t *store = user;
    char hex[CRTI_ID_HEX];

    printf("%s/%" PRIx64 " %" PRIu64 " bytes, %s%s", crti_id_hex(seen->id.owner, hex),
           seen->id.number, seen->size, states[crti_state_of(seen->state)],
           crti_state_flags(seen->state) & CRTI_ENTRY_PRIMARY ? "" : ", a copy");
    say_process(store, "made by", crti_state_slot(seen->state));
    if (crti_state_pins(seen->state))
        say_pins(store, seen->id);
    printf("\n");
}

int main(int argc, char **argv)
{
    CRTI_AUTO(crti_store_detach) crti_store_t *store = NULL;
    crti_header_t header;
    int fd = argc == 2 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;

    if (fd < 0 || pread(fd, &header, sizeof(header), 0) != sizeof(header) ||
        header.magic != CRTI_ARENA_MAGIC)
        return 2; /* not a store */
    if (crti_store_attach(fd, header.geometry.slot_count - 1, crti_id_random(), &store) !=
            CRT_OK ||
        crti_space_walk(store, say_object, store) != CRT_OK) {
        fprintf(stderr, "store_objects: %s\n", crt_error_detail());
        return 1;
    }
    return 0;
}
