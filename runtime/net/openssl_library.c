/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the functions of OpenSSL. See openssl_library.h. */
#include "runtime/net/openssl_library.h"

#define TEXT_OF(x) #x
#define FILE_OF(x) "libssl.so." TEXT_OF(x)

/* It brings libcrypto along. */
CRTI_LATE_LIBRARY(crti_openssl, CRTI_OPENSSL_SYMBOLS, FILE_OF(OPENSSL_SHLIB_VERSION),
                  "no stream and no HTTPS can be made")
