/* SPDX-License-Identifier: Apache-2.0 */
/* The program whose tasks and actors the tests of the whole library call. Its main is crt_main:
 * the same executable is driver and workers. */
#ifndef CRTI_TESTS_CORE_PROGRAM_H
#define CRTI_TESTS_CORE_PROGRAM_H

#include <crt.h>

/* Tasks. */
extern const crt_task_t t_add;     /* (int, int) -> sum */
extern const crt_task_t t_echo;    /* (any) -> the same, scalars and texts */
extern const crt_task_t t_sleep;   /* (ms) -> ms */
extern const crt_task_t t_gate;    /* (path of a fifo): until its other end is opened */
extern const crt_task_t t_swallow; /* (bytes) */
extern const crt_task_t t_fail;    /* () fails with "on purpose" */
extern const crt_task_t t_exit;    /* () exits with 7 */
extern const crt_task_t t_segv;    /* () crashes */
extern const crt_task_t t_number;  /* (n) returns n as its status */
extern const crt_task_t t_end_thread; /* () ends by pthread_exit */
extern const crt_task_t t_print;      /* (line, ms) prints it, and returns ms later */
extern const crt_task_t t_floats;     /* (n, x) -> tensor of n floats x */
extern const crt_task_t t_sum;        /* (tensor...) -> sum of all elements */
extern const crt_task_t t_recurse;    /* (n) -> depth, by a task within a task */
extern const crt_task_t t_put_list;   /* (n) -> list of n refs of put(i) */
extern const crt_task_t t_sum_refs;   /* (list of refs) -> sum of their values */
extern const crt_task_t
    t_first_ref;                  /* (list of refs) -> the value of the first, as a ref */
extern const crt_task_t t_object; /* (n) -> int32 tensor 0..n-1, written in place */
extern const crt_task_t t_big_object; /* (bytes): asks the store for so much */
extern const crt_task_t t_get_ref;    /* (ref) -> gets it inside */
extern const crt_task_t t_absent;     /* not registered */
extern const crt_task_t t_pid;        /* () -> process id */
extern const crt_task_t t_get_listed; /* (list of a Counter) -> its get() */
/* (list of a Counter): calls crash() -> whether the call may have run, -1 when it did not fail. */
extern const crt_task_t t_crash_listed;

/* Counter(start): add(n), get(), note(n) for tell, pid(), sleep(ms), crash(), mine(actor,
 * depth). */
extern const crt_actor_class_t counter_class;
extern const crt_method_t counter_add, counter_get, counter_pid, counter_sleep,
    counter_crash, counter_append, counter_text, counter_call_other, counter_keep,
    counter_kept, counter_call_self, counter_exit, counter_swallow, counter_close_files,
    counter_end_thread;

/* An actor whose create fails with the text it is given. */
extern const crt_actor_class_t broken_class;
extern const crt_method_t broken_get;

/* Gated(path of a fifo), wait(path): both until the other end is opened, as the task gate. */
extern const crt_actor_class_t gated_class;
extern const crt_method_t gated_wait;

#define PROGRAM_TASKS                                                                    \
    CRT_TASKS(&t_add, &t_echo, &t_sleep, &t_gate, &t_swallow, &t_fail, &t_exit, &t_segv, \
              &t_floats, &t_sum, &t_recurse, &t_put_list, &t_sum_refs, &t_first_ref,     \
              &t_object, &t_big_object, &t_get_ref, &t_pid, &t_get_listed,               \
              &t_crash_listed, &t_number, &t_end_thread, &t_print)
#define PROGRAM_CLASSES CRT_CLASSES(&counter_class, &broken_class, &gated_class)

#endif
