/* SPDX-License-Identifier: Apache-2.0 */
/* crt job submit: uploads the executable or the folder, submits the job and follows its output.
 *
 * Where it sits
 *     user -> [ cli/job_submit.c ] -> cli/job_upload.c, cli/job_body.c -> cli/http_client.c -> crt-http
 */
#include "cli/job_submit.h"

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "cli/job_view.h"

static const char *address;
static job_options_t options; /* one command per process */
static bool no_wait;

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

/* A folder that is on this host, not one that was uploaded. */
static bool is_local(const json_t *runtime_env)
{
    const char *folder = json_string_value(json_object_get(runtime_env, "working_dir"));

    return folder && !strstr(folder, "://");
}

/* What was uploaded is named in runtime_env. The id, which the caller frees; NULL: it said why. */
static char *submit_it(http_client_t *client, const json_t *runtime_env, int argc,
                       char **argv)
{
    json_t *body = crti_job_body(&options, runtime_env, argc, argv), *reply = NULL;
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL, *id = NULL;

    json_decref(body);
    if (text)
        reply = crti_client_json(client, "POST", "/api/jobs/", text, NULL);
    if (text && !reply)
        crti_cli_fail_detail(JOB_SUBMIT);
    free(text);
    if (reply && !(id = strdup(crti_cli_job_text(reply, "submission_id"))))
        crti_cli_fail(JOB_SUBMIT, "out of memory");
    json_decref(reply);
    return id;
}

static int submit(http_client_t *client, int argc, char **argv)
{
    json_t *runtime_env = crti_job_runtime_env(&options);
    char *id = NULL;
    int result = CLI_FAILED;

    if (is_local(runtime_env))
        result = crti_job_upload_folder(client, runtime_env);
    else if (json_object_get(runtime_env, "working_dir"))
        result = 0;
    else if (runtime_env)
        result = crti_job_upload_program(client, argv[0], runtime_env);
    if (result == 0)
        id = submit_it(client, runtime_env, argc, argv);
    json_decref(runtime_env);
    if (!id)
        return result ? result : CLI_FAILED;
    say_submitted(id);
    result = no_wait ? 0 : crti_cli_follow_job(client, JOB_SUBMIT, id, NULL);
    free(id);
    return result;
}

static int check_options(void)
{
    const char *priority = options.priority, *max_share = options.max_share;
    const char *name_space = options.name_space;

    for (size_t i = 0; options.variables[i]; i++)
        if (!strchr(options.variables[i], '=') || options.variables[i][0] == '=')
            return crti_cli_misused(JOB_SUBMIT, "--env takes NAME=VALUE, not \"%s\"",
                                    options.variables[i]);
    if (priority && (strspn(priority, "0123456789") != strlen(priority) ||
                     atoi(priority) < 1 || atoi(priority) > 1000))
        return crti_cli_misused(
            JOB_SUBMIT, "--priority takes a number of 1 to 1000, not \"%s\"", priority);
    if (max_share && !(atof(max_share) > 0 && atof(max_share) <= 1))
        return crti_cli_misused(
            JOB_SUBMIT, "--max-share takes a part above 0 to 1, not \"%s\"", max_share);
    if (name_space &&
        (!*name_space || strlen(name_space) > 127 || strchr(name_space, '/')))
        return crti_cli_misused(
            JOB_SUBMIT, "--namespace \"%s\": 1 to 127 bytes without /", name_space);
    if (options.runtime_env && options.runtime_env_json)
        return crti_cli_misused(JOB_SUBMIT, "give --runtime-env or --runtime-env-json");
    return 0;
}

int crti_cli_job_submit(int argc, char **argv)
{
    static const option_spec_t specs[] = {
        {"address", 'a', "HOST:PORT", OPTION_SERVER, &address,
         "the cluster's head, or URL of its dashboard; default: the only cluster here"},
        {"no-wait", 0, NULL, OPTION_FLAG, &no_wait, "do not follow the job's output"},
        {"working-dir", 0, "DIR", OPTION_TEXT, &options.working_dir,
         "folder, or zip of one, that the program runs in, on every node"},
        {"runtime-env", 0, "FILE", OPTION_TEXT, &options.runtime_env,
         "JSON file with working_dir, excludes, env_vars, setup"},
        {"runtime-env-json", 0, "JSON", OPTION_TEXT, &options.runtime_env_json,
         "the same, as text"},
        {"metadata-json", 0, "JSON", OPTION_TEXT, &options.metadata_json,
         "object of texts that is shown with the job"},
        {"submission-id", 0, "ID", OPTION_TEXT, &options.submission,
         "name of the job; default: a random one"},
        {"priority", 0, "N", OPTION_COUNT, &options.priority,
         "weight of the job where jobs wait for CPUs, 1 to 1000; default 1"},
        {"max-share", 0, "PART", OPTION_COUNT, &options.max_share,
         "part of each node's CPUs that it may hold, above 0 to 1; default 1"},
        {"namespace", 0, "NAME", OPTION_TEXT, &options.name_space,
         "in which it names and finds actors; default: one of its own"},
        {"env", 'e', "NAME=VALUE", OPTION_LIST, options.variables,
         "environment variable of the job; may be given several times"}};
    static const command_spec_t spec = {
        .name = JOB_SUBMIT,
        .operands = "-- PROGRAM [ARGUMENTS]",
        .stops_at_operand = true,
        .summary =
            "Uploads an executable, or with --working-dir a folder, and runs it as a job "
            "on the\nhead's node; then prints its output until it ends. The exit status "
            "is that of the program, 128 and "
            "the number of the\nsignal that killed it, or 1 when there is none.",
        .options = specs,
        .count = sizeof(specs) / sizeof(specs[0])};
    http_client_t *client;
    int first, result;

    switch (crti_cli_parse(argc, argv, &spec, &first)) {
    case PARSE_DONE: return 0;
    case PARSE_WRONG: return CLI_USAGE;
    case PARSE_OK: break;
    }
    if (first >= argc)
        return crti_cli_misused(JOB_SUBMIT, "which program?");
    result = check_options();
    if (result != 0)
        return result;
    if (sodium_init() < 0)
        return crti_cli_fail(JOB_SUBMIT, "libsodium does not start");
    client = crti_cli_job_client(JOB_SUBMIT, address);
    if (!client)
        return CLI_FAILED;
    result = submit(client, argc - first, argv + first);
    crti_client_free(client);
    return result;
}
