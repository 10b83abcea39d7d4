/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of the autoscaler: what is read from a file, and where errors are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/autoscaler_file.h"

static void assert_read(const char *text, const char *json)
{
    json_t *file = NULL;
    char *said;

    if (crti_autoscaler_file_parse("rules.yaml", text, strlen(text), &file) != CRT_OK)
        fail_msg("%s", crt_error_detail());
    said = json_dumps(file, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(said, json);
    free(said);
    json_decref(file);
}

static void assert_wrong(const char *text, const char *detail)
{
    json_t *file = NULL;

    assert_int_equal(crti_autoscaler_file_parse("r.yaml", text, strlen(text), &file),
                     CRT_ERR_INVALID);
    assert_null(file);
    assert_string_equal(crt_error_detail(), detail);
}

static void rules_are_read_with_their_defaults(void **state)
{
    (void)state;
    assert_read("provider: local\nnode-types:\n  small: {max: 4, num-cpus: 2}\n",
                "{\"command_timeout\":60,\"downscaling_speed\":1.0,\"idle_timeout\":60,"
                "\"node_types\":[{\"labels\":\"\",\"max\":4,\"min\":0,\"name\":\"small\","
                "\"options\":[\"--num-cpus\",\"2\"],\"resources\":{\"CPU\":2.0}}],"
                "\"provider\":\"local\",\"start_timeout\":60,\"upscaling_speed\":1.0}");
    assert_read(
        "provider: {ask: a b, list: l, end: e}\nidle_timeout: 5m\n"
        "start-timeout: 1h\ncommand-timeout: 30s\nupscaling-speed: 0.5\n"
        "downscaling-speed: 2\nnode-types:\n  gpu-1.x:\n    min: 1\n    max: 1\n"
        "    num_cpus: 0.5\n    num-gpus: 2\n    labels: {zone: a}\n"
        "    resources: {tape: 1}\n    no-spill: true\n",
        "{\"ask\":\"a b\",\"command_timeout\":30,\"downscaling_speed\":2.0,"
        "\"end\":\"e\",\"idle_timeout\":300,\"list\":\"l\",\"node_types\":[{"
        "\"labels\":\"zone=a\",\"max\":1,\"min\":1,\"name\":\"gpu-1.x\",\"options\":["
        "\"--num-cpus\",\"0.5\",\"--num-gpus\",\"2\",\"--resources\",\"tape=1\","
        "\"--no-spill\"],\"resources\":{\"CPU\":0.5,\"GPU\":2.0,\"tape\":1.0}}],"
        "\"provider\":\"commands\",\"start_timeout\":3600,\"upscaling_speed\":0.5}");
}

static void providers_of_hosts_and_jobs_are_read(void **state)
{
#define REST "\nnode-types: {s: {max: 1, num-cpus: 2}}\n"
#define TYPES                                                                            \
    "\"node_types\":[{\"labels\":\"\",\"max\":1,\"min\":0,\"name\":\"s\",\"options\":["  \
    "\"--num-cpus\",\"2\"],\"resources\":{\"CPU\":2.0}}],"
    (void)state;
    assert_read(
        "provider: {ssh: {hosts: [a, \"b[1-2]\"], user: me, options: [-F, c], "
        "crt: /crt, setup: true}}" REST,
        "{\"command_timeout\":600,\"downscaling_speed\":1.0,\"idle_timeout\":60," TYPES
        "\"pool\":{\"crt\":\"/crt\",\"hosts\":[\"a\",\"b1\",\"b2\"],"
        "\"setup\":[\"true\"],\"ssh\":[\"-l\",\"me\",\"-F\",\"c\"]},"
        "\"provider\":\"ssh\",\"start_timeout\":600,\"upscaling_speed\":1.0}");
    assert_read(
        "provider: slurm" REST,
        "{\"command_timeout\":600,\"downscaling_speed\":1.0,\"idle_timeout\":60," TYPES
        "\"provider\":\"slurm\",\"slurm_options\":[],"
        "\"start_timeout\":600,\"upscaling_speed\":1.0}");
    assert_read(
        "provider: {slurm: {options: [-p, all], key_file: /home/k}}" REST,
        "{\"command_timeout\":600,\"downscaling_speed\":1.0,\"idle_timeout\":60," TYPES
        "\"provider\":\"slurm\",\"slurm_key_file\":\"/home/k\","
        "\"slurm_options\":[\"-p\",\"all\"],\"start_timeout\":600,"
        "\"upscaling_speed\":1.0}");
    assert_read("provider: kubernetes" REST,
                "{\"command_timeout\":600,\"downscaling_speed\":1.0,\"idle_timeout\":60,"
                "\"kubernetes\":{\"deployments\":{\"s\":\"crt-s\"}}," TYPES
                "\"provider\":\"kubernetes\",\"start_timeout\":600,"
                "\"upscaling_speed\":1.0}");
    assert_read(
        "provider: {kubernetes: {namespace: lab, deployments: {s: crt-nodes}, "
        "server: 'https://[::1]:6443', service_account: /s}}" REST,
        "{\"command_timeout\":600,\"downscaling_speed\":1.0,\"idle_timeout\":60,"
        "\"kubernetes\":{\"deployments\":{\"s\":\"crt-nodes\"},\"namespace\":\"lab\","
        "\"server\":\"https://[::1]:6443\",\"service_account\":\"/s\"}," TYPES
        "\"provider\":\"kubernetes\",\"start_timeout\":600,\"upscaling_speed\":1.0}");
#undef REST
#undef TYPES
}

static void errors_of_providers_have_their_place(void **state)
{
    static const struct {
        const char *text, *detail;
    } wrong[] = {
        {"provider: {slurm: {option: x}}\n",
         "r.yaml:1:20: unknown key \"option\"; the nearest one is options"},
        {"provider: {kubernetes: {deployment: x}}\n",
         "r.yaml:1:25: unknown key \"deployment\"; the nearest one is deployments"},
        {"provider: {kubernetes: {namespace: ../x}}\n",
         "r.yaml:1:36: \"../x\" is no name of Kubernetes: small letters, digits, . and "
         "-"},
        {"provider: {kubernetes: {server: 'http://h:1'}}\n",
         "r.yaml:1:33: server is https://HOST:PORT"},
        {"provider: {kubernetes: {deployments: {b: x}}}\n"
         "node-types: {a: {max: 1, num-cpus: 1}}\n",
         "r.yaml:1:1: deployments names one that is no node type"},
        {"provider: kubernetes\nnode-types: {A: {max: 1, num-cpus: 1}}\n",
         "r.yaml:1:1: there is no Deployment crt-A: name it by deployments"},
        {"provider: {kubernetes: {deployments: {a: crt-b}}}\n"
         "node-types: {a: {max: 1, num-cpus: 1}, b: {max: 1, num-cpus: 1}}\n",
         "r.yaml:1:1: two node types share the Deployment crt-b"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_wrong(wrong[i].text, wrong[i].detail);
}

static void errors_have_their_place_and_say_what_to_do(void **state)
{
    static const struct {
        const char *text, *detail;
    } wrong[] = {
        {"provder: local\n",
         "r.yaml:1:1: unknown key \"provder\"; the nearest one is provider"},
        {"provider: aws\n",
         "r.yaml:1:11: provider is local, slurm, kubernetes, or a map: ssh: with hosts; "
         "slurm: with options; kubernetes: with deployments; or three commands ask, list "
         "and end; not \"aws\""},
        {"provider: {ask: a, lst: b}\n",
         "r.yaml:1:20: unknown key \"lst\"; the nearest one is list"},
        {"provider: {ask: a, list: b}\n",
         "r.yaml:1:11: the provider has no command end: it "
         "needs ask, list and end"},
        {"provider: {ask: '', list: b, end: c}\n",
         "r.yaml:1:17: ask is a text of 1 to 4096 bytes"},
        {"node-types: {}\n",
         "r.yaml:1:1: no provider: provider is local, slurm, kubernetes, or a map: ssh: "
         "with hosts; slurm: with options; kubernetes: with deployments; or three "
         "commands ask, list and end"},
        {"provider: {ssh: {hosts: []}}\n",
         "r.yaml:1:17: the pool has no hosts: node[02-16]"},
        {"provider: {ssh: {hosts: [a, \"b[1-2]\", b1]}}\n",
         "r.yaml:1:17: the host b1 is there twice"},
        {"provider: {ssh: {host: a}}\n",
         "r.yaml:1:18: unknown key \"host\"; the nearest one is hosts"},
        {"provider: {ssh: {hosts: a, port: none}}\n", NULL},
        {"provider: {ssh: {hosts: a, user: -x}}\n", "r.yaml:1:34: \"-x\" is no user"},
        {"provider: {slurm: [], ask: b}\n", "r.yaml:1:19: slurm is a map of KEY: VALUE"},
        {"provider: {slurm: {}, ask: b}\n",
         "r.yaml:1:23: a second provider: there is one"},
        {"provider: local\n", "r.yaml:1:1: no node-types: which nodes there may be"},
        {"provider: local\nidle-timeout: soon\n",
         "r.yaml:2:15: idle-timeout takes a time such as 90s or 10m, not \"soon\""},
        {"provider: local\nupscaling-speed: -1\n",
         "r.yaml:2:18: upscaling-speed takes 0 to 1000, not \"-1\""},
        {"provider: local\nupscaling-speed: nan\n",
         "r.yaml:2:18: upscaling-speed takes 0 to 1000, not \"nan\""},
        {"node-types:\n  a b: {max: 1, num-cpus: 1}\n",
         "r.yaml:2:3: \"a b\" is no name of a node type: letters, digits and . _ -, at "
         "most "
         "31"},
        {"node-types:\n  a: {max: 1}\n",
         "r.yaml:2:3: node type a: say by num-cpus how many CPUs a node has"},
        {"node-types:\n  a: {num-cpus: 1}\n",
         "r.yaml:2:3: node type a: say by max how many nodes there may be"},
        {"node-types:\n  a: {num-cpus: 1, min: 2, max: 1}\n",
         "r.yaml:2:3: node type a: its min is above its max"},
        {"node-types:\n  a: {max: 10001}\n",
         "r.yaml:2:12: max takes 0 to 10000, not \"10001\""},
        {"node-types:\n  a: {max: -1}\n",
         "r.yaml:2:12: max takes 0 to 10000, not \"-1\""},
        {"node-types:\n  a: {max: 1, num-cpu: 1}\n",
         "r.yaml:2:15: unknown key \"num-cpu\"; the nearest one is num-cpus"},
        {"node-types:\n  a: {num-cpus: many}\n", NULL},
        {"node-types:\n  a: {port: 1}\n", "r.yaml:2:7: port is not of a node type"},
        {"node-types:\n  a: {spill-dir: /a b}\n",
         "r.yaml:2:18: spill-dir with a blank, quote or dollar sign"},
        {"node-types:\n  a: {spill-dir: '$(id)'}\n",
         "r.yaml:2:18: spill-dir with a blank, quote or dollar sign"},
        {"node-types:\n  a: {max: 1, max: 2}\n",
         "r.yaml:2:15: max is there already, at line 2"},
        {"node-types: 3\n", "r.yaml:1:13: node-types is a map of KEY: VALUE"},
        {"\tprovider: local\n", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        json_t *file = NULL;

        if (wrong[i].detail) {
            assert_wrong(wrong[i].text, wrong[i].detail);
            continue;
        }
        assert_int_equal(crti_autoscaler_file_parse("r.yaml", wrong[i].text,
                                                    strlen(wrong[i].text), &file),
                         CRT_ERR_INVALID);
        assert_memory_equal(crt_error_detail(), "r.yaml:", 7);
    }
}

/* It has commands, which run as the user of the head. */
static void a_file_that_everybody_can_write_is_not_obeyed(void **state)
{
    static const char rules[] =
        "provider: local\nnode-types:\n  small: {max: 1, num-cpus: 2}\n";
    char path[] = "/tmp/crt-rules-XXXXXX";
    int fd = mkstemp(path);
    json_t *file = NULL;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, rules, strlen(rules)), strlen(rules));
    fchmod(fd, 0666);
    assert_int_equal(crti_autoscaler_file_read(path, &file), CRT_ERR_PERMISSION);
    assert_non_null(strstr(crt_error_detail(), "every user of this host can write it"));
    fchmod(fd, 0664);
    assert_int_equal(crti_autoscaler_file_read(path, &file), CRT_OK);
    json_decref(file);
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_read_with_their_defaults),
        cmocka_unit_test(providers_of_hosts_and_jobs_are_read),
        cmocka_unit_test(errors_of_providers_have_their_place),
        cmocka_unit_test(errors_have_their_place_and_say_what_to_do),
        cmocka_unit_test(a_file_that_everybody_can_write_is_not_obeyed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
