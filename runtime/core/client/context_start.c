/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster that a program starts for itself. See context_start.h. */
#include "runtime/core/client/context_start.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/address.h"
#include "runtime/base/copy_struct.h"
#include "runtime/core/client/cluster_place.h"
#include "runtime/core/client/context_command.h"
#include "runtime/core/client/context_text.h"
#include "runtime/core/client/private_cluster.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"

#define TEXT_MOST    256
#define HEAD_SERVICE "crt-head" /* of packaging/kubernetes */
#define HEAD_PORT    "6380"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Under the lock. */
static struct {
    bool runs;
    bool is_ours; /* `cluster` ends with the context */
    bool is_at_exit;
    pid_t owner; /* the process that started it, not a child of fork */
    char text[TEXT_MOST];
    char run_dir[96]; /* of the node to join */
    crti_private_cluster_t cluster;
} context;

/* ---------------------------------------------------------------- what this process is */

static bool is_worker(void)
{
    return getenv("CRT_WORKER") || getenv("CRT_ZYGOTE_FD");
}

/* The cluster that has started this process is its own, whatever its arguments say: they were
 * written for the process that asked for that cluster. */
static bool is_inside(void)
{
    return getenv(CRTI_CONTEXT_VARIABLE) || getenv("CRT_NODE_DIR") || getenv("CRT_JOB") ||
           getenv("CRT_RANKS");
}

static bool has_joined(void)
{
    crti_core_t *core = crti_is_forked() ? NULL : crti_enter_quiet();

    if (core)
        crti_leave(core);
    return core != NULL;
}

/* ---------------------------------------------------------------- the end */

static void end_cluster(void)
{
    if (context.is_ours && context.owner == getpid())
        crti_private_cluster_stop(&context.cluster);
    context.runs = context.is_ours = false;
}

/* A program that has not left its cluster needs nothing: the daemons end with the process. */
static void at_exit(void)
{
    if (context.owner != getpid() || has_joined())
        return;
    pthread_mutex_lock(&lock);
    if (context.runs)
        end_cluster();
    pthread_mutex_unlock(&lock);
}

crt_status_t crti_context_end(void)
{
    if (is_worker())
        return crt_raise(CRT_ERR_INVALID, "a worker can't end its cluster");
    pthread_mutex_lock(&lock);
    if (context.runs)
        end_cluster();
    pthread_mutex_unlock(&lock);
    return CRT_OK;
}

/* ---------------------------------------------------------------- the modes */

static crt_status_t make(const crti_private_spec_t *spec)
{
    crt_status_t status = crti_private_cluster_make(spec, &context.cluster);

    if (status != CRT_OK)
        return status;
    context.is_ours = true;
    snprintf(context.run_dir, sizeof(context.run_dir), "%s",
             context.cluster.nodes[0].run_dir);
    if (!context.is_at_exit)
        atexit(at_exit);
    context.is_at_exit = true;
    return CRT_OK;
}

static crt_status_t start_local(const crti_context_text_t *text,
                                const crt_context_options_t *options)
{
    crti_private_spec_t spec = {.nodes = text->nodes ? text->nodes : 1,
                                .num_cpus = text->num_cpus,
                                .resources = options->resources,
                                .store_bytes = options->object_store_memory,
                                .has_dashboard = true};

    if (!text->num_cpus && options->num_cpus > 0)
        spec.num_cpus = options->num_cpus / spec.nodes;
    /* As by crt run: with a part of one no node could run what wants a CPU. */
    if (spec.nodes > 1 && spec.num_cpus > 0 && spec.num_cpus < 1)
        spec.num_cpus = 1;
    return make(&spec);
}

static crt_status_t take_node(const crt_cluster_info_t *info)
{
    if (!info->run_dir[0])
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "the cluster %s has no node on this host: crt start "
                         "--address=%s",
                         info->address, info->address);
    snprintf(context.run_dir, sizeof(context.run_dir), "%s", info->run_dir);
    return CRT_OK;
}

