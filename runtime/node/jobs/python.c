/* SPDX-License-Identifier: Apache-2.0 */
/* The Python environment of a job on this node: what its variables ask for, where it lies here, and
 * what that changes in variables.
 *
 * Where it sits
 *     submission.c, submission_exec.c (the driver), job_package.c, zygote.c (workers)
 *     -> [ node/jobs/python.c ] -> package.c
 * Rules
 *     The driver's variables name the tool, its requirements, and where the environment lies on its
 *     own node. A worker has the same variables with the place on its node.
 */
#include <string.h>

#include <sodium.h>

#include "runtime/node/jobs/job_int.h"

static bool find_variable(crti_span_t environment, const char *name,
                          crti_span_t *value_out)
{
    size_t length = strlen(name);
    crti_span_t entry;

    while (crti_list_unpack(&environment, &entry) == CRT_OK) {
        const char *at = entry.data;

        if (entry.size > length + 1 && memcmp(at, name, length) == 0 &&
            at[length] == '=') {
            *value_out = crti_span(at + length + 1, entry.size - length - 1);
            return true;
        }
    }
    return false;
}

void crti_tool_key(const char *tool, crti_span_t wanted, char key[CRTI_PACKAGE_KEY])
{
    unsigned char digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;

    crypto_hash_sha256_init(&state);
    crypto_hash_sha256_update(&state, (const unsigned char *)tool, strlen(tool) + 1);
    crypto_hash_sha256_update(&state, wanted.data, wanted.size);
    crypto_hash_sha256_final(&state, digest);
    sodium_bin2hex(key, CRTI_PACKAGE_KEY, digest, sizeof(digest));
}

bool crti_python_wanted(crti_span_t environment, crti_package_spec_t *spec,
                        char key[CRTI_PACKAGE_KEY])
{
    static const char *const tools[][2] = {{"pip", CRTI_JOB_PIP}, {"uv", CRTI_JOB_UV}};
    crti_span_t requirements;

    for (size_t i = 0; i < 2; i++)
        if (find_variable(environment, tools[i][1], &requirements)) {
            crti_tool_key(tools[i][0], requirements, key);
            *spec = (crti_package_spec_t){.key = key, .tool = tools[i][0]};
            return true;
        }
    return false;
}

bool crti_python_is_named(crti_span_t environment)
{
    char key[CRTI_PACKAGE_KEY];
    crti_package_spec_t spec;
    crti_span_t name;

    return crti_python_wanted(environment, &spec, key) ||
           find_variable(environment, CRTI_JOB_CONDA, &name);
}

/* What a setup command was run with: another environment, another folder. */
static const char *base_of(crti_span_t environment, char base[CRTI_PACKAGE_KEY])
{
    crti_package_spec_t spec;

    if (!crti_python_wanted(environment, &spec, base))
        crti_job_variable(environment, CRTI_JOB_CONDA, base, CRTI_PACKAGE_KEY);
    return base;
}

crt_status_t crti_folder_wanted(crti_span_t environment, crti_folder_names_t *names,
                                crti_package_spec_t *spec)
{
    char base[CRTI_PACKAGE_KEY];

    crti_job_variable(environment, CRTI_JOB_PACKAGE, names->sha, sizeof(names->sha));
    crti_job_variable(environment, CRTI_JOB_SETUP, names->setup, sizeof(names->setup));
    *spec = (crti_package_spec_t){0};
    if (names->sha[0] == '\0')
        return CRT_OK;
    if (strspn(names->sha, "0123456789abcdef") != CRTI_SHA_TEXT - 1 ||
        names->sha[CRTI_SHA_TEXT - 1])
        return crt_raise(CRT_ERR_PROTOCOL, "the folder's SHA-256 is not one");
    crti_package_key(names->sha, names->setup, base_of(environment, base), names->key);
    spec->key = names->key;
    spec->sha = names->sha;
    spec->setup = names->setup;
    return CRT_OK;
}

/* ---------------------------------------------------------------- variables */

static void set(crti_arguments_t *v, size_t at, char *made)
{
    if (made == NULL) {
        v->status = crt_raise(CRT_ERR_NO_MEMORY, "variables");
        return;
    }
    free(v->list[at]);
    v->list[at] = made;
}

void crti_python_enter(const crti_package_t *python, crti_arguments_t *v)
{
    const char *directory = crti_package_directory(python);
    size_t at = 0;

    crti_arguments_format(v, CRTI_JOB_PYTHON "=%s", directory);
    crti_arguments_format(v, "VIRTUAL_ENV=%s", directory);
    while (at < v->count && strncmp(v->list[at], "PATH=", 5) != 0)
        at++;
    if (v->status == CRT_OK && at == v->count)
        crti_arguments_format(v, "PATH=%s/bin:/usr/bin:/bin", directory);
    else if (v->status == CRT_OK) {
        char *made = NULL;

        if (asprintf(&made, "PATH=%s/bin:%s", directory, v->list[at] + 5) < 0)
            made = NULL;
        set(v, at, made);
    }
}

/* Those that tell where the environment is. */
static bool tells_place(const char *entry)
{
    return strncmp(entry, "PATH=", 5) == 0 || strncmp(entry, "VIRTUAL_ENV=", 12) == 0 ||
           strncmp(entry, CRTI_JOB_PYTHON "=", sizeof(CRTI_JOB_PYTHON)) == 0;
}

void crti_python_move(const crti_package_t *python, crti_span_t environment,
                      crti_arguments_t *v)
{
    const char *here = python ? crti_package_directory(python) : "";
    char there[CRTI_NODE_PATH + 128];

    crti_job_variable(environment, CRTI_JOB_PYTHON, there, sizeof(there));
    if (!python || !there[0] || strcmp(here, there) == 0)
        return;
    for (size_t i = 0; i < v->count && v->status == CRT_OK; i++) {
        const char *found = tells_place(v->list[i]) ? strstr(v->list[i], there) : NULL;
        char *made = NULL;

        if (!found)
            continue;
        if (asprintf(&made, "%.*s%s%s", (int)(found - v->list[i]), v->list[i], here,
                     found + strlen(there)) < 0)
            made = NULL;
        set(v, i, made);
    }
}
