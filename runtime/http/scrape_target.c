/* SPDX-License-Identifier: Apache-2.0 */
/* Where Prometheus finds /metrics. See scrape_target.h. */
#include "runtime/http/scrape_target.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#define FILE_NAME "prometheus.json"

static void name_file(const char *key_file, char path[PATH_MAX])
{
    const char *slash = strrchr(key_file, '/');

    snprintf(path, PATH_MAX, "%.*s%s", slash ? (int)(slash - key_file) + 1 : 0, key_file,
             FILE_NAME);
}

crt_status_t crti_scrape_target_write(const char *key_file, const char *url)
{
    const char *host = strstr(url, "://");
    char path[PATH_MAX], fresh[PATH_MAX + 8];
    json_t *targets;
    int result;

    if (!host)
        return crt_raise(CRT_ERR_INVALID, "%s is no URL", url);
    targets = json_pack("[{s:[s%], s:{s:s%, s:s}}]", "targets", host + 3,
                        strcspn(host + 3, "/"), "labels", "__scheme__", url,
                        (size_t)(host - url), "__metrics_path__", "/metrics");
    name_file(key_file, path);
    snprintf(fresh, sizeof(fresh), "%s.new", path);
    result = targets ? json_dump_file(targets, fresh, JSON_INDENT(2)) : -1;
    json_decref(targets);
    if (result != 0 || rename(fresh, path) != 0) {
        crt_raise(CRT_ERR_IO, "%s: %s", path, strerror(errno));
        unlink(fresh);
        return CRT_ERR_IO;
    }
    return CRT_OK;
}

void crti_scrape_target_remove(const char *key_file)
{
    char path[PATH_MAX];

    name_file(key_file, path);
    unlink(path);
}
