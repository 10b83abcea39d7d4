/* SPDX-License-Identifier: Apache-2.0 */
/* crt job submit: uploads the executable, if the head's host has not got it, submits the job and
 * follows its output.
 *
 * Where it sits
 *     user -> [ cli/job_submit.c ] -> cli/http_client.c -> crt-http (/api/packages/crt/SHA256, /api/jobs/)
 */
#include "cli/job_view.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "cli/options.h"

#define NAME "crt job submit"

static const char *address, *submission, *priority, *max_share,
    *variables[OPTION_LIST_MAX];
static bool no_wait;

/* What the kernel executes: an ELF file, or a script that names its interpreter. */
static bool is_program(FILE *file)
{
    char start[4];
    size_t got = fread(start, 1, sizeof(start), file);

    rewind(file);
    return (got == 4 && memcmp(start, "\177ELF", 4) == 0) ||
           (got >= 2 && memcmp(start, "#!", 2) == 0);
}

/* The program as the shell would find it. */
static FILE *open_program(const char *name, char *path, size_t size)
{
    const char *search = getenv("PATH");
    FILE *file = NULL;
    struct stat st;

    if (strchr(name, '/') || !search) {
        snprintf(path, size, "%s", name);
        file = fopen(path, "re");
    }
    while (!file && !strchr(name, '/') && search && *search) {
        size_t length = strcspn(search, ":");

        snprintf(path, size, "%.*s/%s", (int)length, search, name);
        if (access(path, X_OK) == 0)
            file = fopen(path, "re");
        search += length + (search[length] == ':');
        errno = ENOENT;
    }
    if (!file) {
        crti_cli_fail(NAME, "can't read the program %s: %s", name, strerror(errno));
        return NULL;
    }
    if (fstat(fileno(file), &st) != 0 || !S_ISREG(st.st_mode))
        crti_cli_fail(NAME, "%s is not an executable file", path);
    else if (!(st.st_mode & 0111))
        crti_cli_fail(NAME, "%s is not an executable file: make it one with chmod +x",
                      path);
    else if (!is_program(file))
        crti_cli_fail(NAME,
                      "%s can't be executed: it is neither a binary (ELF) nor a script "
                      "that begins with #!",
                      path);
    else
        return file;
    fclose(file);
    return NULL;
}

static bool hash_file(FILE *file, char sha[65], uint64_t *size_out)
{
    unsigned char digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;
    static unsigned char part[1 << 16];
    size_t n;

    *size_out = 0;
    crypto_hash_sha256_init(&state);
    while ((n = fread(part, 1, sizeof(part), file)) > 0) {
        crypto_hash_sha256_update(&state, part, n);
        *size_out += n;
    }
    crypto_hash_sha256_final(&state, digest);
    sodium_bin2hex(sha, 65, digest, sizeof(digest));
    return !ferror(file);
}

static int upload(http_client_t *client, const char *path, FILE *file, const char *sha,
                  uint64_t size)
{
    http_reply_t reply = {0};
    char url[128];
    crt_status_t status;
    long code;

    snprintf(url, sizeof(url), "/api/packages/crt/%s", sha);
    status = crti_client_send(client, "GET", url, NULL, &reply);
    code = reply.code;
    if (status == CRT_OK && code == 404) {
        crti_reply_fini(&reply);
        fprintf(stderr, "Uploading %s (%.1f MiB)\n", path, (double)size / (1 << 20));
        status = crti_client_upload(client, url, file, size, &reply);
        code = reply.code;
    }
    if (status == CRT_OK && code != 200)
        status = crt_raise(CRT_ERR_IO, "can't upload %s: %s", path,
                           reply.size ? reply.text : "the server gave no reason");
    crti_reply_fini(&reply);
    return status == CRT_OK ? 0 : crti_cli_fail_detail(NAME);
}

/* One word of a line that a shell would read back as it was. */
static void append_word(char **line, const char *word)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
        "@%+=:,./_-";
    size_t used = *line ? strlen(*line) : 0;
    char *larger = realloc(*line, used + 5 * strlen(word) + 8), *at;

    if (!larger)
        return;
    *line = larger;
    at = larger + used;
    if (used)
        *at++ = ' ';
    if (*word && strspn(word, plain) == strlen(word)) {
        strcpy(at, word);
        return;
    }
    *at++ = '\'';
    for (; *word; word++)
        if (*word == '\'')
            at = stpcpy(at, "'\"'\"'");
        else
            *at++ = *word;
    strcpy(at, "'");
}

/* The program runs from a cache, so that paths relative to it lead nowhere, and a job has none of the
 * submitter's environment: where libcrt is not in a place of the system (a build tree, a prefix of
 * one's own) it is told where the one of this command is. */
static void add_library_path(json_t *environment)
{
    const char *given = getenv("LD_LIBRARY_PATH");
    char directory[PATH_MAX] = "", path[2 * PATH_MAX], *slash;
    void *symbol = dlsym(RTLD_DEFAULT, "crt_version");
    Dl_info library;

    if (symbol && dladdr(symbol, &library) && library.dli_fname &&
        realpath(library.dli_fname, directory) && (slash = strrchr(directory, '/')))
        *slash = '\0';
    if (strncmp(directory, "/usr/lib", 8) == 0 || strncmp(directory, "/lib", 4) == 0)
        directory[0] = '\0';
    snprintf(path, sizeof(path), "%s%s%s", directory,
             directory[0] && given && *given ? ":" : "", given ? given : "");
    if (path[0])
        json_object_set_new(environment, "LD_LIBRARY_PATH", json_string(path));
}

