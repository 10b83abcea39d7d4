/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a block: fibers that take turns at barriers. Built without sanitizers, which know
 * nothing of stacks that change. See fake.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "fake.h"

#define STACK (256 << 10)

typedef enum state { NEW, READY, AT_BARRIER, AT_WARP_BARRIER, ENDED } state_t;

typedef struct fiber {
    ucontext_t context;
    void *place[5]; /* __builtin_setjmp's */
    bool is_started;
    unsigned thread;
    struct fiber *next; /* of those without a thread */
} fiber_t;

typedef struct thread {
    state_t state;
    fiber_t *fiber;
    uint64_t told[2]; /* by turns, so that one barrier is enough */
    unsigned rounds;  /* in which it told something */
} thread_t;

fake_place_t fake_thread, fake_block, fake_block_size, fake_grid_size;

static thread_t threads[FAKE_THREADS_MAX];
static unsigned count, ended, at_barrier;
static unsigned warp_ended[FAKE_THREADS_MAX / FAKE_WARP],
    at_warp[FAKE_THREADS_MAX / FAKE_WARP];
static fiber_t *spare, *running;
static ucontext_t home;
static void *home_place[5];
static fake_body_t body;
static void *body_context;
static const char *kernel_name;

void fake_die(const char *format, ...)
{
    va_list more;

    va_start(more, format);
    fputs("fake_cuda: ", stderr);
    vfprintf(stderr, format, more);
    fputs("\n", stderr);
    va_end(more);
    abort();
}

/* ---------------------------------------------------------------- changing stacks */

/* The compiler's own jumps are a few instructions; swapcontext asks the kernel each time. */
#if defined(__x86_64__)
#    define JUMPS 1
#else
#    define JUMPS 0
#endif

static __attribute__((noinline)) void jump(void **place)
{
    __builtin_longjmp(place, 1);
}

static __attribute__((noinline)) void resume(fiber_t *f)
{
    running = f;
    if (!JUMPS) {
        swapcontext(&home, &f->context);
        return;
    }
    if (__builtin_setjmp(home_place))
        return;
    if (f->is_started)
        jump(f->place);
    f->is_started = true;
    setcontext(&f->context);
}

static __attribute__((noinline)) void go_home(fiber_t *f)
{
    if (!JUMPS)
        swapcontext(&f->context, &home);
    else if (!__builtin_setjmp(f->place))
        jump(home_place);
}

/* ---------------------------------------------------------------- barriers */

static unsigned warp_size(unsigned warp)
{
    unsigned left = count - warp * FAKE_WARP;

    return left < FAKE_WARP ? left : FAKE_WARP;
}

static void release(unsigned first, unsigned end, state_t from)
{
    for (unsigned i = first; i < end; i++)
        if (threads[i].state == from)
            threads[i].state = READY;
}

/* Threads that have ended are waited for no more. */
static void release_if_all_are_here(unsigned warp)
{
    if (at_barrier > 0 && at_barrier + ended == count) {
        at_barrier = 0;
        release(0, count, AT_BARRIER);
    }
    if (at_warp[warp] > 0 && at_warp[warp] + warp_ended[warp] == warp_size(warp)) {
        at_warp[warp] = 0;
        release(warp * FAKE_WARP, warp * FAKE_WARP + warp_size(warp), AT_WARP_BARRIER);
    }
}

static void wait_at(state_t where, unsigned *arrived)
{
    fiber_t *f = running;

    threads[f->thread].state = where;
    (*arrived)++;
    release_if_all_are_here(f->thread / FAKE_WARP);
    go_home(f);
}

void fake_barrier(void)
{
    wait_at(AT_BARRIER, &at_barrier);
}

void fake_warp_barrier(void)
{
    wait_at(AT_WARP_BARRIER, &at_warp[fake_thread.x / FAKE_WARP]);
}

void fake_tell(const void *value, size_t bytes)
{
    thread_t *t = &threads[fake_thread.x];

    t->rounds++;
    memcpy(&t->told[t->rounds % 2], value, bytes);
}

const void *fake_told(unsigned lane)
{
    unsigned first = fake_thread.x / FAKE_WARP * FAKE_WARP;
    unsigned round = threads[fake_thread.x].rounds;
    const thread_t *other = &threads[first + lane];

    return first + lane < count && other->rounds >= round ? &other->told[round % 2]
                                                          : NULL;
}

/* ---------------------------------------------------------------- running */

/* A fiber runs one thread after the other, as long as it is given some. */
static void run_threads(void)
{
    for (;;) {
        fiber_t *f = running;
        unsigned warp = f->thread / FAKE_WARP;

        body(body_context);
        threads[f->thread].state = ENDED;
        ended++;
        warp_ended[warp]++;
        release_if_all_are_here(warp);
        f->next = spare;
        spare = f;
        go_home(f);
    }
}

static fiber_t *new_fiber(void)
{
    fiber_t *f = calloc(1, sizeof(*f));
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (!f || stack == MAP_FAILED || mprotect(stack, 4096, PROT_NONE) != 0)
        fake_die("no stack for a thread");
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stack;
    f->context.uc_stack.ss_size = STACK;
    makecontext(&f->context, run_threads, 0);
    return f;
}

/* True when the thread could go on. */
static bool run_thread(unsigned number)
{
    thread_t *t = &threads[number];

    if (t->state != NEW && t->state != READY)
        return false;
    if (t->state == NEW) {
        t->fiber = spare ? spare : new_fiber();
        if (t->fiber == spare)
            spare = spare->next;
        t->fiber->thread = number;
    }
    fake_thread.x = number;
    resume(t->fiber);
    return true;
}

static void run_block(bool is_reverse)
{
    ended = at_barrier = 0;
    memset(warp_ended, 0, sizeof(warp_ended));
    memset(at_warp, 0, sizeof(at_warp));
    for (unsigned i = 0; i < count; i++)
        threads[i] = (thread_t){.state = NEW};
    while (ended < count) {
        bool goes_on = false;

        for (unsigned i = 0; i < count; i++)
            goes_on |= run_thread(is_reverse ? count - 1 - i : i);
        if (!goes_on)
            fake_die("%s: threads of a block wait at different barriers", kernel_name);
    }
}

void fake_run_grid(const char *kernel, unsigned blocks, unsigned size, fake_body_t run,
                   void *context)
{
    static uint32_t launches;
    bool is_reverse = (++launches * 2654435761u) >> 31;

    kernel_name = kernel;
    body = run;
    body_context = context;
    count = size;
    fake_block_size = (fake_place_t){size, 1, 1};
    fake_grid_size = (fake_place_t){blocks, 1, 1};
    for (unsigned i = 0; i < blocks; i++) {
        fake_block = (fake_place_t){is_reverse ? blocks - 1 - i : i, 0, 0};
        run_block(is_reverse);
    }
}
