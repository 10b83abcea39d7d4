/* SPDX-License-Identifier: Apache-2.0 */
/* Where the daemons and the command are: in an installation beside the library or the program, in
 * a build tree in their own folders.
 *
 * Where it sits
 *     private_cluster.c, context_command.c, crt-head (for crt-http), the command
 *     -> [ core/process/daemon_path.c ]
 * Threads: any; no state.
 */
#include "runtime/crt.h"
#include "runtime/crt_tools.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crt_config.h"
#include "runtime/core/process/command_path.h"

/* An address inside the library or program that this file is linked into. */
static const char anchor;

static bool is_executable(const char *directory, const char *name, char *path,
                          size_t size)
{
    return snprintf(path, size, "%s/%s", directory, name) < (int)size &&
           access(path, X_OK) == 0;
}

/* The folder of a daemon in the build tree; "" for a name that is none. */
static const char *folder_of(const char *name)
{
    static const struct {
        const char *name, *folder;
    } daemons[] = {
        {"crt-head", "control"},   {"crt-node", "node"},       {"crt-http", "http"},
        {"crt-unpack", "node"},    {"crt-stack", "node"},      {"crt-scale", "control"},
        {"crt-scaler", "control"}, {"crt-decompress", "node"}, {"crt-enter", "node"}};

    for (size_t i = 0; i < sizeof(daemons) / sizeof(daemons[0]); i++)
        if (strcmp(daemons[i].name, name) == 0)
            return daemons[i].folder;
    return "";
}

/* `file` is the library or the program. */
static bool find_near(const char *file, const char *name, char *path, size_t size)
{
    /* lib/ and bin/, lib/TRIPLET/, the daemons' own directory; the build tree's root, its
     * cli/ and examples/, and two levels down (runtime/control/, tests/cli/). */
    static const char *const installed[] = {"../libexec/crt", "../../libexec/crt", "."};
    static const char *const built[] = {"runtime", "../runtime", "../../runtime"};
    char directory[PATH_MAX], candidate[2 * PATH_MAX];
    char *slash;

    if (!realpath(file, directory) || !(slash = strrchr(directory, '/')))
        return false;
    *slash = '\0';
    for (size_t i = 0; i < 3; i++) {
        snprintf(candidate, sizeof(candidate), "%s/%s/%s", directory, built[i],
                 folder_of(name));
        if (is_executable(candidate, name, path, size))
            return true;
    }
    for (size_t i = 0; i < 3; i++) {
        snprintf(candidate, sizeof(candidate), "%s/%s", directory, installed[i]);
        if (is_executable(candidate, name, path, size))
            return true;
    }
    return false;
}

/* `file` is the library or the program. */
static bool find_command(const char *file, char *path, size_t size)
{
    /* lib/ and bin/, lib/TRIPLET/; the build tree's root, its folders, and two levels down. */
    static const char *const places[] = {"../bin", "../../bin", "cli", "../cli",
                                         "../../cli"};
    char directory[PATH_MAX], candidate[2 * PATH_MAX];
    char *slash;

    if (!realpath(file, directory) || !(slash = strrchr(directory, '/')))
        return false;
    *slash = '\0';
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(candidate, sizeof(candidate), "%s/%s", directory, places[i]);
        if (is_executable(candidate, "crt", path, size))
            return true;
    }
    return false;
}

crt_status_t crti_command_path(char *path, size_t size)
{
    Dl_info here;

    if ((dladdr(&anchor, &here) && here.dli_fname &&
         find_command(here.dli_fname, path, size)) ||
        find_command("/proc/self/exe", path, size))
        return CRT_OK;
    if (snprintf(path, size, "crt") >= (int)size)
        return crt_raise(CRT_ERR_TOO_LARGE, "the path of crt");
    return CRT_OK;
}

crt_status_t crti_daemon_path(const char *name, char *path, size_t size)
{
    const char *own = getenv("CRT_LIBEXEC");
    Dl_info here;

    if (own && *own) {
        if (is_executable(own, name, path, size))
            return CRT_OK;
        return crt_raise(CRT_ERR_NOT_FOUND, "%s is not in CRT_LIBEXEC=%s", name, own);
    }
    if (dladdr(&anchor, &here) && here.dli_fname &&
        find_near(here.dli_fname, name, path, size))
        return CRT_OK;
    if (find_near("/proc/self/exe", name, path, size) ||
        is_executable(CRT_LIBEXEC_DIR, name, path, size))
        return CRT_OK;
    return crt_raise(CRT_ERR_NOT_FOUND,
                     "%s is neither beside this program nor in %s; set CRT_LIBEXEC", name,
                     CRT_LIBEXEC_DIR);
}
