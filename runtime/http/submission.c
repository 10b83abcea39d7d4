/* SPDX-License-Identifier: Apache-2.0 */
/* The body of POST /api/jobs/. See submission.h. */
#include "runtime/http/submission.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <sodium.h>

#include "runtime/base/job_variables.h"
#include "runtime/base/json_shape.h"
#include "runtime/http/upload.h"
#include "runtime/net/message.h"

#define ARGV_MAX         4096
#define RETRIES_MAX      1000
#define SETUP_MAX        4096 /* bytes, with the final zero */
#define CONDA_MAX        200  /* of a name */
#define REQUIREMENTS_MAX 16384
#define SECONDS_MAX      (365 * 24 * 60 * 60)

static void json_decref_auto(json_t **json)
{
    json_decref(*json);
}

/* NULL-valued keys count as absent: clients strip them, or not. */
static const json_t *member(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_null(value) ? NULL : value;
}

static crt_status_t wrong_type(const char *key, const char *expected)
{
    return crt_raise(CRT_ERR_INVALID, "\"%s\" must be %s", key, expected);
}

static crt_status_t put_text(crti_buffer_t *list, const char *text, size_t size,
                             const char *key)
{
    if (memchr(text, '\0', size))
        return crt_raise(CRT_ERR_INVALID, "\"%s\" holds a zero character", key);
    return crti_list_pack(list, text, size);
}

/* As text: it becomes a part of every list of jobs. */
static crt_status_t put_object(const json_t *object, const char *key, char **text_out)
{
    *text_out = object ? json_dumps(object, JSON_COMPACT) : strdup("{}");
    if (!*text_out)
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    return crti_json_shape(crti_str(*text_out)).has_zero
               ? crt_raise(CRT_ERR_INVALID, "\"%s\" holds a zero character", key)
               : CRT_OK;
}

static crt_status_t read_id(const json_t *body, crti_http_submission_t *s)
{
    const json_t *id = member(body, "submission_id");

    if (!id)
        id = member(body, "job_id");
    if (id && !json_is_string(id))
        return wrong_type("submission_id", "a string");
    if (id && !crti_http_is_job_id(json_string_value(id)))
        return crt_raise(CRT_ERR_INVALID,
                         "\"submission_id\" must be 1 to %d letters, digits or . _ - and "
                         "not begin with a point",
                         CRTI_HTTP_ID_MAX - 1);
    if (id)
        snprintf(s->id, sizeof(s->id), "%s", json_string_value(id));
    return CRT_OK;
}

void crti_submission_choose_id(crti_http_submission_t *submission, bool is_rays)
{
    static const char letters[] =
        "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
    char *id = submission->id;
    int used = snprintf(id, sizeof(submission->id), is_rays ? "raysubmit_" : "job_");

    for (int i = 0; i < 16; i++)
        id[used++] = letters[randombytes_uniform(sizeof(letters) - 1)];
    id[used] = '\0';
}

static crt_status_t read_entrypoint(const json_t *body, crti_http_submission_t *s)
{
    const json_t *entrypoint = member(body, "entrypoint");

    if (!json_is_string(entrypoint) || json_string_length(entrypoint) == 0)
        return wrong_type("entrypoint", "a string that is not empty");
    if (strlen(json_string_value(entrypoint)) != json_string_length(entrypoint))
        return crt_raise(CRT_ERR_INVALID, "\"entrypoint\" holds a zero character");
    s->entrypoint = strdup(json_string_value(entrypoint));
    return s->entrypoint ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
}

crt_status_t crti_submission_variable(crti_http_submission_t *submission,
                                      const char *name, const char *value)
{
    CRTI_AUTO(free) char *entry = NULL;
    int length = asprintf(&entry, "%s=%s", name, value);

    if (length < 0)
        return crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
    return put_text(&submission->environment, entry, (size_t)length, "env_vars");
}

