/* SPDX-License-Identifier: Apache-2.0 */
/* Node views. See node_views.h. */
#include "runtime/node/leases/node_views.h"

#include <stdlib.h>

#include "runtime/base/clock.h"

#define HALF  5000            /* of 10000: a node below it counts as empty */
#define DOUBT (500 * CRTI_MS) /* by then the head has told of what a node gave out */

void crti_node_views_init(crti_node_views_t *views, const crti_resources_t *own)
{
    *views = (crti_node_views_t){.is_headless = false};
    crti_map_init(&views->map, sizeof(crti_id_t));
    crti_resource_names_note(&views->names, own);
}

void crti_node_views_fini(crti_node_views_t *views)
{
    CRTI_MAP_FOREACH (crti_node_view_t, view, &views->map)
        free(view);
    crti_map_fini(&views->map);
}

/* ---------------------------------------------------------------- what the head says */

crt_status_t crti_node_views_note(crti_node_views_t *views, crti_id_t node,
                                  const crti_resources_t *resources,
                                  const crti_resources_t *available)
{
    crti_node_view_t *view = crti_map_get(&views->map, &node);
    crt_status_t status;

    if (view == NULL) {
        view = calloc(1, sizeof(*view));
        if (view == NULL)
            return crt_raise(CRT_ERR_NO_MEMORY, "view of a node");
        view->id = node;
        status = crti_map_put(&views->map, &node, view);
        if (status != CRT_OK) {
            free(view);
            return status;
        }
    }
    view->resources = *resources;
    view->said = view->available = *available;
    view->suspect_ns = 0;
    crti_resource_names_note(&views->names, resources);
    return CRT_OK;
}

void crti_node_views_forget(crti_node_views_t *views, crti_id_t node)
{
    free(crti_map_remove(&views->map, &node));
}

/* Nobody says what becomes free while the head is away: then a node that was full may have room, and
 * a request that goes there in vain waits there. */
static const crti_resources_t *believed(const crti_node_views_t *views,
                                        const crti_node_view_t *view)
{
    return views->is_headless ? &view->resources : &view->said;
}

void crti_node_views_head(crti_node_views_t *views, bool is_away)
{
    views->is_headless = is_away;
    CRTI_MAP_FOREACH (crti_node_view_t, view, &views->map) {
        if (!view->suspect_ns)
            view->available = *believed(views, view);
    }
}

/* ---------------------------------------------------------------- doubts */

void crti_node_view_expect_less(crti_node_view_t *view, const crti_resources_t *need,
                                uint64_t now_ns)
{
    crti_resources_take(&view->available, need);
    view->suspect_ns = now_ns + DOUBT;
}

void crti_node_views_refused(crti_node_views_t *views, crti_id_t node, uint64_t now_ns)
{
    crti_node_view_t *view = crti_map_get(&views->map, &node);

    if (view == NULL)
        return;
    view->available = (crti_resources_t){0};
    view->suspect_ns = now_ns + DOUBT;
}

/* What a node gave out and got back at once the head never tells: it is as it was. */
void crti_node_views_tick(crti_node_views_t *views, uint64_t now_ns, uint64_t *next_ns)
{
    CRTI_MAP_FOREACH (crti_node_view_t, view, &views->map) {
        if (view->suspect_ns > now_ns) {
            *next_ns = view->suspect_ns < *next_ns ? view->suspect_ns : *next_ns;
        } else if (view->suspect_ns) {
            view->available = *believed(views, view);
            view->suspect_ns = 0;
        }
    }
}

/* ---------------------------------------------------------------- which node */

int64_t crti_node_fullness(const crti_resources_t *resources,
                           const crti_resources_t *available,
                           const crti_resources_t *need)
{
    int64_t worst = 0;

    for (unsigned i = 0; i < need->count; i++) {
        int64_t part = crti_resources_part_in_use(resources, available, need,
                                                  need->item[i].name, 10000);

        worst = part > worst ? part : worst;
    }
    return worst <= HALF ? 0 : worst;
}

crti_node_view_t *crti_node_views_choose(const crti_node_views_t *views,
                                         const crti_resources_t *need, crti_id_t prefer,
                                         int64_t least, bool *found_out)
{
    crti_node_view_t *best = NULL;

    CRTI_MAP_FOREACH (crti_node_view_t, view, &views->map) {
        int64_t score;

        if (!crti_resources_fit(&view->available, need))
            continue;
        *found_out = true;
        if (crti_id_equal(prefer, view->id))
            return view;
        score = crti_node_fullness(&view->resources, &view->available, need);
        if (score < least ||
            (best && score == least && crti_id_less(view->id, best->id))) {
            best = view;
            least = score;
        }
    }
    return best;
}

bool crti_node_views_feasible(const crti_node_views_t *views,
                              const crti_resources_t *need)
{
    CRTI_MAP_FOREACH (const crti_node_view_t, view, &views->map) {
        if (crti_resources_fit(&view->resources, need))
            return true;
    }
    return false;
}

void crti_node_views_survey(const crti_node_views_t *views, const char *name,
                            int64_t *largest, int64_t *sum)
{
    CRTI_MAP_FOREACH (const crti_node_view_t, view, &views->map) {
        int64_t amount = crti_resources_get(&view->resources, name);

        *sum = amount > CRTI_RESOURCE_MAX - *sum ? CRTI_RESOURCE_MAX : *sum + amount;
        *largest = amount > *largest ? amount : *largest;
    }
}
