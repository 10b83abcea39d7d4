/* SPDX-License-Identifier: Apache-2.0 */
/* Many actors of one node: how fast they come, what each costs, what they cost when they are idle.
 *
 *     many_actors [--actors N] [--idle-actors N] [--idle SECONDS] [--touch GIB]
 *
 * Two clusters, one after the other: with --idle-actors (1000) that were called once the processor
 * time of everything is measured for --idle seconds (10); with --actors (10000), created and called
 * once as fast as it goes, rate, memory, threads and open files. 0 leaves a part out. No process
 * opens more than 1.5 files for a worker where they are scarce: `ulimit -Hn` has to be above that.
 *
 * "bare" is what the operating system takes for as many processes of this very program: forked,
 * with a pidfd in their parent, and a byte from each. It is measured before everything else.
 *
 * The host of a virtual machine takes free memory back, and its return takes seconds per GiB: more
 * than 10,000 workers need otherwise. --touch writes to so much of it before each measurement, so
 * that what is measured is this system; the line that it prints says how fast memory came.
 *
 * Memory of a worker is what is its own (Private_Clean + Private_Dirty of smaps_rollup) and its
 * share (Pss), of SAMPLE of them; "of the machine" is what MemAvailable lost, for each actor: the
 * kernel's part and that of the daemons is in it.
 */
#include <crt.h>

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "options.h"
#include "own_cluster.h"

#define SAMPLE        200
#define SETTLE_S      3 /* what the calls left to do */
#define FILES_PER     1.5
#define FILES_BESIDES 200

static crt_status_t answer_run(void *self, crt_call_t *call)
{
    return crt_return(call, 42);
}

static const crt_method_t answer =
    CRT_METHOD(.name = "answer", .run = answer_run, .signature = "");
static const crt_actor_class_t echo_class =
    CRT_ACTOR_CLASS(.name = "Echo", .size = 1, .methods = CRT_METHODS(&answer));

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---------------------------------------------------------------- processes */

typedef struct process {
    int pid, parent, threads;
    int kind; /* KIND_... */
    char name[32];
} process_t;

enum { KIND_OTHER, KIND_DRIVER, KIND_DAEMON, KIND_ZYGOTE, KIND_WORKER };

static process_t *processes;
static size_t process_count;

static bool read_process(int pid, process_t *p)
{
    char path[64], line[512], *name, *rest;
    FILE *file;
    bool ok;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    file = fopen(path, "re");
    ok = file && fgets(line, sizeof(line), file);
    if (file)
        fclose(file);
    name = ok ? strchr(line, '(') : NULL;
    rest = name ? strrchr(name, ')') : NULL;
    if (rest == NULL)
        return false;
    *p = (process_t){.pid = pid};
    *rest = '\0';
    snprintf(p->name, sizeof(p->name), "%.31s", name + 1);
    return sscanf(rest + 1,
                  " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                  "%d",
                  &p->parent, &p->threads) == 2;
}

static process_t *find(int pid)
{
    for (size_t i = 0; i < process_count; i++)
        if (processes[i].pid == pid)
            return &processes[i];
    return NULL;
}

/* The daemons are children of this process, redis-server is of the head, the zygote of the node
 * daemon, the workers of the zygote. */
static int kind_of(const process_t *p, const char *own)
{
    const process_t *parent = p->pid == getpid() ? NULL : find(p->parent);

    if (p->pid == getpid())
        return KIND_DRIVER;
    if (parent == NULL || parent->kind == KIND_OTHER)
        return KIND_OTHER;
    if (strcmp(p->name, own) != 0)
        return KIND_DAEMON;
    return parent->kind == KIND_ZYGOTE ? KIND_WORKER : KIND_ZYGOTE;
}

static int by_pid(const void *a, const void *b)
{
    return ((const process_t *)a)->pid - ((const process_t *)b)->pid;
}

/* Everything that belongs to this cluster. A child's number is above its parent's, or it has
 * gone round: then it is not found. */