static crt_status_t read_environment(const json_t *runtime_env, crti_http_submission_t *s)
{
    const json_t *variables = member(runtime_env, "env_vars"), *value;
    const char *name;
    void *at;
    crt_status_t status;

    if (!variables)
        return CRT_OK;
    if (!json_is_object(variables))
        return wrong_type("runtime_env.env_vars", "an object of strings");
    for (at = json_object_iter((json_t *)variables); at;
         at = json_object_iter_next((json_t *)variables, at)) {
        name = json_object_iter_key(at);
        value = json_object_iter_value(at);
        if (!json_is_string(value) || !*name || strchr(name, '='))
            return wrong_type("runtime_env.env_vars", "an object of strings");
        status = strlen(json_string_value(value)) == json_string_length(value)
                     ? crti_submission_variable(s, name, json_string_value(value))
                     : crt_raise(CRT_ERR_INVALID, "\"%s\" holds a zero character", name);
        if (status != CRT_OK)
            return status;
    }
    return CRT_OK;
}

/* ---------------------------------------------------------------- a Python environment */

/* Lines of a requirements file. */
static crt_status_t join_lines(const json_t *list, const char *tool, crti_buffer_t *lines)
{
    const json_t *line;
    size_t i;

    json_array_foreach((json_t *)list, i, line)
    {
        const char *text = json_string_value(line);

        if (!text || !*text || strpbrk(text, "\r\n") ||
            strlen(text) != json_string_length(line))
            return crt_raise(CRT_ERR_INVALID,
                             "runtime_env.%s must be a list of requirements, such as "
                             "\"numpy==2.1\"",
                             tool);
        CRT_TRY(crti_buffer_append(lines, text, strlen(text)));
        CRT_TRY(crti_buffer_append(lines, "\n", 1));
    }
    if (lines->size == 0 || lines->size > REQUIREMENTS_MAX)
        return crt_raise(CRT_ERR_INVALID,
                         "runtime_env.%s must have 1 to %d bytes of requirements", tool,
                         REQUIREMENTS_MAX);
    return crti_buffer_append(lines, "", 1);
}

/* A list, or an object with "packages" alone. */
static crt_status_t read_requirements(const json_t *runtime_env, const char *tool,
                                      const char *variable, crti_http_submission_t *s)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t lines = {0};
    const json_t *given = member(runtime_env, tool), *list = given;

    if (json_is_object(given) && json_object_size(given) == 1)
        list = json_object_get(given, "packages");
    if (!given)
        return CRT_OK;
    if (!json_is_array(list))
        return crt_raise(CRT_ERR_INVALID,
                         "runtime_env.%s must be a list of requirements, or an object "
                         "with \"packages\" alone; more is for \"setup\"",
                         tool);
    CRT_TRY(join_lines(list, tool, &lines));
    return crti_submission_variable(s, variable, (const char *)lines.data);
}

static crt_status_t read_conda(const json_t *runtime_env, crti_http_submission_t *s)
{
    const json_t *conda = member(runtime_env, "conda");
    const char *name = json_string_value(conda), *end = name ? strrchr(name, '.') : NULL;

    if (!conda)
        return CRT_OK;
    if (!name || !*name || strlen(name) != json_string_length(conda) ||
        strlen(name) >= CONDA_MAX || *name == '-' || strpbrk(name, "/ \t\r\n:#") ||
        (end && (strcmp(end, ".yml") == 0 || strcmp(end, ".yaml") == 0)))
        return crt_raise(CRT_ERR_INVALID,
                         "runtime_env.conda must be the name of an environment that the "
                         "nodes have; let \"setup\" make one from a file or a list");
    return crti_submission_variable(s, CRTI_JOB_CONDA, name);
}

/* Alone: what else the job needs is in the image. Its folder may come along. */
static crt_status_t read_image(const json_t *runtime_env, crti_http_submission_t *s)
{
    static const char *const others[] = {"conda", "pip", "uv", "setup"};
    const json_t *image = member(runtime_env, "image_uri");
    const char *name = json_string_value(image);

    if (!image)
        return CRT_OK;
    if (!name || !*name || strlen(name) != json_string_length(image) ||
        strlen(name) >= CRTI_JOB_IMAGE_MAX || *name == '-')
        return wrong_type("runtime_env.image_uri",
                          "the name of an image of less than 256 bytes, such as "
                          "registry.example.org/train:1");
    for (const char *c = name; *c; c++)
        if (*c <= ' ' || *c > '~')
            return wrong_type("runtime_env.image_uri", "a name without blanks");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (member(runtime_env, others[i]))
            return crt_raise(CRT_ERR_INVALID,
                             "runtime_env has image_uri and \"%s\": let the image have "
                             "what the job needs",
                             others[i]);
    return crti_submission_variable(s, CRTI_JOB_IMAGE, name);
}

