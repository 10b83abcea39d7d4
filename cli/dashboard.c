/* SPDX-License-Identifier: Apache-2.0 */
/* crt dashboard: a link for a browser. See dashboard.h. */
#include "cli/dashboard.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cluster.h"
#include "cli/http_client.h"
#include "cli/options.h"

#define NAME "crt dashboard"

crt_status_t crti_dashboard_link(const char *address, bool with_code,
                                 char link[DASHBOARD_LINK])
{
    http_client_t *client = NULL;
    json_t *answer = NULL;
    const char *url, *code;
    crt_status_t status = crti_client_new(address, &client);

    if (status != CRT_OK)
        return status;
    answer = crti_client_json(client, "POST", "/api/authenticate/code", NULL, NULL);
    url = crti_client_url(client);
    if (!url)
        url = json_string_value(json_object_get(answer, "url"));
    code = json_string_value(json_object_get(answer, "code"));
    if (!answer)
        status = CRT_ERR_IO; /* it said why */
    else if (!url || !code || strlen(url) + strlen(code) + 10 > DASHBOARD_LINK)
        status = crt_raise(CRT_ERR_PROTOCOL, "the server's answer names no link");
    else if (*code && with_code)
        snprintf(link, DASHBOARD_LINK, "%s/#code=%s", url, code);
    else
        snprintf(link, DASHBOARD_LINK, "%s", url);
    json_decref(answer);
    crti_client_free(client);
    return status;
}

int crti_cli_dashboard(int argc, char **argv)
{
    static const char *address;
    static const option_spec_t options[] = {
        {"address", 'a', "HOST:PORT", OPTION_SERVER, &address,
         "the cluster's head; default: the only cluster here"}};
    static const command_spec_t spec = {
        .name = NAME,
        .operands = "[FILE]",
        .summary =
            "Prints the link of the dashboard. On a terminal it signs a browser in, "
            "once, within a\nminute; elsewhere it is the address alone, where a "
            "browser asks for the token.\nOf a cluster file: makes a way to the "
            "dashboard by ssh, until Ctrl-C.",
        .options = options,
        .count = sizeof(options) / sizeof(options[0])};
    char link[DASHBOARD_LINK];
    int first = crti_cli_parse(argc, argv, &spec);

    if (first <= 0)
        return -first;
    if (first < argc && address)
        return crti_cli_misused(NAME, "give --address or FILE");
    if (first < argc) {
        const char *path = crti_cluster_only_file(argc, argv, first, NAME);

        return path ? crti_cluster_dashboard(NAME, path) : CLI_USAGE;
    }
    if (crti_dashboard_link(address, isatty(STDOUT_FILENO), link) != CRT_OK)
        return crti_cli_fail_detail(NAME);
    printf("%s\n", link);
    return 0;
}
