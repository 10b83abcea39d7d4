/* SPDX-License-Identifier: Apache-2.0 */
/* crt kubernetes: nodes of an autoscaler as pods of Deployments, one Deployment for each type.
 *
 * Where it sits
 *     crt-scaler (runtime/control/scaler_provider.c) -> crt kubernetes ask|list|end
 *         -> [ cli/kubernetes.c ] -> cli/kubernetes_server.c
 * Which pod is which instance
 *     A pod bears the name of its instance as an annotation, which is written when the pod is
 *     there; the head hears it as INSTANCE=POD on standard output. Nothing is kept on disk.
 * Rules
 *     The replicas of the Deployment are the autoscaler's. `ask` takes a pod that is no instance's,
 *     or has one made; `list` gives those that are nobody's a name, so that the head has them among
 *     its own. `end` marks the pod as the cheapest to delete before there is one replica less. It
 *     ends no pod of which the head does not know yet whether it has become a node: that is told
 *     first, and asked again.
 *     One command at a time, by a lock beside the cluster's key: each reads what the one before has
 *     changed. Somebody else who scales the Deployment meanwhile is noticed by its version.
 * Input
 *     The environment: CRT_KUBERNETES (scale_file.h), CRT_INSTANCE, CRT_NODE_TYPE, CRT_MACHINE,
 *     CRT_CLUSTER, CRT_KEY_FILE (a path).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "cli/kubernetes_server.h"
#include "cli/options.h"
#include "runtime/base/clock.h"

#define NAME       "crt kubernetes"
#define INSTANCE   "crt/instance" /* annotation */
#define COST       "controller.kubernetes.io/pod-deletion-cost"
#define LEAST_COST "-2147483648"
#define TRIES      5  /* when somebody else changes the Deployment */
#define PATIENCE_S 20 /* until a pod has come or goes */
#define LOOK_MS    200
#define PATH_MOST  1024

/* A Deployment as it was read. */
typedef struct deployment {
    const char *name;
    json_t *scale, *pods; /* owned; `pods`: those that stay */
    json_int_t replicas;
} deployment_t;

static struct {
    kubernetes_server_t *server;
    json_t *deployments; /* TYPE: NAME */
    const char *instance, *type, *machine, *cluster;
    int lock;
} self = {.lock = -1};

/* ---------------------------------------------------------------- what is there */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static const char *pod_name(const json_t *pod)
{
    return text_of(json_object_get(pod, "metadata"), "name");
}

/* "TYPE-CLUSTER-NUMBER" of this cluster; "": it is nobody's. */
static const char *instance_of(const json_t *pod)
{
    const json_t *metadata = json_object_get(pod, "metadata");
    const char *name = text_of(json_object_get(metadata, "annotations"), INSTANCE);
    const char *number = strrchr(name, '-');
    size_t size = strlen(self.cluster);

    return number && (size_t)(number - name) > size + 1 &&
                   number[-(ptrdiff_t)size - 1] == '-' &&
                   strncmp(number - size, self.cluster, size) == 0
               ? name
               : "";
}

/* It is being deleted, or has run to its end. */
static bool is_going(const json_t *pod)
{
    const char *phase = text_of(json_object_get(pod, "status"), "phase");

    return json_object_get(json_object_get(pod, "metadata"), "deletionTimestamp") ||
           strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
}

static void close_deployment(deployment_t *d)
{
    json_decref(d->scale);
    json_decref(d->pods);
    d->scale = d->pods = NULL;
}

static crt_status_t read_scale(deployment_t *d)
{
    char path[PATH_MOST];

    snprintf(path, sizeof(path), "/apis/apps/v1/namespaces/%s/deployments/%s/scale",
             crti_kubernetes_namespace(self.server), d->name);
    CRT_TRY(crti_kubernetes_get(self.server, path, NULL, &d->scale));
    d->replicas = json_integer_value(
        json_object_get(json_object_get(d->scale, "spec"), "replicas"));
    return CRT_OK;
}

/* Pods of others are no business of ours: without a selector there would be all of them. */
static crt_status_t read_pods(deployment_t *d)
{
    const char *selector = text_of(json_object_get(d->scale, "status"), "selector");
    char path[PATH_MOST];
    json_t *list, *pod;
    size_t i;

    if (!*selector)
        return crt_raise(CRT_ERR_IO, "the scale of Deployment %s has no selector",
                         d->name);
    snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods",
             crti_kubernetes_namespace(self.server));
    CRT_TRY(crti_kubernetes_get(self.server, path, selector, &list));
    d->pods = json_array();
    json_array_foreach(json_object_get(list, "items"), i,
                       pod) if (*pod_name(pod) && !is_going(pod))
        json_array_append(d->pods, pod);
    json_decref(list);
    return d->pods ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
}

