/* SPDX-License-Identifier: Apache-2.0 */
/* Command line of crt-node (docs/design/processes.md), checked. */
#ifndef CRTI_NODE_OPTIONS_H
#define CRTI_NODE_OPTIONS_H

#include "runtime/base/address.h"
#include "runtime/base/resources.h"
#include "runtime/base/scheduling.h"
#include "runtime/node/host/gpus.h"

typedef struct crti_options {
    const char *address; /* of the head, as given */
    const char *key_file;
    char node_ip[CRTI_ADDRESS]; /* "": the address by which the head sees this host */
    const char *head_dir;       /* "" unless the head runs on this host */
    const char *private_dir;    /* "" or the directory of a private cluster */
    int ready_fd;               /* -1: none */
    int lifeline_fd;            /* -1: none */
    unsigned share; /* this host's CPUs and memory are divided by so many nodes */
    crti_resources_t resources;
    char labels[CRTI_LABELS_SIZE]; /* checked, "" none; the type of its GPUs among them */
    crti_gpus_t gpus;              /* as many as `resources` has */
    char gpu_trouble[512]; /* why their type is not known, "": it is, or nobody looked */
    uint64_t store_bytes;  /* 0: chosen by the host's memory */
    const char *
        spill_dirs; /* DIR[,DIR]; "": below the state directory; NULL: nothing is spilled */
    uint64_t spill_limit; /* bytes; 0: as much as there is room */
    uint16_t port_low, port_high;
    unsigned ids_tried; /* that were another node's, one after the other */
} crti_options_t;

/* `argv` must live as long as the options. CRT_ERR_INVALID names the option and the cure. */
crt_status_t crti_options_parse(int argc, char **argv, crti_options_t *options_out);

/* The number behind --ready-fd, also when the rest is wrong; -1: none. */
int crti_options_ready_fd(int argc, char **argv);

#endif
