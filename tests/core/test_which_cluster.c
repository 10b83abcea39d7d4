/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/client/cluster.c and core/process/daemon_path.c: which cluster is meant, where
 * daemons are. */
#include "crt_tools.h"
#include "runtime/crt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/base/rundir.h"
#include "runtime/net/key.h"

static char run[64];
static const char *key_file = "", *state_dir = "/nowhere/node-1"; /* of the next place */

static int make_run(void **state)
{
    strcpy(run, "/tmp/crt-clusters-XXXXXX");
    unsetenv("CRT_ADDRESS");
    unsetenv("CRT_KEY_FILE");
    unsetenv("CRT_STATE_DIR");
    unsetenv("CRT_NODE_DIR");
    return mkdtemp(run) && setenv("CRT_RUN_DIR", run, 1) == 0 ? 0 : -1;
}

static int remove_run(void **state)
{
    char command[96];

    snprintf(command, sizeof(command), "rm -rf %s", run);
    return system(command);
}

/* A directory with its info file; the descriptor of its lock, as if a daemon lived. */
static int make_place(const char *name, const char *address, const char *head_dir,
                      const char *http)
{
    char path[200];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", run, name);
    assert_int_equal(crti_dir_make(path), CRT_OK);
    assert_int_equal(crti_dir_lock(path, &fd), CRT_OK);
    snprintf(path, sizeof(path), "%s/%s/%s", run, name,
             strstr(name, "head-") ? "head.info" : "node.info");
    assert_int_equal(
        crti_info_write(path,
                        (crti_info_entry_t[]){{"address", address},
                                              {"pid", "77"},
                                              {"node", name},
                                              {"head_dir", head_dir},
                                              {"http", http},
                                              {"key_file", key_file},
                                              {"state_dir", state_dir},
                                              {"private", strchr(name, '/') ? "1" : "0"}},
                        8),
        CRT_OK);
    return fd;
}

/* Its watchdog still holds the lock. */
static void a_node_whose_daemon_was_killed_is_passed_over(void **state)
{
    int killed = make_place("node-1", "h:1", "", ""), other;
    crt_cluster_info_t info;
    char path[200], pid[24];

    snprintf(path, sizeof(path), "%s/node-1/node.info", run);
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    assert_int_equal(crti_info_write(path,
                                     (crti_info_entry_t[]){{"address", "h:1"},
                                                           {"pid", pid}, /* used again */
                                                           {"start", "1"},
                                                           {"node", "node-1"}},
                                     4),
                     CRT_OK);
    assert_int_equal(crt_cluster_find("h:1", sizeof(info), &info), CRT_ERR_NOT_FOUND);
    other = make_place("node-2", "h:1", "", "");
    assert_int_equal(crt_cluster_find("h:1", sizeof(info), &info), CRT_OK);
    assert_string_equal(info.node, "node-2");
    close(killed);
    close(other);
}

static void a_node_that_leaves_is_joined_only_when_there_is_no_other(void **state)
{
    int leaving = make_place("node-1", "h:1", "", ""), other;
    crt_cluster_info_t info;
    char path[200];

    snprintf(path, sizeof(path), "%s/node-1/node.info", run);
    assert_int_equal(crti_info_write(path,
                                     (crti_info_entry_t[]){{"address", "h:1"},
                                                           {"node", "node-1"},
                                                           {"leaving", "1"}},
                                     3),
                     CRT_OK);
    assert_int_equal(crt_cluster_find("h:1", sizeof(info), &info), CRT_OK);
    assert_string_equal(info.node, "node-1");
    other = make_place("node-2", "h:1", "", "");
    assert_int_equal(crt_cluster_find("h:1", sizeof(info), &info), CRT_OK);
    assert_string_equal(info.node, "node-2");
    close(leaving);
    close(other);
}

static void nothing_runs_at_first(void **state)
{
    crt_cluster_info_t info;

    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_ERR_NOT_FOUND);
    assert_non_null(strstr(crt_error_detail(), "crt start --head"));
}

static void the_only_living_cluster_is_meant(void **state)
{
    int node = make_place("node-1", "h:1", "", "");
    int dead = make_place("node-2", "h:2", "", "");
    crt_cluster_info_t info;

    close(dead);
    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_OK);
    assert_string_equal(info.address, "h:1");
    assert_string_equal(info.node, "node-1");
    assert_int_equal(info.pid, 77);
    assert_int_equal(crt_cluster_find("h:2", sizeof(info), &info), CRT_ERR_NOT_FOUND);
    close(node);
}

