/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that are opened at first need. See late_library.h. */
#include "runtime/base/late_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define NEEDED_DEPTH 8

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* covers all of them */

/* The libraries that it needs may lie beside it in a tree of crt (cli/crt_archive.h). The loader
 * does not look there for them, as it does for itself: those that it misses are opened first. */
static void *open_library(const char *file, unsigned depth)
{
    char missing[128], last[sizeof(missing)] = "";
    void *library;

    while (!(library = dlopen(file, RTLD_NOW | RTLD_LOCAL)) && depth < NEEDED_DEPTH) {
        const char *reason = dlerror(); /* "NAME: ..." in the language of the program */
        size_t length = reason ? strcspn(reason, ":") : 0;

        if (length == 0 || length >= sizeof(missing))
            break;
        memcpy(missing, reason, length);
        missing[length] = '\0';
        if (!strstr(missing, ".so") || strcmp(missing, file) == 0 ||
            strcmp(missing, last) == 0 || !open_library(missing, depth + 1))
            break;
        memcpy(last, missing, sizeof(last));
    }
    return library;
}

static crt_status_t load(crti_late_library_t *l)
{
    void *library = open_library(l->file, 0);
    const char *reason;

    if (!library) {
        library = dlopen(l->file, RTLD_NOW | RTLD_LOCAL);
        reason = library ? NULL : dlerror();
    }
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
