/* SPDX-License-Identifier: Apache-2.0 */
/* What runs in workers leaves notes, a byte each, in a file of the test: how often something ran,
 * and how far it came, whoever dies. Needs cmocka.h. */
#ifndef CRT_TESTS_CORE_NOTES_H
#define CRT_TESTS_CORE_NOTES_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NOTES_PATIENCE_MS 60000

/* In a worker. Returns how many there are now. */
static inline int64_t note(const char *path, char byte)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    struct stat info;

    if (fd < 0 || write(fd, &byte, 1) != 1 || fstat(fd, &info) != 0)
        abort();
    close(fd);
    return info.st_size;
}

/* How many there are; 0 without the file. */
static inline int64_t notes_in(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 ? info.st_size : 0;
}

static inline void wait_for_notes(const char *path, int64_t count)
{
    for (int i = 0; notes_in(path) < count; i++) {
        assert_true(i < NOTES_PATIENCE_MS);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

/* A file for each test: its setup and teardown. */
static char notes[32];

static inline int notes_begin(void **state)
{
    int fd;

    snprintf(notes, sizeof(notes), "/tmp/crt-notes-XXXXXX");
    fd = mkstemp(notes);
    return fd < 0 ? -1 : close(fd);
}

static inline int notes_end(void **state)
{
    return unlink(notes);
}

#endif
