/* SPDX-License-Identifier: Apache-2.0 */
/* The program that scaling.py runs on its hosts: one training of the emulated model.
 *
 *     scaling_program --mode MODE --workers N [--updates U] [--warm-up W] [--update-ms T]
 *                     [--bucket-bytes B]
 *
 * Prints one line of JSON. The cluster's nodes have resources host0, host1, ..., one each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "scaling_modes.h"

static const char *const modes[] = {"server", "sharded", "blocking", "overlapped"};

static scaling_options_t options = {
    .workers = 1, .updates = 100, .warm_up = 3, .update_ms = 117, .bucket_bytes = 0};

void scaling_must(crt_status_t status, const char *what)
{
    if (status == CRT_OK)
        return;
    fprintf(stderr, "scaling: %s: %s: %s\n", what, crt_status_text(status),
            crt_error_detail());
    exit(1);
}

void scaling_must_ref(crt_ref_t *ref)
{
    const crt_error_t *error = crt_ref_error(ref);

    if (!error)
        return;
    fprintf(stderr, "scaling: %s.%s on node %s: %s: %s\n", error->class_name,
            error->method, error->node, crt_status_text(error->status), error->text);
    exit(1);
}

/* All but idle time and waits for disks. */
static double busy_seconds(void)
{
    unsigned long long user = 0, nice = 0, system = 0, irq = 0, soft = 0, stolen = 0;
    FILE *file = fopen("/proc/stat", "r");

    if (file) {
        if (fscanf(file, "cpu %llu %llu %llu %*u %*u %llu %llu %llu", &user, &nice,
                   &system, &irq, &soft, &stolen) != 6)
            user = nice = system = irq = soft = stolen = 0;
        fclose(file);
    }
    return (double)(user + nice + system + irq + soft + stolen) /
           (double)sysconf(_SC_CLK_TCK);
}

scaling_time_t scaling_time_now(void)
{
    return (scaling_time_t){(double)scaling_now_ns() * 1e-9, busy_seconds()};
}

scaling_time_t scaling_time_since(scaling_time_t start)
{
    scaling_time_t now = scaling_time_now();

    return (scaling_time_t){now.seconds - start.seconds,
                            now.cpu_seconds - start.cpu_seconds};
}

const crt_actor_options_t *scaling_place(int number)
{
    static char resources[32];
    static crt_actor_options_t place = {.struct_size = sizeof(place),
                                        .resources = resources};

    snprintf(resources, sizeof(resources), "host%d=1", number);
    return &place;
}

static int driver(int argc, char **argv)
{
    bool has_servers = options.mode == SCALING_SERVER || options.mode == SCALING_SHARDED;
    scaling_time_t took =
        has_servers ? scaling_run_servers(&options) : scaling_run_allreduce(&options);

    printf("{\"mode\": \"%s\", \"workers\": %d, \"updates\": %d, \"seconds\": %.4f, "
           "\"update_ms\": %.3f, \"cpu_ms\": %.1f}\n",
           modes[options.mode], options.workers, options.updates, took.seconds,
           took.seconds / options.updates * 1e3,
           took.cpu_seconds / options.updates * 1e3);
    return 0;
}

static void set_mode(const char *text)
{
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (strcmp(text, modes[i]) == 0) {
            options.mode = (scaling_mode_t)i;
            return;
        }
    fprintf(stderr, "scaling: --mode %s\n", text);
    exit(2);
}

int main(int argc, char **argv)
{
    const char *mode = NULL;

    TAKE_OPTIONS(argc, argv, OPTION("mode", mode, 0, 0),
                 OPTION("workers", options.workers, 1, SCALING_HOSTS),
                 OPTION("updates", options.updates, 1, 1e6),
                 OPTION("warm-up", options.warm_up, 1, 1e6),
                 OPTION("update-ms", options.update_ms, 0, 1e6),
                 OPTION("bucket-bytes", options.bucket_bytes, 0, 1e9));
    if (mode)
        set_mode(mode);
    if (options.bucket_bytes == 0) /* as crt_buckets_new */
        options.bucket_bytes =
            options.workers > 16 ? (size_t)options.workers << 16 : 1 << 20;
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.classes = CRT_CLASSES(&scaling_server, &scaling_server_worker,
                                           &scaling_allreduce_worker)),
        driver);
}
