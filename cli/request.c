/* SPDX-License-Identifier: Apache-2.0 */
/* crt request: room that the cluster is to have, whatever waits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/answer.h"
#include "cli/options.h"

#define NAME         "crt request"
#define BUNDLES_MOST 1000
#define TEXT_MOST    1000 /* of one */

static const char *address;
static bool nothing;

/* What is left of "CPU=2,GPU=1,tape=1" without CPUs and GPUs, which have members of their own. */
static void take_parts(char *text, crt_bundle_t *bundle, char *others)
{
    char *save = NULL;

    for (char *part = strtok_r(text, ",", &save); part;
         part = strtok_r(NULL, ",", &save)) {
        if (strncasecmp(part, "CPU=", 4) == 0)
            bundle->num_cpus = strtod(part + 4, NULL);
        else if (strncasecmp(part, "GPU=", 4) == 0)
            bundle->num_gpus = strtod(part + 4, NULL);
        else
            snprintf(others + strlen(others), TEXT_MOST - strlen(others), "%s%s",
                     *others ? "," : "", part);
    }
    bundle->resources = *others ? others : NULL;
}

/* "N*NAME=AMOUNT,...", N times the same; 0: it is written in another way, or there are too many. */
static size_t add(const char *text, crt_bundle_t *bundles, size_t count, char *others)
{
    crt_bundle_t bundle = CRT_BUNDLE(.num_cpus = 0);
    char copy[TEXT_MOST], *star;
    unsigned long times = 1;
    const char *expected;

    if (strlen(text) >= sizeof(copy))
        return 0;
    snprintf(copy, sizeof(copy), "%s", text);
    star = strchr(copy, '*');
    if (star) {
        char *end;

        times = strtoul(copy, &end, 10);
        if (end != star || times < 1 || times > BUNDLES_MOST)
            return 0;
    }
    star = star ? star + 1 : copy;
    if (!crti_cli_is_value(&(option_spec_t){.kind = OPTION_RESOURCES}, star, &expected) ||
        count + times > BUNDLES_MOST)
        return 0;
    take_parts(star, &bundle, others);
    for (size_t i = 0; i < times; i++)
        bundles[count + i] = bundle;
    return times;
}

static int ask(char **texts, int text_count)
{
    static crt_bundle_t bundles[BUNDLES_MOST];
    static crt_cluster_info_t cluster;
    char *others = calloc((size_t)text_count + 1, TEXT_MOST);
    size_t count = 0, more;
    int result = 0;

    for (int i = 0; others && i < text_count; i++, count += more)
        if ((more = add(texts[i], bundles, count, others + (size_t)i * TEXT_MOST)) == 0) {
            free(others);
            return crti_cli_misused(
                NAME,
                "\"%s\" is not NAME=AMOUNT,... or N*NAME=AMOUNT,..., at "
                "most %d in all",
                texts[i], BUNDLES_MOST);
        }
    if (!others || crt_cluster_find(address, sizeof(cluster), &cluster) != CRT_OK ||
        crt_cluster_request_resources(&cluster, bundles, count) != CRT_OK)
        result = crti_cli_fail_detail(NAME);
    else if (count)
        printf("The cluster is to have room for %zu bundle%s (crt status shows what "
               "comes of "
               "it).\n",
               count, count > 1 ? "s" : "");
    else
        printf("Nothing is asked for any more.\n");
    free(others);
    return result;
}

int crti_cli_request(int argc, char **argv)
{
    static const option_spec_t options[] = {
        {"address", 'a', "HOST:PORT", OPTION_ADDRESS, &address,
         "the cluster's head; default: the only cluster here"},
        {"none", 0, NULL, OPTION_FLAG, &nothing,
         "what was asked for before is not any more"}};
    static const command_spec_t spec = {.name = NAME,
                                        .operands = "[N*]NAME=AMOUNT,... ...",
                                        .summary =
                                            "Asks a cluster with an autoscaler to have "
                                            "room, in use or not: 4*CPU=2 is four "
                                            "times\n2 CPUs, each on one node. Replaces "
                                            "what was asked for by this command before.",
                                        .options = options,
                                        .count = sizeof(options) / sizeof(options[0])};
    int first = crti_cli_parse(argc, argv, &spec);

    if (first <= 0)
        return -first;
    if (nothing == (first < argc))
        return crti_cli_misused(NAME,
                                "say what it is to have room for, as in 4*CPU=2, or "
                                "--none");
    return ask(argv + first, argc - first);
}
