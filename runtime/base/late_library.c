/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that are opened at first need. See late_library.h. */
#include "runtime/base/late_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* covers all of them */

static crt_status_t load(crti_late_library_t *l)
{
    void *library = dlopen(l->file, RTLD_NOW | RTLD_LOCAL);
    const char *reason = library ? NULL : dlerror();

    if (!library)
        return crt_raise(CRT_ERR_UNSUPPORTED, "%s: %s", l->loss,
                         reason ? reason : l->file);
    for (size_t i = 0; i < l->count; i++) {
        void *found = dlsym(library, l->symbols[i].name);

        if (!found)
            return crt_raise(CRT_ERR_UNSUPPORTED, "%s: %s has no function %s", l->loss,
                             l->file, l->symbols[i].name);
        memcpy((char *)l->table + l->symbols[i].offset, &found, sizeof(found));
    }
    l->is_open = true;
    return CRT_OK;
}

crt_status_t crti_late_library_open(crti_late_library_t *library)
{
    crt_status_t status = CRT_OK;

    pthread_mutex_lock(&lock);
    if (!library->is_open)
        status = load(library);
    pthread_mutex_unlock(&lock);
    return status;
}