/* Where this host has no node of it, one without CPUs joins: it is for this program alone. */
static crt_status_t join_address(const char *address)
{
    const char *key_file = getenv("CRT_KEY_FILE");
    crti_private_spec_t spec = {
        .nodes = 1, .num_cpus = -1, .address = address, .key_file = key_file};
    crt_cluster_info_t info;
    crt_status_t status = crt_cluster_find(address, sizeof(info), &info);

    if (status == CRT_OK && info.run_dir[0])
        return take_node(&info);
    if (status != CRT_OK && status != CRT_ERR_NOT_FOUND)
        return status;
    if (key_file && *key_file)
        return make(&spec);
    return crt_raise(CRT_ERR_NOT_FOUND,
                     "no node of the cluster %s runs on this host: join it by crt start "
                     "--address %s --key-file FILE, or name the file of its key in "
                     "CRT_KEY_FILE for a node that ends with the program",
                     address, address);
}

/* The port that Kubernetes gives to the pods of the Service's namespace in a variable, unless the
 * Service has no address of its own: NAME_SERVICE_PORT, in capitals. */
static const char *service_port(const char *service)
{
    char name[TEXT_MOST + 16];
    const char *port;

    snprintf(name, sizeof(name), "%s_SERVICE_PORT", service);
    for (char *at = name; *at; at++)
        *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
    port = getenv(name);
    return port && *port ? port : HEAD_PORT;
}

/* In a pod: the head's Service, by the name that it has there. */
static crt_status_t join_kubernetes(const char *service)
{
    const char *inside = getenv("KUBERNETES_SERVICE_HOST");
    const char *key_file = getenv("CRT_KEY_FILE");
    char address[TEXT_MOST + 16], canonical[CRTI_ADDRESS], why[256];

    service = *service ? service : HEAD_SERVICE;
    if (!inside || !*inside)
        return crt_raise(
            CRT_ERR_NOT_FOUND,
            "this is no pod of Kubernetes (KUBERNETES_SERVICE_HOST is not "
            "set): run the program in one, or hand it in as a job by crt job "
            "submit");
    if (!key_file || !*key_file)
        return crt_raise(
            CRT_ERR_NOT_FOUND,
            "CRT_KEY_FILE is not set: mount the Secret with the cluster's key, "
            "and name its file there");
    snprintf(address, sizeof(address), "%s:%s", service, service_port(service));
    if (crti_address_resolve(address, canonical) != CRT_OK) {
        snprintf(why, sizeof(why), "%s", crt_error_detail());
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "no Service of Kubernetes is at %s (%s): name the head's by "
                         "kubernetes:SERVICE.NAMESPACE",
                         address, why);
    }
    return join_address(address);
}

/* As a program does that says nothing of clusters. */
static crt_status_t find_or_make(const crti_context_text_t *text,
                                 const crt_context_options_t *options)
{
    const char *address = getenv("CRT_ADDRESS");
    crt_cluster_info_t info;
    crt_status_t status = crt_cluster_find(NULL, sizeof(info), &info);

    if (status == CRT_OK)
        return take_node(&info);
    if (status != CRT_ERR_NOT_FOUND || (address && *address))
        return status;
    return start_local(text, options);
}

static crt_status_t find_own(void)
{
    crt_cluster_info_t info;
    crt_status_t status = crt_cluster_find(NULL, sizeof(info), &info);

    return status == CRT_OK ? take_node(&info) : status;
}

/* ---------------------------------------------------------------- start */

static crt_status_t start(const crt_context_options_t *options)
{
    crti_context_text_t text;
    crt_status_t status = crti_context_text_read(options->cluster, &text);

    if (status != CRT_OK)
        return status;
    if (is_inside())
        return find_own();
    switch (text.mode) {
    case CRTI_CONTEXT_FOUND: return find_or_make(&text, options);
    case CRTI_CONTEXT_LOCAL: return start_local(&text, options);
    case CRTI_CONTEXT_ADDRESS: return join_address(text.where);
    case CRTI_CONTEXT_KUBERNETES: return join_kubernetes(text.where);
    case CRTI_CONTEXT_FILE:
        return crti_context_become_file(text.where, options->argc, options->argv);
    case CRTI_CONTEXT_SLURM:
        return crti_context_become_slurm(text.nodes, options->argc, options->argv);
    }
    return CRT_OK;
}

/* One that runs is enough, unless another one is asked for by name. */
static crt_status_t start_once(const crt_context_options_t *options)
{
    const char *text = options->cluster ? options->cluster : "";
    crt_status_t status;

    if (context.runs && context.owner != getpid())
        return crt_raise(CRT_ERR_FORKED, "the context is that of the parent process");
    if (context.runs && *text && strcmp(text, context.text) != 0)
        return crt_raise(CRT_ERR_EXISTS,
                         "the program has the cluster \"%s\": end that one first",
                         context.text);
    if (context.runs)
        return CRT_OK;
    if (strlen(text) >= sizeof(context.text))
        return crt_raise(CRT_ERR_TOO_LARGE, "a cluster has at most %d bytes",
                         TEXT_MOST - 1);
    context.owner = getpid();
    status = start(options);
    context.runs = status == CRT_OK;
    if (context.runs)
        snprintf(context.text, sizeof(context.text), "%s", text);
    return status;
}

