/* SPDX-License-Identifier: Apache-2.0 */
/* Answer: see answer.h. */
#include "cli/answer.h"

#include <stdlib.h>

json_t *crti_answer_query(const crt_cluster_info_t *cluster, const char *what,
                          const char *filter)
{
    char *text = NULL;
    json_t *json;

    if (crt_cluster_query(cluster, what, filter, &text) != CRT_OK)
        return NULL;
    json = json_loads(text, JSON_DECODE_ANY, NULL);
    free(text);
    if (!json)
        crt_raise(CRT_ERR_PROTOCOL, "the head's answer is not JSON");
    return json;
}

const char *crti_answer_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}
