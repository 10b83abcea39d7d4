/* SPDX-License-Identifier: Apache-2.0 */
/* crt-stack SECONDS PID...: prints the stacks of all threads of processes, each on one line "PID
 * {json}". A process of its own: debug information that is damaged, or large, ends or delays a
 * question and not its node.
 *
 * Where it sits
 *     node/dispatch/questions.c -> [ crt-stack ] -> libdw (ptrace, /proc, the programs' files)
 * How
 *     Each thread is stopped for as long as its frames are walked (PTRACE_ATTACH), one after the
 *     other. A wait of the program in poll, epoll_wait or sem_wait may return EINTR by that, as by
 *     any signal that stops it. After SECONDS no more of them are begun.
 * Failure: why a process or thread could not be read is told in its place. When this program is
 * killed,
 *     the kernel lets go of whoever is stopped.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <elfutils/libdwfl.h>

#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"
#include "runtime/base/json_escape.h"

#define FRAMES_MAX  128
#define THREADS_MAX 256

/* One process that is being read. */
typedef struct reader {
    Dwfl *dwfl;
    crti_buffer_t json;
    unsigned frames, threads;
    bool failed; /* out of memory */
} reader_t;

static void put(reader_t *r, const char *text)
{
    r->failed = r->failed || crti_buffer_append(&r->json, text, strlen(text)) != CRT_OK;
}

/* Names of symbols and threads may be any bytes. */
static void put_escaped(reader_t *r, const char *text)
{
    char clean[512];
    size_t size = strlen(text);

    if (size > sizeof(clean))
        size = sizeof(clean);
    for (size_t i = 0; i < size; i++)
        clean[i] = text[i] < ' ' || text[i] > '~' ? '?' : text[i];
    r->failed = r->failed || crti_json_escape(crti_span(clean, size), &r->json) != CRT_OK;
}

/* ---------------------------------------------------------------- one frame */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* "main (crt.h:12)", "poll (libc.so.6)" or "0x7f12 (libc.so.6)". */
static void describe(reader_t *r, Dwarf_Addr pc, char *text, size_t size)
{
    Dwfl_Module *module = dwfl_addrmodule(r->dwfl, pc);
    const char *name = module ? dwfl_module_addrname(module, pc) : NULL;
    const char *file =
        module ? dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
               : NULL;
    Dwfl_Line *line = module ? dwfl_module_getsrc(module, pc) : NULL;
    const char *source = NULL;
    char address[32];
    int number = 0;

    snprintf(address, sizeof(address), "0x%llx", (unsigned long long)pc);
    if (line)
        source = dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL);
    if (source)
        snprintf(text, size, "%s (%s:%d)", name ? name : address, base_name(source),
                 number);
    else
        snprintf(text, size, "%s (%s)", name ? name : address,
                 file ? base_name(file) : "?");
}

static int on_frame(Dwfl_Frame *frame, void *user)
{
    reader_t *r = user;
    Dwarf_Addr pc;
    bool is_activation;
    char text[400];

    if (!dwfl_frame_pc(frame, &pc, &is_activation))
        return DWARF_CB_ABORT;
    /* A return address may belong to the line behind the call. */
    describe(r, pc - (is_activation ? 0 : 1), text, sizeof(text));
    put(r, r->frames ? ",\"" : "\"");
    put_escaped(r, text);
    put(r, "\"");
    return ++r->frames < FRAMES_MAX ? DWARF_CB_OK : DWARF_CB_ABORT;
}

/* ---------------------------------------------------------------- one thread */

static void put_thread_name(reader_t *r, pid_t pid, pid_t tid)
{
    char path[64], name[32] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid, (int)tid);
    file = fopen(path, "re");
    if (file) {
        if (!fgets(name, sizeof(name), file))
            name[0] = '\0';
        fclose(file);
    }
    name[strcspn(name, "\n")] = '\0';
    put_escaped(r, name);
}

static int on_thread(Dwfl_Thread *thread, void *user)
{
    reader_t *r = user;
    pid_t tid = dwfl_thread_tid(thread);
    const char *why = "";
    char head[64];

    snprintf(head, sizeof(head), "%s{\"tid\":%d,\"name\":\"", r->threads ? "," : "",
             (int)tid);
    put(r, head);
    put_thread_name(r, dwfl_pid(r->dwfl), tid);
    put(r, "\",\"frames\":[");
    r->frames = 0;
    errno = 0;
    if (dwfl_thread_getframes(thread, on_frame, r) < 0 && r->frames == 0)
        why = errno == EPERM ? "the kernel does not let this user read it (ptrace)"
                             : dwfl_errmsg(-1);
    put(r, "],\"error\":\"");
    put_escaped(r, why ? why : "its frames can't be read");
    put(r, "\"}");
    return ++r->threads < THREADS_MAX && !r->failed ? DWARF_CB_OK : DWARF_CB_ABORT;
}

/* ---------------------------------------------------------------- one process */

/* Why it can't be read; "" when it can. */
static const char *attach(reader_t *r, pid_t pid)
{
    int error = dwfl_linux_proc_report(r->dwfl, pid);

    if (error == 0 && dwfl_report_end(r->dwfl, NULL, NULL) == 0)
        error = dwfl_linux_proc_attach(r->dwfl, pid, false);
    if (error > 0)
        return error == ESRCH || error == ENOENT ? "the process has ended"
                                                 : strerror(error);
    return error < 0 ? dwfl_errmsg(-1) : "";
}

static void read_process(pid_t pid, bool is_late)
{
    static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                             .find_debuginfo =
                                                 dwfl_standard_find_debuginfo};
    reader_t r = {.dwfl = dwfl_begin(&callbacks)};
    const char *why = !r.dwfl   ? "out of memory"
                      : is_late ? "not read: the others took too long"
                                : attach(&r, pid);

    put(&r, "{\"threads\":[");
    if (!*why)
        dwfl_getthreads(r.dwfl, on_thread, &r);
    put(&r, "],\"error\":\"");
    put_escaped(&r, why);
    put(&r, "\"}");
    if (!r.failed) {
        printf("%d %.*s\n", (int)pid, (int)r.json.size, (const char *)r.json.data);
        fflush(stdout);
    }
    crti_buffer_fini(&r.json);
    dwfl_end(r.dwfl);
}

int main(int argc, char **argv)
{
    uint64_t deadline;

    unsetenv("DEBUGINFOD_URLS"); /* nothing is fetched for an answer */
    if (argc < 3) {
        fprintf(stderr, "usage: crt-stack SECONDS PID...\n");
        return 2;
    }
    deadline = crti_now_ns() + strtoul(argv[1], NULL, 10) * CRTI_S;
    for (int i = 2; i < argc; i++)
        if (atoi(argv[i]) > 0)
            read_process(atoi(argv[i]), crti_now_ns() > deadline);
    return 0;
}
