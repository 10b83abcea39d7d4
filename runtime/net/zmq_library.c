/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the functions of libzmq. See zmq_library.h. */
#include "runtime/net/zmq_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define FILE_NAME "libzmq.so.5" /* of all versions since 4.2 */

typedef struct symbol {
    const char *name;
    size_t offset; /* of its pointer in crti_zmq_api_t */
} symbol_t;

#define ENTRY(field, symbol) {#symbol, offsetof(crti_zmq_api_t, field)},
static const symbol_t symbols[] = {CRTI_ZMQ_SYMBOLS(ENTRY)};
#undef ENTRY

crti_zmq_api_t crti_zmq_api;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* covers `is_loaded` */
static bool is_loaded;

static crt_status_t load(void)
{
    void *library = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
    const char *reason = library ? NULL : dlerror();

    if (!library)
        return crt_raise(CRT_ERR_UNSUPPORTED, "other nodes can't be reached: %s",
                         reason ? reason : FILE_NAME);
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *found = dlsym(library, symbols[i].name);

        if (!found)
            return crt_raise(CRT_ERR_UNSUPPORTED,
                             "other nodes can't be reached: %s has no function %s",
                             FILE_NAME, symbols[i].name);
        memcpy((char *)&crti_zmq_api + symbols[i].offset, &found, sizeof(found));
    }
    is_loaded = true;
    return CRT_OK;
}

crt_status_t crti_zmq_library(void)
{
    crt_status_t status = CRT_OK;

    pthread_mutex_lock(&lock);
    if (!is_loaded)
        status = load();
    pthread_mutex_unlock(&lock);
    return status;
}
