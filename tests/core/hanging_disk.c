/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that hangs, for a daemon that loads this before other libraries (LD_PRELOAD): as long as
 * there is a FIFO with the name CRT_TEST_HANGING_DISK, no file of spilled objects is settled, until
 * somebody opens the FIFO to write. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* They have no names; the files of others have. */
static int is_spilled(int fd)
{
    struct stat found;

    return fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_nlink == 0;
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    const char *fifo = getenv("CRT_TEST_HANGING_DISK");
    int gate = fifo && is_spilled(fd) ? open(fifo, O_RDONLY | O_CLOEXEC) : -1;

    if (gate >= 0)
        close(gate);
    return (int)syscall(SYS_fdatasync, fd);
}
