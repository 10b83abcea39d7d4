/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of before a shutdown. See handles.h. */
#include "runtime/core/values/handles.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static crti_numbers_t old;

/* Without memory for it, it is no handle any more: it can't be dropped, and nothing else is
 * lost. */
void crti_old_handle_add(void *handle)
{
    pthread_mutex_lock(&lock);
    (void)crti_handles_add(&old, handle);
    pthread_mutex_unlock(&lock);
}

bool crti_old_handle_is(const void *handle)
{
    bool is;

    pthread_mutex_lock(&lock);
    is = crti_handles_have(&old, handle);
    pthread_mutex_unlock(&lock);
    return is;
}

bool crti_old_handle_take(const void *handle)
{
    bool was;

    pthread_mutex_lock(&lock);
    was = crti_handles_take(&old, handle);
    if (old.count == 0)
        crti_numbers_fini(&old);
    pthread_mutex_unlock(&lock);
    return was;
}
