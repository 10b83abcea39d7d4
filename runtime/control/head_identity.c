/* SPDX-License-Identifier: Apache-2.0 */
/* Whose tables these are. See head_identity.h. */
#include "runtime/control/head_identity.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/log.h"
#include "runtime/base/rundir.h"

/* False: there is none, or it can't be read, which keeps nobody from starting. */
static bool read_id(const char *path, crti_id_t *id_out)
{
    CRTI_AUTO(free) char *text = NULL;
    char hex[CRTI_ID_HEX] = "";

    return access(path, F_OK) == 0 && crti_info_read(path, &text) == CRT_OK &&
           crti_id_parse(crti_info_get(text, "cluster", hex, sizeof(hex)), id_out);
}

static crt_status_t are_gone(crti_id_t id, const char *where, const char *what)
{
    char hex[CRTI_ID_HEX];

    return crt_raise(CRT_ERR_CORRUPT,
                     "the tables of the cluster %.8s, which this head had before, are "
                     "gone%s: there %s. Bring them back and start again; its nodes go on "
                     "meanwhile. Or begin without its actors, jobs and stored values: "
                     "--fresh",
                     crti_id_hex(id, hex), where, what);
}

crt_status_t crti_head_identity_check_files(const char *path, const char *data)
{
    static const char *const files[] = {"appendonlydir/appendonly.aof.manifest",
                                        "appendonly.aof"};
    char file[PATH_MAX + 64], where[PATH_MAX + 32];
    crti_id_t id;

    if (!read_id(path, &id))
        return CRT_OK;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(file, sizeof(file), "%s/%s", data, files[i]);
        if (access(file, F_OK) == 0)
            return CRT_OK;
    }
    snprintf(where, sizeof(where), " from %s", data);
    snprintf(file, sizeof(file), "is no %s", files[0]);
    return are_gone(id, where, file);
}

crt_status_t crti_head_identity_check(const char *path, bool found, crti_id_t cluster,
                                      const crti_redis_external_t *redis)
{
    char where[300] = "", what[80] = "is nothing", hex[CRTI_ID_HEX];
    crti_id_t id;

    if (!read_id(path, &id) || (found && crti_id_equal(id, cluster)))
        return CRT_OK;
    if (redis->address)
        snprintf(where, sizeof(where), " on redis-server at %s (prefix \"%s\")",
                 redis->address, redis->prefix ? redis->prefix : "crt");
    if (found)
        snprintf(what, sizeof(what), "are those of the cluster %.8s",
                 crti_id_hex(cluster, hex));
    return are_gone(id, where, what);
}

void crti_head_identity_keep(const char *path, crti_id_t cluster)
{
    char hex[CRTI_ID_HEX];
    crti_info_entry_t entry = {"cluster", crti_id_hex(cluster, hex)};

    if (crti_info_write(path, &entry, 1) != CRT_OK)
        crti_log(CRTI_LOG_WARN, "head",
                 "%s: a head that starts again can't tell whose tables it finds",
                 crt_error_detail());
}
