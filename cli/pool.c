/* SPDX-License-Identifier: Apache-2.0 */
/* crt pool: nodes of an autoscaler on the hosts of a pool, by ssh, one node on each host.
 *
 * Where it sits
 *     crt-scaler (runtime/control/scaler_provider.c) -> crt pool ask|list|end -> [ cli/pool.c ]
 *                                                    -> cli/cluster.c, cli/ssh.c -> crt host
 * Which host has which instance
 *     pool.json beside the cluster's key, changed under a lock of pool.lock. A host is taken before
 *     it is asked and is free when it has been ended, so that two never get the same one, and one
 *     that can't be reached is not asked in vain: of free hosts the one whose last failure is
 *     longest ago comes first. What another cluster has left in the file is not ours.
 * Input
 *     The environment: CRT_POOL (the pool and the options of the node, JSON), CRT_INSTANCE,
 *     CRT_ADDRESS, CRT_KEY_FILE. The key goes by standard input of ssh.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "cli/cluster.h"
#include "cli/options.h"

#define NAME       "crt pool"
#define KEY_DIGITS 64

static struct {
    json_t *pool;  /* CRT_POOL */
    json_t *table; /* pool.json: {"cluster", "hosts": {HOST: {"instance", "failed"}}} */
    char path[PATH_MAX];
    int lock;
    const char *instance;
} self = {.lock = -1};

/* ---------------------------------------------------------------- the table */

static crt_status_t lock_table(void)
{
    const char *key_file = getenv("CRT_KEY_FILE"), *slash = strrchr(key_file, '/');
    char lock[PATH_MAX + 8];
    int folder = slash ? (int)(slash + 1 - key_file) : 0;

    snprintf(self.path, sizeof(self.path), "%.*spool.json", folder, key_file);
    snprintf(lock, sizeof(lock), "%.*spool.lock", folder, key_file);
    self.lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (self.lock < 0)
        return crt_raise(CRT_ERR_IO, "can't open %s: %s", lock, strerror(errno));
    while (flock(self.lock, LOCK_EX) != 0)
        if (errno != EINTR)
            return crt_raise(CRT_ERR_IO, "can't lock %s: %s", lock, strerror(errno));
    return CRT_OK;
}

static void unlock_table(void)
{
    if (self.lock >= 0)
        close(self.lock);
    self.lock = -1;
    json_decref(self.table);
    self.table = NULL;
}

/* TYPE-CLUSTER-NUMBER: the part in the middle; "" where it is no such name. */
static void cluster_of(const char *instance, char *cluster, size_t size)
{
    const char *end = strrchr(instance, '-'), *begin = end;

    while (begin && begin > instance && begin[-1] != '-')
        begin--;
    snprintf(cluster, size, "%.*s", begin ? (int)(end - begin) : 0, begin ? begin : "");
}

/* The table of this cluster; a list has no instance, and takes it as it is. */
static crt_status_t open_table(void)
{
    char cluster[64];
    const char *old;

    CRT_TRY(lock_table());
    self.table = json_load_file(self.path, 0, NULL);
    old = json_string_value(json_object_get(self.table, "cluster"));
    cluster_of(self.instance, cluster, sizeof(cluster));
    if (old && (!*self.instance || strcmp(old, cluster) == 0) &&
        json_is_object(json_object_get(self.table, "hosts")))
        return CRT_OK;
    json_decref(self.table);
    self.table = json_pack("{s:s, s:{}}", "cluster", cluster, "hosts");
    return self.table ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "the table of the pool");
}

static crt_status_t save_table(void)
{
    char next[PATH_MAX + 8];

    snprintf(next, sizeof(next), "%s.new", self.path);
    if (json_dump_file(self.table, next, JSON_INDENT(1)) != 0 ||
        rename(next, self.path) != 0)
        return crt_raise(CRT_ERR_IO, "can't write %s: %s", self.path, strerror(errno));
    return CRT_OK;
}

static json_t *row_of(const char *host)
{
    json_t *hosts = json_object_get(self.table, "hosts");
    json_t *row = json_object_get(hosts, host);

    if (row)
        return row;
    json_object_set_new(hosts, host,
                        json_pack("{s:s, s:I}", "instance", "", "failed", (json_int_t)0));
    return json_object_get(hosts, host);
}

