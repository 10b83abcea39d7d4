/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the functions of libarchive. See archive_library.h. */
#include "cli/archive_library.h"

#define ENTRY(symbol) {#symbol, offsetof(crti_archive_api_t, symbol##_)},
static const crti_late_symbol_t symbols[] = {CRTI_ARCHIVE_SYMBOLS(ENTRY)};
#undef ENTRY

crti_archive_api_t crti_archive_api;

crt_status_t crti_archive_library(void)
{
    static crti_late_library_t library = {
        .file = "libarchive.so.13",
        .loss = "no folder can be packed",
        .symbols = symbols,
        .count = sizeof(symbols) / sizeof(symbols[0]),
        .table = &crti_archive_api,
    };

    return crti_late_library_open(&library);
}
