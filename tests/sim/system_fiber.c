/* SPDX-License-Identifier: Apache-2.0 */
/* Fibers: the main threads of simulated programs. See system.h. */
#include <stdlib.h>
#include <ucontext.h>

#include "tests/sim/system.h"

#if defined(__SANITIZE_ADDRESS__)
#    include <sanitizer/common_interface_defs.h>
#    define STACK (512u << 10)
#else
#    define STACK (192u << 10)
#endif

struct sys_fiber {
    ucontext_t context;
    char *stack;
    void (*run)(void *user);
    void *user;
    void *fake; /* the sanitizer's */
};

static ucontext_t outside; /* the scheduler's */
static sys_fiber_t *inside;

#if defined(__SANITIZE_ADDRESS__)
static const void *outside_stack;
static size_t outside_size;
static void *outside_fake;

static void leave_for(void **fake, const void *stack, size_t size)
{
    __sanitizer_start_switch_fiber(fake, stack, size);
}

static void arrived(void *fake, const void **from, size_t *size)
{
    __sanitizer_finish_switch_fiber(fake, from, size);
}
#endif

static void begin(void)
{
    sys_fiber_t *f = inside;

#if defined(__SANITIZE_ADDRESS__)
    arrived(NULL, &outside_stack, &outside_size);
#endif
    f->run(f->user);
    for (;;)
        sys_fiber_yield(); /* it has ended: nobody resumes it */
}

sys_fiber_t *sys_fiber_new(void (*run)(void *user), void *user)
{
    sys_fiber_t *f = calloc(1, sizeof(*f));

    if (!f || !(f->stack = malloc(STACK)) || getcontext(&f->context) < 0)
        abort();
    f->run = run;
    f->user = user;
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK;
    f->context.uc_link = NULL;
    makecontext(&f->context, begin, 0);
    return f;
}

void sys_fiber_resume(sys_fiber_t *f)
{
    inside = f;
#if defined(__SANITIZE_ADDRESS__)
    leave_for(&outside_fake, f->stack, STACK);
#endif
    swapcontext(&outside, &f->context);
#if defined(__SANITIZE_ADDRESS__)
    arrived(outside_fake, NULL, NULL);
#endif
    inside = NULL;
}

void sys_fiber_yield(void)
{
    sys_fiber_t *f = inside;

#if defined(__SANITIZE_ADDRESS__)
    leave_for(&f->fake, outside_stack, outside_size);
#endif
    swapcontext(&f->context, &outside);
#if defined(__SANITIZE_ADDRESS__)
    arrived(f->fake, &outside_stack, &outside_size);
#endif
}
