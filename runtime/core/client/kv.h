/* SPDX-License-Identifier: Apache-2.0 */
/* What the library itself does with the key-value store, beyond crt_kv_*. The core's lock is not
 * held. */
#ifndef CRTI_CORE_KV_H
#define CRTI_CORE_KV_H

#include <stdbool.h>

#include "runtime/base/buffer.h"

/* Replaces the value if it is exactly `expected`; an empty `value` deletes the key. */
crt_status_t crti_kv_swap(const char *key, crti_span_t expected, crti_span_t value,
                          bool *swapped_out);

/* Keys that begin with `prefix`: a list (crti_list_unpack) in `storage`. */
crt_status_t crti_kv_keys(const char *prefix, crti_buffer_t *storage,
                          crti_span_t *list_out);

#endif
