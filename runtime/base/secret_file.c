/* SPDX-License-Identifier: Apache-2.0 */
/* Which files may hold a secret.
 *
 * Where it sits
 *     net/key.c, control/store/redis_endpoint.c, cli/symmetric_run.c -> [ base/secret_file.c ]
 * Threads: any; no state.
 */
#include "runtime/base/secret_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Root may let a group read it, as PostgreSQL has it: secrets that are mounted into the container
 * of another user have no other way. */
static bool is_lent_by_root(const struct stat *st)
{
    return st->st_uid == 0 && geteuid() != 0 && !(st->st_mode & 027);
}

crt_status_t crti_check_secret_file(int fd, const char *what, const char *path)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return crt_raise(CRT_ERR_IO, "%s %s: %s", what, path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return crt_raise(CRT_ERR_INVALID, "%s %s is not a regular file", what, path);
    if (is_lent_by_root(&st))
        return CRT_OK;
    if (st.st_uid != geteuid())
        return crt_raise(CRT_ERR_PERMISSION,
                         "%s %s belongs to user %u, not to you (user %u)", what, path,
                         (unsigned)st.st_uid, (unsigned)geteuid());
    if (st.st_mode & 077)
        return crt_raise(CRT_ERR_PERMISSION,
                         "%s %s can be used by others (mode %04o); run: chmod 600 %s",
                         what, path, (unsigned)(st.st_mode & 07777), path);
    return CRT_OK;
}
