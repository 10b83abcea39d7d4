/* SPDX-License-Identifier: Apache-2.0 */
/* Scrape target: the file prometheus.json beside the cluster's key, by which Prometheus finds
 * /metrics (file_sd_configs).
 *
 * Where it sits
 *     http/main.c -> [ http/scrape_target.c ] -> STATE/head-PORT/prometheus.json
 */
#ifndef CRTI_HTTP_SCRAPE_TARGET_H
#define CRTI_HTTP_SCRAPE_TARGET_H

#include "runtime/base/crt_base.h"

/* Writes it, whole or not at all, for a server at `url` ("http://host:port"). */
crt_status_t crti_scrape_target_write(const char *key_file, const char *url);
/* The server ends: nothing is to be scraped any more. */
void crti_scrape_target_remove(const char *key_file);

#endif
