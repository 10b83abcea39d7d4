/* SPDX-License-Identifier: Apache-2.0 */
/* crt job submit: uploads the executable or the folder, submits the job and follows its output.
 *
 * Where it sits
 *     user -> [ cli/job_submit.c ] -> cli/job_upload.c, cli/job_body.c -> cli/http_client.c ->
 *     crt-http
 */
#include "cli/job_submit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "cli/job_view.h"
#include "cli/sweep.h"

static const char *address;
static job_options_t options; /* one command per process */
static bool no_wait, resumes;
static sweep_t sweep;
static const char *sweeps[OPTION_LIST_MAX], *parallel, *sweep_name, *mode, *early_stop,
    *grace;

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

static char on_its_own[1024];

/* Ctrl-C ends the command, and says that it ends nothing else. */
static void on_interrupt(int number)
{
    (void)!write(STDERR_FILENO, on_its_own, strlen(on_its_own));
    signal(number, SIG_DFL);
    raise(number);
}

static void tell_when_interrupted(const char *id)
{
    struct sigaction action = {.sa_handler = on_interrupt}, before;

    snprintf(on_its_own, sizeof(on_its_own),
             "\nThe job goes on without this command.\n  Stop it with:\n    crt job stop "
             "%s\n  See its output again with:\n    crt job logs --follow %s\n",
             id, id);
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
}

/* A folder that is to be uploaded, not one that was. */
static bool has_folder(const json_t *runtime_env)
{
    const char *folder = json_string_value(json_object_get(runtime_env, "working_dir"));

    return folder && strncmp(folder, "gcs://", 6) != 0;
}

/* It is then searched on the node, in the environment or the image that is named. */
static bool is_there(const json_t *runtime_env, const char *program)
{
    if (json_object_get(runtime_env, "image_uri"))
        return program[0] == '/' || !strchr(program, '/');
    return !strchr(program, '/') &&
           (json_object_get(runtime_env, "conda") ||
            json_object_get(runtime_env, "pip") || json_object_get(runtime_env, "uv"));
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

    if (has_folder(runtime_env))
        result = crti_job_upload_folder(client, runtime_env);
    else if (json_object_get(runtime_env, "working_dir") ||
             is_there(runtime_env, argv[0]))
        result = 0;
    else if (runtime_env)
        result = crti_job_upload_program(client, argv[0], runtime_env);
    if (result == 0 && sweeps[0]) {
        result =
            crti_sweep_run(&sweep, client, &options, runtime_env, argc, argv, resumes);
        json_decref(runtime_env);
        return result;
    }
    if (result == 0)
        id = submit_it(client, runtime_env, argc, argv);
    json_decref(runtime_env);
    if (!id)
        return result ? result : CLI_FAILED;
    if (!no_wait)
        tell_when_interrupted(id);
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
    if (options.copies &&
        (strlen(options.copies) != 1 || !strchr("1234", *options.copies)))
        return crti_cli_misused(
            JOB_SUBMIT, "--copies takes a number of 1 to 4, not \"%s\"", options.copies);
    if (options.retries && (strchr(options.retries, '.') || atol(options.retries) > 1000))
        return crti_cli_misused(JOB_SUBMIT,
                                "--retries takes a whole number up to 1000, not \"%s\"",
                                options.retries);
    if (options.runtime_env && options.runtime_env_json)
        return crti_cli_misused(JOB_SUBMIT, "give --runtime-env or --runtime-env-json");
    return 0;
}

/* By what the sweep is: the same command is the same sweep. */
static void name_sweep(int argc, char **argv)
{
    unsigned char digest[crypto_generichash_BYTES_MIN];
    crypto_generichash_state state;

    crypto_generichash_init(&state, NULL, 0, crypto_generichash_BYTES_MIN);
    for (size_t i = 0; sweeps[i]; i++)
        crypto_generichash_update(&state, (const unsigned char *)sweeps[i],
                                  strlen(sweeps[i]) + 1);
    for (int i = 0; i < argc; i++)
        crypto_generichash_update(&state, (const unsigned char *)argv[i],
                                  strlen(argv[i]) + 1);
    crypto_generichash_final(&state, digest, sizeof(digest));
    snprintf(sweep.id, sizeof(sweep.id), "sweep-%02x%02x%02x%02x", digest[0], digest[1],
             digest[2], digest[3]);
}

