/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the functions of libzmq. See zmq_library.h. */
#include "cli/zmq_library.h"

#define ENTRY(symbol) {#symbol, offsetof(crti_bare_zmq_api_t, symbol##_)},
static const crti_late_symbol_t symbols[] = {CRTI_BARE_ZMQ_SYMBOLS(ENTRY)};
#undef ENTRY

crti_bare_zmq_api_t crti_bare_zmq_api;

crt_status_t crti_bare_zmq_library(void)
{
    static crti_late_library_t library = {
        .file = "libzmq.so.5",
        .loss = "no bare limit can be measured",
        .symbols = symbols,
        .count = sizeof(symbols) / sizeof(symbols[0]),
        .table = &crti_bare_zmq_api,
    };

    return crti_late_library_open(&library);
}