static void look_around(void)
{
    DIR *proc = opendir("/proc");
    char own[32] = "";
    size_t room = 0;

    free(processes);
    processes = NULL;
    process_count = 0;
    for (const struct dirent *e; proc && (e = readdir(proc)) != NULL;) {
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        if (process_count == room) {
            room = room ? 2 * room : 1024;
            processes = realloc(processes, room * sizeof(*processes));
            if (processes == NULL)
                exit(1);
        }
        process_count += read_process(atoi(e->d_name), &processes[process_count]);
    }
    if (proc)
        closedir(proc);
    qsort(processes, process_count, sizeof(*processes), by_pid);
    if (find(getpid()))
        snprintf(own, sizeof(own), "%s", find(getpid())->name);
    for (int depth = 0; depth < 4; depth++)
        for (size_t i = 0; i < process_count; i++)
            if (processes[i].kind == KIND_OTHER)
                processes[i].kind = kind_of(&processes[i], own);
}

/* ---------------------------------------------------------------- what they use */

/* The sum of the lines of /proc/PID/FILE that begin with one of two words, in KiB. */
static long kib_of(int pid, const char *name, const char *word, const char *other)
{
    char path[64], line[256];
    long sum = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, word, strlen(word)) == 0)
            sum += atol(line + strlen(word));
        else if (strncmp(line, other, strlen(other)) == 0)
            sum += atol(line + strlen(other));
    }
    if (file)
        fclose(file);
    return sum;
}

static int count_entries(int pid, const char *name)
{
    char path[64];
    DIR *dir;
    int count = 0;

    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        count += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return count;
}

/* The fullest table of files that it has: threads of the node daemon have their own. */
static int count_files(int pid)
{
    char path[64], table[96];
    int most = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        int count;

        if (e->d_name[0] == '.')
            continue;
        snprintf(table, sizeof(table), "task/%.16s/fd", e->d_name);
        count = count_entries(pid, table);
        most = count > most ? count : most;
    }
    if (dir)
        closedir(dir);
    return most;
}

/* Processor time of all its threads that live, in seconds. */
static double cpu_of(int pid)
{
    char path[128];
    double sum = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        unsigned long long ns;
        FILE *file;

        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/proc/%d/task/%.16s/schedstat", pid, e->d_name);
        file = fopen(path, "re");
        if (file && fscanf(file, "%llu", &ns) == 1)
            sum += (double)ns / 1e9;
        if (file)
            fclose(file);
    }
    if (dir)
        closedir(dir);
    return sum;
}

static double cpu_of_kind(int kind)
{
    double sum = 0;

    for (size_t i = 0; i < process_count; i++)
        if (processes[i].kind == kind)
            sum += cpu_of(processes[i].pid);
    return sum;
}

static long available_kib(void)
{
    char line[128];
    long kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");

    while (file && fgets(line, sizeof(line), file))
        sscanf(line, "MemAvailable: %ld", &kib);
    if (file)
        fclose(file);
    return kib;
}

static int touch_option; /* GiB */

static void touch_memory(void)
{
    size_t size = (size_t)touch_option << 30;
    double begin = now_s();
    char *memory;

    if (size == 0)
        return;
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        exit(1);
    for (size_t at = 0; at < size; at += 4096)
        memory[at] = 1;
    munmap(memory, size);
    printf("memory: %d GiB touched in %.1f s\n", touch_option, now_s() - begin);
    fflush(stdout);
}

/* ---------------------------------------------------------------- actors */

static void sleep_s(double s)
{
    struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};

    while (nanosleep(&t, &t) != 0)
        continue;
}

/* The handles of a part: its actors live as long as these. */
static crt_actor_t **actors;
static int actor_count;

/* Creates and calls all. */
static double make_actors(int count)
{
    crt_ref_t **refs = calloc((size_t)count, sizeof(*refs));
    double begin, seconds;

    actors = calloc((size_t)count, sizeof(*actors));
    actor_count = count;
    if (actors == NULL || refs == NULL)
        exit(1);
    begin = now_s();
    for (int i = 0; i < count; i++) {
        actors[i] = crt_actor_new(&echo_class, NULL);
        refs[i] = crt_call(actors[i], &answer);
    }
    for (int i = 0; i < count; i++) {
        int64_t value = 0;

        CRT_CHECK(crt_get(refs[i], &value));
    }
    seconds = now_s() - begin;
    crt_refs_drop(refs, (size_t)count);
    free(refs);
    return seconds;
}