static const char *instance_on(const char *host)
{
    const char *instance = json_string_value(json_object_get(row_of(host), "instance"));

    return instance ? instance : "";
}

/* The host of our instance in the table; NULL: there is none. */
static const char *find_host(void)
{
    const char *host;
    json_t *row;

    json_object_foreach(json_object_get(self.table, "hosts"), host, row)
    {
        const char *instance = json_string_value(json_object_get(row, "instance"));

        if (instance && strcmp(instance, self.instance) == 0)
            return host;
    }
    return NULL;
}

/* A free one, the one whose last failure is longest ago; NULL: all are taken. */
static const char *find_free(void)
{
    const json_t *hosts = json_object_get(self.pool, "hosts");
    const char *found = NULL;
    json_int_t oldest = 0;

    for (size_t i = 0; i < json_array_size(hosts); i++) {
        const char *host = json_string_value(json_array_get(hosts, i));
        json_int_t failed = json_integer_value(json_object_get(row_of(host), "failed"));

        if (*instance_on(host) || (found && failed >= oldest))
            continue;
        found = host;
        oldest = failed;
    }
    return found;
}

static void set_row(const char *host, const char *instance, bool has_failed)
{
    json_t *row = row_of(host);
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    json_object_set_new(row, "instance", json_string(instance));
    if (has_failed)
        json_object_set_new(
            row, "failed",
            json_integer((json_int_t)now.tv_sec * 1000 + now.tv_nsec / 1000000));
}

/* ---------------------------------------------------------------- a host by ssh */

/* A cluster file of that host alone. Its name is that of the instance: by it crt host finds what it
 * has started. */
static json_t *file_of(const char *host)
{
    json_t *file = json_pack(
        "{s:s, s:i, s:O, s:[{s:s, s:b, s:O, s:{}, s:O}]}", "name", self.instance,
        "parallel", 1, "ssh", json_object_get(self.pool, "ssh"), "hosts", "host", host,
        "head", 0, "options", json_object_get(self.pool, "node_options"), "environment",
        "setup", json_object_get(self.pool, "setup"));

    if (json_object_get(self.pool, "crt"))
        json_object_set(file, "crt", json_object_get(self.pool, "crt"));
    return file;
}

static crt_status_t add_key(json_t *request)
{
    char key[KEY_DIGITS + 8] = "";
    const char *path = getenv("CRT_KEY_FILE");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, key, sizeof(key) - 1) : -1;

    if (fd >= 0)
        close(fd);
    key[n > 0 ? strcspn(key, "\r\n") : 0] = '\0';
    json_object_set_new(request, "key", json_string(key));
    explicit_bzero(key, sizeof(key));
    return n > 0 ? CRT_OK
                 : crt_raise(CRT_ERR_IO, "can't read the key file %s: %s", path,
                             strerror(errno));
}

/* What crt host is to do there: "up" or "down". */
static crt_status_t prepare(cluster_t *c, const char *what)
{
    json_t *request = crti_cluster_request(c, 0, what);
    const json_t *host = json_array_get(c->hosts, 0);

    if (strcmp(what, "up") == 0) {
        json_object_set(request, "options", json_object_get(host, "options"));
        json_object_set(request, "setup", json_object_get(host, "setup"));
        json_object_set_new(request, "head", json_false());
        json_object_set_new(request, "others", json_true());
        json_object_set_new(request, "check", json_false());
        json_object_set_new(request, "address", json_string(getenv("CRT_ADDRESS")));
        if (add_key(request) != CRT_OK) {
            json_decref(request);
            return CRT_ERR_IO;
        }
    }
    return crti_cluster_prepare(c, 0, request);
}

