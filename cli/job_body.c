/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of a submission. See job_submit.h. */
#include "cli/job_submit.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/runtime_env.h"

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

/* The program runs from a cache, so that paths relative to it lead nowhere, and a job has none of
 * the submitter's environment: where libcrt is not in a place of the system (a build tree, a prefix
 * of one's own) it is told where the one of this command is. */
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

/* How it wants to see a driver's output holds for that of a job, too. */
static void add_dedup(json_t *environment)
{
    static const char name[] = "CRT_DEDUP_LOGS";
    const char *given = getenv(name);

    if (given && *given)
        json_object_set_new(environment, name, json_string(given));
}

/* ---------------------------------------------------------------- the runtime environment */

static json_t *read_object(const char *option, const char *text)
{
    json_error_t error;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);

    if (json_is_object(json))
        return json;
    if (json)
        crti_cli_fail(JOB_SUBMIT, "%s must be a JSON object", option);
    else
        crti_cli_fail(JOB_SUBMIT, "%s is not JSON: %s (line %d, column %d)", option,
                      error.text, error.line, error.column);
    json_decref(json);
    return NULL;
}

/* As it was given. NULL: it said why. */
static json_t *given_env(const job_options_t *o)
{
    json_t *env = NULL;

    if (o->runtime_env_json)
        return read_object("--runtime-env-json", o->runtime_env_json);
    if (!o->runtime_env)
        return json_object();
    if (crti_runtime_env_read(o->runtime_env, &env) == CRT_OK)
        return env;
    crti_cli_fail_detail(JOB_SUBMIT);
    return NULL;
}

static void add_variable(json_t *environment, const char *variable)
{
    const char *equal = strchr(variable, '=');
    char *name = strndup(variable, (size_t)(equal - variable));

    json_object_set_new(environment, name ? name : "", json_string(equal + 1));
    free(name);
}

json_t *crti_job_runtime_env(const job_options_t *o)
{
    json_t *env = given_env(o), *variables, *given;

    if (!env)
        return NULL;
    crti_runtime_env_pass_over(JOB_SUBMIT, env);
    if (crti_runtime_env_read_requirements(env) != CRT_OK) {
        crti_cli_fail_detail(JOB_SUBMIT);
        json_decref(env);
        return NULL;
    }
    given = json_object_get(env, "env_vars");
    if (given && !json_is_object(given)) {
        crti_cli_fail(JOB_SUBMIT,
                      "env_vars of the runtime environment must be an object");
        json_decref(env);
        return NULL;
    }
    variables = json_object();
    add_library_path(variables);
    add_dedup(variables);
    if (given)
        json_object_update(variables, given);
    if (o->priority)
        json_object_set_new(variables, "CRT_JOB_PRIORITY", json_string(o->priority));
    if (o->name_space)
        json_object_set_new(variables, "CRT_JOB_NAMESPACE", json_string(o->name_space));
    if (o->max_share)
        json_object_set_new(variables, "CRT_JOB_MAX_SHARE", json_string(o->max_share));
    if (o->copies)
        json_object_set_new(variables, "CRT_JOB_COPIES", json_string(o->copies));
    for (size_t i = 0; o->variables[i]; i++)
        add_variable(variables, o->variables[i]);
    json_object_set_new(env, "env_vars", variables);
    if (o->working_dir)
        json_object_set_new(env, "working_dir", json_string(o->working_dir));
    return env;
}

/* ---------------------------------------------------------------- the body */

/* "a=1,b=x" as {"a": 1, "b": "x"}. Commas in parentheses divide nothing: zone=in(a,b). */
static json_t *read_pairs(const char *text, bool are_numbers)
{
    json_t *object = json_object();

    while (*text) {
        size_t name = strcspn(text, "="), value = 0;
        char key[128], word[512];
        int depth = 0;

        snprintf(key, sizeof(key), "%.*s", (int)name, text);
        text += name + (text[name] == '=');
        for (; text[value] && (depth > 0 || text[value] != ','); value++)
            depth += (text[value] == '(') - (text[value] == ')');
        snprintf(word, sizeof(word), "%.*s", (int)value, text);
        json_object_set_new(object, key,
                            are_numbers ? json_real(atof(word)) : json_string(word));
        text += value + (text[value] == ',');
    }
    return object;
}

/* What it holds, where it may run, how often. */
static void add_place(json_t *body, const job_options_t *o)
{
    if (o->num_cpus)
        json_object_set_new(body, "entrypoint_num_cpus", json_real(atof(o->num_cpus)));
    if (o->num_gpus)
        json_object_set_new(body, "entrypoint_num_gpus", json_real(atof(o->num_gpus)));
    if (o->memory)
        json_object_set_new(body, "entrypoint_memory",
                            json_integer((json_int_t)o->memory));
    if (o->resources)
        json_object_set_new(body, "entrypoint_resources", read_pairs(o->resources, true));
    if (o->labels)
        json_object_set_new(body, "entrypoint_label_selector",
                            read_pairs(o->labels, false));
    if (o->retries)
        json_object_set_new(body, "retries", json_integer(atol(o->retries)));
}

json_t *crti_job_body(const job_options_t *o, const json_t *runtime_env, int argc,
                      char **argv)
{
    json_t *body = json_object(), *words = json_array(), *metadata;
    char *entrypoint = NULL;
    bool is_text = true;

    for (int i = 0; i < argc; i++) {
        append_word(&entrypoint, argv[i]);
        is_text = json_array_append_new(words, json_string(argv[i])) == 0 && is_text;
    }
    json_object_set_new(body, "entrypoint", json_string(entrypoint));
    free(entrypoint);
    json_object_set_new(body, "argv", words);
    json_object_set(body, "runtime_env", (json_t *)runtime_env);
    add_place(body, o);
    if (o->submission)
        is_text =
            json_object_set_new(body, "submission_id", json_string(o->submission)) == 0 &&
            is_text;
    if (!is_text) {
        crti_cli_fail(JOB_SUBMIT, "arguments must be UTF-8 text");
        json_decref(body);
        return NULL;
    }
    if (!o->metadata_json)
        return body;
    metadata = read_object("--metadata-json", o->metadata_json);
    if (metadata) {
        json_object_set_new(body, "metadata", metadata);
        return body;
    }
    json_decref(body);
    return NULL;
}
