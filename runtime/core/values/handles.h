/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: which addresses that a program gives are handles of actors, or objects in writing, so
 * that one that was dropped or given away, or never was one, is refused instead of followed.
 *
 * Those of a runtime are in a table of it, under its lock. Those of runtimes that were shut down,
 * which the program may still drop, are in one table of the process with a lock of its own.
 */
#ifndef CRTI_CORE_HANDLES_H
#define CRTI_CORE_HANDLES_H

#include <stdbool.h>

#include "runtime/core/values/numbers.h"

/* Of an address in the table; what malloc gives is a multiple of 16. */
static inline uint64_t crti_handle_number(const void *handle)
{
    return (uint64_t)(uintptr_t)handle >> 4;
}

static inline bool crti_handles_have(const crti_numbers_t *handles, const void *handle)
{
    return handle && crti_numbers_get(handles, crti_handle_number(handle)) == handle;
}

static inline crt_status_t crti_handles_add(crti_numbers_t *handles, void *handle)
{
    return crti_numbers_add(handles, crti_handle_number(handle), handle);
}

/* True when it was one. */
static inline bool crti_handles_take(crti_numbers_t *handles, const void *handle)
{
    bool had = crti_handles_have(handles, handle);

    if (had)
        crti_numbers_remove(handles, crti_handle_number(handle));
    return had;
}

/* Of before a shutdown. */
void crti_old_handle_add(void *handle);
bool crti_old_handle_is(const void *handle);
bool crti_old_handle_take(const void *handle); /* true when it was one */

#endif
