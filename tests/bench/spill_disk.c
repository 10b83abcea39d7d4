/* SPDX-License-Identifier: Apache-2.0 */
/* The bare disk, and what the node's daemon does with it. See spill.c. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spill.h"
#include "timing.h"

#define PATH_BYTES 4096

/* ---------------------------------------------------------------- bare */

static void write_all(const spill_load_t *load, int fd)
{
    for (size_t i = 0; i < load->objects; i++) {
        spill_fill(load->buffer, load->object_bytes, i);
        for (size_t done = 0; done < load->object_bytes;) {
            ssize_t n = write(fd, (char *)load->buffer + done, load->object_bytes - done);

            if (n <= 0)
                spill_die("the directory can't be written");
            done += (size_t)n;
        }
    }
}

static void read_all(const spill_load_t *load, int fd)
{
    for (size_t i = 0; i < load->objects; i++) {
        off_t at = (off_t)(load->order[i] * (uint64_t)load->object_bytes);

        for (size_t done = 0; done < load->object_bytes;) {
            ssize_t n = pread(fd, (char *)load->buffer + done, load->object_bytes - done,
                              at + (off_t)done);

            if (n <= 0)
                spill_die("the file can't be read");
            done += (size_t)n;
        }
        if (!spill_is_right(load->buffer, load->object_bytes, load->order[i]))
            spill_die("the bare file has wrong bytes");
    }
}

static void forget(int fd)
{
    if (fdatasync(fd) != 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
        spill_die("the page cache can't be told to forget a file");
}

spill_plain_t spill_plain(const spill_load_t *load)
{
    spill_plain_t plain;
    int fd = open(load->directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    double start = now_us();

    if (fd < 0)
        spill_die("no file can be made in the directory");
    write_all(load, fd);
    plain.write_us = now_us() - start;
    forget(fd);
    plain.settle_us = now_us() - start;
    start = now_us();
    read_all(load, fd);
    plain.read_us = now_us() - start;
    close(fd);
    return plain;
}

/* ---------------------------------------------------------------- the daemon */

static bool is_node(long pid)
{
    char path[64], name[32] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
    file = fopen(path, "re");
    if (!file)
        return false;
    if (!fgets(name, sizeof(name), file))
        *name = '\0';
    fclose(file);
    return strncmp(name, "crt-node", 8) == 0;
}

pid_t spill_node(void)
{
    DIR *threads = opendir("/proc/self/task");
    const struct dirent *entry;
    long pid, found = 0;

    while (threads && (entry = readdir(threads))) {
        char path[PATH_BYTES];
        FILE *file;

        snprintf(path, sizeof(path), "/proc/self/task/%s/children", entry->d_name);
        file = fopen(path, "re");
        while (file && fscanf(file, "%ld", &pid) == 1)
            if (is_node(pid))
                found = pid;
        if (file)
            fclose(file);
    }
    if (threads)
        closedir(threads);
    if (found == 0)
        spill_die("the daemon of the private cluster's node is no child of this process");
    return (pid_t)found;
}

/* The number behind `name` in a file of /proc. */
static double proc_number(pid_t pid, const char *file_name, const char *name)
{
    char path[64], line[256];
    double number = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file_name);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, name, strlen(name)) == 0)
            number = strtod(line + strlen(name), NULL);
    if (file)
        fclose(file);
    return number;
}

/* Its files have no names: they are reached by its descriptors. */
static void each_file(const spill_load_t *load, pid_t node,
                      void (*visit)(void *user, const char *path), void *user)
{
    char folder[64];
    DIR *files;
    const struct dirent *entry;

    snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)node);
    files = opendir(folder);
    while (files && (entry = readdir(files))) {
        char path[PATH_BYTES], target[PATH_BYTES];
        ssize_t size;

        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        size = readlink(path, target, sizeof(target) - 1);
        target[size < 0 ? 0 : size] = '\0';
        if (strncmp(target, load->directory, strlen(load->directory)) == 0 &&
            strstr(target, " (deleted)"))
            visit(user, path);
    }
    if (files)
        closedir(files);
}

static void add_file(void *user, const char *path)
{
    spill_io_t *io = user;
    struct stat found;

    if (stat(path, &found) != 0)
        return;
    io->files++;
    io->file_bytes += 512.0 * (double)found.st_blocks;
}

spill_io_t spill_io(const spill_load_t *load, pid_t node)
{
    spill_io_t io = {.written = proc_number(node, "io", "wchar:"),
                     .read = proc_number(node, "io", "rchar:"),
                     .disk_read = proc_number(node, "io", "read_bytes:"),
                     .own_memory = 1024 * proc_number(node, "status", "RssAnon:")};

    each_file(load, node, add_file, &io);
    return io;
}

static void forget_file(void *user, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        spill_die("a file of the daemon can't be opened");
    forget(fd);
    close(fd);
}

void spill_forget_pages(const spill_load_t *load, pid_t node)
{
    each_file(load, node, forget_file, NULL);
}