static void two_nodes_of_one_cluster_are_one_cluster(void **state)
{
    int a = make_place("node-1", "h:1", "", ""), b = make_place("node-2", "h:1", "", "");
    crt_cluster_info_t info, list[4];
    size_t count;

    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_OK);
    assert_int_equal(crt_cluster_list(list, sizeof(list[0]), 4, &count), CRT_OK);
    assert_int_equal(count, 2);
    assert_int_equal(crt_cluster_list(list, sizeof(list[0]), 1, &count),
                     CRT_OK); /* more than there is room for */
    assert_int_equal(count, 2);
    close(a);
    close(b);
}

static void of_several_clusters_one_must_be_named(void **state)
{
    int a = make_place("node-1", "h:1", "", ""), b = make_place("node-2", "h:2", "", "");
    crt_cluster_info_t info;

    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_ERR_EXISTS);
    assert_non_null(strstr(crt_error_detail(), "h:1"));
    assert_non_null(strstr(crt_error_detail(), "h:2"));
    assert_int_equal(crt_cluster_find("h:2", sizeof(info), &info), CRT_OK);
    setenv("CRT_ADDRESS", "h:1", 1);
    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_OK);
    assert_string_equal(info.address, "h:1");
    assert_int_equal(crt_cluster_find("h:2", sizeof(info), &info),
                     CRT_OK); /* what is said counts more */
    assert_string_equal(info.address, "h:2");
    close(a);
    close(b);
}

static void what_is_no_address_is_named(void **state)
{
    static const char *const wrong[] = {"nonsense", ":1",  "h:",    "h:0",
                                        "h:65536",  "h:x", "h:1/x", "http://h:1"};
    crt_cluster_info_t info;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(crt_cluster_find(wrong[i], sizeof(info), &info),
                         CRT_ERR_INVALID);
        assert_non_null(strstr(crt_error_detail(), wrong[i]));
        assert_non_null(strstr(crt_error_detail(), "HOST:PORT"));
    }
    setenv("CRT_ADDRESS", "nonsense", 1);
    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "CRT_ADDRESS"));
    assert_int_equal(crt_cluster_find("[::1]:6380", sizeof(info), &info),
                     CRT_ERR_NOT_FOUND);
}

static void a_private_cluster_is_never_meant_unless_it_is_named(void **state)
{
    int a = make_place("private-x/node-1", "h:1", "", "");
    crt_cluster_info_t info;

    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_ERR_NOT_FOUND);
    assert_int_equal(crt_cluster_find("h:1", sizeof(info), &info), CRT_OK);
    assert_true(info.is_private);
    close(a);
}

static void a_head_is_listed_where_it_has_no_node(void **state)
{
    char head_dir[96];
    int head = make_place("head-1", "h:1", "", "h:8265"), node;
    crt_cluster_info_t info;

    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_OK);
    assert_string_equal(info.run_dir, "");
    assert_string_equal(info.http, "h:8265");
    snprintf(head_dir, sizeof(head_dir), "%s/head-1", run);
    node = make_place("node-1", "h:1", head_dir, "old");
    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_OK);
    assert_string_equal(info.node, "node-1");
    assert_string_equal(info.http, "h:8265"); /* the head knows it best */
    close(head);
    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_OK);
    assert_string_equal(info.http, ""); /* the port may be a stranger's now */
    close(node);
}

static void a_search_finds_what_is_of_crt_state_dir_alone(void **state)
{
    int other = make_place("node-1", "h:1", "", ""), own;
    crt_cluster_info_t info;
    char path[96];

    setenv("CRT_STATE_DIR", run, 1);
    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_ERR_NOT_FOUND);
    assert_non_null(strstr(crt_error_detail(), run));
    assert_non_null(strstr(crt_error_detail(), "h:1"));
    assert_int_equal(crt_cluster_find("h:1", sizeof(info), &info),
                     CRT_OK); /* it was named */
    snprintf(path, sizeof(path), "%s/node-2", run);
    state_dir = path;
    own = make_place("node-2", "h:2", "", "");
    state_dir = "/nowhere/node-1";
    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_OK);
    assert_string_equal(info.address, "h:2");
    snprintf(path, sizeof(path), "%s/../%s/", run, strrchr(run, '/') + 1);
    setenv("CRT_STATE_DIR", path, 1); /* the same one, spelled otherwise */
    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_OK);
    assert_string_equal(info.address, "h:2");
    unsetenv("CRT_STATE_DIR");
    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_ERR_EXISTS);
    close(other);
    close(own);
}

