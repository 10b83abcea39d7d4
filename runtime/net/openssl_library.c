/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the functions of OpenSSL. See openssl_library.h. */
#include "runtime/net/openssl_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define TEXT_OF(x)   #x
#define FILE_OF(x)   "libssl.so." TEXT_OF(x)
#define LIBRARY_FILE FILE_OF(OPENSSL_SHLIB_VERSION) /* brings libcrypto along */

typedef struct symbol {
    const char *name;
    size_t offset; /* of its pointer in crti_openssl_api_t */
} symbol_t;

#define ENTRY(symbol) {#symbol, offsetof(crti_openssl_api_t, symbol##_)},
static const symbol_t symbols[] = {CRTI_OPENSSL_SYMBOLS(ENTRY)};
#undef ENTRY

crti_openssl_api_t crti_openssl_api;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* covers `is_loaded` */
static bool is_loaded;

static crt_status_t load(void)
{
    void *library = dlopen(LIBRARY_FILE, RTLD_NOW | RTLD_LOCAL);
    const char *reason = library ? NULL : dlerror();

    if (!library)
        return crt_raise(CRT_ERR_UNSUPPORTED, "no stream can be made: %s",
                         reason ? reason : LIBRARY_FILE);
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *found = dlsym(library, symbols[i].name);

        if (!found)
            return crt_raise(CRT_ERR_UNSUPPORTED,
                             "no stream can be made: %s has no function %s", LIBRARY_FILE,
                             symbols[i].name);
        memcpy((char *)&crti_openssl_api + symbols[i].offset, &found, sizeof(found));
    }
    is_loaded = true;
    return CRT_OK;
}

crt_status_t crti_openssl_library(void)
{
    crt_status_t status = CRT_OK;

    pthread_mutex_lock(&lock);
    if (!is_loaded)
        status = load();
    pthread_mutex_unlock(&lock);
    return status;
}
