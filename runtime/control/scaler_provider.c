/* SPDX-License-Identifier: Apache-2.0 */
/* Providers of nodes. See scaler_provider.h. */
#include "runtime/control/scaler_provider.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/buffer.h"
#include "runtime/base/cleanup.h"
#include "runtime/control/autoscale/autoscaler.h"

struct crti_provider {
    const char *name;
    /* Makes the command of that verb; NULL: there is nothing to do. */
    void (*of[CRTI_PROVIDER_VERBS])(crti_provider_call_t *call);
};

/* ---------------------------------------------------------------- what commands are made of */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static void add_arg(crti_provider_call_t *c, const char *text)
{
    if (c->args < CRTI_PROVIDER_WORDS)
        c->argv[c->args++] = strdup(text ? text : "");
}

static void add_env(crti_provider_call_t *c, const char *name, const char *value)
{
    if (c->envs < CRTI_PROVIDER_WORDS &&
        asprintf(&c->env[c->envs], "%s=%s", name, value) >= 0)
        c->envs++;
}

static const json_t *type_of(const crti_provider_call_t *c)
{
    json_t *types = json_object_get(c->file, "node_types");

    for (size_t i = 0; i < json_array_size(types); i++)
        if (strcmp(text_of(json_array_get(types, i), "name"), c->type) == 0)
            return json_array_get(types, i);
    return NULL;
}

/* By which the head knows the node when it has joined. */
static void labels_of(const crti_provider_call_t *c, char *labels, size_t size)
{
    const char *own = text_of(type_of(c), "labels");

    snprintf(labels, size, "%s%s" CRTI_LABEL_INSTANCE "=%s," CRTI_LABEL_NODE_TYPE "=%s",
             own, *own ? "," : "", c->instance, c->type);
}

/* Of crt start, for a node of that type. */
static void add_options(crti_provider_call_t *c)
{
    const json_t *options = json_object_get(type_of(c), "options");
    char labels[2 * CRTI_LABELS_SIZE];

    for (size_t i = 0; i < json_array_size(options); i++)
        add_arg(c, json_string_value(json_array_get(options, i)));
    labels_of(c, labels, sizeof(labels));
    add_arg(c, "--labels");
    add_arg(c, labels);
}

/* ---------------------------------------------------------------- nodes of this host */

static void local_ask(crti_provider_call_t *c)
{
    add_arg(c, text_of(c->file, "crt"));
    add_arg(c, "start");
    add_arg(c, "--address");
    add_arg(c, text_of(c->setup, "address"));
    add_arg(c, "--key-file");
    add_arg(c, text_of(c->setup, "key_file"));
    add_options(c);
}

/* One that never joined ended with its crt start. */
static void local_end(crti_provider_call_t *c)
{
    if (!*c->node)
        return;
    add_arg(c, text_of(c->file, "crt"));
    add_arg(c, "stop");
    add_arg(c, "--address");
    add_arg(c, text_of(c->setup, "address"));
    add_arg(c, "--node");
    add_arg(c, c->node);
    add_arg(c, "--force");
}

/* ---------------------------------------------------------------- commands of the user's */

/* The options of crt start as one text, for a shell: none of them has a blank or a quote. */
static void options_of(crti_provider_call_t *c, crti_buffer_t *text)
{
    const json_t *options = json_object_get(type_of(c), "options");

    for (size_t i = 0; i < json_array_size(options); i++) {
        const char *option = json_string_value(json_array_get(options, i));

        if (i)
            crti_buffer_append(text, " ", 1);
        crti_buffer_append(text, option ? option : "", strlen(option ? option : ""));
    }
    crti_buffer_append(text, "", 1);
}

