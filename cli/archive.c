/* SPDX-License-Identifier: Apache-2.0 */
/* crt archive: this crt as one file, with the libraries that it needs. Containers are made of it
 * (packaging/kubernetes), and hosts that ssh does not reach.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/crt_archive.h"
#include "cli/options.h"

#define NAME "crt archive"

/* All of it, or no file. */
static int write_archive(const char *path, bool with_ml)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), result = 0;
    crt_archive_t archive;
    struct stat st;

    if (fd < 0)
        return crti_cli_fail(NAME, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) { /* a device is never removed */
        close(fd);
        return crti_cli_fail(NAME, "%s is no regular file", path);
    }
    if (crti_crt_archive_write(fd, with_ml, &archive) != CRT_OK)
        result = crti_cli_fail_detail(NAME);
    else
        printf("%s: %zu bytes, SHA-256 %s, for %s with glibc 2.%u or later\n", path,
               archive.size, archive.id, archive.machine, archive.glibc);
    crti_crt_archive_close(&archive);
    if (close(fd) != 0 && result == 0)
        result = crti_cli_fail(NAME, "%s: %s", path, strerror(errno));
    if (result != 0)
        unlink(path);
    return result;
}

int crti_cli_archive(int argc, char **argv)
{
    static const char *output;
    static bool without_ml;
    static const option_spec_t options[] = {
        {"output", 'o', "FILE", OPTION_TEXT, &output, "where it is written; needed"},
        {"without-ml", 0, NULL, OPTION_FLAG, &without_ml,
         "leave out libcrt_ml, and with it OpenBLAS and oneDNN"}};
    static const command_spec_t spec = {
        .name = NAME,
        .summary = "Writes this crt as one file (tar.gz): command, daemons, libraries, "
                   "redis-server and the\nlibraries that they need, those of glibc "
                   "apart. It runs "
                   "wherever it is unpacked.",
        .options = options,
        .count = sizeof(options) / sizeof(options[0])};
    int first = crti_cli_parse(argc, argv, &spec);

    if (first <= 0)
        return -first;
    if (!output)
        return crti_cli_misused(NAME, "which file? --output FILE");
    return write_archive(output, !without_ml);
}