crt_status_t crt_context_start(const crt_context_options_t *options)
{
    crt_context_options_t given;
    crt_status_t status = CRTI_COPY_STRUCT(&given, options, "CRT_CONTEXT_OPTIONS");

    if (status != CRT_OK || is_worker())
        return status;
    pthread_mutex_lock(&lock);
    if (!context.runs && has_joined())
        status = crt_raise(
            CRT_ERR_EXISTS,
            "the program is in a cluster already: start the context before it joins");
    else
        status = start_once(&given);
    pthread_mutex_unlock(&lock);
    return status;
}

crt_status_t crti_context_of_options(int argc, char **argv, const crt_options_t *options)
{
    if (options->address && *options->address)
        return crt_raise(CRT_ERR_INVALID, "the options have an address and a cluster: "
                                          "give one of them");
    return crt_context_start(
        CRT_CONTEXT_OPTIONS(.cluster = options->cluster, .argc = argc, .argv = argv,
                            .num_cpus = options->num_cpus,
                            .resources = options->resources,
                            .object_store_memory = options->object_store_memory));
}

/* ---------------------------------------------------------------- what is there */

bool crti_context_runs(void)
{
    bool runs;

    pthread_mutex_lock(&lock);
    runs = context.runs && context.owner == getpid();
    pthread_mutex_unlock(&lock);
    return runs;
}

crt_status_t crti_context_cluster(crt_cluster_info_t *info_out)
{
    crt_status_t status;

    pthread_mutex_lock(&lock);
    status = crti_cluster_place(context.run_dir, info_out);
    pthread_mutex_unlock(&lock);
    return status;
}

/* That of the context, or that which was found without one. */
static crt_status_t find_info(crt_cluster_info_t *info_out)
{
    crti_core_t *core = crti_is_forked() ? NULL : crti_enter_quiet();
    char run_dir[sizeof(info_out->run_dir)];

    if (core) {
        snprintf(run_dir, sizeof(run_dir), "%s", core->run_dir);
        crti_leave(core);
        return crti_cluster_place(run_dir, info_out);
    }
    if (crti_context_runs())
        return crti_context_cluster(info_out);
    return crt_raise(CRT_ERR_NOT_FOUND, "the program has no cluster yet");
}

crt_status_t crt_context_info(size_t info_size, crt_cluster_info_t *info_out)
{
    crt_cluster_info_t info;

    if (!info_out || info_size < CRTI_SIZE_TO(crt_cluster_info_t, is_private))
        return crt_raise(CRT_ERR_INVALID,
                         "a crt_cluster_info_t of %zu bytes: give sizeof of it",
                         info_size);
    CRT_TRY(find_info(&info));
    crti_give_struct(info_out, info_size, &info, sizeof(info));
    return CRT_OK;
}

/* ---------------------------------------------------------------- the option of a program */

/* The value of the argument; NULL: it is another one. `*words_out` is how many it takes. */
static const char *value_of(char **argv, const char *name, int *words_out)
{
    size_t length = strlen(name);

    *words_out = 1;
    if (strncmp(argv[0], name, length) != 0)
        return NULL;
    if (argv[0][length] == '=')
        return argv[0] + length + 1;
    if (argv[0][length])
        return NULL;
    *words_out = argv[1] ? 2 : 1;
    return argv[1] ? argv[1] : ""; /* which is refused as a cluster */
}

const char *crt_context_option(int *argc, char **argv, const char *name)
{
    const char *value = NULL;
    int kept = 0, words = 1;

    for (int i = 0; i < *argc; i += words) {
        const char *found = NULL;

        words = 1;
        if (i > 0 && strcmp(argv[i], "--") == 0)
            words = *argc - i; /* operands */
        else if (i > 0)
            found = value_of(&argv[i], name, &words);
        if (found)
            value = found;
        for (int k = 0; !found && k < words; k++)
            argv[kept++] = argv[i + k];
    }
    argv[kept] = NULL;
    *argc = kept;
    return value;
}
