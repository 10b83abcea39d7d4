/* SPDX-License-Identifier: Apache-2.0 */
/* Room. See room.h. */
#include "runtime/node/leases/room.h"

void crti_room_init(crti_room_t *room, const crti_resources_t *resources)
{
    room->resources = room->available = *resources;
    crti_gpu_table_init(&room->gpus, (unsigned)(crti_resources_get(resources, "GPU") /
                                                CRTI_RESOURCE_ONE));
    crti_holdings_init(&room->holdings);
    crti_bundle_table_init(&room->bundles);
}

void crti_room_fini(crti_room_t *room)
{
    crti_holdings_fini(&room->holdings);
    crti_bundle_table_fini(&room->bundles);
}

void crti_room_add(crti_room_t *room, const char *name, int64_t amount)
{
    if (crti_resources_get(&room->resources, name) == 0 &&
        crti_resources_set(&room->resources, name, amount) == CRT_OK)
        crti_resources_set(&room->available, name, amount);
}

bool crti_room_fits(const crti_room_t *room, const crti_bundle_t *bundle,
                    const crti_resources_t *need)
{
    if (bundle)
        return crti_bundle_fits(bundle, need);
    return crti_resources_fit(&room->available, need) &&
           crti_gpu_table_fits(&room->gpus, crti_resources_get(need, "GPU"));
}

static crti_resources_t *available(crti_room_t *room, crti_bundle_t *bundle)
{
    return bundle ? &bundle->available : &room->available;
}

static crti_gpu_table_t *gpus_of(crti_room_t *room, crti_bundle_t *bundle)
{
    return bundle ? &bundle->gpus : &room->gpus;
}

void crti_room_take(crti_room_t *room, crti_bundle_t *bundle,
                    const crti_resources_t *need, crti_gpu_share_t *gpus_out)
{
    crti_resources_take(available(room, bundle), need);
    crti_gpu_table_take(gpus_of(room, bundle), crti_resources_get(need, "GPU"), gpus_out);
    if (bundle)
        bundle->holders++;
}

/* A returned bundle whose last holder is gone gives back what it is. */
static void end_bundle(crti_room_t *room, crti_bundle_t *bundle)
{
    if (!bundle || !bundle->is_returned || bundle->holders)
        return;
    crti_resources_give(&room->available, &bundle->resources);
    crti_gpu_table_give(&room->gpus, &bundle->share);
    crti_bundle_table_forget(bundle);
}

void crti_room_give(crti_room_t *room, crti_bundle_t *bundle,
                    const crti_resources_t *back, crti_gpu_share_t *gpus)
{
    crti_resources_give(available(room, bundle), back);
    crti_gpu_table_give(gpus_of(room, bundle), gpus);
    if (bundle)
        bundle->holders--;
    end_bundle(room, bundle);
}

void crti_room_lend(crti_room_t *room, crti_bundle_t *bundle,
                    const crti_resources_t *cpus, bool is_lent)
{
    if (is_lent)
        crti_resources_give(available(room, bundle), cpus);
    else
        crti_resources_take(available(room, bundle), cpus);
}

crt_status_t crti_room_hold(crti_room_t *room, crti_id_t actor, crti_id_t job,
                            crti_bundle_t *bundle, const crti_resources_t *need)
{
    crti_holding_t holding = {.job = job, .resources = *need, .bundle = bundle};
    char wants[200], has[200];
    crt_status_t status;

    if (crti_holdings_get(&room->holdings, actor))
        return crt_raise(CRT_ERR_EXISTS, "the actor holds its resources already");
    if (!crti_room_fits(room, bundle, need))
        return crt_raise(
            CRT_ERR_BACKPRESSURE, "needs %s, the %s has %s free",
            crti_resources_format(need, wants, sizeof(wants)), bundle ? "bundle" : "node",
            crti_resources_format(available(room, bundle), has, sizeof(has)));
    crti_room_take(room, bundle, need, &holding.gpus);
    status = crti_holdings_add(&room->holdings, actor, &holding);
    if (status != CRT_OK)
        crti_room_give(room, bundle, need, &holding.gpus);
    return status;
}

void crti_room_keep_gpus(crti_room_t *room, crti_id_t worker, crti_id_t job,
                         crti_bundle_t *bundle, crti_resources_t *back,
                         crti_gpu_share_t *gpus)
{
    crti_holding_t holding = {.job = job, .gpus = *gpus, .bundle = bundle};

    crti_resources_set(&holding.resources, "GPU", crti_resources_get(back, "GPU"));
    if (gpus->gpus == 0 || crti_holdings_add(&room->holdings, worker, &holding) != CRT_OK)
        return;
    *gpus = (crti_gpu_share_t){0};
    crti_resources_set(back, "GPU", 0);
    if (bundle)
        bundle->holders++;
}

bool crti_room_release(crti_room_t *room, crti_id_t holder)
{
    crti_holding_t holding;

    if (!crti_holdings_remove(&room->holdings, holder, &holding))
        return false;
    crti_room_give(room, holding.bundle, &holding.resources, &holding.gpus);
    return true;
}

crt_status_t crti_room_reserve(crti_room_t *room, const crti_bundle_t *bundle)
{
    crti_bundle_t copy = *bundle;
    char wants[200], has[200];
    crt_status_t status = crti_resources_check(&bundle->resources);

    if (status != CRT_OK)
        return status;
    if (!crti_room_fits(room, NULL, &bundle->resources))
        return crt_raise(CRT_ERR_BACKPRESSURE, "needs %s, the node has %s free",
                         crti_resources_format(&bundle->resources, wants, sizeof(wants)),
                         crti_resources_format(&room->available, has, sizeof(has)));
    crti_room_take(room, NULL, &bundle->resources, &copy.share);
    status = crti_bundle_table_add(&room->bundles, &copy);
    if (status != CRT_OK)
        crti_room_give(room, NULL, &bundle->resources, &copy.share);
    return status;
}

void crti_room_return(crti_room_t *room, crti_bundle_t *bundle)
{
    crti_bundle_table_return(&room->bundles, bundle);
    end_bundle(room, bundle);
}
