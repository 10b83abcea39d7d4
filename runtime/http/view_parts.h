/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of views: members of what the head answers, as columns of rows. Each gives a new
 * reference. */
#ifndef CRTI_HTTP_VIEW_PARTS_H
#define CRTI_HTTP_VIEW_PARTS_H

#include "runtime/http/views.h"

/* The member itself, or null. */
static inline json_t *crti_part(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    return value ? json_incref(value) : json_null();
}

/* A text; "" counts as nothing. */
static inline json_t *crti_part_text(const json_t *object, const char *key)
{
    const char *text = crti_view_text(object, key);

    return *text ? json_string(text) : json_null();
}

static inline json_t *crti_part_object(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    return json_is_object(value) ? json_incref(value) : json_object();
}

static inline json_t *crti_part_number(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_incref(value) : json_integer(0);
}

/* A time in whole milliseconds, or null. */
static inline json_t *crti_part_time(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_integer((json_int_t)json_number_value(value))
                                 : json_null();
}

static inline json_t *crti_part_bool(const json_t *object, const char *key)
{
    return json_boolean(json_is_true(json_object_get(object, key)));
}

#endif
