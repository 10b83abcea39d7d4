/* SPDX-License-Identifier: Apache-2.0 */
/* The list of options of crt start and of the daemons. `crt start` parses its own, which files may
 * have as keys, and passes on those of the head and of the node; each daemon parses those that it
 * obeys into a field of the kind's type (option.h). --help is printed from here, and a test
 * compares the manual with it.
 *
 * O(field, name, letter, argument, kind, least, most, default, KEY or ONCE, help)
 * KEY: cluster files and autoscaler files may say it. ONCE: it is for the command line, as what it
 * says is said by files in another way, or not each time.
 */
#ifndef CRTI_DAEMON_OPTION_LIST_H
#define CRTI_DAEMON_OPTION_LIST_H

/* What crt start itself obeys. */
#define CRTI_START_OPTIONS(O)                                                            \
    O(head, "head", 0, NULL, FLAG, 0, 0, NULL, ONCE,                                     \
      "start a new cluster: its head and a node")                                        \
    O(address, "address", 'a', "HOST:PORT", ADDRESS, 0, 0, NULL, ONCE,                   \
      "join the cluster whose head is there")                                            \
    O(key_file, "key-file", 'k', "FILE", TEXT, 0, 0, NULL, ONCE,                         \
      "key of the cluster to join (CRT_KEY_FILE); with --head, that it is to have")      \
    O(block, "block", 0, NULL, FLAG, 0, 0, NULL, ONCE,                                   \
      "stay in the foreground; Ctrl-C ends what was started")                            \
    O(log_format, "log-format", 0, "text|json", CHOICE, 0, 0, "text", KEY,               \
      "of what the daemons log; json: an object each line")

/* With --head only. */
#define CRTI_START_HEAD_OPTIONS(O)                                                       \
    O(autoscaler, "autoscaler", 0, "FILE", TEXT, 0, 0, NULL, KEY,                        \
      "nodes come and go as work does, by the rules in this YAML file")

#define CRTI_HEAD_AND_NODE_OPTIONS(O)                                                    \
    O(node_ip_address, "node-ip-address", 0, "IP", TEXT, 0, 0, NULL, KEY,                \
      "address by which other hosts reach this one")

#define CRTI_NODE_OPTIONS(O)                                                             \
    O(num_cpus, "num-cpus", 0, "N", AMOUNT, 0, 0, NULL, KEY,                             \
      "CPUs of this node; default: those of the machine")                                \
    O(num_gpus, "num-gpus", 0, "N", WHOLE, 0, 64, NULL, KEY,                             \
      "GPUs of this node; default: those of CUDA_VISIBLE_DEVICES, or all that NVML has") \
    O(node_name, "node-name", 0, "NAME", TEXT, 0, 0, NULL, ONCE,                         \
      "what lists, logs and commands call this node; default: its host's name")          \
    O(labels, "labels", 0, "K=V,...", TEXT, 0, 0, NULL, KEY,                             \
      "labels of this node, by which tasks and actors choose it; the type of its GPUs "  \
      "is one")                                                                          \
    O(resources, "resources", 0, "K=V,...", RESOURCES, 0, 0, NULL, KEY,                  \
      "more resources of this node, for example tape=1,disk=2")                          \
    O(object_store_memory, "object-store-memory", 0, "BYTES", BYTES, 0, 1ULL << 50,      \
      NULL, KEY, "size of this node's object store; default 30 % of memory")             \
    O(spill_dir, "spill-dir", 0, "DIR,...", TEXT, 0, 0, NULL, KEY,                       \
      "where a store that fills writes objects; default: in the state directory")        \
    O(spill_limit, "spill-limit", 0, "BYTES", BYTES, 0, 1ULL << 60, NULL, KEY,           \
      "so much at most; default: as the disk has room, but for a twentieth")             \
    O(no_spill, "no-spill", 0, NULL, FLAG, 0, 0, NULL, KEY,                              \
      "all objects stay in memory: a full store is an error")                            \
    O(worker_port_range, "worker-port-range", 0, "LOW-HIGH", RANGE, 0, 0, NULL, KEY,     \
      "ports of workers; default: any free ones")

