/* SPDX-License-Identifier: Apache-2.0 */
/* How programs begin that this one starts by posix_spawn: with no signal ignored or blocked,
 * whatever this process does with its own. */
#ifndef CRTI_BASE_SPAWN_ATTRIBUTES_H
#define CRTI_BASE_SPAWN_ATTRIBUTES_H

#include <signal.h>
#include <spawn.h>

/* `more_flags`: POSIX_SPAWN_SETPGROUP or 0. The caller destroys `attributes`. */
static inline void crti_spawn_attributes(posix_spawnattr_t *attributes, short more_flags)
{
    sigset_t all, none;

    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_init(attributes);
    posix_spawnattr_setflags(attributes,
                             POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | more_flags);
    posix_spawnattr_setsigdefault(attributes, &all);
    posix_spawnattr_setsigmask(attributes, &none);
}

#endif
