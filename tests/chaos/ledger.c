/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static pthread_once_t opened = PTHREAD_ONCE_INIT;
static const char *its_role = "worker";
static uint64_t origin;
static _Atomic uint64_t numbers;
static int ledger_fd = -1;

static void open_ledger(void)
{
    const char *folder = getenv("CHAOS_LEDGER"), *home = getenv("HOME");
    char path[512];

    if (getrandom(&origin, sizeof(origin), 0) != sizeof(origin))
        abort();
    origin >>= 1; /* so that it is a number of crt_arg_int */
    if (folder)
        snprintf(path, sizeof(path), "%s/%s-%d-%016llx", folder, its_role, (int)getpid(),
                 (unsigned long long)origin);
    else
        snprintf(path, sizeof(path), "%s/ledger/%s-%d-%016llx", home ? home : "",
                 its_role, (int)getpid(), (unsigned long long)origin);
    ledger_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (ledger_fd < 0) {
        fprintf(stderr, "chaos: ledger %s: %s\n", path, strerror(errno));
        _exit(70);
    }
}

void ledger_set_role(const char *role)
{
    its_role = role;
}

uint64_t ledger_origin(void)
{
    pthread_once(&opened, open_ledger);
    return origin;
}

uint64_t ledger_next(void)
{
    return atomic_fetch_add(&numbers, 1) + 1;
}

uint64_t ledger_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void ledger_write(ledger_record_t record)
{
    pthread_once(&opened, open_ledger);
    record.at_ns = ledger_now_ns();
    if (write(ledger_fd, &record, sizeof(record)) != sizeof(record)) {
        fprintf(stderr, "chaos: ledger: %s\n", strerror(errno));
        _exit(70);
    }
}