static crt_status_t look(const char *name, deployment_t *d)
{
    close_deployment(d);
    d->name = name;
    CRT_TRY(read_scale(d));
    return read_pods(d);
}

/* The pod of that instance; "": one that is nobody's. NULL: there is none. */
static const json_t *find_pod(const deployment_t *d, const char *instance)
{
    json_t *pod;
    size_t i;

    json_array_foreach(d->pods, i,
                       pod) if (strcmp(instance_of(pod), instance) == 0) return pod;
    return NULL;
}

static const json_t *find_named(const deployment_t *d, const char *name)
{
    json_t *pod;
    size_t i;

    json_array_foreach(d->pods, i, pod) if (strcmp(pod_name(pod), name) == 0) return pod;
    return NULL;
}

/* ---------------------------------------------------------------- what is changed */

static crt_status_t annotate(const char *pod, const char *key, const char *value)
{
    char path[PATH_MOST];

    snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s",
             crti_kubernetes_namespace(self.server), pod);
    return crti_kubernetes_patch(
        self.server, path,
        json_pack("{s:{s:{s:s}}}", "metadata", "annotations", key, value));
}

/* Only from what was read: CRT_ERR_EXISTS when it is not so any more. */
static crt_status_t set_replicas(const deployment_t *d, json_int_t replicas)
{
    const json_t *metadata = json_object_get(d->scale, "metadata");
    char path[PATH_MOST];

    if (replicas == d->replicas)
        return CRT_OK;
    snprintf(path, sizeof(path), "/apis/apps/v1/namespaces/%s/deployments/%s/scale",
             crti_kubernetes_namespace(self.server), d->name);
    return crti_kubernetes_patch(
        self.server, path,
        json_pack("{s:{s:s}, s:{s:I}}", "metadata", "resourceVersion",
                  text_of(metadata, "resourceVersion"), "spec", "replicas", replicas));
}

static void tell(const char *instance, const char *pod)
{
    printf("%s=%s\n", instance, pod);
}

/* Such a pod may be the node of somebody: its name is written before it is told. */
static crt_status_t give_name(const char *pod, const char *instance)
{
    CRT_TRY(annotate(pod, INSTANCE, instance));
    tell(instance, pod);
    return CRT_OK;
}

/* ---------------------------------------------------------------- waiting */

/* Looks again until `is_so`, for PATIENCE_S. To be told of changes instead, the service account
 * would need one more right. CRT_ERR_TIMED_OUT without a detail. */
static crt_status_t look_until(deployment_t *d,
                               bool (*is_so)(const deployment_t *d, const char *pod),
                               const char *pod)
{
    int64_t end = crti_now_ms() + PATIENCE_S * 1000;

    while (!is_so(d, pod)) {
        if (crti_now_ms() > end)
            return CRT_ERR_TIMED_OUT;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
        CRT_TRY(look(d->name, d));
    }
    return CRT_OK;
}

static bool has_free(const deployment_t *d, const char *pod)
{
    (void)pod;
    return find_pod(d, "") != NULL;
}

static bool lacks(const deployment_t *d, const char *pod)
{
    return find_named(d, pod) == NULL;
}

/* ---------------------------------------------------------------- the verbs */

/* One pod more than there are instances. */
static crt_status_t make_room(deployment_t *d)
{
    crt_status_t status = set_replicas(d, (json_int_t)json_array_size(d->pods) + 1);

    if (status == CRT_OK)
        status = look_until(d, has_free, NULL);
    if (status != CRT_ERR_TIMED_OUT)
        return status;
    (void)set_replicas(d, (json_int_t)json_array_size(d->pods));
    return crt_raise(CRT_ERR_TIMED_OUT,
                     "no pod has come of Deployment %s within %d s; see kubectl describe "
                     "deployment %s: a quota, an image, or is it paused?",
                     d->name, PATIENCE_S, d->name);
}

static crt_status_t ask_once(deployment_t *d, const char *name)
{
    const json_t *mine;

    CRT_TRY(look(name, d));
    mine = find_pod(d, self.instance);
    if (mine) { /* asked for again */
        tell(self.instance, pod_name(mine));
        return CRT_OK;
    }
    if (!find_pod(d, ""))
        CRT_TRY(make_room(d));
    return give_name(pod_name(find_pod(d, "")), self.instance);
}

