/* SPDX-License-Identifier: Apache-2.0 */
/* Ids that are remembered while the disk is full. See revoked.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/map.h"
#include "runtime/control/revoked.h"

struct crti_revoked {
    int fd;
    crti_map_t places; /* id -> its place in the file, counted from 1 */
    size_t look_at;    /* places before it were taken when they were looked at last */
    crti_id_t ids[CRTI_REVOKED_MAX];
};

static crt_status_t read_all(crti_revoked_t *r, const char *path)
{
    ssize_t n = pread(r->fd, r->ids, sizeof(r->ids), 0);

    if (n < 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    memset((char *)r->ids + n, 0, sizeof(r->ids) - (size_t)n);
    for (size_t i = 0; i < CRTI_REVOKED_MAX; i++)
        if (!crti_id_is_zero(r->ids[i]) &&
            crti_map_put(&r->places, &r->ids[i], (void *)(uintptr_t)(i + 1)) != CRT_OK)
            return crt_raise(CRT_ERR_NO_MEMORY, "%s", path);
    /* Also what was there before: whoever made the file may have found no room. */
    n = pwrite(r->fd, r->ids, sizeof(r->ids), 0);
    if (n != (ssize_t)sizeof(r->ids))
        return crt_raise(CRT_ERR_IO, "%s: %s", path,
                         n < 0 ? strerror(errno) : "there is no room");
    return CRT_OK;
}

crt_status_t crti_revoked_open(const char *path, crti_revoked_t **revoked_out)
{
    CRTI_AUTO(crti_revoked_free) crti_revoked_t *r = calloc(1, sizeof(*r));
    crt_status_t status;

    if (r == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "%s", path);
    crti_map_init(&r->places, sizeof(crti_id_t));
    r->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (r->fd < 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
    status = read_all(r, path);
    if (status == CRT_OK)
        *revoked_out = CRTI_TAKE(r);
    return status;
}

void crti_revoked_free(crti_revoked_t *r)
{
    if (r == NULL)
        return;
    if (r->fd >= 0)
        close(r->fd);
    crti_map_fini(&r->places);
    free(r);
}

static bool write_place(crti_revoked_t *r, size_t at, crti_id_t id)
{
    off_t offset = (off_t)(at * sizeof(id));

    if (pwrite(r->fd, &id, sizeof(id), offset) != (ssize_t)sizeof(id))
        return false;
    r->ids[at] = id;
    sync_file_range(r->fd, offset, sizeof(id), SYNC_FILE_RANGE_WRITE);
    return true;
}

static bool add(crti_revoked_t *r, crti_id_t id)
{
    for (size_t i = 0; i < CRTI_REVOKED_MAX; i++) {
        size_t at = (r->look_at + i) % CRTI_REVOKED_MAX;

        if (!crti_id_is_zero(r->ids[at]))
            continue;
        r->look_at = at + 1;
        if (crti_map_put(&r->places, &id, (void *)(uintptr_t)(at + 1)) != CRT_OK)
            return false;
        if (write_place(r, at, id))
            return true;
        crti_map_remove(&r->places, &id);
        return false;
    }
    return false;
}

bool crti_revoked_set(crti_revoked_t *r, crti_id_t id, bool is_revoked)
{
    uintptr_t place = r ? (uintptr_t)crti_map_get(&r->places, &id) : 0;

    if ((place != 0) == is_revoked)
        return true;
    if (r == NULL)
        return false;
    if (is_revoked)
        return add(r, id);
    crti_map_remove(&r->places, &id);
    return write_place(r, place - 1, (crti_id_t){0, 0});
}

bool crti_revoked_next(const crti_revoked_t *r, size_t *cursor, crti_id_t *id_out)
{
    while (r && *cursor < CRTI_REVOKED_MAX) {
        *id_out = r->ids[(*cursor)++];
        if (!crti_id_is_zero(*id_out))
            return true;
    }
    return false;
}

void crti_revoked_load(const char *path, crti_control_t *control,
                       crti_revoked_t **revoked_out)
{
    size_t cursor = 0;
    crti_id_t id;

    if (crti_revoked_open(path, revoked_out) != CRT_OK)
        crti_log(CRTI_LOG_WARN, "head", "%s", crt_error_detail());
    while (crti_revoked_next(*revoked_out, &cursor, &id))
        crti_control_load_revoked(control, id);
}
