/* SPDX-License-Identifier: Apache-2.0 */
/* Cluster files: what is read from them, and where errors are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/cluster_file.h"
#include "cli/cluster_hosts.h"

static json_t *parse(const char *text)
{
    json_t *file = NULL;
    crt_status_t status =
        crti_cluster_file_parse("dir/lab.yaml", text, strlen(text), &file);

    if (status != CRT_OK)
        fail_msg("%s", crt_error_detail());
    return file;
}

static void assert_wrong(const char *text, const char *detail)
{
    json_t *file = NULL;

    assert_int_equal(crti_cluster_file_parse("lab.yaml", text, strlen(text), &file),
                     CRT_ERR_INVALID);
    assert_null(file);
    assert_string_equal(crt_error_detail(), detail);
}

/* A member of a host as compact JSON. */
static void assert_host(const json_t *file, size_t index, const char *json)
{
    char *text = json_dumps(json_array_get(json_object_get(file, "hosts"), index),
                            JSON_COMPACT | JSON_SORT_KEYS);

    assert_string_equal(text, json);
    free(text);
}

static void assert_hosts(const char *text, const char *json)
{
    json_t *hosts = json_array();
    char *said;

    assert_int_equal(crti_cluster_hosts_add(text, hosts), CRT_OK);
    said = json_dumps(hosts, JSON_COMPACT);
    assert_string_equal(said, json);
    free(said);
    json_decref(hosts);
}

static void assert_no_hosts(const char *text, const char *detail)
{
    json_t *hosts = json_array();

    assert_int_equal(crti_cluster_hosts_add(text, hosts), CRT_ERR_INVALID);
    assert_string_equal(crt_error_detail(), detail);
    json_decref(hosts);
}

static void ranges_become_hosts_with_the_width_of_their_first_number(void **state)
{
    (void)state;
    assert_hosts("one", "[\"one\"]");
    assert_hosts("n[08-10]", "[\"n08\",\"n09\",\"n10\"]");
    assert_hosts("n[1-2,7,x].lan", "[\"n1.lan\",\"n2.lan\",\"n7.lan\",\"nx.lan\"]");
    assert_hosts("r[1-2]n[1-2]", "[\"r1n1\",\"r1n2\",\"r2n1\",\"r2n2\"]");
    assert_hosts("fe80::1%eth0", "[\"fe80::1%eth0\"]");
}

static void ranges_that_mean_nothing_are_refused(void **state)
{
    (void)state;
    assert_no_hosts("n[3-1]", "the range 3-1 runs backwards");
    assert_no_hosts("n[1-]", "\"1-\" is no range such as 01-16");
    assert_no_hosts("n[1-9999]", "the range 1-9999 has more than 4096 hosts");
    assert_no_hosts("n[0-4095][0-9]", "more than 4096 hosts");
    assert_no_hosts("n[", "\"[\" without a range and \"]\" behind it");
    assert_no_hosts("n[]", "\"[\" without a range and \"]\" behind it");
    assert_no_hosts("n[1,,2]", "an empty part between \"[\" and \"]\"");
    assert_no_hosts("n]", "\"n]\" is no name of a host: letters, digits and . _ - : %");
    assert_no_hosts("", "\"\" is no name of a host: letters, digits and . _ - : %");
}

/* ssh would take it for one of its options: a command that it runs, for example. */
static void a_host_is_never_an_option_of_ssh(void **state)
{
    (void)state;
    assert_no_hosts("-oProxyCommand=x", "\"-oProxyCommand=x\" is no name of a host: "
                                        "letters, digits and . _ - : %");
    assert_no_hosts("[-]x", "\"-\" is no range such as 01-16");
    assert_no_hosts("a b", "\"a b\" is no name of a host: letters, digits and . _ - : %");
    assert_no_hosts("a;b", "\"a;b\" is no name of a host: letters, digits and . _ - : %");
    assert_wrong("head: a\nssh:\n  user: -x\n", "lab.yaml:3:9: \"-x\" is no user");
}

static void the_shortest_file_is_a_head(void **state)
{
    json_t *file = parse("head: node1\n");

    (void)state;
    assert_int_equal(json_array_size(json_object_get(file, "hosts")), 1);
    assert_host(file, 0,
                "{\"environment\":{},\"group\":\"head\",\"head\":true,\"host\":\"node1\","
                "\"options\":[],\"setup\":[]}");
    assert_string_equal(json_string_value(json_object_get(file, "name")), "lab");
    assert_null(json_object_get(file, "crt"));
    assert_null(json_object_get(file, "folder"));
    json_decref(file);
}

static void the_folder_is_seen_from_the_file(void **state)
{
    json_t *file = parse("head: node1\nfolder: ../program\n");

    (void)state;
    assert_string_equal(json_string_value(json_object_get(file, "folder")),
                        "dir/../program");
    json_decref(file);
    assert_wrong("head: node1\nfolder: []\n",
                 "lab.yaml:2:9: folder is a text or a number, not a list");
}