static int prepare_sweep(int argc, char **argv)
{
    static char directory[SWEEP_ID_MAX + 8];

    if (!sweeps[0])
        return parallel || sweep_name || mode || early_stop || grace || resumes ||
                       sweep.directory || sweep.metric
                   ? crti_cli_misused(JOB_SUBMIT, "--parallel, --sweep-name, --metric, "
                                                  "--mode, --early-stop, --grace, --out "
                                                  "and --resume go with --sweep")
                   : 0;
    if (options.submission || no_wait)
        return crti_cli_misused(JOB_SUBMIT,
                                "--submission-id and --no-wait do not go with --sweep");
    if (mode && strcmp(mode, "min") != 0 && strcmp(mode, "max") != 0)
        return crti_cli_misused(JOB_SUBMIT, "--mode is min or max");
    if (early_stop && strcmp(early_stop, "median") != 0 &&
        strcmp(early_stop, "asha") != 0)
        return crti_cli_misused(JOB_SUBMIT, "--early-stop is median or asha");
    if (grace && !(atof(grace) > 0))
        return crti_cli_misused(JOB_SUBMIT, "--grace is a number of steps above 0");
    if (parallel && (strchr(parallel, '.') || atol(parallel) < 1))
        return crti_cli_misused(JOB_SUBMIT, "--parallel is a whole number from 1 on");
    if (sweep_name &&
        (strlen(sweep_name) > SWEEP_ID_MAX || sweep_name[0] == '.' ||
         strspn(sweep_name,
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                "._-") != strlen(sweep_name)))
        return crti_cli_misused(JOB_SUBMIT,
                                "--sweep-name is up to %d letters, digits or . _ -",
                                SWEEP_ID_MAX);
    if (crti_sweep_init(&sweep, sweeps) != CRT_OK ||
        crti_sweep_check(&sweep, argc, argv, options.variables) != CRT_OK)
        return crti_cli_misused(JOB_SUBMIT, "%s", crt_error_detail());
    sweep.parallel = parallel ? (size_t)atol(parallel) : 0;
    sweep.larger_is_better = mode && strcmp(mode, "max") == 0;
    sweep.rule = !early_stop                         ? SWEEP_NO_RULE
                 : strcmp(early_stop, "median") == 0 ? SWEEP_MEDIAN
                                                     : SWEEP_ASHA;
    sweep.grace = grace ? atof(grace) : 1;
    if (sweep_name)
        snprintf(sweep.id, sizeof(sweep.id), "%s", sweep_name);
    else
        name_sweep(argc, argv);
    if (!sweep.directory) {
        snprintf(directory, sizeof(directory), "%s", sweep.id);
        sweep.directory = directory;
    }
    return 0;
}

static const option_spec_t specs[] = {
    {"address", 'a', "HOST:PORT", OPTION_SERVER, &address,
     "the cluster's head, or URL of its dashboard; default: the only cluster here"},
    {"no-wait", 0, NULL, OPTION_FLAG, &no_wait, "do not follow the job's output"},
    {"working-dir", 0, "DIR", OPTION_TEXT, &options.working_dir,
     "folder, or zip of one, that the program runs in, on every node"},
    {"runtime-env", 0, "FILE", OPTION_TEXT, &options.runtime_env,
     "YAML or JSON file: working_dir, excludes, env_vars, setup, conda, pip, uv, "
     "image_uri"},
    {"runtime-env-json", 0, "JSON", OPTION_TEXT, &options.runtime_env_json,
     "the same, as a text in JSON"},
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
    {"copies", 0, "N", OPTION_COUNT, &options.copies,
     "nodes that keep each value which it puts or returns, 1 to 4; default 1"},
    {"entrypoint-num-cpus", 0, "N", OPTION_AMOUNT, &options.num_cpus,
     "CPUs that its process holds, on any node that has them; default: none"},
    {"entrypoint-num-gpus", 0, "N", OPTION_AMOUNT, &options.num_gpus,
     "GPUs, which it sees as CUDA_VISIBLE_DEVICES"},
    {"entrypoint-memory", 0, "BYTES", OPTION_BYTES, &options.memory, "memory",
     .is_value = true},
    {"entrypoint-resources", 0, "K=V,...", OPTION_RESOURCES, &options.resources,
     "other resources"},
    {"entrypoint-label", 0, "K=V,...", OPTION_TEXT, &options.labels,
     "labels of the node that it runs on"},
    {"retries", 0, "N", OPTION_COUNT, &options.retries,
     "run it again when it has failed, so often at most; default 0"},
    {"sweep", 0, "NAME=V,V", OPTION_LIST, sweeps,
     "a job for each value, in the place of {NAME}; several make all combinations"},
    {"parallel", 0, "N", OPTION_COUNT, &parallel,
     "jobs of a sweep that are submitted at a time; default: as many as fit"},
    {"sweep-name", 0, "NAME", OPTION_TEXT, &sweep_name,
     "of the sweep, its jobs are NAME-0, NAME-1, ...; default: from the command"},
    {"metric", 0, "NAME", OPTION_TEXT, &sweep.metric,
     "that says how good a run is; default: the first that one reports"},
    {"mode", 0, "MODE", OPTION_TEXT, &mode,
     "whether less or more of the metric is better: min (default) or max"},
    {"early-stop", 0, "RULE", OPTION_TEXT, &early_stop,
     "median or asha: stop runs that are worse than the others"},
    {"grace", 0, "STEPS", OPTION_COUNT, &grace,
     "steps that a run has in any case; default 1"},
    {"out", 0, "DIR", OPTION_TEXT, &sweep.directory,
     "for results.csv, results.json and plot.svg; default: the sweep's name"},
    {"resume", 0, NULL, OPTION_FLAG, &resumes,
     "go on with a sweep that was interrupted; what failed is run again"},
    {"env", 'e', "NAME=VALUE", OPTION_LIST, options.variables,
     "environment variable of the job; may be given several times"}};

int crti_cli_job_submit(int argc, char **argv)
{
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
    int first = crti_cli_parse(argc, argv, &spec);
    int result;

    if (first <= 0)
        return -first;
    if (first >= argc)
        return crti_cli_misused(JOB_SUBMIT, "which program?");
    result = check_options();
    if (result != 0)
        return result;
    if (sodium_init() < 0)
        return crti_cli_fail(JOB_SUBMIT, "libsodium does not start");
    result = prepare_sweep(argc - first, argv + first);
    if (result != 0)
        return result;
    client = crti_cli_job_client(JOB_SUBMIT, address);
    if (!client)
        return CLI_FAILED;
    result = submit(client, argc - first, argv + first);
    crti_client_free(client);
    crti_sweep_fini(&sweep);
    return result;
}
