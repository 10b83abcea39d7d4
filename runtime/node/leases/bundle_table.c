/* SPDX-License-Identifier: Apache-2.0 */
/* Bundle table. See bundle_table.h. */
#include "runtime/node/leases/bundle_table.h"

#include <stdlib.h>

static crti_bundle_t *bundle_of(crti_list_t *item)
{
    return CRTI_CONTAINER(item, crti_bundle_t, link);
}

void crti_bundle_table_init(crti_bundle_table_t *table)
{
    crti_map_init(&table->by_group, sizeof(crti_id_t));
    crti_list_init(&table->returned);
}

static void free_all(crti_list_t *list)
{
    crti_list_t *item;

    while ((item = crti_list_pop(list)))
        free(bundle_of(item));
}

void crti_bundle_table_fini(crti_bundle_table_t *table)
{
    CRTI_MAP_FOREACH (crti_list_t, list, &table->by_group) {
        free_all(list);
        free(list);
    }
    crti_map_fini(&table->by_group);
    free_all(&table->returned);
}

/* NULL: out of memory. */
static crti_list_t *list_of(crti_bundle_table_t *table, crti_id_t group)
{
    crti_list_t *list = crti_map_get(&table->by_group, &group);

    if (list)
        return list;
    list = malloc(sizeof(*list));
    if (list == NULL || crti_map_put(&table->by_group, &group, list) != CRT_OK) {
        free(list);
        return NULL;
    }
    crti_list_init(list);
    return list;
}

static void drop_empty(crti_bundle_table_t *table, crti_id_t group)
{
    crti_list_t *list = crti_map_get(&table->by_group, &group);

    if (list && crti_list_is_empty(list))
        free(crti_map_remove(&table->by_group, &group));
}

crt_status_t crti_bundle_table_add(crti_bundle_table_t *table,
                                   const crti_bundle_t *bundle)
{
    crti_bundle_t *copy = malloc(sizeof(*copy));
    crti_list_t *list = copy ? list_of(table, bundle->group) : NULL;

    if (list == NULL) {
        free(copy);
        return crt_raise(CRT_ERR_NO_MEMORY, "a bundle of a placement group");
    }
    *copy = *bundle;
    copy->available = bundle->resources;
    copy->holders = 0;
    copy->is_returned = false;
    crti_gpu_table_init(&copy->gpus, 0);
    copy->gpus.count = CRTI_GPUS_MAX;
    for (unsigned i = 0; i < CRTI_GPUS_MAX; i++)
        if (bundle->share.gpus >> i & 1)
            copy->gpus.room[i] = bundle->share.each;
    crti_list_append(list, &copy->link);
    return CRT_OK;
}

void crti_bundle_table_return(crti_bundle_table_t *table, crti_bundle_t *bundle)
{
    bundle->is_returned = true;
    crti_list_remove(&bundle->link);
    crti_list_append(&table->returned, &bundle->link);
    drop_empty(table, bundle->group);
}

void crti_bundle_table_forget(crti_bundle_t *bundle)
{
    crti_list_remove(&bundle->link);
    free(bundle);
}

bool crti_bundle_fits(const crti_bundle_t *bundle, const crti_resources_t *need)
{
    return crti_resources_fit(&bundle->available, need) &&
           crti_gpu_table_fits(&bundle->gpus, crti_resources_get(need, "GPU"));
}

crti_bundle_t *crti_bundle_table_get(const crti_bundle_table_t *table, crti_id_t group,
                                     int64_t index, const crti_resources_t *need)
{
    crti_list_t *list = crti_map_get(&table->by_group, &group);
    crti_bundle_t *first = NULL;

    if (list == NULL)
        return NULL;
    CRTI_LIST_FOREACH (item, list) {
        crti_bundle_t *bundle = bundle_of(item);

        if (index == CRTI_ANY_BUNDLE && need && crti_bundle_fits(bundle, need))
            return bundle;
        if (index == CRTI_ANY_BUNDLE ? first == NULL : bundle->index == (uint64_t)index)
            first = bundle;
    }
    return first;
}

crti_bundle_t *crti_bundle_table_next(const crti_bundle_table_t *table, size_t *group,
                                      crti_list_t **at)
{
    crti_list_t *list = NULL;
    void *value;

    if (*at) { /* the list is circular: its head is the next one of the last */
        const crti_bundle_t *bundle = bundle_of(*at);

        list = crti_map_get(&table->by_group, &bundle->group);
        *at = (*at)->next;
    }
    while (list == NULL || *at == list) {
        if (!crti_map_next(&table->by_group, group, NULL, &value))
            return NULL;
        list = value;
        *at = list->next;
    }
    return bundle_of(*at);
}
