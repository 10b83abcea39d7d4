/* SPDX-License-Identifier: Apache-2.0 */
/* Bundles of a program as they are sent to the head. */
#ifndef CRTI_CORE_CLIENT_BUNDLES_H
#define CRTI_CORE_CLIENT_BUNDLES_H

#include "runtime/base/buffer.h"
#include "runtime/crt.h"

/* A list of encoded BUNDLE. CRT_ERR_INVALID naming the one that is wrong. */
crt_status_t crti_bundles_pack(const crt_bundle_t *bundles, size_t count,
                               crti_buffer_t *list);

#endif
