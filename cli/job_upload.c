/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads of crt job submit: the executable, or the folder as a zip, unless the head's host has it.
 * See job_submit.h. */
#include "cli/job_submit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "cli/folder.h"

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
        crti_cli_fail(JOB_SUBMIT, "can't read the program %s: %s", name, strerror(errno));
        return NULL;
    }
    if (fstat(fileno(file), &st) != 0 || !S_ISREG(st.st_mode))
        crti_cli_fail(JOB_SUBMIT, "%s is not an executable file", path);
    else if (!(st.st_mode & 0111))
        crti_cli_fail(JOB_SUBMIT,
                      "%s is not an executable file: make it one with chmod +x", path);
    else if (!is_program(file))
        crti_cli_fail(JOB_SUBMIT,
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

/* Under `url`, unless it is there. */
static int upload(http_client_t *client, const char *path, FILE *file, const char *url,
                  uint64_t size)
{
    http_reply_t reply = {0};
    crt_status_t status;
    long code;

    status = crti_client_send(client, "GET", url, NULL, &reply);
    code = reply.code;
    if (status == CRT_OK && code == 404) {
        crti_reply_fini(&reply);
        fprintf(stderr, "Uploading %s (%.1f MiB)\n", path, (double)size / (1 << 20));
        status = crti_client_upload(client, url, file, size, &reply);
        code = reply.code;
    }
    if (status == CRT_OK && code != 200)
        status = crti_client_refused(client, &reply);
    crti_reply_fini(&reply);
    return status == CRT_OK ? 0
                            : crti_cli_fail(JOB_SUBMIT, "can't upload %s: %s", path,
                                            crt_error_detail());
}

int crti_job_upload_program(http_client_t *client, const char *name, json_t *runtime_env)
{
    char path[4096], sha[65], url[128];
    FILE *file = open_program(name, path, sizeof(path));
    uint64_t size;
    int result;

    if (!file)
        return CLI_FAILED;
    if (hash_file(file, sha, &size)) {
        snprintf(url, sizeof(url), "/api/packages/crt/%s", sha);
        result = upload(client, path, file, url, size);
    } else {
        result = crti_cli_fail(JOB_SUBMIT, "can't read %s: %s", path, strerror(errno));
    }
    fclose(file);
    json_object_set_new(runtime_env, "program", json_string(sha));
    return result;
}

/* ---------------------------------------------------------------- the folder */

static const char **excludes_of(const json_t *runtime_env)
{
    const json_t *list = json_object_get(runtime_env, "excludes");
    const char **excludes = calloc(json_array_size(list) + 1, sizeof(*excludes));

    for (size_t i = 0, n = 0; excludes && i < json_array_size(list); i++)
        if ((excludes[n] = json_string_value(json_array_get(list, i))) != NULL)
            n++;
    return excludes;
}

/* A zip as it is, or one that is made of a directory. */
static FILE *open_folder(const char *path, const json_t *runtime_env)
{
    const char **excludes;
    FILE *file = NULL;
    struct stat st;

    if (stat(path, &st) != 0) {
        crti_cli_fail(JOB_SUBMIT, "%s: %s", path, strerror(errno));
        return NULL;
    }
    if (!S_ISDIR(st.st_mode)) {
        file = S_ISREG(st.st_mode) ? fopen(path, "re") : NULL;
        if (!file)
            crti_cli_fail(JOB_SUBMIT, "%s is neither a directory nor a zip file", path);
        return file;
    }
    excludes = excludes_of(runtime_env);
    if (!excludes || crti_folder_pack(path, excludes, &file) != CRT_OK)
        crti_cli_fail_detail(JOB_SUBMIT);
    free(excludes);
    return file;
}

int crti_job_upload_folder(http_client_t *client, json_t *runtime_env)
{
    const char *path = json_string_value(json_object_get(runtime_env, "working_dir"));
    char sha[65], url[160], uri[128];
    FILE *file = open_folder(path, runtime_env);
    uint64_t size;
    int result;

    if (!file)
        return CLI_FAILED;
    if (hash_file(file, sha, &size)) {
        snprintf(url, sizeof(url), "/api/packages/gcs/_ray_pkg_%s.zip", sha);
        result = upload(client, path, file, url, size);
    } else {
        result = crti_cli_fail(JOB_SUBMIT, "can't read %s: %s", path, strerror(errno));
    }
    fclose(file);
    snprintf(uri, sizeof(uri), "gcs://_ray_pkg_%s.zip", sha);
    json_object_set_new(runtime_env, "working_dir", json_string(uri));
    return result;
}
