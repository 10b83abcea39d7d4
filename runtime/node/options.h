/* SPDX-License-Identifier: Apache-2.0 */
/* Command line of crt-node (docs/design/processes.md), checked. */
#ifndef CRTI_NODE_OPTIONS_H
#define CRTI_NODE_OPTIONS_H

#include "runtime/base/address.h"
#include "runtime/base/resources.h"
#include "runtime/base/scheduling.h"
#include "runtime/daemon/option.h"
#include "runtime/daemon/option_list.h"
#include "runtime/node/host/gpus.h"

#define CRTI_NODE_TABLE(O)                                                               \
    CRTI_HEAD_AND_NODE_OPTIONS(O)                                                        \
    CRTI_NODE_OPTIONS(O)                                                                 \
    CRTI_STARTED_OPTIONS(O)                                                              \
    CRTI_PRIVATE_OPTIONS(O)                                                              \
    CRTI_NODE_OWN_OPTIONS(O)

/* As they were given; texts are NULL, descriptors -1 and numbers 0 where the list has no default,
 * but `head_dir` is "" unless the head runs on this host, and `private_dir` unless the cluster is
 * private. */
typedef struct crti_node_given {
    CRTI_NODE_TABLE(CRTI_OPTION_FIELD)
} crti_node_given_t;

typedef struct crti_options {
    crti_node_given_t given;
    char node_ip[CRTI_ADDRESS]; /* "": the address by which the head sees this host */
    crti_resources_t resources;
    char labels[CRTI_LABELS_SIZE]; /* checked, "" none; the type of its GPUs among them */
    crti_gpus_t gpus;              /* as many as `resources` has */
    char gpu_trouble[512]; /* why their type is not known, "": it is, or nobody looked */
    unsigned ids_tried;    /* that were another node's, one after the other */
} crti_options_t;

/* `argv` must live as long as the options. CRT_ERR_INVALID names the option and the cure;
 * `given.ready_fd` is set also then. */
crt_status_t crti_options_parse(int argc, char **argv, crti_options_t *options_out);

#endif
