/* SPDX-License-Identifier: Apache-2.0 */
/* Scope cleanup for locals that own something, and the move that ends it.
 *
 *     CRTI_AUTO(crti_thing_free) crti_thing_t *self = NULL;
 *     ...
 *     *out = CRTI_TAKE(self);
 *
 * Each free function used with CRTI_AUTO is declared for it once, in its header:
 *     CRTI_DEFINE_AUTO(crti_thing_t *, crti_thing_free)
 */
#ifndef CRTI_BASE_CLEANUP_H
#define CRTI_BASE_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CRTI_AUTO(function) __attribute__((cleanup(function##_auto)))

#define CRTI_DEFINE_AUTO(type, function)                                                 \
    static inline void function##_auto(type *slot)                                       \
    {                                                                                    \
        if (*slot)                                                                       \
            function(*slot);                                                             \
    }

#define CRTI_TAKE(pointer)                                                               \
    __extension__({                                                                      \
        __typeof__(pointer) crti_taken = (pointer);                                      \
        (pointer) = NULL;                                                                \
        crti_taken;                                                                      \
    })

static inline void free_auto(void *slot)
{
    free(*(void **)slot);
}

static inline void fclose_auto(FILE **slot)
{
    if (*slot)
        fclose(*slot);
}

/* For descriptors: -1 means none. */
static inline void crti_close_auto(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline int crti_take_fd(int *fd)
{
    int taken = *fd;

    *fd = -1;
    return taken;
}

#endif
