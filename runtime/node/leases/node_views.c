/* SPDX-License-Identifier: Apache-2.0 */
/* Node views. See node_views.h. */
#include "runtime/node/leases/node_views.h"

#include <stdio.h>
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

/* Nobody says what becomes free while the head is away: then a node that was full may have room,
 * and a request that goes there in vain waits there. */
static const crti_resources_t *believed(const crti_node_views_t *views,
                                        const crti_node_view_t *view)
{
    return views->is_headless ? &view->resources : &view->said;
}

static void take_word(const crti_node_views_t *views, crti_node_view_t *view,
                      const crti_resources_t *available)
{
    view->said = *available;
    view->available = *believed(views, view);
    view->suspect_ns = 0;
}

crt_status_t crti_node_views_note(crti_node_views_t *views, crti_id_t node,
                                  const char *labels, const crti_resources_t *resources,
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
    snprintf(view->labels, sizeof(view->labels), "%s", labels);
    take_word(views, view, available);
    crti_resource_names_note(&views->names, resources);
    return CRT_OK;
}

void crti_node_views_note_room(crti_node_views_t *views, crti_id_t node,
                               const crti_resources_t *available)
{
    crti_node_view_t *view = crti_map_get(&views->map, &node);

    if (view)
        take_word(views, view, available);
}

crti_node_view_t *crti_node_views_get(const crti_node_views_t *views, crti_id_t node)
{
    return crti_map_get(&views->map, &node);
}

void crti_node_views_forget(crti_node_views_t *views, crti_id_t node)
{
    free(crti_map_remove(&views->map, &node));
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

/* How full a node would be, in 1/10000 of its scarcest resource; below half counts as empty. */
static int64_t fullness(const crti_resources_t *resources,
                        const crti_resources_t *available, const crti_resources_t *need)
{
    int64_t worst = 0;

    for (unsigned i = 0; i < need->count; i++) {
        int64_t part = crti_resources_part_in_use(resources, available, need,
                                                  need->item[i].name, 10000);

        worst = part > worst ? part : worst;
    }
    return worst <= HALF ? 0 : worst;
}

static bool has_room(const crti_node_view_t *view, const crti_node_need_t *need,
                     unsigned alternative)
{
    return crti_resources_fit(&view->available, need->resources) &&
           crti_scheduling_allows(need->how, alternative, view->id, view->labels);
}

/* `prefer`, else the one that is least full; ties go to this node, then to the smallest id. */
static crti_node_view_t *pack(const crti_node_views_t *views,
                              const crti_node_self_t *self, const crti_node_need_t *need,
                              unsigned alternative, bool *found)
{
    int64_t least =
        *found ? fullness(self->resources, self->available, need->resources) : INT64_MAX;
    crti_node_view_t *best = NULL;

    CRTI_MAP_FOREACH (crti_node_view_t, view, &views->map) {
        int64_t score;

        if (!has_room(view, need, alternative))
            continue;
        *found = true;
        if (crti_id_equal(need->prefer, view->id))
            return view;
        score = fullness(&view->resources, &view->available, need->resources);
        if (score < least ||
            (best && score == least && crti_id_less(view->id, best->id))) {
            best = view;
            least = score;
        }
    }
    return best;
}

bool crti_node_is_sooner(crti_id_t a, crti_id_t b, crti_id_t last)
{
    bool a_wraps = !crti_id_less(last, a), b_wraps = !crti_id_less(last, b);

    return a_wraps == b_wraps ? crti_id_less(a, b) : b_wraps;
}

/* The node that follows the one that was taken last, in the order of ids, round and round. */
static crti_node_view_t *spread(const crti_node_views_t *views,
                                const crti_node_self_t *self,
                                const crti_node_need_t *need, unsigned alternative,
                                bool *found)
{
    crti_node_view_t *best = NULL;
    crti_id_t best_id = self->id;

    CRTI_MAP_FOREACH (crti_node_view_t, view, &views->map) {
        if (!has_room(view, need, alternative) ||
            (*found && !crti_node_is_sooner(view->id, best_id, views->spread_last)))
            continue;
        *found = true;
        best = view;
        best_id = view->id;
    }
    return best;
}

static bool is_feasible(const crti_node_views_t *views, const crti_node_self_t *self,
                        const crti_resources_t *resources, const crti_scheduling_t *how)
{
    if (crti_scheduling_feasible(self->resources, self->id, self->labels, resources, how))
        return true;
    CRTI_MAP_FOREACH (const crti_node_view_t, view, &views->map) {
        if (crti_scheduling_feasible(&view->resources, view->id, view->labels, resources,
                                     how))
            return true;
    }
    return false;
}

/* Soft affinity is none when its node is gone, or lacks what is needed; `any` has room for what
 * holds then. */
static const crti_scheduling_t *resolve(const crti_node_views_t *views,
                                        const crti_node_self_t *self,
                                        const crti_resources_t *resources,
                                        const crti_scheduling_t *how,
                                        crti_scheduling_t *any)
{
    if (how->strategy != CRTI_STRATEGY_AFFINITY || !how->is_soft ||
        is_feasible(views, self, resources, how))
        return how;
    *any = *how;
    any->strategy = CRTI_STRATEGY_DEFAULT;
    return any;
}

crti_node_view_t *crti_node_views_choose(const crti_node_views_t *views,
                                         const crti_node_self_t *self,
                                         const crti_node_need_t *asked, bool *found_out)
{
    crti_scheduling_t any;
    crti_node_need_t need = *asked;
    unsigned alternatives;

    need.how = resolve(views, self, need.resources, need.how, &any);
    alternatives = crti_scheduling_alternatives(need.how);
    for (unsigned i = 0; i < alternatives; i++) {
        crti_node_view_t *view;

        *found_out =
            self->has_room && crti_scheduling_allows(need.how, i, self->id, self->labels);
        if (*found_out && (need.stays || crti_id_equal(need.prefer, self->id)))
            return NULL;
        view = need.how->strategy == CRTI_STRATEGY_SPREAD
                   ? spread(views, self, &need, i, found_out)
                   : pack(views, self, &need, i, found_out);
        if (*found_out)
            return view;
    }
    return NULL;
}

bool crti_node_views_feasible(const crti_node_views_t *views,
                              const crti_node_self_t *self,
                              const crti_resources_t *resources,
                              const crti_scheduling_t *how)
{
    crti_scheduling_t any;

    return is_feasible(views, self, resources,
                       resolve(views, self, resources, how, &any));
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