/* The body of POST /api/jobs/ (docs/design/http.md); NULL when an argument is not UTF-8. */
static char *job_body(int argc, char **argv, const char *sha)
{
    json_t *words = json_array(), *environment = json_object(), *body;
    char *entrypoint = NULL, *text = NULL;

    for (int i = 0; i < argc; i++) {
        append_word(&entrypoint, argv[i]);
        if (json_array_append_new(words, json_string(argv[i])) != 0)
            goto out;
    }
    add_library_path(environment);
    if (priority)
        json_object_set_new(environment, "CRT_JOB_PRIORITY", json_string(priority));
    if (max_share)
        json_object_set_new(environment, "CRT_JOB_MAX_SHARE", json_string(max_share));
    for (size_t i = 0; variables[i]; i++) {
        const char *equal = strchr(variables[i], '=');
        char *name = strndup(variables[i], (size_t)(equal - variables[i]));

        json_object_set_new(environment, name ? name : "", json_string(equal + 1));
        free(name);
    }
    body = json_pack("{s:s, s:O, s:{s:s, s:O}}", "entrypoint", entrypoint, "argv", words,
                     "runtime_env", "program", sha, "env_vars", environment);
    if (body && submission)
        json_object_set_new(body, "submission_id", json_string(submission));
    text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
out:
    json_decref(words);
    json_decref(environment);
    free(entrypoint);
    return text;
}

static void say_submitted(const char *id)
{
    crti_cli_job_print_box(id, "submitted successfully");
    printf("\nNext steps\n  Query the logs of the job:\n    crt job logs %s\n  Query "
           "the status "
           "of the job:\n    crt job status %s\n  Request the job to be stopped:\n    "
           "crt job "
           "stop %s\n",
           id, id, id);
    if (!no_wait)
        printf("\nTailing logs until the job exits (disable with --no-wait):\n");
    fflush(stdout);
}

static int submit(http_client_t *client, int argc, char **argv)
{
    char path[4096], sha[65], *body, *id;
    FILE *file = open_program(argv[0], path, sizeof(path));
    uint64_t size;
    json_t *reply;
    int result;

    if (!file)
        return CLI_FAILED;
    result = hash_file(file, sha, &size)
                 ? upload(client, path, file, sha, size)
                 : crti_cli_fail(NAME, "can't read %s: %s", path, strerror(errno));
    fclose(file);
    if (result != 0)
        return result;
    body = job_body(argc, argv, sha);
    if (!body)
        return crti_cli_fail(NAME, "arguments must be UTF-8 text");
    reply = crti_client_json(client, "POST", "/api/jobs/", body, NULL);
    free(body);
    if (!reply)
        return crti_cli_fail_detail(NAME);
    id = strdup(crti_cli_job_text(reply, "submission_id"));
    json_decref(reply);
    if (!id)
        return crti_cli_fail(NAME, "out of memory");
    say_submitted(id);
    result = no_wait ? 0 : crti_cli_follow_job(client, NAME, id);
    free(id);
    return result;
}

int crti_cli_job_submit(int argc, char **argv)
{
    static const option_spec_t options[] = {
        {"address", 'a', "HOST:PORT", OPTION_ADDRESS, &address,
         "the cluster's head; default: the only cluster here"},
        {"no-wait", 0, NULL, OPTION_FLAG, &no_wait, "do not follow the job's output"},
        {"submission-id", 0, "ID", OPTION_TEXT, &submission,
         "name of the job; default: a random one"},
        {"priority", 0, "N", OPTION_COUNT, &priority,
         "weight of the job where jobs wait for CPUs, 1 to 1000; default 1"},
        {"max-share", 0, "PART", OPTION_COUNT, &max_share,
         "part of each node's CPUs that it may hold, above 0 to 1; default 1"},
        {"env", 'e', "NAME=VALUE", OPTION_LIST, variables,
         "environment variable of the job; may be given several times"}};
    static const command_spec_t spec = {
        .name = NAME,
        .operands = "-- PROGRAM [ARGUMENTS]",
        .stops_at_operand = true,
        .summary =
            "Uploads an executable and runs it as a job on the head's node; then "
            "prints its "
            "output\nuntil it ends. The exit status is that of the program, 128 and "
            "the number of the\nsignal that killed it, or 1 when there is none.",
        .options = options,
        .count = sizeof(options) / sizeof(options[0])};
    http_client_t *client;
    int first, result;

    switch (crti_cli_parse(argc, argv, &spec, &first)) {
    case PARSE_DONE: return 0;
    case PARSE_WRONG: return CLI_USAGE;
    case PARSE_OK: break;
    }
    if (first >= argc)
        return crti_cli_misused(NAME, "which program?");
    for (size_t i = 0; variables[i]; i++)
        if (!strchr(variables[i], '=') || variables[i][0] == '=')
            return crti_cli_misused(NAME, "--env takes NAME=VALUE, not \"%s\"",
                                    variables[i]);
    if (priority && (strspn(priority, "0123456789") != strlen(priority) ||
                     atoi(priority) < 1 || atoi(priority) > 1000))
        return crti_cli_misused(
            NAME, "--priority takes a number of 1 to 1000, not \"%s\"", priority);
    if (max_share && !(atof(max_share) > 0 && atof(max_share) <= 1))
        return crti_cli_misused(NAME, "--max-share takes a part above 0 to 1, not \"%s\"",
                                max_share);
    if (sodium_init() < 0)
        return crti_cli_fail(NAME, "libsodium does not start");
    client = crti_cli_job_client(NAME, address);
    if (!client)
        return CLI_FAILED;
    result = submit(client, argc - first, argv + first);
    crti_client_free(client);
    return result;
}
