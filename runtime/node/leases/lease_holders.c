/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds resources of this node beside leases: actors, workers that end, bundles of placement
 * groups. A part of the lease table (lease_table.h).
 *
 * Where it sits
 *     actors/actor.c, leases/bundle.c -> [ node/leases/lease_holders.c ] -> room.c, lease_table.c
 *     (who waits)
 */
#include "runtime/node/leases/lease_table.h"
#include "runtime/node/leases/room.h"

static crt_status_t take(crti_lease_table_t *table, crti_id_t actor, crti_id_t job,
                         crti_bundle_t *bundle, const crti_resources_t *resources)
{
    crt_status_t status = crti_resources_check(resources);

    return status == CRT_OK ? crti_room_hold(crti_lease_table_change_room(table), actor,
                                             job, bundle, resources)
                            : status;
}

crt_status_t crti_lease_table_take(crti_lease_table_t *table, crti_id_t actor,
                                   crti_id_t job, const crti_resources_t *resources)
{
    return take(table, actor, job, NULL, resources);
}

crt_status_t crti_lease_table_take_of_bundle(crti_lease_table_t *table, crti_id_t actor,
                                             crti_id_t job, crti_id_t group,
                                             int64_t index,
                                             const crti_resources_t *resources)
{
    crti_bundle_t *bundle = crti_bundle_table_get(&crti_lease_table_room(table)->bundles,
                                                  group, index, resources);

    return bundle ? take(table, actor, job, bundle, resources)
                  : crt_raise(CRT_ERR_BACKPRESSURE, CRTI_NO_BUNDLE);
}

void crti_lease_table_give(crti_lease_table_t *table, crti_id_t holder, uint64_t now_ns)
{
    if (crti_room_release(crti_lease_table_change_room(table), holder))
        crti_lease_table_serve(table, now_ns);
}

bool crti_lease_table_gpus(const crti_lease_table_t *table, crti_id_t holder,
                           uint64_t *gpus_out)
{
    const crti_holding_t *holding =
        crti_holdings_get(&crti_lease_table_room(table)->holdings, holder);

    *gpus_out = holding ? holding->gpus.gpus : 0;
    return holding != NULL;
}

crt_status_t crti_lease_table_reserve(crti_lease_table_t *table,
                                      const crti_bundle_t *bundle, uint64_t now_ns)
{
    crti_room_t *room = crti_lease_table_change_room(table);
    crti_bundle_t *old = crti_bundle_table_get(&room->bundles, bundle->group,
                                               (int64_t)bundle->index, NULL);
    crt_status_t status;

    if (old && old->incarnation == bundle->incarnation)
        return CRT_OK;
    if (old && old->incarnation > bundle->incarnation)
        return crt_raise(CRT_ERR_BACKPRESSURE, "a later reservation is held");
    if (old)
        crti_room_return(room, old);
    status = crti_room_reserve(room, bundle);
    crti_lease_table_serve(table, now_ns);
    return status;
}

bool crti_lease_table_return(crti_lease_table_t *table, crti_id_t group, uint64_t index,
                             uint64_t incarnation, uint64_t now_ns)
{
    crti_room_t *room = crti_lease_table_change_room(table);
    crti_bundle_t *bundle =
        crti_bundle_table_get(&room->bundles, group, (int64_t)index, NULL);

    if (bundle == NULL || bundle->incarnation > incarnation)
        return false;
    crti_room_return(room, bundle);
    crti_lease_table_serve(table, now_ns);
    return true;
}
