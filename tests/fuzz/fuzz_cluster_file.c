/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: cluster files (cli/cluster_file.c). Whatever is taken has one head, which is the
 * first host, and no host that ssh would take for an option. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cluster_file.h"
#include "cli/cluster_hosts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *file, *hosts, *host;
    size_t i;

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