/* Whether the host says that it did so; else why not, as the last line. */
static bool has_done(const ssh_run_t *run, const ssh_call_t *call, const char *host)
{
    json_t *answer = crti_ssh_answer(call);
    const char *error = json_string_value(json_object_get(answer, "error"));
    const char *did = json_string_value(json_object_get(answer, "did"));
    bool is_fine = call->is_refused && crti_hand_over_is_fine(call->words, &did);
    char reason[CLUSTER_REASON] = "", line[512] = "";
    bool is_done = (did && !error) || is_fine;

    if (!is_done && error && json_is_true(json_object_get(answer, "see_errors")))
        crti_ssh_last_line(call, line, sizeof(line));
    if (!is_done && !error)
        crti_ssh_reason(run, call, reason, sizeof(reason));
    if (!is_done)
        crti_cli_fail(NAME, "%s: %s%s%s", host, error ? error : reason,
                      error && *error && *line ? ": " : "", line);
    json_decref(answer);
    return is_done;
}

/* 0, or the exit status after a sentence. */
static int call_host(const char *host, const char *what, hand_over_mode_t mode)
{
    cluster_t c;
    int result = crti_cluster_open_object(&c, NAME, file_of(host));

    if (result == 0 && prepare(&c, what) != CRT_OK)
        result = crti_cli_fail_detail(NAME);
    if (result == 0) {
        ssh_run_t run = crti_cluster_run(&c);

        run.mode = mode;
        crti_ssh_run(&run, c.calls, 1);
        result = has_done(&run, &c.calls[0], host) ? 0 : CLI_FAILED;
    }
    crti_cluster_close(&c);
    return result;
}

/* ---------------------------------------------------------------- the verbs */

/* Takes a host; "" and the exit status after a sentence: there is none. */
static int take_host(char host[CLUSTER_REASON])
{
    crt_status_t status = open_table();
    const char *found = NULL;

    host[0] = '\0';
    if (status == CRT_OK) {
        found = find_host(); /* asked for again */
        found = found ? found : find_free();
        if (!found)
            status = crt_raise(CRT_ERR_NOT_FOUND, "all %zu hosts of the pool are taken",
                               json_array_size(json_object_get(self.pool, "hosts")));
    }
    if (status == CRT_OK) {
        snprintf(host, CLUSTER_REASON, "%s", found);
        set_row(host, self.instance, false);
        status = save_table();
    }
    unlock_table();
    return status == CRT_OK ? 0 : crti_cli_fail_detail(NAME);
}

static int free_host(const char *host, bool has_failed)
{
    crt_status_t status = open_table();

    if (status == CRT_OK) {
        set_row(host, "", has_failed);
        status = save_table();
    }
    unlock_table();
    return status == CRT_OK ? 0 : crti_cli_fail_detail(NAME);
}

static int ask(void)
{
    char host[CLUSTER_REASON];
    int result = take_host(host);

    if (result != 0)
        return result;
    result = call_host(host, "up", HAND_OVER_GIVES);
    if (result != 0)
        free_host(host, true); /* crt host has undone what it began */
    return result;
}

static int end(void)
{
    char host[CLUSTER_REASON] = "";
    crt_status_t status = open_table();
    const char *found = status == CRT_OK ? find_host() : NULL;
    int result;

    if (found)
        snprintf(host, sizeof(host), "%s", found);
    unlock_table();
    if (status != CRT_OK)
        return crti_cli_fail_detail(NAME);
    if (!*host)
        return 0;
    result = call_host(host, "down", HAND_OVER_ENDS);
    return result == 0 ? free_host(host, false) : result;
}

static int list(void)
{
    const char *host;
    json_t *row;
    crt_status_t status = open_table();

    json_object_foreach(json_object_get(self.table, "hosts"), host, row)
    {
        const char *instance = json_string_value(json_object_get(row, "instance"));

        if (instance && *instance)
            printf("%s\n", instance);
    }
    unlock_table();
    return status == CRT_OK ? 0 : crti_cli_fail_detail(NAME);
}

int crti_cli_pool(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } verbs[] = {{"ask", ask}, {"list", list}, {"end", end}};
    const char *pool = getenv("CRT_POOL"), *instance = getenv("CRT_INSTANCE");
    int result = CLI_USAGE;

    self.pool = pool ? json_loads(pool, 0, NULL) : NULL;
    self.instance = instance ? instance : "";
    unsetenv("CRT_POOL");
    if (argc != 2 || !self.pool || !getenv("CRT_ADDRESS") || !getenv("CRT_KEY_FILE"))
        return crti_cli_misused(NAME, "the autoscaler runs this");
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            result = verbs[i].run();
    json_decref(self.pool);
    return result;
}