static void drop_actors(void)
{
    for (int i = 0; i < actor_count; i++)
        crt_actor_drop(&actors[i]);
    free(actors);
}

static int by_size(const void *a, const void *b)
{
    return (*(const long *)a > *(const long *)b) - (*(const long *)a < *(const long *)b);
}

static long median(long *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), by_size);
    return count ? values[count / 2] : 0;
}

static void print_workers(void)
{
    static long own[SAMPLE], share[SAMPLE], tables[SAMPLE], files[SAMPLE];
    int workers = 0, threads = 0, taken = 0, most = 0;

    for (size_t i = 0; i < process_count; i++) {
        if (processes[i].kind != KIND_WORKER)
            continue;
        workers++;
        threads += processes[i].threads;
        most = processes[i].threads > most ? processes[i].threads : most;
    }
    for (size_t i = 0, seen = 0; i < process_count && taken < SAMPLE; i++) {
        int pid = processes[i].pid;

        if (processes[i].kind != KIND_WORKER ||
            seen++ * SAMPLE / (size_t)(workers > SAMPLE ? workers : SAMPLE) <
                (size_t)taken)
            continue;
        own[taken] = kib_of(pid, "smaps_rollup", "Private_Clean:", "Private_Dirty:");
        share[taken] = kib_of(pid, "smaps_rollup", "Pss:", "-");
        tables[taken] = kib_of(pid, "status", "VmPTE:", "-");
        files[taken++] = count_entries(pid, "fd");
    }
    printf("  %d workers, %.3f threads each (at most %d), %ld files\n", workers,
           workers ? (double)threads / workers : 0, most, median(files, taken));
    printf("  memory of a worker: %ld KiB of its own, %ld KiB with its share, %ld KiB of "
           "page tables\n",
           median(own, taken), median(share, taken), median(tables, taken));
}

static void print_others(void)
{
    for (size_t i = 0; i < process_count; i++) {
        const process_t *p = &processes[i];

        if (p->kind != KIND_DRIVER && p->kind != KIND_DAEMON && p->kind != KIND_ZYGOTE)
            continue;
        printf("  %-14s %8ld KiB (%ld KiB of its own), %d threads, %d files in a table, "
               "%.2f s of "
               "processor time\n",
               p->kind == KIND_DRIVER   ? "driver"
               : p->kind == KIND_ZYGOTE ? "zygote"
                                        : p->name,
               kib_of(p->pid, "status", "VmRSS:", "-"),
               kib_of(p->pid, "smaps_rollup", "Private_Clean:", "Private_Dirty:"),
               p->threads, count_files(p->pid), cpu_of(p->pid));
    }
}

static int count_option = 10000, idle_option = 1000;
static double seconds_option = 10;

static void measure_idle(void)
{
    double workers, daemons, driver, begin, seconds;

    make_actors(idle_option);
    sleep_s(SETTLE_S);
    look_around();
    begin = now_s();
    workers = cpu_of_kind(KIND_WORKER);
    daemons = cpu_of_kind(KIND_DAEMON) + cpu_of_kind(KIND_ZYGOTE);
    driver = cpu_of_kind(KIND_DRIVER);
    sleep_s(seconds_option);
    workers = cpu_of_kind(KIND_WORKER) - workers;
    daemons = cpu_of_kind(KIND_DAEMON) + cpu_of_kind(KIND_ZYGOTE) - daemons;
    driver = cpu_of_kind(KIND_DRIVER) - driver;
    seconds = now_s() - begin;
    printf(
        "%d idle actors for %.1f s: %.2f %% of a core (workers %.2f, daemons %.2f), and "
        "this program %.2f with its measuring\n",
        idle_option, seconds, 100 * (workers + daemons) / seconds,
        100 * workers / seconds, 100 * daemons / seconds, 100 * driver / seconds);
    print_workers();
}

static void measure_many(void)
{
    long before;
    double seconds;

    touch_memory();
    before = available_kib();
    seconds = make_actors(count_option);

    sleep_s(SETTLE_S);
    printf("%d actors created and called once in %.2f s: %.0f/s; %ld KiB of the machine "
           "for each\n",
           count_option, seconds, count_option / seconds,
           (before - available_kib()) / count_option);
    look_around();
    print_workers();
    print_others();
}

