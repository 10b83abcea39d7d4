/* SPDX-License-Identifier: Apache-2.0 */
/* Asking NVML, which is opened when an error has to be told. See ml/cuda/holders.h. */
#include "ml/cuda/holders.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB       ((size_t)1 << 20)
#define MOST      64 /* processes that are asked for ... */
#define SHOWN     3  /* ... and told of, besides this one */
#define UNKNOWN   (~0ull)
#define BUS_ID    32
#define NAME_ROOM 32

/* As NVML declares it. */
typedef struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
} process_t;

typedef struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*device)(const char *bus_id, void **device_out);
    int (*processes)(void *device, unsigned *count, process_t *processes);
} nvml_t;

static bool find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);

    memcpy(function, &found, sizeof(found));
    return found != NULL;
}

/* Never closed: NVML may have threads of its own. */
static bool open_nvml(nvml_t *n)
{
    const char *chosen = getenv("CRT_NVML_LIBRARY");
    void *library = dlopen(chosen && *chosen ? chosen : "libnvidia-ml.so.1", RTLD_NOW);

    return library && find(library, "nvmlInit_v2", &n->init) &&
           find(library, "nvmlShutdown", &n->shutdown) &&
           find(library, "nvmlDeviceGetHandleByPciBusId_v2", &n->device) &&
           find(library, "nvmlDeviceGetComputeRunningProcesses_v3", &n->processes);
}

/* Processes that compute on a device; how many of them are known. */
static unsigned list(const char *bus_id, process_t *processes)
{
    nvml_t n;
    void *device;
    unsigned count = MOST;

    if (!open_nvml(&n) || n.init() != 0)
        return 0;
    if (n.device(bus_id, &device) != 0 || n.processes(device, &count, processes) != 0)
        count = 0;
    n.shutdown();
    return count;
}

static int by_size(const void *a, const void *b)
{
    const process_t *x = a, *y = b;

    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

/* The name of a program, or "": it may run in another container. */
static void name_of(unsigned pid, char *name)
{
    char path[48];
    FILE *file;
    size_t got = 0;

    snprintf(path, sizeof(path), "/proc/%u/comm", pid);
    file = fopen(path, "re");
    if (file) {
        got = fread(name, 1, NAME_ROOM - 1, file);
        (void)fclose(file);
    }
    name[got] = '\0';
    name[strcspn(name, "\n")] = '\0';
}

static size_t tell_process(const process_t *p, char *text, size_t room)
{
    char name[NAME_ROOM];
    int size;

    if (p->pid == (unsigned)getpid()) {
        size =
            snprintf(text, room, "; this process holds %zu MiB", (size_t)p->bytes / MIB);
    } else {
        name_of(p->pid, name);
        size =
            snprintf(text, room, "; process %u%s%s%s holds %zu MiB", p->pid,
                     *name ? " (" : "", name, *name ? ")" : "", (size_t)p->bytes / MIB);
    }
    return size < 0 ? 0 : (size_t)size < room ? (size_t)size : room - 1;
}

void crti_cuda_tell_memory(const crti_cuda_api_t *api, int device, char *text,
                           size_t room)
{
    process_t processes[MOST] = {0};
    char bus_id[BUS_ID] = "";
    size_t left = 0, total = 0, at;
    unsigned count, others = 0;
    int size;

    *text = '\0';
    if (api->cudaMemGetInfo(&left, &total) != cudaSuccess)
        return;
    size = snprintf(text, room, "%zu of %zu MiB are free", left / MIB, total / MIB);
    at = size < 0 || (size_t)size >= room ? 0 : (size_t)size;
    if (api->cudaDeviceGetPCIBusId(bus_id, BUS_ID, device) != cudaSuccess)
        return;
    count = list(bus_id, processes);
    qsort(processes, count, sizeof(*processes), by_size);
    for (unsigned i = 0; i < count; i++) {
        bool is_own = processes[i].pid == (unsigned)getpid();

        if (processes[i].bytes != UNKNOWN && (is_own || others++ < SHOWN))
            at += tell_process(&processes[i], text + at, room - at);
    }
}
