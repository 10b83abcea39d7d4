/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime environment of a job, from a file of its user. See runtime_env.h. */
#include "cli/runtime_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/yaml_reader.h"

/* Of Ray's keys, those that only say what a cluster with an autoscaler may be asked for. */
static const char *const passed_over[] = {"num_cpus", "num_gpus", "resources"};
#define PASSED_OVER (sizeof(passed_over) / sizeof(passed_over[0]))

/* ---------------------------------------------------------------- values of YAML */

/* As YAML writes it: null, ~, or nothing. */
static bool is_null(const yaml_node_t *value)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};

    if (value->type != YAML_SCALAR_NODE ||
        value->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++)
        if (strcmp((const char *)value->data.scalar.value, nulls[i]) == 0)
            return true;
    return false;
}

static crt_status_t text_of(yaml_reader_t *reader, const char *name,
                            const yaml_node_t *value, json_t **made_out)
{
    const char *text;

    CRT_TRY(crti_yaml_text(reader, value, name, &text));
    *made_out = json_string(text);
    return *made_out ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "out of memory");
}

static crt_status_t add_item(yaml_reader_t *reader, const char *name,
                             const yaml_node_t *key, const yaml_node_t *value, void *to)
{
    json_t *text;

    CRT_TRY(text_of(reader, "an item", value, &text));
    json_array_append_new(to, text);
    return CRT_OK;
}

static crt_status_t list_of(yaml_reader_t *reader, const char *name,
                            const yaml_node_t *value, json_t **made_out)
{
    *made_out = json_array();
    return crti_yaml_each_item(reader, value, name, add_item, *made_out);
}

/* Numbers and truth values too are what is written: variables are texts. */
static crt_status_t add_variable(yaml_reader_t *reader, const char *name,
                                 const yaml_node_t *key, const yaml_node_t *value,
                                 void *to)
{
    json_t *text;

    if (is_null(value))
        return crti_yaml_wrong(
            reader, key, "the variable %s has no value; \"\" is an empty one", name);
    CRT_TRY(text_of(reader, name, value, &text));
    json_object_set_new(to, name, text);
    return CRT_OK;
}

static crt_status_t variables_of(yaml_reader_t *reader, const char *name,
                                 const yaml_node_t *value, json_t **made_out)
{
    *made_out = json_object();
    return crti_yaml_each_key(reader, value, name, add_variable, *made_out);
}

static crt_status_t add_packages(yaml_reader_t *reader, const char *name,
                                 const yaml_node_t *key, const yaml_node_t *value,
                                 void *to)
{
    json_t *packages = NULL;
    crt_status_t status;

    if (strcmp(name, "packages") != 0)
        return crti_yaml_wrong(reader, key,
                               "%s is not supported: there is \"packages\"; let "
                               "\"setup\" do more",
                               name);
    status = list_of(reader, name, value, &packages);
    json_object_set_new(to, name, packages);
    return status;
}

/* A list, its file here, or an object with the list. */
static crt_status_t requirements_of(yaml_reader_t *reader, const char *name,
                                    const yaml_node_t *value, json_t **made_out)
{
    if (value->type == YAML_SCALAR_NODE)
        return text_of(reader, name, value, made_out);
    if (value->type == YAML_SEQUENCE_NODE)
        return list_of(reader, name, value, made_out);
    *made_out = json_object();
    return crti_yaml_each_key(reader, value, name, add_packages, *made_out);
}

static crt_status_t conda_of(yaml_reader_t *reader, const char *name,
                             const yaml_node_t *value, json_t **made_out)
{
    if (value->type != YAML_SCALAR_NODE)
        return crti_yaml_wrong(reader, value,
                               "conda is the name of an environment that the nodes have; "
                               "let \"setup\" make one from a list of packages");
    return text_of(reader, name, value, made_out);
}

static crt_status_t add_setting(yaml_reader_t *reader, const char *name,
                                const yaml_node_t *key, const yaml_node_t *value,
                                void *to)
{
    const char *text;
    char *end;
    long long seconds;

    CRT_TRY(crti_yaml_text(reader, value, name, &text));
    if (strcmp(name, "eager_install") == 0 && strcmp(text, "true") == 0)
        return CRT_OK; /* as it is */
    seconds = strtoll(text, &end, 10);
    if (strcmp(name, "setup_timeout_seconds") != 0 || *end || !*text)
        return crti_yaml_wrong(reader, key,
                               "config has setup_timeout_seconds, a whole number, and "
                               "eager_install, which is true");
    json_object_set_new(to, name, json_integer(seconds));
    return CRT_OK;
}

static crt_status_t config_of(yaml_reader_t *reader, const char *name,
                              const yaml_node_t *value, json_t **made_out)
{
    *made_out = json_object();
    return crti_yaml_each_key(reader, value, name, add_setting, *made_out);
}

static crt_status_t nothing_of(yaml_reader_t *reader, const char *name,
                               const yaml_node_t *value, json_t **made_out)
{
    *made_out = json_true();
    return CRT_OK;
}

/* ---------------------------------------------------------------- keys of YAML */