#define CRTI_HEAD_OPTIONS(O)                                                             \
    O(port, "port", 'p', "PORT", PORT, 0, 0, "6380", KEY, "port of the head")            \
    O(dashboard_host, "dashboard-host", 0, "HOST", TEXT, 0, 0, "127.0.0.1", KEY,         \
      "where the dashboard listens")                                                     \
    O(dashboard_port, "dashboard-port", 0, "PORT", PORT, 0, 0, "8265", KEY,              \
      "its port, 0: any free one")                                                       \
    O(dashboard_name, "dashboard-name", 0, "NAME", TEXT, 0, 0, NULL, KEY,                \
      "host by which others call it, as that of a proxy; default: this host's name")     \
    O(dashboard_cert, "dashboard-cert", 0, "FILE", TEXT, 0, 0, NULL, KEY,                \
      "its certificate, PEM; default: one that follows from the cluster's key")          \
    O(dashboard_key, "dashboard-key", 0, "FILE", TEXT, 0, 0, NULL, KEY,                  \
      "the key of --dashboard-cert, PEM")                                                \
    O(no_auth, "no-auth", 0, NULL, FLAG, 0, 0, NULL, KEY,                                \
      "the dashboard wants no token: every user of this host can run programs as you")   \
    O(max_running_jobs, "max-running-jobs", 0, "N", WHOLE, 0, 1000000, NULL, KEY,        \
      "submitted jobs that run at a time, others wait; default: any number")             \
    O(headless_timeout, "headless-timeout", 0, "SECONDS", WHOLE, 0, 1000000000, "600",   \
      KEY, "nodes end when the head is gone that long")                                  \
    O(encrypt_streams, "encrypt-streams", 0, "on|off", ON_OFF, 0, 0, "on", KEY,          \
      "encrypt the bytes of objects between hosts")                                      \
    O(fail_if_infeasible, "fail-if-infeasible", 0, "on|off", ON_OFF, 0, 0, "off", KEY,   \
      "what no node has the resources for fails; off: it waits for one")                 \
    O(on_resource_deadlock, "on-resource-deadlock", 0, "tell|fail-youngest", CHOICE, 0,  \
      0, "tell", KEY, "when jobs hold what each other waits for")                        \
    O(redis_address, "redis-address", 0, "HOST:PORT", ADDRESS, 0, 0, NULL, KEY,          \
      "keep the tables on this redis-server; default: one of its own")                   \
    O(redis_password_file, "redis-password-file", 0, "FILE", TEXT, 0, 0, NULL, KEY,      \
      "file with its password, readable by you alone")                                   \
    O(redis_user, "redis-user", 0, "NAME", TEXT, 0, 0, NULL, KEY,                        \
      "of its access list; default: its default user")                                   \
    O(redis_tls, "redis-tls", 0, NULL, FLAG, 0, 0, NULL, KEY,                            \
      "encrypt the way there, and check its certificate")                                \
    O(redis_ca_file, "redis-ca-file", 0, "FILE", TEXT, 0, 0, NULL, KEY,                  \
      "authorities of its certificate; default: those of this host")                     \
    O(redis_prefix, "redis-prefix", 0, "PREFIX", TEXT, 0, 0, NULL, KEY,                  \
      "of this cluster's keys there; default crt")                                       \
    O(redis_plaintext_ok, "redis-plaintext-ok", 0, NULL, FLAG, 0, 0, NULL, KEY,          \
      "it may be on another host: nothing encrypts the way there")                       \
    O(keep_tables, "keep-tables", 0, NULL, FLAG, 0, 0, NULL, KEY,                        \
      "a head that is ended leaves tables and nodes: the next start goes on with them")  \
    O(fresh, "fresh", 0, NULL, FLAG, 0, 0, NULL, ONCE,                                   \
      "forget what an earlier head on this port knew")

/* ---------------------------------------------------------------- what only daemons know */

/* Of one that the head, a command or a driver starts. */
#define CRTI_STARTED_OPTIONS(O)                                                          \
    O(ready_fd, "ready-fd", 0, "N", DESCRIPTOR, 0, 0, NULL, ONCE,                        \
      "where it says that it serves, or why it can't")

