/* SPDX-License-Identifier: Apache-2.0 */
/* crt token: the bearer token of a cluster, made from its key file. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/options.h"

int crti_cli_token(int argc, char **argv)
{
    static const char *address, *key_file;
    static const option_spec_t options[] = {
        {"address", 'a', "HOST:PORT", OPTION_ADDRESS, &address,
         "the cluster's head; default: the only cluster here"},
        {"key-file", 'k', "FILE", OPTION_TEXT, &key_file,
         "make it from this file (CRT_KEY_FILE), wherever the cluster runs"}};
    static const command_spec_t spec = {
        .name = "crt token",
        .summary =
            "Prints the token that the dashboard and the REST API of a cluster ask for.\n"
            "Whoever has it can run programs on the cluster.",
        .options = options,
        .count = 2};
    crt_cluster_info_t info;
    char token[65];
    int first;

    switch (crti_cli_parse(argc, argv, &spec, &first)) {
    case PARSE_DONE: return 0;
    case PARSE_WRONG: return CLI_USAGE;
    case PARSE_OK: break;
    }
    if (!key_file && !address)
        key_file = getenv("CRT_KEY_FILE");
    if (!key_file || !*key_file) {
        if (crt_cluster_find(address, &info) != CRT_OK)
            return crti_cli_fail_detail(spec.name);
        key_file = info.key_file;
    }
    if (crt_cluster_token(key_file, token) != CRT_OK)
        return crti_cli_fail_detail(spec.name);
    printf("%s\n", token);
    return 0;
}
