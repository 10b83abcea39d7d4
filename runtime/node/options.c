/* SPDX-License-Identifier: Apache-2.0 */
/* Command line of crt-node. See options.h. */
#include "runtime/node/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/limit.h"
#include "runtime/base/whole_options.h"
#include "runtime/net/protocol.h"
#include "runtime/node/host/host.h"

#define TYPE_LABEL "ray.io/accelerator-type" /* what programs that come from Ray select */

enum {
    ADDRESS = 256,
    KEY_FILE,
    READY_FD,
    LIFELINE_FD,
    NODE_IP,
    NUM_CPUS,
    NUM_GPUS,
    LABELS,
    RESOURCES,
    STORE,
    SPILL_DIR,
    SPILL_LIMIT,
    NO_SPILL,
    PORTS,
    HEAD_DIR,
    PRIVATE,
    SHARE
};

static const struct option list[] = {
    {"address", required_argument, NULL, ADDRESS},
    {"key-file", required_argument, NULL, KEY_FILE},
    {"ready-fd", required_argument, NULL, READY_FD},
    {"lifeline-fd", required_argument, NULL, LIFELINE_FD},
    {"node-ip-address", required_argument, NULL, NODE_IP},
    {"num-cpus", required_argument, NULL, NUM_CPUS},
    {"num-gpus", required_argument, NULL, NUM_GPUS},
    {"labels", required_argument, NULL, LABELS},
    {"resources", required_argument, NULL, RESOURCES},
    {"object-store-memory", required_argument, NULL, STORE},
    {"spill-dir", required_argument, NULL, SPILL_DIR},
    {"spill-limit", required_argument, NULL, SPILL_LIMIT},
    {"no-spill", no_argument, NULL, NO_SPILL},
    {"worker-port-range", required_argument, NULL, PORTS},
    {"head-dir", required_argument, NULL, HEAD_DIR},
    {"private", required_argument, NULL, PRIVATE},
    {"share", required_argument, NULL, SHARE},
    {NULL, 0, NULL, 0}};

static crt_status_t number(const char *option, const char *text, uint64_t limit,
                           uint64_t *value_out)
{
    char *end;

    errno = 0;
    *value_out = strtoull(text, &end, 10);
    if (errno || *end || end == text || *text == '-' || *value_out > limit)
        return crt_raise(CRT_ERR_INVALID, "--%s \"%s\": a number up to %llu is needed",
                         option, text, (unsigned long long)limit);
    return CRT_OK;
}

static crt_status_t descriptor(const char *option, const char *text, int *fd_out)
{
    uint64_t value;
    crt_status_t status = number(option, text, 1 << 20, &value);

    if (status == CRT_OK)
        *fd_out = (int)value;
    return status;
}

static crt_status_t share(const char *text, crti_options_t *o)
{
    uint64_t nodes;
    crt_status_t status = number("share", text, 1024, &nodes);

    if (status == CRT_OK && nodes == 0)
        status = crt_raise(CRT_ERR_INVALID, "--share 0: at least one node shares a host");
    if (status == CRT_OK)
        o->share = (unsigned)nodes;
    return status;
}

/* Of the host, by whole CPUs, at least one. */
static int64_t default_cpus(const crti_options_t *o)
{
    int64_t cpus = crti_host_cpus() / CRTI_RESOURCE_ONE / o->share;

    return (cpus > 0 ? cpus : 1) * (int64_t)CRTI_RESOURCE_ONE;
}

static crt_status_t ports(const char *text, crti_options_t *o)
{
    char *end, *last;
    unsigned long low = strtoul(text, &end, 10);
    unsigned long high = *end == '-' ? strtoul(end + 1, &last, 10) : 0;

    if (end == text || *end != '-' || last == end + 1 || *last || low == 0 ||
        low > high || high > 65535)
        return crt_raise(CRT_ERR_INVALID,
                         "--worker-port-range \"%s\": LOW-HIGH is needed, for example "
                         "20000-20999",
                         text);
    o->port_low = (uint16_t)low;
    o->port_high = (uint16_t)high;
    return CRT_OK;
}