#define CRTI_PRIVATE_OPTIONS(O)                                                          \
    O(lifeline_fd, "lifeline-fd", 0, "N", DESCRIPTOR, 0, 0, NULL, ONCE,                  \
      "end of file there ends it: its starter is gone")                                  \
    O(private_dir, "private", 0, "DIR", TEXT, 0, 0, NULL, ONCE,                          \
      "directory of a private cluster")

#define CRTI_HEAD_OWN_OPTIONS(O)                                                         \
    O(key_file, "key-file", 0, "FILE", TEXT, 0, 0, NULL, ONCE,                           \
      "of the cluster; default: one that it makes")                                      \
    O(autoscaler_fd, "autoscaler-fd", 0, "N", DESCRIPTOR, 0, 0, NULL, ONCE,              \
      "a file with the rules of the autoscaler")                                         \
    O(no_dashboard, "no-dashboard", 0, NULL, FLAG, 0, 0, NULL, ONCE,                     \
      "crt-http is not started")

#define CRTI_NODE_OWN_OPTIONS(O)                                                         \
    O(address, "address", 'a', "HOST:PORT", ADDRESS, 0, 0, NULL, ONCE,                   \
      "of the head of the cluster to join")                                              \
    O(key_file, "key-file", 'k', "FILE", TEXT, 0, 0, NULL, ONCE, "of that cluster")      \
    O(head_dir, "head-dir", 0, "DIR", TEXT, 0, 0, NULL, ONCE,                            \
      "run directory of the head, where that is on this host")                           \
    O(share, "share", 0, "NODES", WHOLE, 1, 1024, "1", ONCE,                             \
      "so many nodes divide this host's CPUs and memory")

#define CRTI_HTTP_OPTIONS(O)                                                             \
    O(head_dir, "head-dir", 0, "DIR", TEXT, 0, 0, NULL, ONCE,                            \
      "run directory of the head")                                                       \
    O(programs, "programs", 0, "DIR", TEXT, 0, 0, NULL, ONCE,                            \
      "where programs and packages that are uploaded lie")                               \
    O(key_file, "key-file", 0, "FILE", TEXT, 0, 0, NULL, ONCE, "of the cluster")         \
    O(host, "host", 0, "HOST", TEXT, 0, 0, "127.0.0.1", ONCE,                            \
      "what --listen-fd was bound to")                                                   \
    O(name, "name", 0, "NAME", TEXT, 0, 0, "localhost", ONCE,                            \
      "host by which others call it")                                                    \
    O(listen_fd, "listen-fd", 0, "N", DESCRIPTOR, 0, 0, NULL, ONCE, "a TCP socket")      \
    O(local_fd, "local-fd", 0, "N", DESCRIPTOR, 0, 0, NULL, ONCE, "a unix socket")       \
    O(tls, "tls", 0, NULL, FLAG, 0, 0, NULL, ONCE,                                       \
      "with a certificate that follows from the cluster's key")                          \
    O(cert, "cert", 0, "FILE", TEXT, 0, 0, NULL, ONCE, "with this certificate, PEM")     \
    O(cert_key, "cert-key", 0, "FILE", TEXT, 0, 0, NULL, ONCE, "the key of --cert, PEM") \
    O(auth, "auth", 0, "token|none", CHOICE, 0, 0, "token", ONCE,                        \
      "what requests have to show")                                                      \
    O(log, "log", 0, "FILE", TEXT, 0, 0, NULL, ONCE, "where it logs")                    \
    O(instance, "instance", 0, "WORD", TEXT, 0, 0, NULL, ONCE,                           \
      "of the head: browsers that signed in stay so as long as it is the same")

/* A field of a struct, and the row of a daemon's table that sets it. */
#define CRTI_OPTION_FIELD(field, name, letter, argument, kind, least, most, standard,    \
                          key, help)                                                     \
    OPTION_TYPE_##kind field;
#define CRTI_OPTION_ROW(field, name, letter, argument, kind, least, most, standard, key, \
                        help)                                                            \
    {name, letter, argument, OPTION_##kind, &o->field, help, standard, least, most, true},

#endif
