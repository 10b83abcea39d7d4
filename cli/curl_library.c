/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the functions of libcurl. See curl_library.h. */
#include "cli/curl_library.h"

#define ENTRY(symbol) {#symbol, offsetof(crti_curl_api_t, symbol##_)},
static const crti_late_symbol_t symbols[] = {CRTI_CURL_SYMBOLS(ENTRY)};
#undef ENTRY

crti_curl_api_t crti_curl_api;

crt_status_t crti_curl_library(void)
{
    static crti_late_library_t library = {
        .file = "libcurl.so.4",
        .loss = "no request can be sent by HTTP",
        .symbols = symbols,
        .count = sizeof(symbols) / sizeof(symbols[0]),
        .table = &crti_curl_api,
    };

    return crti_late_library_open(&library);
}
