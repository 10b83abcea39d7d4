/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the functions of OpenSSL. See openssl_library.h. */
#include "runtime/net/openssl_library.h"

#include "runtime/base/late_library.h"

#define TEXT_OF(x) #x
#define FILE_OF(x) "libssl.so." TEXT_OF(x)

#define ENTRY(symbol) {#symbol, offsetof(crti_openssl_api_t, symbol##_)},
static const crti_late_symbol_t symbols[] = {CRTI_OPENSSL_SYMBOLS(ENTRY)};
#undef ENTRY

crti_openssl_api_t crti_openssl_api;

crt_status_t crti_openssl_library(void)
{
    static crti_late_library_t library = {
        .file = FILE_OF(OPENSSL_SHLIB_VERSION), /* brings libcrypto along */
        .loss = "no stream and no HTTPS can be made",
        .symbols = symbols,
        .count = sizeof(symbols) / sizeof(symbols[0]),
        .table = &crti_openssl_api,
    };

    return crti_late_library_open(&library);
}
