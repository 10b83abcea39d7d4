/* SPDX-License-Identifier: Apache-2.0 */
/* Dashboard: the link that signs a browser in. Its code is good once and for a minute, and yet it
 * is printed to terminals only: what goes to files, pipes and journals is read by others.
 *
 * Where it sits
 *     cli/main.c, cli/start.c -> [ cli/dashboard.c ] -> cli/http_client.c -> crt-http
 */
#ifndef CRTI_CLI_DASHBOARD_H
#define CRTI_CLI_DASHBOARD_H

#include <stdbool.h>

#include "cli/cli.h"

#define DASHBOARD_LINK 400 /* bytes of a link, with the final zero */

/* The dashboard of that cluster: with a code, or the page's address alone. */
crt_status_t crti_dashboard_link(const char *address, bool with_code,
                                 char link[DASHBOARD_LINK]);

#endif