static void a_node_that_joined_from_another_state_directory_is_its_heads_too(void **state)
{
    char head_dir[96], head_state[96];
    crt_cluster_info_t info;
    int head, node;

    snprintf(head_dir, sizeof(head_dir), "%s/head-1", run);
    snprintf(head_state, sizeof(head_state), "%s/head-1", run);
    state_dir = head_state;
    head = make_place("head-1", "h:1", "", "");
    state_dir = "/nowhere/node-1";
    node = make_place("node-1", "h:1", head_dir, "");
    setenv("CRT_STATE_DIR", run, 1);
    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_OK);
    assert_string_equal(info.node, "node-1");
    setenv("CRT_STATE_DIR", "/nowhere", 1);
    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_OK);
    assert_string_equal(info.node, "node-1");
    close(head);
    close(node);
}

static void make_key(char path[96], const char *name)
{
    crti_key_t key;

    snprintf(path, 96, "%s/%s", run, name);
    assert_int_equal(crti_key_create(path, &key), CRT_OK);
}

static void the_wrong_crt_key_file_is_refused_and_both_are_named(void **state)
{
    char its[96], same[96], wrong[96], command[256];
    crt_cluster_info_t info;
    int node;

    make_key(its, "its.key");
    make_key(wrong, "wrong.key");
    snprintf(same, sizeof(same), "%s/same.key", run);
    snprintf(command, sizeof(command), "cp -p %s %s", its, same);
    assert_int_equal(system(command), 0);
    key_file = its;
    node = make_place("node-1", "h:1", "", "");
    key_file = "";
    setenv("CRT_KEY_FILE", same, 1);
    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_OK);
    setenv("CRT_KEY_FILE", wrong, 1);
    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_ERR_PERMISSION);
    assert_non_null(strstr(crt_error_detail(), wrong));
    assert_non_null(strstr(crt_error_detail(), its));
    assert_int_equal(crt_cluster_find("h:1", sizeof(info), &info), CRT_ERR_PERMISSION);
    setenv("CRT_KEY_FILE", "/no/such.key", 1); /* a driver must not start its own then */
    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "/no/such.key"));
    close(node);
}

static void
what_a_node_executed_is_of_its_cluster_whatever_key_file_it_inherited(void **state)
{
    crt_cluster_info_t info;
    int node = make_place("node-1", "h:1", "", "");
    char own[96];

    snprintf(own, sizeof(own), "%s/node-1", run);
    setenv("CRT_NODE_DIR", own, 1);
    setenv("CRT_KEY_FILE", "/of/another/host.key", 1);
    assert_int_equal(crt_cluster_find(NULL, sizeof(info), &info), CRT_OK);
    close(node);
}

static void daemons_are_found_in_crt_libexec_alone_when_it_is_set(void **state)
{
    char path[256], file[128];
    FILE *out;

    setenv("CRT_LIBEXEC", run, 1);
    assert_int_equal(crti_daemon_path("crt-head", path, sizeof(path)), CRT_ERR_NOT_FOUND);
    assert_non_null(strstr(crt_error_detail(), run));
    snprintf(file, sizeof(file), "%s/crt-head", run);
    out = fopen(file, "we");
    fclose(out);
    assert_int_equal(crti_daemon_path("crt-head", path, sizeof(path)), CRT_ERR_NOT_FOUND);
    assert_int_equal(chmod(file, 0700), 0);
    assert_int_equal(crti_daemon_path("crt-head", path, sizeof(path)), CRT_OK);
    assert_string_equal(path, file);
    assert_int_equal(crti_daemon_path("crt-head", path, 4), CRT_ERR_NOT_FOUND);
    unsetenv("CRT_LIBEXEC");
    assert_int_equal(crti_daemon_path("crt-head", path, sizeof(path)),
                     CRT_OK); /* this tree's */
    assert_int_equal(crti_daemon_path("no-such-daemon", path, sizeof(path)),
                     CRT_ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_run, remove_run)
        TEST(a_node_that_leaves_is_joined_only_when_there_is_no_other),
        TEST(nothing_runs_at_first),
        TEST(a_node_whose_daemon_was_killed_is_passed_over),
        TEST(the_only_living_cluster_is_meant),
        TEST(two_nodes_of_one_cluster_are_one_cluster),
        TEST(of_several_clusters_one_must_be_named),
        TEST(what_is_no_address_is_named),
        TEST(a_private_cluster_is_never_meant_unless_it_is_named),
        TEST(a_head_is_listed_where_it_has_no_node),
        TEST(a_search_finds_what_is_of_crt_state_dir_alone),
        TEST(a_node_that_joined_from_another_state_directory_is_its_heads_too),
        TEST(the_wrong_crt_key_file_is_refused_and_both_are_named),
        TEST(what_a_node_executed_is_of_its_cluster_whatever_key_file_it_inherited),
        TEST(daemons_are_found_in_crt_libexec_alone_when_it_is_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