static crt_status_t read_python(const json_t *runtime_env, crti_http_submission_t *s)
{
    if ((member(runtime_env, "pip") != NULL) + (member(runtime_env, "uv") != NULL) +
            (member(runtime_env, "conda") != NULL) >
        1)
        return crt_raise(CRT_ERR_INVALID,
                         "a runtime_env has one of conda, pip and uv, not several");
    CRT_TRY(read_requirements(runtime_env, "pip", CRTI_JOB_PIP, s));
    CRT_TRY(read_requirements(runtime_env, "uv", CRTI_JOB_UV, s));
    return read_conda(runtime_env, s);
}

/* Ray's RuntimeEnvConfig. Environments are always made before the program runs. */
static crt_status_t read_config(const json_t *runtime_env, crti_http_submission_t *s)
{
    const json_t *config = member(runtime_env, "config");
    const json_t *seconds = member(config, "setup_timeout_seconds");
    char text[24];

    if (config && !json_is_object(config))
        return wrong_type("runtime_env.config", "an object");
    for (void *at = json_object_iter((json_t *)config); at;
         at = json_object_iter_next((json_t *)config, at)) {
        const json_t *value = json_object_iter_value(at);

        if (value != seconds && !json_is_null(value) &&
            !(json_is_true(value) &&
              strcmp(json_object_iter_key(at), "eager_install") == 0))
            return crt_raise(CRT_ERR_INVALID,
                             "runtime_env.config has setup_timeout_seconds, and "
                             "eager_install, which is true; \"%s\" is not supported",
                             json_object_iter_key(at));
    }
    if (!seconds)
        return CRT_OK;
    if (json_integer_value(seconds) != -1 &&
        (json_integer_value(seconds) < 1 || json_integer_value(seconds) > SECONDS_MAX))
        return wrong_type("runtime_env.config.setup_timeout_seconds",
                          "a whole number of 1 to 31536000, or -1: no end");
    snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(seconds));
    return crti_submission_variable(s, CRTI_JOB_SETUP_SECONDS, text);
}

/* ---------------------------------------------------------------- the environment */

/* Keys of others are refused: a job must not run without what it asked for. */
static crt_status_t check_keys(const json_t *runtime_env)
{
    static const char *const known[] = {"working_dir", "excludes", "env_vars", "setup",
                                        "program",     "config",   "conda",    "pip",
                                        "uv",          "image_uri"};

    for (void *at = json_object_iter((json_t *)runtime_env); at;
         at = json_object_iter_next((json_t *)runtime_env, at)) {
        const char *key = json_object_iter_key(at);
        bool is_known = key[0] == '_' || json_is_null(json_object_iter_value(at));

        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
            is_known = is_known || strcmp(key, known[i]) == 0;
        if (!is_known)
            return crt_raise(CRT_ERR_INVALID,
                             "runtime_env.%s is not supported: let \"setup\", a command "
                             "that is run in working_dir, install what the job needs; "
                             "there are also excludes, env_vars, conda, pip, uv, "
                             "image_uri and program (an uploaded executable)",
                             key);
    }
    return CRT_OK;
}

static crt_status_t read_folder(const json_t *runtime_env, crti_http_submission_t *s)
{
    const json_t *folder = member(runtime_env, "working_dir");
    const json_t *setup = member(runtime_env, "setup");
    const char *uri = json_string_value(folder), *command = json_string_value(setup);

    if (folder &&
        (!uri || strncmp(uri, "gcs://", 6) != 0 || !crti_package_is_name(uri + 6)))
        return wrong_type("runtime_env.working_dir",
                          "gcs://_ray_pkg_HEX.zip, the name of an uploaded zip");
    if (folder)
        snprintf(s->package, sizeof(s->package), "%s", uri + 6);
    if (!setup)
        return CRT_OK;
    if (!command || !*command || json_string_length(setup) >= SETUP_MAX ||
        strlen(command) != json_string_length(setup))
        return wrong_type("runtime_env.setup", "a command of less than 4096 bytes");
    if (!folder)
        return crt_raise(CRT_ERR_INVALID,
                         "runtime_env.setup is run in working_dir, which "
                         "is not given");
    return crti_submission_variable(s, CRTI_JOB_SETUP, command);
}

