/* SPDX-License-Identifier: Apache-2.0 */
/* Holdings. See holdings.h. */
#include "runtime/node/leases/holdings.h"

#include <stdlib.h>

void crti_holdings_init(crti_holdings_t *holdings)
{
    crti_map_init(&holdings->by_id, sizeof(crti_id_t));
}

void crti_holdings_fini(crti_holdings_t *holdings)
{
    CRTI_MAP_FOREACH (crti_holding_t, holding, &holdings->by_id)
        free(holding);
    crti_map_fini(&holdings->by_id);
}

crt_status_t crti_holdings_add(crti_holdings_t *holdings, crti_id_t id,
                               const crti_holding_t *holding)
{
    crti_holding_t *copy = malloc(sizeof(*copy));
    crt_status_t status;

    if (copy == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "what an actor holds");
    *copy = *holding;
    status = crti_map_put(&holdings->by_id, &id, copy);
    if (status != CRT_OK)
        free(copy);
    return status;
}

const crti_holding_t *crti_holdings_get(const crti_holdings_t *holdings, crti_id_t id)
{
    return crti_map_get(&holdings->by_id, &id);
}

bool crti_holdings_remove(crti_holdings_t *holdings, crti_id_t id,
                          crti_holding_t *holding_out)
{
    crti_holding_t *holding = crti_map_remove(&holdings->by_id, &id);

    if (holding == NULL)
        return false;
    *holding_out = *holding;
    free(holding);
    return true;
}

const crti_holding_t *crti_holdings_next(const crti_holdings_t *holdings, size_t *cursor)
{
    void *value;

    return crti_map_next(&holdings->by_id, cursor, NULL, &value) ? value : NULL;
}
