/* SPDX-License-Identifier: Apache-2.0 */
/* What calls need, and what there is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crt.h>

static crt_status_t where_run(crt_call_t *call)
{
    return crt_return(call, crt_node_id());
}
static const crt_task_t where =
    CRT_TASK(.name = "where", .run = where_run, .signature = "");

static int driver(int argc, char **argv)
{
    crt_ref_t *refs[2];
    const char *node;
    char *json;

    refs[0] =
        crt_submit(&where, CRT_TASK_OPTIONS(.num_cpus = 0.5, .resources = "disk=1"));
    CRT_CHECK(crt_get(refs[0], &node));
    printf("it ran on %s\n", strcmp(node, crt_node_id()) == 0 ? "this node" : "another");
    refs[1] = crt_submit(&where, CRT_TASK_OPTIONS(.resources = "disk=3"));
    printf("3 of 2: %s\n", crt_status_name(crt_get_for(refs[1], 200, &node)));
    CRT_CHECK(crt_cluster_state("nodes", &json));
    printf("the state names it: %s\n", strstr(json, "\"disk\"") ? "yes" : "no");
    crt_free(json);
    crt_refs_drop(refs, 2);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.tasks = CRT_TASKS(&where), .num_cpus = 2, .resources = "disk=2"),
        driver);
}
