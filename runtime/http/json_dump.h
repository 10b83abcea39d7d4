/* SPDX-License-Identifier: Apache-2.0 */
/* Writes trees of JSON: json_dumps looks at each character of each text once more, which takes half of the time of a large answer. */
#ifndef CRTI_HTTP_JSON_DUMP_H
#define CRTI_HTTP_JSON_DUMP_H

#include "runtime/base/buffer.h"

#include <jansson.h>

/* Appends what json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) gives. CRT_ERR_NO_MEMORY. */
crt_status_t crti_json_dump(const json_t *json, crti_buffer_t *out);

#endif
