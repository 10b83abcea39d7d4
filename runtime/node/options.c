/* SPDX-License-Identifier: Apache-2.0 */
/* Command line of crt-node. See options.h. */
#include "runtime/node/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/limit.h"
#include "runtime/daemon/daemon_options.h"
#include "runtime/net/protocol.h"
#include "runtime/node/host/host.h"

_Static_assert(CRTI_GPU_NAMES == 64, "--num-gpus in option_list.h");

#define NODE_NAME  63                        /* bytes of a name at most */
#define TYPE_LABEL "ray.io/accelerator-type" /* what programs that come from Ray select */

/* Of the host, by whole CPUs, at least one. */
static int64_t default_cpus(const crti_options_t *o)
{
    int64_t cpus = crti_host_cpus() / CRTI_RESOURCE_ONE / (int64_t)o->given.share;

    return (cpus > 0 ? cpus : 1) * (int64_t)CRTI_RESOURCE_ONE;
}

/* --num-cpus and --resources. */
static crt_status_t amounts(crti_options_t *o)
{
    char entry[64];

    if (o->given.num_cpus) {
        snprintf(entry, sizeof(entry), "CPU=%s", o->given.num_cpus);
        CRT_TRY(crti_resources_parse(entry, &o->resources));
    }
    if (o->given.resources)
        CRT_TRY(crti_resources_parse(o->given.resources, &o->resources));
    if (!o->given.num_cpus && crti_resources_get(&o->resources, "CPU") == 0)
        return crti_resources_set(&o->resources, "CPU", default_cpus(o));
    return CRT_OK;
}

/* NULL: it can't be asked. */
static const crti_nvml_t *ask_nvml(crti_nvml_t *nvml, crti_options_t *o)
{
    const char *library = getenv("CRT_NVML_LIBRARY");

    if (*crti_host_root() && !library)
        return NULL; /* a test plays this host */
    if (crti_nvml_read(nvml) == CRT_OK)
        return nvml;
    snprintf(o->gpu_trouble, sizeof(o->gpu_trouble), "%s", crt_error_detail());
    return NULL;
}

/* What the user says of the type counts, and other labels of his that leave no room. */
static void add_type(const char *type, crti_options_t *o)
{
    char labels[CRTI_LABELS_SIZE + sizeof(TYPE_LABEL) + CRTI_GPU_TYPE + 2];

    snprintf(labels, sizeof(labels), "%s%s" TYPE_LABEL "=%s", o->labels,
             *o->labels ? "," : "", type);
    if (*type && crti_labels_check(labels) == CRT_OK)
        memcpy(o->labels, labels, strlen(labels) + 1);
}

/* Those of this host that CUDA_VISIBLE_DEVICES leaves. */
static void find_gpus(crti_options_t *o)
{
    crti_nvml_t answer;
    const crti_nvml_t *nvml = ask_nvml(&answer, o);
    char type[CRTI_GPU_TYPE];

    crti_gpus_find(getenv(CRTI_VISIBLE_GPUS), crti_host_root(), nvml, &o->gpus);
    if (nvml && o->gpus.count > 0)
        add_type(crti_gpus_type(&o->gpus, nvml, type), o);
}

/* Those that are found, unless options say how many there are. Nodes that share a host find none:
 * nobody says which are whose. */
static crt_status_t gpus(bool is_number_given, crti_options_t *o)
{
    int64_t given = crti_resources_get(&o->resources, "GPU");
    uint64_t count =
        is_number_given ? o->given.num_gpus : (uint64_t)given / CRTI_RESOURCE_ONE;
    bool is_said = is_number_given || given;

    if (given % CRTI_RESOURCE_ONE || count > CRTI_GPU_NAMES)
        return crt_raise(CRT_ERR_INVALID, "GPU in --resources: 0 to %d are needed",
                         CRTI_GPU_NAMES);
    if (is_number_given && given)
        return crt_raise(CRT_ERR_INVALID,
                         "resource \"GPU\" is given twice: --num-gpus, --resources");
    if (is_said ? count > 0 : o->given.share == 1)
        find_gpus(o);
    if (is_said)
        crti_gpus_set_count(&o->gpus, (unsigned)count);
    return crti_resources_set(&o->resources, "GPU", o->gpus.count * CRTI_RESOURCE_ONE);
}

/* As a host's name, which it is without the option. */
static crt_status_t check_name(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

    return strlen(name) <= NODE_NAME && name[strspn(name, letters)] == '\0'
               ? CRT_OK
               : crt_raise(CRT_ERR_INVALID,
                           "--node-name: at most %d letters, digits and . _ -",
                           NODE_NAME);
}

/* What follows from the texts. */
static crt_status_t derive(bool is_number_given, crti_options_t *o)
{
    if (!o->given.address || !o->given.key_file)
        return crt_raise(CRT_ERR_INVALID,
                         "crt-node: --address H:P and --key-file F are needed");
    if (o->given.spill_dir && o->given.no_spill)
        return crt_raise(CRT_ERR_INVALID,
                         "--spill-dir and --no-spill: only one of them can be meant");
    if (o->given.node_ip_address)
        CRT_TRY(crti_ip_check(o->given.node_ip_address, o->node_ip));
    if (o->given.node_name)
        CRT_TRY(check_name(o->given.node_name));
    if (o->given.labels) {
        CRT_TRY(crti_labels_check(o->given.labels));
        snprintf(o->labels, sizeof(o->labels), "%s", o->given.labels);
    }
    CRT_TRY(amounts(o));
    return gpus(is_number_given, o);
}

crt_status_t crti_options_parse(int argc, char **argv, crti_options_t *options_out)
{
    crti_node_given_t *o = &options_out->given;
    const option_spec_t table[] = {CRTI_NODE_TABLE(CRTI_OPTION_ROW)};
    option_scan_t scan = {.options = table, .count = sizeof(table) / sizeof(table[0])};

    *options_out = (crti_options_t){.given = {.head_dir = "", .private_dir = ""}};
    CRT_TRY(crti_daemon_options(&scan, argc, argv));
    CRT_TRY(crti_limits_load());
    return derive(crti_option_is_given(&scan, "num-gpus"), options_out);
}
