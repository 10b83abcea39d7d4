/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads of crt job submit: the executable, or the folder as a zip, unless the head's host has it.
 * See job_submit.h. */
#include "cli/job_submit.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/download.h"
#include "cli/folder.h"
#include "runtime/base/path_search.h"

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
    const char *search = strchr(name, '/') ? NULL : getenv("PATH");
    FILE *file = NULL;
    struct stat st;

    if (!search)
        snprintf(path, size, "%s", name);
    if (!search || crti_path_search(search, name, path, size))
        file = fopen(path, "re");
    else
        errno = ENOENT;
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
    char path[4096], sha[SHA256_TEXT], url[128];
    FILE *file = open_program(name, path, sizeof(path));
    uint64_t size;
    int result;

    if (!file)
        return CLI_FAILED;
    if (crti_file_sha256(file, sha, &size)) {
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

/* A zip from elsewhere: URL#sha256=HEX. */
static FILE *open_remote(const char *given)
{
    static const char mark[] = "#sha256=";
    const char *end = strstr(given, mark), *tmp = getenv("TMPDIR");
    char place[PATH_MAX], path[PATH_MAX + 16], url[4096] = "";
    FILE *file = NULL;
    download_t download = {.from = url, .path = path, .most = FOLDER_BYTES};

    if (strncmp(given, "https://", 8) != 0 || !end ||
        !crti_is_sha256(end + sizeof(mark) - 1) || end - given >= (long)sizeof(url)) {
        crti_cli_fail(JOB_SUBMIT,
                      "working_dir %s: from elsewhere a zip is taken by https only, with "
                      "its SHA-256: https://HOST/FILE.zip#sha256=HEX",
                      given);
        return NULL;
    }
    snprintf(url, sizeof(url), "%.*s", (int)(end - given), given);
    download.sha256 = end + sizeof(mark) - 1;
    snprintf(place, sizeof(place), "%s/crt-folder-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(place)) {
        crti_cli_fail(JOB_SUBMIT, "%s: %s", place, strerror(errno));
        return NULL;
    }
    snprintf(path, sizeof(path), "%s/folder.zip", place);
    if (crti_download(&download) != CRT_OK)
        crti_cli_fail_detail(JOB_SUBMIT);
    else
        file = fopen(path, "re");
    unlink(path);
    snprintf(path, sizeof(path), "%s/folder.zip.part", place);
    unlink(path);
    rmdir(place);
    return file;
}

/* A zip as it is, or one that is made of a directory. */
static FILE *open_folder(const char *path, const json_t *runtime_env)
{
    const char **excludes;
    FILE *file = NULL;
    struct stat st;

    if (strstr(path, "://"))
        return open_remote(path);
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
    char sha[SHA256_TEXT], url[160], uri[128];
    FILE *file = open_folder(path, runtime_env);
    uint64_t size;
    int result;

    if (!file)
        return CLI_FAILED;
    if (crti_file_sha256(file, sha, &size)) {
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