static void groups_have_their_options_behind_what_all_hosts_have(void **state)
{
    json_t *file = parse("name: lab-2\n"
                         "crt: /opt/crt/bin/crt\n"
                         "parallel: 4\n"
                         "timeout: 2m\n"
                         "ssh: {user: me, port: 2222, options: [-F, config]}\n"
                         "environment: {A: 1, B: all}\n"
                         "setup: date\n"
                         "head:\n"
                         "  host: n1\n"
                         "  port: 7000\n"
                         "  no-auth: true\n"
                         "  redis-tls: false\n"
                         "hosts:\n"
                         "  - n[1-2]\n"
                         "groups:\n"
                         "  gpu:\n"
                         "    hosts: g1\n"
                         "    num_cpus: 8\n"
                         "    labels: {zone: a, disk: ssd}\n"
                         "    resources: tape=1\n"
                         "    environment: {B: own}\n"
                         "    setup: [make]\n");
    char *ssh = json_dumps(json_object_get(file, "ssh"), JSON_COMPACT);

    (void)state;
    assert_string_equal(ssh, "[\"-l\",\"me\",\"-p\",\"2222\",\"-F\",\"config\"]");
    free(ssh);
    assert_int_equal(json_integer_value(json_object_get(file, "timeout")), 120);
    assert_int_equal(json_integer_value(json_object_get(file, "parallel")), 4);
    assert_int_equal(json_array_size(json_object_get(file, "hosts")), 3);
    assert_host(file, 0,
                "{\"environment\":{\"A\":\"1\",\"B\":\"all\"},\"group\":\"head\","
                "\"head\":true,\"host\":\"n1\",\"options\":[\"--port\",\"7000\","
                "\"--no-auth\"],\"setup\":[\"date\"]}");
    assert_host(file, 1,
                "{\"environment\":{\"A\":\"1\",\"B\":\"all\"},\"group\":\"\","
                "\"head\":false,\"host\":\"n2\",\"options\":[],\"setup\":[\"date\"]}");
    assert_host(file, 2,
                "{\"environment\":{\"A\":\"1\",\"B\":\"own\"},\"group\":\"gpu\","
                "\"head\":false,\"host\":\"g1\",\"options\":[\"--num-cpus\",\"8\","
                "\"--labels\",\"zone=a,disk=ssd\",\"--resources\",\"tape=1\"],"
                "\"setup\":[\"date\",\"make\"]}");
    json_decref(file);
}

static void the_section_of_the_autoscaler_goes_to_the_head_as_it_is(void **state)
{
    json_t *file = parse("head: a\nautoscaler:\n  provider: {ssh: {hosts: [b]}}\n"
                         "  node_types:\n    s: {max: 2, num-cpus: 4, no-spill: true}\n");
    char *text =
        json_dumps(json_object_get(file, "autoscaler"), JSON_COMPACT | JSON_SORT_KEYS);

    (void)state;
    assert_string_equal(text,
                        "{\"node_types\":{\"s\":{\"max\":\"2\",\"no-spill\":\"true\","
                        "\"num-cpus\":\"4\"}},\"provider\":{\"ssh\":{\"hosts\":["
                        "\"b\"]}}}");
    free(text);
    json_decref(file);
    assert_wrong(
        "head: a\nautoscaler: {provider: aws}\n",
        "lab.yaml:2:24: provider is local, slurm, kubernetes, or a map: ssh: with hosts; "
        "slurm: with options; kubernetes: with deployments; or three commands ask, list "
        "and end; not \"aws\"");
    assert_wrong("head: a\nautoscaler: {provider: local}\n",
                 "lab.yaml:2:13: no node-types: which nodes there may be");
    assert_wrong(
        "head: {host: a, autoscaler: /r.yaml}\nautoscaler:\n  provider: local\n"
        "  node-types: {s: {max: 1, num-cpus: 1}}\n",
        "lab.yaml:1:7: autoscaler is there twice: as a path under head, and as a "
        "section");
}

static void an_unknown_key_is_told_with_the_nearest_one(void **state)
{
    (void)state;
    assert_wrong("head: a\nhsots: b\n",
                 "lab.yaml:2:1: unknown key \"hsots\"; the nearest one is hosts");
    assert_wrong("head: a\ngroups:\n  g:\n    hosts: b\n    num-cpu: 1\n",
                 "lab.yaml:5:5: unknown key \"num-cpu\"; the nearest one is num-cpus");
    assert_wrong("head: {host: a, prt: 1}\n",
                 "lab.yaml:1:17: unknown key \"prt\"; the nearest one is port");
    assert_wrong("head: a\nssh: {prot: 1}\n",
                 "lab.yaml:2:7: unknown key \"prot\"; the nearest one is port");
    assert_wrong("head: a\nzzzzzzzz: 1\n", "lab.yaml:2:1: unknown key \"zzzzzzzz\"");
    /* Options of crt start that a file says in another way. */
    assert_wrong("head: {host: a, key-file: k}\n",
                 "lab.yaml:1:17: key-file is what crt up sees to");
}

