/* SPDX-License-Identifier: Apache-2.0 */
/* crt token: the bearer token of a cluster, made from its key file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/options.h"
#include "cli/run_dirs.h"
#include "crt_tools.h"

#define NAME "crt token"

static const char *address, *key_file;
static uint64_t lifetime; /* seconds, 0 without end */
static bool rotates, read_only;

/* Only the head's own file counts for its server: that of a copy says nothing to it. */
static crt_status_t find_heads_key(const char *cluster, char *path, size_t size)
{
    run_dir_t *dirs = calloc(RUN_DIRS_MAX, sizeof(*dirs));
    size_t count = dirs ? crti_run_dirs_find(cluster, dirs) : 0;

    path[0] = '\0';
    for (size_t i = 0; i < count; i++)
        if (dirs[i].is_head && (dirs[i].is_living || !path[0]))
            snprintf(path, size, "%s", dirs[i].key_file);
    free(dirs);
    if (!path[0])
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "the head of %s does not run on this host; rotate its tokens "
                         "there",
                         cluster);
    return CRT_OK;
}

static crt_status_t rotate(const char *cluster)
{
    char path[256];
    crt_status_t status = find_heads_key(cluster, path, sizeof(path));

    if (status == CRT_OK)
        status = crti_cluster_rotate_tokens(path);
    if (status == CRT_OK)
        fprintf(stderr, "Tokens and sign-ins from before are refused from now on.\n");
    return status;
}

static crt_status_t print_token(void)
{
    uint32_t end = lifetime ? (uint32_t)((uint64_t)time(NULL) + lifetime) : 0;
    uint32_t generation;
    char token[65];
    crt_status_t status = crti_cluster_token_generation(key_file, &generation);

    if (status == CRT_OK)
        status = read_only ? crti_cluster_reader_token(key_file, generation, end, token)
                           : crti_cluster_token_until(key_file, generation, end, token);
    if (status == CRT_OK)
        printf("%s\n", token);
    return status;
}

static crt_status_t run(void)
{
    static crt_cluster_info_t info;
    static char path[256];
    crt_status_t status = CRT_OK;

    if (!key_file && !address && !rotates)
        key_file = getenv("CRT_KEY_FILE");
    if (!key_file || !*key_file) {
        status = crt_cluster_find(address, sizeof(info), &info);
        if (status == CRT_OK && rotates)
            status = rotate(info.address);
        key_file = info.key_file;
        if (status == CRT_OK && info.head_dir[0] &&
            find_heads_key(info.address, path, sizeof(path)) == CRT_OK)
            key_file = path;
    }
    return status == CRT_OK ? print_token() : status;
}

int crti_cli_token(int argc, char **argv)
{
    static const option_spec_t options[] = {
        {"address", 'a', "HOST:PORT", OPTION_ADDRESS, &address,
         "the cluster's head; default: the only cluster here"},
        {"key-file", 'k', "FILE", OPTION_TEXT, &key_file,
         "make it from this file (CRT_KEY_FILE), wherever the cluster runs"},
        {"expires", 0, "TIME", OPTION_SECONDS, &lifetime,
         "it is good for so long: 90s, 30m, 12h, 7d; default: until --rotate"},
        {"read-only", 0, NULL, OPTION_FLAG, &read_only,
         "it is good for looking only: nothing is changed with it"},
        {"rotate", 0, NULL, OPTION_FLAG, &rotates,
         "first make all tokens and sign-ins from before worthless"}};
    static const command_spec_t spec = {
        .name = NAME,
        .summary =
            "Prints a token that the dashboard and the REST API of a cluster take.\n"
            "Whoever has it can run programs on the cluster, or with --read-only see "
            "everything.",
        .options = options,
        .count = sizeof(options) / sizeof(options[0])};
    int first = crti_cli_parse(argc, argv, &spec);

    if (first <= 0)
        return -first;
    if (rotates && key_file)
        return crti_cli_misused(NAME, "--rotate goes to a head on this host: give "
                                      "--address instead of --key-file");
    return run() == CRT_OK ? 0 : crti_cli_fail_detail(NAME);
}