static crt_status_t read_program(const json_t *runtime_env, crti_http_submission_t *s)
{
    const json_t *program = member(runtime_env, "program");

    if (program &&
        (!json_is_string(program) || !crti_http_is_sha(json_string_value(program))))
        return wrong_type(
            "runtime_env.program",
            "the SHA-256 of an uploaded executable, 64 lower-case hex digits");
    if (program)
        snprintf(s->sha, sizeof(s->sha), "%s", json_string_value(program));
    return CRT_OK;
}

static crt_status_t read_runtime_env(const json_t *body, crti_http_submission_t *s)
{
    const json_t *runtime_env = member(body, "runtime_env");
    crt_status_t status = CRT_OK;

    if (runtime_env && !json_is_object(runtime_env))
        return wrong_type("runtime_env", "an object");
    status = put_object(runtime_env, "runtime_env", &s->runtime_env);
    if (status != CRT_OK || !runtime_env)
        return status;
    status = check_keys(runtime_env);
    if (status == CRT_OK)
        status = read_program(runtime_env, s);
    if (status == CRT_OK)
        status = read_folder(runtime_env, s);
    if (status == CRT_OK)
        status = read_image(runtime_env, s);
    if (status == CRT_OK)
        status = read_python(runtime_env, s);
    if (status == CRT_OK)
        status = read_config(runtime_env, s);
    return status == CRT_OK ? read_environment(runtime_env, s) : status;
}

/* The list as it is; without one, the shell runs the entrypoint, as in Ray. */
static crt_status_t read_argv(const json_t *body, crti_http_submission_t *s)
{
    const json_t *argv = member(body, "argv"), *value;
    crt_status_t status = CRT_OK;
    size_t i;

    if (argv && (!json_is_array(argv) || json_array_size(argv) == 0 ||
                 json_array_size(argv) > ARGV_MAX))
        return wrong_type("argv", "a list of 1 to 4096 strings, the program first");
    if (!argv && s->sha[0])
        return crt_raise(CRT_ERR_INVALID,
                         "\"argv\" must be given with runtime_env.program");
    if (!argv) {
        const char *const shell[] = {"/bin/sh", "-c", s->entrypoint};

        for (i = 0; status == CRT_OK && i < 3; i++)
            status = crti_list_pack(&s->argv, shell[i], strlen(shell[i]));
        return status;
    }
    json_array_foreach((json_t *)argv, i, value)
    {
        if (!json_is_string(value))
            return wrong_type("argv", "a list of 1 to 4096 strings, the program first");
        status = put_text(&s->argv, json_string_value(value), json_string_length(value),
                          "argv");
        if (status != CRT_OK)
            return status;
    }
    return CRT_OK;
}

static crt_status_t read_metadata(const json_t *body, crti_http_submission_t *s)
{
    const json_t *metadata = member(body, "metadata");

    if (metadata && !json_is_object(metadata))
        return wrong_type("metadata", "an object of strings");
    for (void *at = metadata ? json_object_iter((json_t *)metadata) : NULL; at;
         at = json_object_iter_next((json_t *)metadata, at))
        if (!json_is_string(json_object_iter_value(at)))
            return wrong_type("metadata", "an object of strings");
    return put_object(metadata, "metadata", &s->metadata);
}

/* ---------------------------------------------------------------- where it runs */

static crt_status_t set_amount(crti_resources_t *resources, const char *name,
                               double amount, const char *key)
{
    int64_t units;

    if (!crti_resources_amount(amount, &units))
        return crt_raise(CRT_ERR_INVALID, "\"%s\" must be 0, or 0.0001 to 1e12", key);
    if (amount > 0 && crti_resources_get(resources, name) != 0)
        return crt_raise(CRT_ERR_INVALID, "\"%s\" names %s twice", key, name);
    return crti_resources_set(resources, name, units);
}

