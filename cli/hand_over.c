/* SPDX-License-Identifier: Apache-2.0 */
/* What runs on a host before crt does. See hand_over.h. */
#include "cli/hand_over.h"

#include <stdio.h>
#include <string.h>

/* A word for any shell: no newline, no quote within, no "!", no backslash. $1 is the id, $2 the
 * size, $3 the version, $4 the processor, $5 N of glibc 2.N, $6 the mode, $7 the size of the first
 * part. The tree is unpacked beside its place, tried, and renamed: another one that did the same
 * meanwhile is as good. Files are empty that had no time to reach the disk before a host lost its
 * power. */
static const char script[] =
    "umask 077; "
    "n() { echo crt-hand \"$@\"; exit 1; }; "
    "b=${XDG_DATA_HOME:-$HOME/.local/share}/crt; d=$b/$1; p=$d; "
    "if [ -n \"$(find \"$d\" -size 0 2>/dev/null)\" ]; then rm -rf \"$d\"; fi; "
    "if [ -x \"$d/bin/crt\" ]; then :; "
    "elif [ \"$(crt version 2>/dev/null)\" = \"crt $3\" ]; then p=; "
    "else "
    "if [ \"$6\" = ends ] && [ -z \"$(ls \"$b\" 2>/dev/null)\" ]; then n nothing; fi; "
    "m=$(uname -m); [ \"$m\" = \"$4\" ] || n processor \"$m\"; "
    "g=$(getconf GNU_LIBC_VERSION 2>/dev/null); v=${g#glibc 2.}; v=${v%%.*}; "
    "[ \"${v:-0}\" -ge \"$5\" ] 2>/dev/null || n glibc \"$g\"; "
    "if [ \"$6\" = checks ]; then n missing; fi; "
    "mkdir -p \"$b\" && t=$(mktemp -d \"$b/new.XXXXXX\") || n folder \"$b\"; "
    "c() { rm -rf \"$t\"; }; trap c EXIT; trap \"exit 1\" HUP INT TERM PIPE; "
    "find \"$b\" -maxdepth 1 -name \"new.*\" -mmin +60 -exec rm -rf {} +; "
    "echo crt-hand send; "
    "head -c \"$2\" >\"$t/a\" || n write \"$b\"; "
    "h=$(sha256sum <\"$t/a\"); [ \"${h%% *}\" = \"$1\" ] || n content; "
    "mkdir \"$t/$1\" && head -c \"$7\" \"$t/a\" | tar -xzof - -C \"$t/$1\" || "
    "n write \"$b\"; "
    "tail -c +$(($7 + 1)) \"$t/a\" | \"$t/$1/libexec/crt/crt-decompress\" | "
    "tar -xof - -C \"$t/$1\" || n write \"$b\"; "
    "\"$t/$1/bin/crt\" version >/dev/null || n run \"$b\"; "
    "mv \"$t/$1\" \"$b\" 2>/dev/null; [ -x \"$d/bin/crt\" ] || n write \"$b\"; "
    "c; trap - EXIT HUP INT TERM PIPE; "
    "fi; "
    "if [ -n \"$p\" ]; then PATH=$p/bin:$PATH; "
    "LD_LIBRARY_PATH=$p/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; "
    "export PATH LD_LIBRARY_PATH; fi; "
    "echo crt-hand ready; exec crt host";

void crti_hand_over_command(const crt_archive_t *archive, hand_over_mode_t mode,
                            char command[HAND_OVER_COMMAND])
{
    static const char *const modes[] = {"gives", "checks", "ends"};

    snprintf(command, HAND_OVER_COMMAND,
             "exec /bin/sh -c '%s' crt %s %zu %s %s %u %s %zu", script, archive->id,
             archive->size, crt_version(), archive->machine, archive->glibc, modes[mode],
             archive->first_size);
}

bool crti_hand_over_is_fine(const char *word, const char **did_out)
{
    *did_out = strcmp(word, "missing") == 0   ? "would get crt, and start"
               : strcmp(word, "nothing") == 0 ? "had nothing"
                                              : NULL;
    return *did_out;
}

void crti_hand_over_reason(const crt_archive_t *archive, const char *words,
                           const char *error, char *text, size_t size)
{
    const char *space = strchr(words, ' '), *rest = space ? space + 1 : "";
    size_t length = strcspn(words, " ");

#define SAYS(word) (length == strlen(word) && strncmp(words, word, length) == 0)
    if (SAYS("processor"))
        snprintf(text, size,
                 "its processor is %s, crt here is for %s: install crt there, and say by "
                 "crt: PATH where",
                 rest, archive->machine);
    else if (SAYS("glibc") && *rest)
        snprintf(text, size,
                 "its C library is %s, crt here needs 2.%u: build crt on a system as old "
                 "as that one",
                 rest, archive->glibc);
    else if (SAYS("glibc"))
        snprintf(text, size,
                 "its C library is not glibc: build crt there, and say by crt: PATH "
                 "where it is");
    else if (SAYS("content"))
        snprintf(text, size,
                 "crt did not arrive whole: the connection was cut, or sha256sum is not "
                 "there%s%s",
                 *error ? ": " : "", error);
    else if (SAYS("run"))
        snprintf(text, size, "crt can't be run from %s%s%s", rest, *error ? ": " : "",
                 error);
    else
        snprintf(text, size, "crt can't be put into %s%s%s", rest, *error ? ": " : "",
                 error);
#undef SAYS
}
