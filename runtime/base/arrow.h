/* SPDX-License-Identifier: Apache-2.0 */
/* Arrow: reports each step of a state machine to the simulation.
 *
 * Every machine has a table `states` with a row per state, and one setter. The setter calls
 * CRTI_ARROW("session", states, from, to). In the files that tests/sim compiles for itself (with
 * CRT_SIM) that is a call; everywhere else it is nothing.
 */
#ifndef CRTI_BASE_ARROW_H
#define CRTI_BASE_ARROW_H

typedef struct crti_state_row {
    const char *name;
    unsigned next; /* bit set of the states that may follow */
} crti_state_row_t;

#ifdef CRT_SIM

typedef struct crti_arrow_table {
    const char *machine;
    const crti_state_row_t *rows;
    int states;
} crti_arrow_table_t;

/* tests/sim/arrows.c */
void crti_arrow_taken(const crti_arrow_table_t *table, unsigned from, unsigned to);

#    define CRTI_ARROW(name_of_machine, table, from, to)                                 \
        do {                                                                             \
            static const crti_arrow_table_t crti_arrows = {                              \
                (name_of_machine), (table), sizeof(table) / sizeof((table)[0])};         \
                                                                                         \
            crti_arrow_taken(&crti_arrows, (from), (to));                                \
        } while (0)

#else
#    define CRTI_ARROW(name_of_machine, table, from, to) ((void)0)
#endif

#endif