static const struct {
    const char *name;
    crt_status_t (*make)(yaml_reader_t *reader, const char *name,
                         const yaml_node_t *value, json_t **made_out);
} keys[] = {
    {"working_dir", text_of}, {"excludes", list_of},     {"env_vars", variables_of},
    {"setup", text_of},       {"conda", conda_of},       {"pip", requirements_of},
    {"uv", requirements_of},  {"config", config_of},     {"num_cpus", nothing_of},
    {"num_gpus", nothing_of}, {"resources", nothing_of}, {"image_uri", text_of}};
#define KEYS (sizeof(keys) / sizeof(keys[0]))

static const char *key_name(const void *user, size_t index)
{
    return index < KEYS ? keys[index].name : NULL;
}

/* Of Ray, and not of crt. */
static bool is_rays(const char *name)
{
    static const char *const names[] = {
        "container",     "java_jars",  "mpi",         "nsight",
        "py_executable", "py_modules", "rocprof_sys", "worker_process_setup_hook"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static crt_status_t take_key(yaml_reader_t *reader, const char *name,
                             const yaml_node_t *key, const yaml_node_t *value, void *to)
{
    json_t *made = NULL;
    crt_status_t status;
    size_t i = 0;

    if (is_null(value))
        return CRT_OK;
    while (i < KEYS && strcmp(keys[i].name, name) != 0)
        i++;
    if (i == KEYS && is_rays(name))
        return crti_yaml_wrong(reader, key,
                               "%s is not supported: let \"setup\", a command that is "
                               "run in working_dir, install what the job needs",
                               name);
    if (i == KEYS)
        return crti_yaml_unknown(reader, key, name, key_name);
    status = keys[i].make(reader, name, value, &made);
    if (status == CRT_OK)
        json_object_set_new(to, name, made);
    else
        json_decref(made);
    return status;
}

static crt_status_t read_yaml(const char *path, const char *text, json_t **env_out)
{
    json_t *env = json_object();
    yaml_reader_t reader;
    crt_status_t status = crti_yaml_open(&reader, path, text, strlen(text));

    if (status == CRT_OK) {
        status = crti_yaml_each_key(&reader, crti_yaml_root(&reader),
                                    "a runtime environment", take_key, env);
        crti_yaml_close(&reader);
    }
    if (status == CRT_OK)
        *env_out = env;
    else
        json_decref(env);
    return status;
}

/* ---------------------------------------------------------------- files */

static bool is_json(const char *path, const char *text)
{
    const char *end = strrchr(path, '.');

    return text[strspn(text, " \t\r\n")] == '{' &&
           !(end && (strcmp(end, ".yaml") == 0 || strcmp(end, ".yml") == 0));
}

static crt_status_t read_json(const char *path, const char *text, json_t **env_out)
{
    json_error_t error;

    *env_out = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    return *env_out ? CRT_OK
                    : crt_raise(CRT_ERR_INVALID, "%s:%d:%d: %s", path, error.line,
                                error.column, error.text);
}

crt_status_t crti_runtime_env_parse(const char *path, const char *text, json_t **env_out)
{
    return is_json(path, text) ? read_json(path, text, env_out)
                               : read_yaml(path, text, env_out);
}

crt_status_t crti_runtime_env_read(const char *path, json_t **env_out)
{
    char *text = NULL;
    crt_status_t status = crti_yaml_read_file(path, &text);

    if (status == CRT_OK)
        status = crti_runtime_env_parse(path, text, env_out);
    free(text);
    return status;
}

/* Its lines, without comments. */
static crt_status_t read_requirements(const char *path, json_t *list)
{
    char *text = NULL, *line, *save = NULL;

    CRT_TRY(crti_yaml_read_file(path, &text));
    line = strtok_r(text, "\r\n", &save);
    for (; line; line = strtok_r(NULL, "\r\n", &save)) {
        line += strspn(line, " \t");
        if (*line && *line != '#')
            json_array_append_new(list, json_string(line));
    }
    free(text);
    return CRT_OK;
}

crt_status_t crti_runtime_env_read_requirements(json_t *env)
{
    static const char *const tools[] = {"pip", "uv"};
    char why[400];

    for (size_t i = 0; i < 2; i++) {
        const char *path = json_string_value(json_object_get(env, tools[i]));
        json_t *list = path ? json_array() : NULL;

        if (!path)
            continue;
        if (read_requirements(path, list) != CRT_OK) {
            json_decref(list);
            snprintf(why, sizeof(why), "%s", crt_error_detail());
            return crt_raise(
                CRT_ERR_INVALID,
                "%s of the runtime environment is a list of requirements, or "
                "a file of them here; %s",
                tools[i], why);
        }
        json_object_set_new(env, tools[i], list);
    }
    return CRT_OK;
}

void crti_runtime_env_pass_over(const char *command, json_t *env)
{
    char found[64] = "";

    for (size_t i = 0; i < PASSED_OVER; i++)
        if (json_object_get(env, passed_over[i])) {
            snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s%s",
                     found[0] ? ", " : "", passed_over[i]);
            json_object_del(env, passed_over[i]);
        }
    if (found[0])
        fprintf(stderr,
                "%s: %s of the runtime environment: passed over, as in Ray; what the "
                "program itself holds is said by --entrypoint-num-cpus and its like\n",
                command, found);
}