static crt_status_t read_amounts(const json_t *body, crti_http_submission_t *s)
{
    static const struct {
        const char *key, *name;
    } amounts[] = {{"entrypoint_num_cpus", "CPU"},
                   {"entrypoint_num_gpus", "GPU"},
                   {"entrypoint_memory", CRTI_RESOURCE_MEMORY}};
    const json_t *object = member(body, "entrypoint_resources");
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < 3 && status == CRT_OK; i++) {
        const json_t *amount = member(body, amounts[i].key);

        if (amount && !json_is_number(amount))
            return wrong_type(amounts[i].key, "a number");
        if (amount)
            status = set_amount(&s->resources, amounts[i].name, json_number_value(amount),
                                amounts[i].key);
    }
    if (object && !json_is_object(object))
        return wrong_type("entrypoint_resources", "an object of numbers");
    for (void *at = object ? json_object_iter((json_t *)object) : NULL;
         at && status == CRT_OK; at = json_object_iter_next((json_t *)object, at)) {
        if (!json_is_number(json_object_iter_value(at)))
            return wrong_type("entrypoint_resources", "an object of numbers");
        status = set_amount(&s->resources, json_object_iter_key(at),
                            json_number_value(json_object_iter_value(at)),
                            "entrypoint_resources");
    }
    return status == CRT_OK ? crti_resources_check(&s->resources) : status;
}

/* {"zone": "a", "disk": "!slow"} as zone=a,disk=!slow. */
static crt_status_t read_selector(const json_t *body, crti_http_submission_t *s)
{
    const json_t *object = member(body, "entrypoint_label_selector");
    size_t used = 0;

    if (object && !json_is_object(object))
        return wrong_type("entrypoint_label_selector", "an object of strings");
    for (void *at = object ? json_object_iter((json_t *)object) : NULL; at;
         at = json_object_iter_next((json_t *)object, at)) {
        const char *value = json_string_value(json_object_iter_value(at));

        if (!value)
            return wrong_type("entrypoint_label_selector", "an object of strings");
        used +=
            (size_t)snprintf(s->selector + used, sizeof(s->selector) - used, "%s%s=%s",
                             used ? "," : "", json_object_iter_key(at), value);
        if (used >= sizeof(s->selector))
            return crt_raise(CRT_ERR_INVALID,
                             "\"entrypoint_label_selector\" is too long");
    }
    return crti_selector_check(s->selector);
}

static crt_status_t read_place(const json_t *body, crti_http_submission_t *s)
{
    const json_t *retry = member(body, "retry_policy"), *count = member(body, "retries");
    crt_status_t status = read_amounts(body, s);

    if (count && (!json_is_integer(count) || json_integer_value(count) < 0 ||
                  json_integer_value(count) > RETRIES_MAX))
        return wrong_type("retries", "a number of 0 to 1000");
    s->retries = (uint64_t)json_integer_value(count);

    if (status == CRT_OK)
        status = read_selector(body, s);
    if (status == CRT_OK && retry && !json_is_object(retry))
        status = wrong_type("retry_policy", "an object");
    if (status == CRT_OK && json_object_size(retry) != 0)
        status = crt_raise(CRT_ERR_INVALID,
                           "\"retry_policy\" is not supported; \"retries\" is a number");
    return status;
}

crt_status_t crti_submission_parse(const void *json, size_t size,
                                   crti_http_submission_t *submission)
{
    crti_json_shape_t shape = crti_json_shape(crti_span(json, size));
    CRTI_AUTO(json_decref) json_t *body = NULL;
    json_error_t error;
    crt_status_t status;

    if (size == 0)
        return crt_raise(CRT_ERR_INVALID, "the body is empty; it must be a JSON object");
    if (shape.depth > CRTI_JSON_DEPTH_MAX + 1)
        return crt_raise(CRT_ERR_INVALID, "the body is nested %zu deep; the limit is %d",
                         shape.depth, CRTI_JSON_DEPTH_MAX + 1);
    body = json_loadb(json, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!body)
        return crt_raise(CRT_ERR_INVALID, "the body is not JSON: %s (line %d, column %d)",
                         error.text, error.line, error.column);
    if (!json_is_object(body))
        return crt_raise(CRT_ERR_INVALID, "the body must be a JSON object");
    status = read_id(body, submission);
    if (status == CRT_OK)
        status = read_entrypoint(body, submission);
    if (status == CRT_OK)
        status = read_runtime_env(body, submission);
    if (status == CRT_OK)
        status = read_argv(body, submission);
    if (status == CRT_OK)
        status = read_metadata(body, submission);
    if (status == CRT_OK)
        status = read_place(body, submission);
    return status;
}

void crti_submission_fini(crti_http_submission_t *submission)
{
    free(submission->entrypoint);
    free(submission->metadata);
    free(submission->runtime_env);
    crti_buffer_fini(&submission->argv);
    crti_buffer_fini(&submission->environment);
    *submission = (crti_http_submission_t){0};
}