static void errors_have_line_and_column(void **state)
{
    (void)state;
    assert_wrong("head: a\nhosts: [b\n",
                 "lab.yaml:3:1: did not find expected ',' or ']' while parsing a flow "
                 "sequence");
    assert_wrong("hosts: a\n", "lab.yaml:1:1: no head: say by head: HOST where it runs");
    assert_wrong("head: a\nhead: b\n", "lab.yaml:2:1: head is there already, at line 1");
    assert_wrong("head: a\nhosts:\n  - b\n  - n[3-1]\n",
                 "lab.yaml:4:5: the range 3-1 runs backwards");
    assert_wrong("head: a\nhosts: {b: c}\n", "lab.yaml:2:8: hosts is a list, not a map");
    assert_wrong("- a\n", "lab.yaml:1:1: a cluster file is a map of KEY: VALUE");
    assert_wrong("", "lab.yaml: nothing is in it");
    assert_wrong("head: a\n---\nhead: b\n", "lab.yaml:2:1: a second document");
    assert_wrong("head: {host: a, num-cpus: many}\n",
                 "lab.yaml:1:27: num-cpus takes a number of 0 to 1000000000000, at most "
                 "four digits behind the point, not \"many\"");
    assert_wrong("head: {host: a, num-cpus: 1, num_cpus: 2}\n",
                 "lab.yaml:1:30: num-cpus is there already");
    assert_wrong("head: {host: a, no-auth: yes}\n",
                 "lab.yaml:1:26: no-auth is true or false");
    assert_wrong("head: a\ntimeout: soon\n",
                 "lab.yaml:2:10: timeout takes a time such as 90s or 10m, not \"soon\"");
    assert_wrong("head: a\nparallel: 0\n",
                 "lab.yaml:2:11: parallel takes 1 to 200, not \"0\"");
    assert_wrong(
        "head: a\nname: ../x\n",
        "lab.yaml:2:7: \"../x\" is no name of a cluster: letters, digits and . _ "
        "-, at most 63");
    assert_wrong("head: a\nenvironment: {1A: x}\n",
                 "lab.yaml:2:15: \"1A\" is no name of a variable");
}

static void what_belongs_elsewhere_is_refused(void **state)
{
    (void)state;
    assert_wrong("head: a\ngroups:\n  g: {hosts: b, port: 1}\n",
                 "lab.yaml:3:17: port belongs under head");
    assert_wrong(
        "head: a\ngroups:\n  g:\n    hosts: [b, c]\n    node-ip-address: 1.2.3.4\n",
        "lab.yaml:5:5: node-ip-address is that of a single host");
    assert_wrong("head: a\nhosts: [b, c, b]\n",
                 "lab.yaml:1:1: the host b is there twice");
    assert_wrong("head: a\nhosts: b\ngroups:\n  g: {hosts: b}\n",
                 "lab.yaml:4:3: the host b is there twice");
    assert_wrong("head: a\ngroups:\n  g: {num-cpus: 1}\n",
                 "lab.yaml:3:3: the group g has no hosts");
    assert_wrong("head: a[1-2]\n", "lab.yaml:1:7: the head is one host: host: NAME");
}

static void hosts_come_from_a_file_beside_the_cluster_file(void **state)
{
    char folder[] = "/tmp/crt-cluster-XXXXXX", path[64], cluster[64];
    static const char text[] = "head: n1\nhosts_address: hosts\n";
    json_t *file;
    FILE *list;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/hosts", folder);
    snprintf(cluster, sizeof(cluster), "%s/lab.yaml", folder);
    list = fopen(path, "w");
    assert_non_null(list);
    fputs("# all of them\nn1\n  n[2-3]   # racks\r\n\nn9", list);
    fclose(list);
    assert_int_equal(crti_cluster_file_parse(cluster, text, strlen(text), &file), CRT_OK);
    assert_int_equal(json_array_size(json_object_get(file, "hosts")), 4);
    json_decref(file);
    list = fopen(path, "w");
    assert_non_null(list);
    fputs("n1\nn 2\n", list);
    fclose(list);
    assert_int_equal(crti_cluster_file_parse(cluster, text, strlen(text), &file),
                     CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "/hosts:2:1: \"n 2\" is no name"));
    unlink(path);
    assert_int_equal(crti_cluster_file_parse(cluster, text, strlen(text), &file),
                     CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "lab.yaml:2:16: "));
    assert_non_null(strstr(crt_error_detail(), "No such file"));
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_become_hosts_with_the_width_of_their_first_number),
        cmocka_unit_test(ranges_that_mean_nothing_are_refused),
        cmocka_unit_test(a_host_is_never_an_option_of_ssh),
        cmocka_unit_test(the_shortest_file_is_a_head),
        cmocka_unit_test(the_folder_is_seen_from_the_file),
        cmocka_unit_test(groups_have_their_options_behind_what_all_hosts_have),
        cmocka_unit_test(the_section_of_the_autoscaler_goes_to_the_head_as_it_is),
        cmocka_unit_test(an_unknown_key_is_told_with_the_nearest_one),
        cmocka_unit_test(errors_have_line_and_column),
        cmocka_unit_test(what_belongs_elsewhere_is_refused),
        cmocka_unit_test(hosts_come_from_a_file_beside_the_cluster_file)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
