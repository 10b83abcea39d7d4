/* SPDX-License-Identifier: Apache-2.0 */
/* The list of variables of the environment: those that users set, and those that crt sets for what
 * it starts. `crt --help` prints the first ones; tests/tools/check_variables.py finds those that
 * are read and stand in neither list. Limits have variables, too: limit_list.h.
 *
 * V(name, who reads it, meaning)
 */
#ifndef CRTI_BASE_VARIABLES_LIST_H
#define CRTI_BASE_VARIABLES_LIST_H

#define CRTI_VARIABLES(V)                                                                \
    V(CRT_ADDRESS, "commands, programs",                                                 \
      "HOST:PORT of the cluster that is meant, like --address")                          \
    V(CRT_KEY_FILE, "commands, programs", "key file of the cluster, like --key-file")    \
    V(CRT_HTTP, "commands",                                                              \
      "https://HOST:PORT of the dashboard, on a host without a node, or unix:PATH (job " \
      "commands)")                                                                       \
    V(CRT_TOKEN, "commands", "token for CRT_HTTP; default: made from the key file")      \
    V(SSL_CERT_FILE, "commands",                                                         \
      "certificate authorities for CRT_HTTP without CRT_KEY_FILE")                       \
    V(CRT_RUN_DIR, "all",                                                                \
      "directory for sockets and locks; $XDG_RUNTIME_DIR/crt-UID or /tmp/crt-UID")       \
    V(CRT_STATE_DIR, "all",                                                              \
      "directory for keys, logs and tables; $XDG_STATE_HOME/crt or ~/.local/state/crt")  \
    V(CRT_CONFIG, "commands",                                                            \
      "configuration files, separated by ':'; /etc/crt/crt.conf and "                    \
      "~/.config/crt/crt.conf")                                                          \
    V(CRT_COLLECTIVE_ALGORITHM, "programs",                                              \
      "algorithms of groups between nodes, for example allreduce:ring,broadcast:tree")   \
    V(CRT_DEBUG_WORKER, "programs",                                                      \
      "class or task whose workers wait for a debugger before their first call")         \
    V(CRT_DEDUP_LOGS, "programs",                                                        \
      "1: a driver shows equal lines of several workers "                                \
      "once")                                                                            \
    V(CRT_JOB_PRIORITY, "programs", "weight of the job, like --priority of job submit")  \
    V(CRT_JOB_MAX_SHARE, "programs", "cap of the job, like --max-share of job submit")   \
    V(CRT_JOB_COPIES, "programs",                                                        \
      "copies of the job's values, like --copies of job submit")                         \
    V(CRT_JOB_NAMESPACE, "programs",                                                     \
      "namespace of the job, like --namespace of job submit")                            \
    V(CRT_LIBEXEC, "all", "directory of crt-head, crt-node and crt-http")                \
    V(CRT_LOG, "all", "what is logged, for example info,session=trace")                  \
    V(CRT_LOG_FORMAT, "all",                                                             \
      "json: each line that is logged is a JSON object; default text")                   \
    V(CRT_NVML_LIBRARY, "nodes",                                                         \
      "NVIDIA's library that tells a node its GPUs; default libnvidia-ml.so.1")          \
    V(CRT_CUDART_LIBRARY, "programs", "CUDA runtime for groups with the backend nccl")   \
    V(CRT_NCCL_LIBRARY, "programs", "NCCL for groups with the backend nccl")             \
    V(CRT_CUDA_DRIVER_LIBRARY, "programs", "CUDA driver for models; libcuda.so.1")       \
    V(CRT_CUBLAS_LIBRARY, "programs", "cuBLAS for models; libcublas.so.*")               \
    V(CRT_CUDNN_LIBRARY, "programs", "cuDNN for models; libcudnn.so.9")                  \
    V(CRT_NVRTC_LIBRARY, "programs", "NVRTC for models; libnvrtc.so.*")

/* Set by crt, or by its tests. */
#define CRTI_OWN_VARIABLES(V)                                                            \
    V(CRT_JOB, "programs", "a driver is that of the job with this id")                   \
    V(CRT_SUBMISSION, "programs", "submission id of that job, to be shown")              \
    V(CRT_JOB_PACKAGE, "nodes", "SHA-256 of the zip that the job came with")             \
    V(CRT_JOB_SETUP, "nodes", "command that is run once in each unpacked folder of it")  \
    V(CRT_JOB_DIRECTORY, "nodes", "where that folder lies on the driver's node")         \
    V(CRT_JOB_PIP, "nodes", "requirements from which pip makes its Python environment")  \
    V(CRT_JOB_UV, "nodes", "the same for uv")                                            \
    V(CRT_JOB_CONDA, "nodes", "name of the environment of conda that it runs in")        \
    V(CRT_JOB_PYTHON, "nodes", "where that environment lies on the driver's node")       \
    V(CRT_JOB_IMAGE, "nodes", "name of the image whose files its processes see")         \
    V(CRT_JOB_SETUP_SECONDS, "nodes", "time for the folder, and for what tools make")    \
    V(CRT_NODE_DIR, "programs", "run directory of the node that has started a process")  \
    V(CRT_NODE_SOCKET, "workers", "its socket")                                          \
    V(CRT_HEAD_DIR, "head", "by it the children of a head that was killed are found")    \
    V(CRT_ZYGOTE_FD, "workers", "descriptor by which a zygote hears of its node")        \
    V(CRT_WORKER, "workers", "id of the process that a worker is")                       \
    V(CRT_EXECUTE_WORKERS, "workers", "each worker is executed, none is forked")         \
    V(CRT_NODE_SETS_OMP, "workers", "OMP_NUM_THREADS is the node's, not the user's")     \
    V(CRT_RANKS, "programs", "how many processes crt run --ranks has started")           \
    V(CRT_RANKS_MARK, "programs",                                                        \
      "file that a rank removes when it has come to crt_main")                           \
    V(CRT_TAG_OUTPUT, "programs", "lines of ranks are shown with their rank")            \
    V(CRT_INSTANCE, "commands", "the node that the autoscaler asks for, or ends")        \
    V(CRT_NODE, "commands", "id of that node; empty: it has not joined")                 \
    V(CRT_NODE_TYPE, "commands", "its type")                                             \
    V(CRT_NODE_LABELS, "commands", "its labels")                                         \
    V(CRT_NODE_OPTIONS, "commands", "options of crt start for it")                       \
    V(CRT_KUBERNETES, "crt kubernetes", "where its Deployments are, JSON")               \
    V(CRT_MACHINE, "crt kubernetes", "the pod of the instance, as far as is known")      \
    V(CRT_CLUSTER, "crt kubernetes", "the part of names of instances that says whose")   \
    V(CRT_POOL, "commands", "hosts of which the autoscaler takes one for a node")        \
    V(CRT_CONTEXT, "programs",                                                           \
      "the program runs in the cluster that its option asked for")                       \
    V(CRT_UP, "commands", "by it crt down finds what crt up has started")                \
    V(CRT_TEST_HOST, "nodes", "a directory that plays the host's files, in tests")       \
    V(CRT_FAULT, "all", "number of a planted fault, in builds for that")

#endif