static void raise_limits(int most)
{
    struct rlimit files;
    rlim_t wanted = (rlim_t)(most * FILES_PER) + FILES_BESIDES;

    getrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_max < wanted) {
        struct rlimit more = {wanted, wanted};

        if (setrlimit(RLIMIT_NOFILE, &more) == 0)
            return;
        printf(
            "only %llu open files are allowed here (ulimit -Hn), %d actors need %llu\n",
            (unsigned long long)files.rlim_max, most, (unsigned long long)wanted);
    }
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

/* ---------------------------------------------------------------- bare */

static void be_bare(int told, int hold)
{
    char byte = 'x';

    if (write(told, &byte, 1) == 1 && read(hold, &byte, 1) >= 0)
        _exit(0);
    _exit(1);
}

/* Until all have said their byte. */
static int fork_bare(int count, pid_t *pids, const int told[2], const int hold[2])
{
    char bytes[4096];
    int made = 0, heard = 0;

    while (made < count) {
        pid_t pid = fork();

        if (pid == 0) {
            close(hold[1]);
            be_bare(told[1], hold[0]);
        }
        if (pid < 0)
            break;
        pids[made++] = pid;
    }
    while (heard < made) {
        ssize_t got = read(told[0], bytes, sizeof(bytes));

        if (got <= 0)
            break;
        heard += (int)got;
    }
    return made;
}

static void measure_bare(int count)
{
    pid_t *pids = calloc((size_t)count, sizeof(*pids));
    int told[2], hold[2], made;
    double begin = now_s(), middle;

    if (pids == NULL || pipe(told) != 0 || pipe(hold) != 0)
        exit(1);
    made = fork_bare(count, pids, told, hold);
    for (int i = 0; i < made; i++) /* in the end: a child would have a copy of each */
        pids[i] = (int)syscall(SYS_pidfd_open, pids[i], 0);
    middle = now_s();
    close(hold[1]); /* all end */
    for (int i = 0; i < made; i++)
        close(pids[i]);
    while (wait(NULL) > 0)
        continue;
    printf("bare: %d processes of this program in %.2f s: %.0f/s; ended in %.1f s\n",
           made, middle - begin, made / (middle - begin), now_s() - middle);
    fflush(stdout);
    close(told[0]);
    close(told[1]);
    close(hold[0]);
    free(pids);
}

/* ---------------------------------------------------------------- parts */

/* Of this program, whoever their parents are by now. */
static int count_left(void)
{
    const process_t *self;
    int left = 0;

    look_around();
    self = find(getpid());
    for (size_t i = 0; self && i < process_count; i++)
        left += strcmp(processes[i].name, self->name) == 0;
    return left - 1;
}

/* One part with a cluster of its own; a worker does not come back from crt_init. */
static void run(int argc, char **argv, void (*part)(void))
{
    double begin;

    CRT_CHECK(crt_init(argc, argv, CRT_OPTIONS(.classes = CRT_CLASSES(&echo_class))));
    part();
    begin = now_s();
    CRT_CHECK(crt_shutdown());
    printf("  ended in %.1f s, %d processes left\n", now_s() - begin, count_left());
    fflush(stdout);
    drop_actors();
}

int main(int argc, char **argv)
{
    bool is_driver = getenv("CRT_NODE_SOCKET") == NULL; /* a zygote comes by here, too */

    TAKE_OPTIONS(argc, argv, OPTION("actors", count_option, 0, 1e6),
                 OPTION("idle-actors", idle_option, 0, 1e6),
                 OPTION("idle", seconds_option, 0, 1e6),
                 OPTION("touch", touch_option, 0, 1e6));
    use_own_cluster();
    raise_limits(count_option > idle_option ? count_option : idle_option);
    if (is_driver && count_option > 0) {
        touch_memory();
        measure_bare(count_option);
    }
    if (idle_option > 0)
        run(argc, argv, measure_idle);
    if (count_option > 0)
        run(argc, argv, measure_many);
    return 0;
}
