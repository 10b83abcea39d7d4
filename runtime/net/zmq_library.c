/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the functions of libzmq. See zmq_library.h. */
#include "runtime/net/zmq_library.h"

#include "runtime/base/late_library.h"

#define ENTRY(field, symbol) {#symbol, offsetof(crti_zmq_api_t, field)},
static const crti_late_symbol_t symbols[] = {CRTI_ZMQ_SYMBOLS(ENTRY)};
#undef ENTRY

crti_zmq_api_t crti_zmq_api;

crt_status_t crti_zmq_library(void)
{
    static crti_late_library_t library = {
        .file = "libzmq.so.5", /* of all versions since 4.2 */
        .loss = "other nodes can't be reached",
        .symbols = symbols,
        .count = sizeof(symbols) / sizeof(symbols[0]),
        .table = &crti_zmq_api,
    };

    int major, minor, patch;
    crt_status_t status = crti_late_library_open(&library);

    if (status != CRT_OK)
        return status;
    crti_zmq_api.version(&major, &minor, &patch);
    if (ZMQ_MAKE_VERSION(major, minor, patch) < ZMQ_MAKE_VERSION(4, 3, 3))
        return crt_raise(
            CRT_ERR_UNSUPPORTED,
            "%s: libzmq %d.%d.%d is installed, and 4.3.3 or a later one is needed",
            library.loss, major, minor, patch);
    return CRT_OK;
}
