/* SPDX-License-Identifier: Apache-2.0 */
/* Registry of arrows. See arrows.h. */
#include "tests/sim/arrows.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/arrow.h"

#define MACHINES 16
#define STATES   16

typedef struct machine {
    const char *name;
    const char *state[STATES];
    unsigned next[STATES];
    int states;
    uint64_t taken[STATES][STATES];
} machine_t;

static machine_t machines[MACHINES];
static int machine_count;
static sim_world_t *watching;

void sim_arrows_watch(sim_world_t *world)
{
    watching = world;
}

void sim_arrows_forget(void)
{
    memset(machines, 0, sizeof(machines));
    machine_count = 0;
}

static machine_t *find(const char *name)
{
    for (int i = 0; i < machine_count; i++)
        if (machines[i].name == name || strcmp(machines[i].name, name) == 0)
            return &machines[i];
    return NULL;
}

static machine_t *learn(const crti_arrow_table_t *table)
{
    machine_t *m = &machines[machine_count++];

    if (machine_count > MACHINES || table->states > STATES)
        __builtin_trap();
    m->name = table->machine;
    m->states = table->states;
    for (int i = 0; i < m->states; i++) {
        m->state[i] = table->rows[i].name;
        m->next[i] = table->rows[i].next;
    }
    return m;
}

void crti_arrow_taken(const crti_arrow_table_t *table, unsigned from, unsigned to)
{
    machine_t *m = find(table->machine);

    if (!m)
        m = learn(table);
    m->taken[from][to]++;
    if (!watching)
        return;
    sim_fold(watching, (uint64_t)from << 8 | to);
    sim_note(watching, "    %s: %s -> %s", m->name, m->state[from], m->state[to]);
}

/* ---------------------------------------------------------------- other processes */

size_t sim_arrows_size(void)
{
    return sizeof(machines);
}

void sim_arrows_export(void *memory)
{
    memcpy(memory, machines, sizeof(machines));
}

void sim_arrows_add(const void *memory)
{
    const machine_t *theirs = memory;

    for (int i = 0; i < MACHINES && theirs[i].name; i++) {
        machine_t *m = find(theirs[i].name);

        if (!m) {
            m = &machines[machine_count++];
            *m = theirs[i];
            continue;
        }
        for (int from = 0; from < STATES; from++)
            for (int to = 0; to < STATES; to++)
                m->taken[from][to] += theirs[i].taken[from][to];
    }
}

/* ---------------------------------------------------------------- the report */

static int report(const machine_t *m)
{
    int missing = 0, all = 0;

    for (int from = 0; from < m->states; from++)
        for (int to = 0; to < m->states; to++) {
            if (!(m->next[from] >> to & 1))
                continue;
            all++;
            missing += m->taken[from][to] == 0;
        }
    printf("%s: %d of %d arrows taken\n", m->name, all - missing, all);
    for (int from = 0; from < m->states; from++)
        for (int to = 0; to < m->states; to++)
            if (m->next[from] >> to & 1)
                printf("    %-12s -> %-12s %10llu%s\n", m->state[from], m->state[to],
                       (unsigned long long)m->taken[from][to],
                       m->taken[from][to] ? "" : "   NEVER");
    return missing;
}

int sim_arrows_report(const char *const *names, int count)
{
    int missing = 0;

    for (int i = 0; i < count; i++) {
        const machine_t *m = find(names[i]);

        if (m) {
            missing += report(m);
            continue;
        }
        printf("%s: never met\n", names[i]);
        missing++;
    }
    return missing;
}