static void run_users(crti_provider_call_t *c)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t options = {0};
    char labels[2 * CRTI_LABELS_SIZE];

    add_arg(c, "/bin/sh");
    add_arg(c, "-c");
    add_arg(c, text_of(c->file, crti_provider_verb_name(c->verb)));
    add_env(c, "CRT_ADDRESS", text_of(c->setup, "address"));
    add_env(c, "CRT_KEY_FILE", text_of(c->setup, "key_file"));
    if (c->verb == CRTI_PROVIDER_LIST)
        return;
    labels_of(c, labels, sizeof(labels));
    options_of(c, &options);
    add_env(c, "CRT_INSTANCE", c->instance);
    add_env(c, "CRT_NODE_TYPE", c->type);
    add_env(c, "CRT_NODE", c->node);
    add_env(c, "CRT_NODE_LABELS", labels);
    add_env(c, "CRT_NODE_OPTIONS", options.data ? (const char *)options.data : "");
}

/* ---------------------------------------------------------------- a pool of hosts */

/* What crt pool has to know beside the order: the pool, and the options of the node. */
static void add_pool(crti_provider_call_t *c)
{
    json_t *pool = json_deep_copy(json_object_get(c->file, "pool"));
    json_t *options = json_deep_copy(json_object_get(type_of(c), "options"));
    char labels[2 * CRTI_LABELS_SIZE], *text;

    labels_of(c, labels, sizeof(labels));
    json_array_append_new(options, json_string("--labels"));
    json_array_append_new(options, json_string(labels));
    json_object_set_new(pool, "node_options", options ? options : json_array());
    text = json_dumps(pool, JSON_COMPACT);
    add_env(c, "CRT_POOL", text ? text : "");
    free(text);
    json_decref(pool);
}

static void run_pool(crti_provider_call_t *c)
{
    add_arg(c, text_of(c->file, "crt"));
    add_arg(c, "pool");
    add_arg(c, crti_provider_verb_name(c->verb));
    add_env(c, "CRT_ADDRESS", text_of(c->setup, "address"));
    add_env(c, "CRT_KEY_FILE", text_of(c->setup, "key_file"));
    add_env(c, "CRT_INSTANCE", c->instance);
    add_pool(c);
}

/* ---------------------------------------------------------------- jobs of Slurm */

/* One word of a shell's. */
static void append_word(crti_buffer_t *text, const char *word)
{
    crti_buffer_append(text, text->size ? " '" : "'", text->size ? 2 : 1);
    for (; *word; word++)
        if (*word == '\'')
            crti_buffer_append(text, "'\\''", 4);
        else
            crti_buffer_append(text, word, 1);
    crti_buffer_append(text, "'", 1);
}

/* What the job runs: crt start, which goes on until the node has ended. */
static void add_wrap(crti_provider_call_t *c)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t text = {0};
    const json_t *options = json_object_get(type_of(c), "options");
    const char *own = text_of(c->file, "slurm_key_file");
    char labels[2 * CRTI_LABELS_SIZE];
    const char *const words[] = {text_of(c->file, "crt"),
                                 "start",
                                 "--block",
                                 "--address",
                                 text_of(c->setup, "address"),
                                 "--key-file",
                                 *own ? own : text_of(c->setup, "key_file")};

    crti_buffer_append(&text, "exec", 4);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        append_word(&text, words[i]);
    for (size_t i = 0; i < json_array_size(options); i++)
        append_word(&text, json_string_value(json_array_get(options, i)));
    labels_of(c, labels, sizeof(labels));
    append_word(&text, "--labels");
    append_word(&text, labels);
    crti_buffer_append(&text, "", 1);
    add_arg(c, "--wrap");
    add_arg(c, text.data ? (const char *)text.data : "");
}

static void add_format(crti_provider_call_t *c, const char *format, const char *value)
{
    char text[256];

    snprintf(text, sizeof(text), "%s%s", format, value);
    add_arg(c, text);
}

/* Whole CPUs and GPUs: a job has no parts of them. */
static void add_amount(crti_provider_call_t *c, const char *option, const char *resource)
{
    const json_t *resources = json_object_get(type_of(c), "resources");
    double amount = json_number_value(json_object_get(resources, resource));
    char text[32];

    if (amount <= 0)
        return;
    snprintf(text, sizeof(text), "%lld", (long long)ceil(amount));
    add_format(c, option, text);
}

