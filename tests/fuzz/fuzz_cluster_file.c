/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: cluster files (cli/cluster_file.c), rules of the autoscaler (cli/autoscaler_file.c)
 * and runtime environments (cli/runtime_env.c). Whatever is taken has one head, which is the first
 * host, and no host that ssh would take for an option; rules have node types with a max, and
 * nothing that a shell would take for more than a word; variables are texts. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "cli/autoscaler_file.h"
#include "cli/cluster_file.h"
#include "cli/cluster_hosts.h"
#include "cli/runtime_env.h"

static void try_rules(const char *text, size_t size)
{
    json_t *file, *type, *option;
    size_t i, k;

    if (crti_autoscaler_file_parse("fuzz.yaml", text, size, &file) != CRT_OK)
        return;
    if (json_array_size(json_object_get(file, "node_types")) == 0)
        abort();
    json_array_foreach(json_object_get(file, "node_types"), i, type)
    {
        if (json_integer_value(json_object_get(type, "min")) >
            json_integer_value(json_object_get(type, "max")))
            abort();
        json_array_foreach(json_object_get(type, "options"), k, option)
        {
            if (strpbrk(json_string_value(option), " '\"$`\n"))
                abort();
        }
    }
    json_decref(file);
}

static void try_environment(const char *text, size_t size)
{
    char *copy = strndup(text, size);
    json_t *env = NULL, *value;

    if (copy && crti_runtime_env_parse("fuzz.yaml", copy, &env) == CRT_OK) {
        json_object_foreach(json_object_get(env, "env_vars"), text, value)
        {
            if (!json_is_string(value))
                abort();
        }
        json_decref(env);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *file, *hosts, *host;
    size_t i;

    try_rules((const char *)data, size);
    try_environment((const char *)data, size);

    if (crti_cluster_file_parse("fuzz.yaml", (const char *)data, size, &file) != CRT_OK)
        return 0;
    hosts = json_object_get(file, "hosts");
    if (json_array_size(hosts) == 0 || json_array_size(hosts) > CLUSTER_HOSTS_MAX ||
        !crti_cluster_is_name(json_string_value(json_object_get(file, "name"))))
        abort();
    json_array_foreach(hosts, i, host)
    {
        const char *name = json_string_value(json_object_get(host, "host"));

        if (!name || *name == '-' || strpbrk(name, " ;'\"$`\n") ||
            json_is_true(json_object_get(host, "head")) != (i == 0))
            abort();
    }
    json_decref(file);
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    static const char *const seeds[] = {
        "name: lab\nhead: {host: n1, port: 7000, no-auth: true}\n"
        "hosts:\n  - n[01-16]\n  - r[1-2]-[a,b]\n",
        "crt: /opt/crt/bin/crt\nparallel: 4\ntimeout: 2m\n"
        "ssh: {user: me, port: 2222, options: [-F, config]}\n"
        "head: n1\nenvironment: &e {A: 1}\nsetup: [date]\ngroups:\n  gpu:\n    hosts: "
        "g1\n"
        "    num_cpus: 8\n    labels: {zone: a, disk: ssd}\n    resources: tape=1\n"
        "    environment: *e\n",
        "provider: {ask: a, list: l, end: e}\nidle-timeout: 5m\nupscaling-speed: 0.5\n"
        "node-types:\n  gpu:\n    min: 1\n    max: 2\n    num_cpus: 8\n"
        "    labels: {zone: a}\n    resources: tape=1\n  cpu: {max: 3, num-cpus: 1}\n",
        "working_dir: .\nexcludes: [/out, '*.o']\nsetup: |\n  make\nnum_cpus: 1\n"
        "resources:\n  TPU: 4\nenv_vars:\n  A: 1\n  B: ${A}\n",
    };
    size_t size;

    if (index >= sizeof(seeds) / sizeof(seeds[0]))
        return 0;
    size = strlen(seeds[index]);
    if (size > room)
        return 0;
    memcpy(out, seeds[index], size);
    return size;
}
