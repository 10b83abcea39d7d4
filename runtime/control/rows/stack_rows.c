/* SPDX-License-Identifier: Apache-2.0 */
/* What processes said of themselves, as their nodes pass it on: their stacks and waits as one list
 * (docs/design/state.md, "stacks").
 *
 * Where it sits
 *     control_forward.c (answers of all nodes) -> [ control/rows/stack_rows.c ] -> STATE_ANSWER
 * Trust: "said" and "stack" are texts of JSON that a process wrote: what is none is left out.
 */
#include <jansson.h>

#include "runtime/control/rows/state_rows.h"

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));

    return text ? text : "";
}

/* The text under `key` becomes what it says; null when it is no JSON. */
static void decode(json_t *row, const char *key)
{
    json_t *value = json_loads(text_of(row, key), 0, NULL);

    json_object_set_new(row, key, value ? value : json_null());
}

char *crti_stack_rows_join(crti_span_t answers, unsigned silent)
{
    json_t *processes = json_array(), *errors = json_array(), *one, *row, *all;
    crti_span_t entry;
    char *text;
    size_t i;

    while (crti_list_unpack(&answers, &entry) == CRT_OK) {
        one = json_loadb(entry.data, entry.size, 0, NULL);
        if (*text_of(one, "error"))
            json_array_append(errors, json_object_get(one, "error"));
        json_array_foreach(json_object_get(one, "processes"), i, row)
        {
            decode(row, "said");
            decode(row, "stack");
            json_array_append(processes, row);
        }
        json_decref(one);
    }
    all = json_pack("{s:o, s:o, s:i}", "processes", processes, "errors", errors,
                    "silent_nodes", (int)silent);
    text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(all);
    return text;
}
