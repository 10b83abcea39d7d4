/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that do not know which instance of the autoscaler they are. See
 * control_machine_names.h.
 *
 * Where it sits
 *     answers of a provider -> [ control_machine_names.c ] -> control_autoscale.c: what it sees
 * Why
 *     A node says by the label crt/instance which instance it is. The pods of a Deployment are all
 *     alike: they can't be given such a label before they start. Their provider says afterwards
 *     which instance has which pod, and a node which pod it is in: by the label crt/pod, or by the
 *     name of its host, which is that of the pod.
 * Invariants
 *     What was learnt stays until the instance has ended, also when a later list lacks it: a node
 *     that was one moment not an instance would count as dead. Nothing is kept on disk: the first
 *     list after a start of the head has all.
 */
#include "runtime/control/control_machine_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/scheduling.h"
#include "runtime/control/autoscale/autoscaler.h"
#include "runtime/control/autoscale/provider.h"

#define LABEL_POD "crt/pod"
#define MACHINE   254 /* bytes of a name of Kubernetes, with its zero */

typedef struct machine {
    crti_list_t link;
    char instance[CRTI_INSTANCE_NAME], name[MACHINE];
    char *labels; /* as they were given out last */
} machine_t;

static void forget(crti_control_t *c, machine_t *machine)
{
    if (crti_map_get(&c->machines, machine->name) == machine)
        crti_map_remove(&c->machines, machine->name);
    crti_map_remove(&c->machine_of, machine->instance);
    crti_list_remove(&machine->link);
    free(machine->labels);
    free(machine);
}

static void add(crti_control_t *c, const char *instance, const char *name)
{
    machine_t *machine = calloc(1, sizeof(*machine));

    if (!machine)
        return;
    snprintf(machine->instance, sizeof(machine->instance), "%s", instance);
    snprintf(machine->name, sizeof(machine->name), "%s", name);
    crti_list_append(&c->machine_names, &machine->link);
    if (crti_map_put(&c->machine_of, machine->instance, machine) != CRT_OK ||
        crti_map_put(&c->machines, machine->name, machine) != CRT_OK)
        forget(c, machine); /* the next list says it again */
}

/* The machine of "INSTANCE=MACHINE"; NULL: it has another form. */
static const char *split(const char *said, char instance[CRTI_INSTANCE_NAME])
{
    const char *equals = strchr(said, '=');

    if (!equals || (size_t)(equals - said) >= CRTI_INSTANCE_NAME ||
        strlen(equals + 1) >= MACHINE || !equals[1])
        return NULL;
    snprintf(instance, CRTI_INSTANCE_NAME, "%.*s", (int)(equals - said), said);
    return equals + 1;
}

static void learn(crti_control_t *c, const char *said)
{
    char instance[CRTI_INSTANCE_NAME];
    const char *name = split(said, instance);
    machine_t *machine = name ? crti_map_get(&c->machine_of, instance) : NULL;

    if (!name || (machine && strcmp(machine->name, name) == 0))
        return;
    if (machine)
        forget(c, machine);
    if (c->machine_of.count < CRTI_INSTANCES_MAX)
        add(c, instance, name);
}

void crti_control_machines_learn(crti_control_t *c, const crti_provider_answer_t *answer)
{
    for (size_t i = 0; i < answer->count; i++)
        learn(c, answer->names[i]);
}

void crti_control_machine_forget(crti_control_t *c, const char *instance)
{
    machine_t *machine = crti_map_get(&c->machine_of, instance);

    if (machine)
        forget(c, machine);
}

const char *crti_control_machine_of(const crti_control_t *c, const char *instance)
{
    const machine_t *machine = crti_map_get(&c->machine_of, instance);

    return machine ? machine->name : "";
}

/* ---------------------------------------------------------------- which node it is */

typedef struct said {
    bool has_instance;
    char pod[MACHINE];
} said_t;

static bool is_key(const char *key, size_t size, const char *name)
{
    return size == strlen(name) && memcmp(key, name, size) == 0;
}

static void take_label(void *user, const char *key, size_t key_size, const char *value,
                       size_t value_size)
{
    said_t *said = user;

    said->has_instance |= is_key(key, key_size, CRTI_LABEL_INSTANCE);
    if (is_key(key, key_size, LABEL_POD))
        snprintf(said->pod, sizeof(said->pod), "%.*s", (int)value_size, value);
}

/* Which pod it is in, if any. */
static void read_node(const crti_node_entry_t *node, said_t *said)
{
    *said = (said_t){.pod = ""};
    crti_labels_walk(node->labels ? node->labels : "", take_label, said);
    if (!*said->pod && node->hostname)
        snprintf(said->pod, sizeof(said->pod), "%s", node->hostname);
}

bool crti_control_machine_is_found(const crti_control_t *c, const char *said_name)
{
    char instance[CRTI_INSTANCE_NAME];
    const char *name = split(said_name, instance);
    said_t said;

    if (!name || crti_map_get(&c->machine_of, instance))
        return false;
    CRTI_LIST_FOREACH (item, &c->nodes.living) {
        read_node(CRTI_NODE_OF(item), &said);
        if (!said.has_instance && strcmp(said.pod, name) == 0)
            return true;
    }
    return false;
}

/* TYPE of "TYPE-CLUSTER-NUMBER". */
static int type_size(const char *instance)
{
    const char *end = strrchr(instance, '-');

    while (end && end > instance && *--end != '-')
        continue;
    return end ? (int)(end - instance) : 0;
}

const char *crti_control_machine_labels(crti_control_t *c, const crti_node_entry_t *node)
{
    const char *labels = node->labels ? node->labels : "";
    machine_t *machine;
    said_t said;

    if (c->machine_of.count == 0)
        return labels;
    read_node(node, &said);
    machine = said.has_instance ? NULL : crti_map_get(&c->machines, said.pod);
    if (!machine)
        return labels;
    free(machine->labels);
    if (asprintf(&machine->labels,
                 "%s%s" CRTI_LABEL_INSTANCE "=%s," CRTI_LABEL_NODE_TYPE "=%.*s", labels,
                 *labels ? "," : "", machine->instance, type_size(machine->instance),
                 machine->instance) < 0)
        machine->labels = NULL;
    return machine->labels ? machine->labels : labels;
}

void crti_control_machines_free(crti_control_t *c)
{
    while (!crti_list_is_empty(&c->machine_names))
        forget(c, CRTI_CONTAINER(c->machine_names.next, machine_t, link));
}