static void slurm_ask(crti_provider_call_t *c)
{
    const json_t *options = json_object_get(c->file, "slurm_options");

    add_arg(c, "sbatch");
    add_format(c, "--job-name=", c->instance);
    add_arg(c, "--nodes=1");
    add_arg(c, "--ntasks=1");
    add_arg(c, "--no-requeue"); /* another one is asked for */
    add_arg(c, "--output=/dev/null");
    add_amount(c, "--cpus-per-task=", "CPU");
    add_amount(c, "--gpus=", "GPU");
    for (size_t i = 0; i < json_array_size(options); i++)
        add_arg(c, json_string_value(json_array_get(options, i)));
    add_wrap(c);
}

static void add_user(crti_provider_call_t *c)
{
    char number[24];

    snprintf(number, sizeof(number), "%lu", (unsigned long)getuid());
    add_format(c, "--user=", number);
}

static void slurm_list(crti_provider_call_t *c)
{
    add_arg(c, "squeue");
    add_arg(c, "--noheader");
    add_arg(c, "--format=%j");
    add_arg(c, "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED");
    add_user(c);
}

static void slurm_end(crti_provider_call_t *c)
{
    add_arg(c, "scancel");
    add_user(c);
    add_format(c, "--name=", c->instance);
}

/* ---------------------------------------------------------------- pods of Kubernetes */

static void run_kubernetes(crti_provider_call_t *c)
{
    CRTI_AUTO(free)
    char *where = json_dumps(json_object_get(c->file, "kubernetes"), JSON_COMPACT);

    add_arg(c, text_of(c->file, "crt"));
    add_arg(c, "kubernetes");
    add_arg(c, crti_provider_verb_name(c->verb));
    add_env(c, "CRT_KEY_FILE", text_of(c->setup, "key_file"));
    add_env(c, "CRT_INSTANCE", c->instance);
    add_env(c, "CRT_NODE_TYPE", c->type);
    add_env(c, "CRT_MACHINE", c->machine);
    add_env(c, "CRT_CLUSTER", c->cluster);
    add_env(c, "CRT_KUBERNETES", where ? where : "");
    c->tells_machines = true;
}

static const crti_provider_t providers[] = {
    {"local",
     {[CRTI_PROVIDER_ASK] = local_ask,
      [CRTI_PROVIDER_END] = local_end,
      [CRTI_PROVIDER_LIST] = NULL}},
    {"ssh",
     {[CRTI_PROVIDER_ASK] = run_pool,
      [CRTI_PROVIDER_END] = run_pool,
      [CRTI_PROVIDER_LIST] = run_pool}},
    {"slurm",
     {[CRTI_PROVIDER_ASK] = slurm_ask,
      [CRTI_PROVIDER_END] = slurm_end,
      [CRTI_PROVIDER_LIST] = slurm_list}},
    {"kubernetes",
     {[CRTI_PROVIDER_ASK] = run_kubernetes,
      [CRTI_PROVIDER_END] = run_kubernetes,
      [CRTI_PROVIDER_LIST] = run_kubernetes}},
    {"commands",
     {[CRTI_PROVIDER_ASK] = run_users,
      [CRTI_PROVIDER_END] = run_users,
      [CRTI_PROVIDER_LIST] = run_users}},
};

const crti_provider_t *crti_provider_find(const char *name)
{
    for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++)
        if (strcmp(providers[i].name, name) == 0)
            return &providers[i];
    return NULL;
}

/* ---------------------------------------------------------------- the call */

void crti_provider_make_call(const crti_provider_t *provider, crti_provider_call_t *call)
{
    if (provider->of[call->verb])
        provider->of[call->verb](call);
}

void crti_provider_call_release(crti_provider_call_t *call)
{
    for (size_t i = 0; i < call->args; i++)
        free(call->argv[i]);
    for (size_t i = 0; i < call->envs; i++)
        free(call->env[i]);
}