static crt_status_t end_once(deployment_t *d, const char *name)
{
    json_int_t rest;
    const json_t *mine;
    char *pod;
    crt_status_t status;

    CRT_TRY(look(name, d));
    mine = find_pod(d, self.instance);
    if (!mine)
        return CRT_OK;
    if (strcmp(self.machine, pod_name(mine)) != 0) {
        tell(self.instance, pod_name(mine));
        return crt_raise(CRT_ERR_BACKPRESSURE,
                         "it is pod %s, which may have become a node: that is looked at",
                         pod_name(mine));
    }
    pod = strdup(pod_name(mine));
    rest = (json_int_t)json_array_size(d->pods) - 1;
    status = pod ? annotate(pod, COST, LEAST_COST)
                 : crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    if (status == CRT_OK && d->replicas > rest)
        status = set_replicas(d, rest);
    if (status == CRT_OK)
        status = look_until(d, lacks, pod);
    if (status == CRT_ERR_TIMED_OUT)
        crt_raise(status, "Deployment %s has %lld replicas, and pod %s does not go", name,
                  (long long)d->replicas, pod);
    free(pod);
    return status;
}

static crt_status_t name_rest(deployment_t *d, const char *type)
{
    json_t *pod;
    size_t i;

    json_array_foreach(d->pods, i, pod)
    {
        char name[KUBERNETES_NAME];
        uint32_t number = 0;

        if (*instance_of(pod)) {
            tell(instance_of(pod), pod_name(pod));
            continue;
        }
        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
            return crt_raise(CRT_ERR_IO, "no random number: %s", strerror(errno));
        snprintf(name, sizeof(name), "%s-%s-%08x", type, self.cluster, (unsigned)number);
        CRT_TRY(give_name(pod_name(pod), name));
    }
    return CRT_OK;
}

static crt_status_t list_all(deployment_t *d)
{
    const char *type;
    json_t *name;

    json_object_foreach(self.deployments, type, name)
    {
        CRT_TRY(look(json_string_value(name), d));
        CRT_TRY(name_rest(d, type));
    }
    return CRT_OK;
}

/* ---------------------------------------------------------------- the command */

static crt_status_t take_lock(void)
{
    const char *key_file = getenv("CRT_KEY_FILE"), *slash = strrchr(key_file, '/');
    char path[PATH_MAX + 24];

    snprintf(path, sizeof(path), "%.*skubernetes.lock",
             slash ? (int)(slash + 1 - key_file) : 0, key_file);
    self.lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (self.lock < 0)
        return crt_raise(CRT_ERR_IO, "can't open %s: %s", path, strerror(errno));
    while (flock(self.lock, LOCK_EX) != 0)
        if (errno != EINTR)
            return crt_raise(CRT_ERR_IO, "can't lock %s: %s", path, strerror(errno));
    return CRT_OK;
}

static crt_status_t run(const char *verb)
{
    const char *name = json_string_value(json_object_get(self.deployments, self.type));
    deployment_t d = {0};
    crt_status_t status = CRT_ERR_EXISTS;

    if (strcmp(verb, "list") == 0)
        status = list_all(&d);
    else if (!name)
        status = crt_raise(CRT_ERR_INVALID, "node type %s has no Deployment", self.type);
    for (int i = 0; i < TRIES && status == CRT_ERR_EXISTS; i++)
        status = strcmp(verb, "ask") == 0 ? ask_once(&d, name) : end_once(&d, name);
    close_deployment(&d);
    return status;
}

int crti_cli_kubernetes(int argc, char **argv)
{
    const char *given = getenv("CRT_KUBERNETES");
    json_t *where = given ? json_loads(given, 0, NULL) : NULL;
    crt_status_t status;

    self.deployments = json_object_get(where, "deployments");
    self.instance = getenv("CRT_INSTANCE");
    self.type = getenv("CRT_NODE_TYPE");
    self.machine = getenv("CRT_MACHINE");
    self.cluster = getenv("CRT_CLUSTER");
    if (argc != 2 || !self.deployments || !self.instance || !self.type || !self.machine ||
        !self.cluster || !*self.cluster || !getenv("CRT_KEY_FILE") ||
        (strcmp(argv[1], "ask") != 0 && strcmp(argv[1], "end") != 0 &&
         strcmp(argv[1], "list") != 0)) {
        json_decref(where);
        return crti_cli_misused(NAME, "the autoscaler runs this");
    }
    status = take_lock();
    if (status == CRT_OK)
        status = crti_kubernetes_open(where, &self.server);
    if (status == CRT_OK)
        status = run(argv[1]);
    crti_kubernetes_close(self.server);
    if (self.lock >= 0)
        close(self.lock);
    json_decref(where);
    return status == CRT_OK ? 0 : crti_cli_fail_detail(NAME);
}
