/* SPDX-License-Identifier: Apache-2.0 */
/* A program with one option for its cluster, for test_contexts.py.
 *
 *     context_program [--cluster TEXT] [wait|fail|twice|leave|few]
 *
 * Prints the addresses of its cluster as lines "name value", and how many nodes there are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crt_cluster.h>
#include <crt_cluster_view.h>
#include <crt_define.h>

#define NODES 16

CRT_DEFINE_TASK(where, (int64_t, number))
{
    crt_cluster_info_t info;

    CRT_TRY(crt_context_info(sizeof(info), &info)); /* in a worker, too */
    return number < 0 ? CRT_ERR_USER : crt_return(call, info.node);
}

static void print_info(void)
{
    crt_cluster_info_t info;

    CRT_CHECK(crt_context_info(sizeof(info), &info));
    printf("address %s\nnode %s\nnode_ip %s\nhttp %s\nobject_store %s\ncontrol_store %s\n"
           "run_dir %s\nhead_dir %s\nstate_dir %s\nkey_file %s\n",
           info.address, info.node, info.node_ip, info.http, info.object_store,
           info.control_store, info.run_dir, info.head_dir, info.state_dir,
           info.key_file);
}

/* Of the cluster, after a task has told the node that it runs on. */
static int count_nodes(void)
{
    crt_node_info_t nodes[NODES];
    crt_ref_t *ref = where_submit(NULL, (int64_t)0);
    const char *node;
    size_t count;
    int alive = 0;

    CRT_CHECK(crt_get(ref, &node));
    CRT_CHECK(crt_nodes(nodes, sizeof(nodes[0]), NODES, &count));
    for (size_t i = 0; i < count && i < NODES; i++)
        alive += nodes[i].state == CRT_NODE_ALIVE;
    crt_ref_drop(&ref);
    return alive;
}

static int driver(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    char byte;

    print_info();
    printf("nodes %d\n", count_nodes());
    fflush(stdout);
    if (strcmp(word, "wait") == 0)
        while (read(STDIN_FILENO, &byte, 1) > 0)
            continue;
    if (strcmp(word, "leave") == 0)
        exit(0); /* without an orderly end */
    return strcmp(word, "fail") == 0 ? 7 : 0;
}

/* What happened, as a line. */
static void say(const char *what, crt_status_t status)
{
    printf("%s %s\n", what, status == CRT_OK ? "CRT_OK" : crt_status_name(status));
}

/* By hand, twice in one process. */
static int twice(int argc, char **argv, const char *cluster)
{
    crt_cluster_info_t info;

    say("info_before", crt_context_info(sizeof(info), &info));
    for (int i = 0; i < 2; i++) {
        say("start", crt_context_start(CRT_CONTEXT_OPTIONS(.cluster = cluster)));
        say("again", crt_context_start(CRT_CONTEXT_OPTIONS(.cluster = cluster)));
        say("any", crt_context_start(NULL));
        say("other", crt_context_start(CRT_CONTEXT_OPTIONS(.cluster = "local:3")));
        CRT_CHECK(crt_init(argc, argv, NULL));
        print_info();
        printf("nodes %d\n", count_nodes());
        say("stop", crt_context_stop()); /* leaves the cluster, too */
        say("stopped", crt_context_stop());
    }
    say("info_after", crt_context_info(sizeof(info), &info));
    CRT_CHECK(crt_context_start(CRT_CONTEXT_OPTIONS(.cluster = "local")));
    return 0; /* and is ended at exit */
}

int main(int argc, char **argv)
{
    const char *cluster = crt_context_option(&argc, argv, "--cluster");

    if (argc > 1 && strcmp(argv[1], "twice") == 0 && !getenv("CRT_WORKER") &&
        !getenv("CRT_ZYGOTE_FD"))
        return twice(argc, argv, cluster);
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.cluster = cluster,
                    .num_cpus = argc > 1 && strcmp(argv[1], "few") == 0 ? 2 : 0),
        driver);
}
