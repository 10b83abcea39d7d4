/* SPDX-License-Identifier: Apache-2.0 */
/* Room in placement groups: in which bundle an actor goes. A part of placement_group_table.h.
 *
 * Where it sits
 *     control/control_actor.c -> [ control/tables/placement_group_room.c ]
 */
#include "runtime/control/tables/placement_group_table.h"

/* What no actor has of a bundle. False: those resources are not among it. */
static bool has_room(const crti_bundle_entry_t *bundle, const crti_resources_t *resources,
                     int64_t *cpus_out)
{
    crti_resources_t available = bundle->resources;

    if (bundle->state != CRTI_BUNDLE_RESERVED || bundle->is_new)
        return false;
    crti_resources_take(&available, &bundle->used);
    *cpus_out = crti_resources_get(&available, "CPU");
    return crti_resources_fit(&available, resources);
}

int64_t crti_placement_group_pick(const crti_placement_group_entry_t *group,
                                  const crti_resources_t *resources, int64_t index)
{
    int64_t best = -1, most = 0, cpus;

    for (size_t i = 0; i < group->bundle_count; i++) {
        if ((index >= 0 && (size_t)index != i) ||
            !has_room(&group->bundles[i], resources, &cpus) ||
            (best >= 0 && cpus <= most))
            continue;
        best = (int64_t)i;
        most = cpus;
    }
    return best;
}

int64_t crti_placement_group_pick_next(const crti_placement_group_entry_t *group,
                                       const crti_resources_t *resources, int64_t after)
{
    int64_t cpus;

    for (size_t i = 1; i <= group->bundle_count; i++) {
        size_t at = ((size_t)after + i) % group->bundle_count;

        if (has_room(&group->bundles[at], resources, &cpus))
            return (int64_t)at;
    }
    return -1;
}

crt_status_t crti_placement_group_could_serve(const crti_placement_group_entry_t *group,
                                              const crti_resources_t *resources,
                                              int64_t index)
{
    char need[200];

    if (group->state == CRTI_PLACEMENT_GROUP_REMOVED)
        return crt_raise(CRT_ERR_UNSCHEDULABLE, "%s: %s",
                         "its placement group was removed", group->text);
    if (index >= (int64_t)group->bundle_count)
        return crt_raise(CRT_ERR_INVALID,
                         "there is no bundle %lld: its placement group "
                         "has %zu",
                         (long long)index, group->bundle_count);
    for (size_t i = 0; i < group->bundle_count; i++)
        if ((index < 0 || (size_t)index == i) &&
            crti_resources_fit(&group->bundles[i].resources, resources))
            return CRT_OK;
    crti_resources_format(resources, need, sizeof(need));
    return index < 0
               ? crt_raise(CRT_ERR_UNSCHEDULABLE,
                           "needs %s, no bundle of its placement group has that", need)
               : crt_raise(CRT_ERR_UNSCHEDULABLE,
                           "needs %s, bundle %lld of its placement group has less", need,
                           (long long)index);
}

void crti_placement_group_count(crti_placement_group_entry_t *group, int64_t index,
                                const crti_resources_t *resources, bool is_placed)
{
    crti_bundle_entry_t *bundle;

    if (index < 0 || (size_t)index >= group->bundle_count)
        return;
    bundle = &group->bundles[index];
    if (is_placed)
        crti_resources_give(&bundle->used, resources);
    else if (crti_resources_fit(&bundle->used,
                                resources)) /* not forgotten with its place */
        crti_resources_take(&bundle->used, resources);
}
