/* SPDX-License-Identifier: Apache-2.0 */
/* Included before everything else in the files of runtime/core and runtime/node that the system
 * scenario compiles (meson.build): their system calls become calls of system_*.c. */
#ifndef TESTS_SIM_SYSTEM_WRAP_H
#define TESTS_SIM_SYSTEM_WRAP_H

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

int sys_close(int fd);
ssize_t sys_read(int fd, void *data, size_t size);
int sys_open(const char *path);
int sys_kill_pid(pid_t pid);
int sys_waitid(int fd, siginfo_t *info);
long sys_syscall(long number, long argument);
pid_t sys_getpid(void);
void sys_exit(int code) __attribute__((noreturn));
void *sys_page(int fd);
int sys_other_fd(void);
int sys_timer_new(void);
int sys_timer_set(int fd, const struct itimerspec *spec);
FILE *sys_fopen(const char *path);

#define close(fd)                          sys_close(fd)
#define read(fd, data, size)               sys_read(fd, data, size)
#define open(path, flags)                  sys_open(path)
#define fopen(path, mode)                  sys_fopen(path)
#define kill(pid, signal)                  sys_kill_pid(pid)
#define waitid(type, id, info, flags)      sys_waitid((int)(id), info)
#define waitpid(pid, status, flags)        ((void)(pid))
#define syscall(number, argument, ...)     sys_syscall(number, (long)(argument))
#define crti_info_read(path, text)         sys_info_read(path, text)
#define getpid()                           sys_getpid()
#define _exit(code)                        sys_exit(code)
#define mmap(a, b, c, d, fd, f)            sys_page(fd)
#define munmap(page, size)                 ((void)(page))
#define memfd_create(name, flags)          sys_other_fd()
#define ftruncate(fd, size)                0
#define fcntl(fd, ...)                     0
#define fstat(fd, info)                    (*(info) = (struct stat){.st_size = 4096}, 0)
#define timerfd_create(clock, flags)       sys_timer_new()
#define timerfd_settime(fd, flags, new, o) sys_timer_set(fd, new)
/* The limits are those of the seed, not of the environment. */
#define crti_limits_load            sys_limits_load
#define pthread_mutex_lock(mutex)   ((void)(mutex))
#define pthread_mutex_unlock(mutex) ((void)(mutex))

#endif
