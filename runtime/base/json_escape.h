/* SPDX-License-Identifier: Apache-2.0 */
/* JSON written by hand, where a library is too slow or not at hand. */
#ifndef CRTI_BASE_JSON_ESCAPE_H
#define CRTI_BASE_JSON_ESCAPE_H

#include "runtime/base/buffer.h"

/* Appends valid UTF-8 as it stands inside a text of JSON. */
crt_status_t crti_json_escape(crti_span_t text, crti_buffer_t *out);

#endif