static crt_status_t cpus(const char *text, crti_options_t *o)
{
    char entry[64];

    snprintf(entry, sizeof(entry), "CPU=%s", text);
    o->resources = (crti_resources_t){0};
    if (crti_resources_parse(entry, &o->resources) != CRT_OK)
        return crt_raise(CRT_ERR_INVALID, "--num-cpus \"%s\" is not a number of CPUs",
                         text);
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
static crt_status_t gpus(const char *num_gpus, crti_options_t *o)
{
    int64_t given = crti_resources_get(&o->resources, "GPU");
    uint64_t count = (uint64_t)given / CRTI_RESOURCE_ONE;
    bool is_said = num_gpus || given;
    crt_status_t status = CRT_OK;

    if (given % CRTI_RESOURCE_ONE || count > CRTI_GPU_NAMES)
        return crt_raise(CRT_ERR_INVALID, "GPU in --resources: 0 to %d are needed",
                         CRTI_GPU_NAMES);
    if (num_gpus && given)
        return crt_raise(CRT_ERR_INVALID,
                         "resource \"GPU\" is given twice: --num-gpus, --resources");
    if (num_gpus)
        status = number("num-gpus", num_gpus, CRTI_GPU_NAMES, &count);
    if (status != CRT_OK)
        return status;
    if (is_said ? count > 0 : o->share == 1)
        find_gpus(o);
    if (is_said)
        crti_gpus_set_count(&o->gpus, (unsigned)count);
    return crti_resources_set(&o->resources, "GPU", o->gpus.count * CRTI_RESOURCE_ONE);
}

static crt_status_t labels(const char *text, crti_options_t *o)
{
    CRT_TRY(crti_labels_check(text));
    snprintf(o->labels, sizeof(o->labels), "%s", text);
    return CRT_OK;
}

/* `text` NULL: --no-spill. */
static crt_status_t spill(const char *text, crti_options_t *o)
{
    if (o->spill_dirs == NULL || (*o->spill_dirs && text == NULL))
        return crt_raise(CRT_ERR_INVALID,
                         "--spill-dir and --no-spill: only one of them can be meant");
    o->spill_dirs = text;
    return CRT_OK;
}

static crt_status_t one(int option, const char *text, const char **num_cpus,
                        const char **num_gpus, const char **custom, crti_options_t *o)
{
    switch (option) {
    case ADDRESS: o->address = text; return CRT_OK;
    case KEY_FILE: o->key_file = text; return CRT_OK;
    case NODE_IP: return crti_ip_check(text, o->node_ip);
    case HEAD_DIR: o->head_dir = text; return CRT_OK;
    case PRIVATE: o->private_dir = text; return CRT_OK;
    case RESOURCES: *custom = text; return CRT_OK;
    case READY_FD: return descriptor("ready-fd", text, &o->ready_fd);
    case LIFELINE_FD: return descriptor("lifeline-fd", text, &o->lifeline_fd);
    case LABELS: return labels(text, o);
    case SHARE: return share(text, o);
    case NUM_CPUS: *num_cpus = text; return CRT_OK;
    case NUM_GPUS: *num_gpus = text; return CRT_OK;
    case STORE:
        return number("object-store-memory", text, (uint64_t)1 << 50, &o->store_bytes);
    case SPILL_DIR:
    case NO_SPILL: return spill(text, o);
    case SPILL_LIMIT:
        return number("spill-limit", text, (uint64_t)1 << 60, &o->spill_limit);
    case PORTS: return ports(text, o);
    default: return crt_raise(CRT_ERR_INVALID, "crt-node: unknown option");
    }
}

crt_status_t crti_options_parse(int argc, char **argv, crti_options_t *options_out)
{
    crti_options_t o = {.head_dir = "",
                        .private_dir = "",
                        .spill_dirs = "",
                        .ready_fd = -1,
                        .lifeline_fd = -1,
                        .share = 1};
    const char *num_cpus = NULL, *num_gpus = NULL, *custom = NULL;
    crt_status_t status = crti_limits_load();
    int option, index;

    optind = 1;
    opterr = 0;
    while (status == CRT_OK &&
           (option = crti_whole_option(argc, argv, "", list, &index)) != -1)
        status = option == '?' ? crt_raise(CRT_ERR_INVALID, "crt-node: bad option %s",
                                           argv[optind - 1])
                               : one(option, optarg, &num_cpus, &num_gpus, &custom, &o);
    if (status == CRT_OK && num_cpus)
        status = cpus(num_cpus, &o);
    if (status == CRT_OK && custom)
        status = crti_resources_parse(custom, &o.resources);
    if (!num_cpus && crti_resources_get(&o.resources, "CPU") == 0)
        crti_resources_set(&o.resources, "CPU", default_cpus(&o));
    if (status == CRT_OK)
        status = gpus(num_gpus, &o);
    if (status == CRT_OK && (optind < argc || !o.address || !o.key_file))
        status = crt_raise(CRT_ERR_INVALID,
                           "crt-node: --address H:P and --key-file F are needed, nothing "
                           "else than options");
    if (status == CRT_OK)
        *options_out = o;
    return status;
}

int crti_options_ready_fd(int argc, char **argv)
{
    int fd = -1;

    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--ready-fd") == 0)
            descriptor("ready-fd", argv[i + 1], &fd);
    return fd;
}
