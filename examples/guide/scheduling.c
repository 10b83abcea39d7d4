/* SPDX-License-Identifier: Apache-2.0 */
/* Where tasks run: on which node, beside whom, on which GPU. */
#include <stdio.h>
#include <string.h>

#include <crt.h>

static crt_status_t where_run(crt_call_t *call)
{
    return crt_return(call, crt_node_id());
}
static const crt_task_t where =
    CRT_TASK(.name = "where", .run = where_run, .signature = "");

static crt_status_t gpus_run(crt_call_t *call)
{
    return crt_return(call, crt_gpu_ids()); /* as in CUDA_VISIBLE_DEVICES */
}
static const crt_task_t gpus = CRT_TASK(.name = "gpus", .run = gpus_run, .signature = "");

static void show(const char *what, crt_ref_t *ref)
{
    const char *node;
    crt_status_t status = crt_get(ref, &node);

    if (status == CRT_OK)
        printf("%s: %s\n", what, strcmp(node, crt_node_id()) == 0 ? "here" : node);
    else
        printf("%s: %s\n", what, crt_status_name(status));
    crt_ref_drop(&ref);
}

static int driver(int argc, char **argv)
{
    const char *gone = "0123456789abcdef0123456789abcdef";

    show("spread",
         crt_submit(&where, CRT_TASK_OPTIONS(.scheduling = CRT_SCHEDULE_SPREAD)));
    show("this node",
         crt_submit(&where, CRT_TASK_OPTIONS(.scheduling = CRT_SCHEDULE_NODE_AFFINITY,
                                             .node_id = crt_node_id())));
    show("a node that is gone",
         crt_submit(&where, CRT_TASK_OPTIONS(.scheduling = CRT_SCHEDULE_NODE_AFFINITY,
                                             .node_id = gone)));
    show("rather that node",
         crt_submit(&where, CRT_TASK_OPTIONS(.scheduling = CRT_SCHEDULE_NODE_AFFINITY,
                                             .node_id = gone, .node_is_soft = true)));
    show("in eu, or anywhere",
         crt_submit(&where, CRT_TASK_OPTIONS(.label_selector = "zone=eu",
                                             .fallback_selectors = "*")));
    show("in eu, or not at all",
         crt_submit(&where, CRT_TASK_OPTIONS(.label_selector = "zone=eu",
                                             .if_infeasible = CRT_INFEASIBLE_FAILS)));
    show("half of GPU", crt_submit(&gpus, CRT_TASK_OPTIONS(.num_gpus = 0.5)));
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.tasks = CRT_TASKS(&where, &gpus), .num_cpus = 2,
                                .resources = "GPU=1"),
                    driver);
}
