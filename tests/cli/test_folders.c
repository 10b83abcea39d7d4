/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs with their folder, on a real cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../http/http_fixture.h"
#include "cli_fixture.h"

#define START                                                                            \
    "start --head --port 0 --dashboard-port 0 --num-cpus 2 --object-store-memory 50M"

static int begin(void **state)
{
    cli_begin(false);
    return 0;
}

static int end(void **state)
{
    cli_end();
    return 0;
}

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *format, ...)
{
    char command[2000];
    va_list args;

    va_start(args, format);
    vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    if (system(command) != 0)
        fail_msg("failed: %s", command);
}

/* A folder with a script, a file, and what is left out. */
static const char *make_folder(void)
{
    static char path[300];

    snprintf(path, sizeof(path), "%s", cli_path("folder"));
    shell("mkdir -p %s/sub && cd %s && echo said by a file > sub/data && "
          "printf '#!/bin/sh\\necho I am $0 with $*; cat sub/data; ls\\n' > prog && "
          "chmod +x prog && echo '*.tmp' > .gitignore && touch x.tmp",
          path, path);
    return path;
}

static void a_job_runs_in_its_folder_under_its_own_name(void **state)
{
    const char *folder = make_folder();

    cli_expect(0, "The cluster", START);
    cli_expect(0, "I am ./prog with a b\nsaid by a file\nprog\nsub\n",
               "job submit --working-dir %s -- ./prog a b", folder);
    assert_non_null(strstr(cli_output, "Uploading"));
    cli_expect(0, "I am ./prog with again", "job submit --working-dir %s -- ./prog again",
               folder);
    assert_null(strstr(cli_output, "Uploading")); /* by its content: it is there */
    shell("cd %s && echo changed > sub/data", folder);
    cli_expect(0, "changed", "job submit --working-dir %s -- ./prog", folder);
    cli_expect(1, "./nope can't be executed: No such file",
               "job submit --working-dir %s -- ./nope", folder);
    shell("mkdir %s", cli_path("empty"));
    cli_expect(0, "/packages/", "job submit --working-dir %s -- pwd", cli_path("empty"));
    /* Without a folder the name is the program's, too. */
    cli_expect(0, "/program/prog with alone", "job submit -- %s/prog alone", folder);
    cli_expect(0, "Stopped", "stop");
}

static void the_setup_command_runs_once_and_its_failure_is_the_jobs(void **state)
{
    const char *folder = make_folder();

    shell("cd %s && echo '{\"setup\":\"echo builds && date +%%N > made\","
          "\"env_vars\":{\"K\":\"V\"},\"excludes\":[\"sub\"]}' > env.json",
          folder);
    cli_expect(0, "The cluster", START);
    for (int i = 0; i < 2; i++) {
        cli_expect(0, "made\nprog\n",
                   "job submit --submission-id j%d --working-dir %s --runtime-env "
                   "%s/env.json --metadata-json {\"m\":\"n\"} -- ls",
                   i, folder, folder);
        assert_int_equal(strstr(cli_output, "builds\n") != NULL, i == 0);
    }
    cli_expect(0, "\"setup\": \"echo builds", "job status j0 --json");
    assert_non_null(strstr(cli_output, "\"working_dir\": \"gcs://_ray_pkg_"));
    assert_non_null(strstr(cli_output, "\"m\": \"n\""));
    shell("echo '{\"setup\":\"echo no luck; exit 3\"}' > %s/env.json", folder);
    cli_expect(1,
               "Status message: runtime_env setup failed: no luck | the setup command "
               "\"echo no luck; exit 3\" exited with status 3",
               "job submit --submission-id bad --working-dir %s --runtime-env "
               "%s/env.json -- ./prog",
               folder, folder);
    cli_expect(0, "RUNTIME_ENV_SETUP_FAILURE", "job status bad --json");
    cli_expect(0, "Stopped", "stop");
}

static void a_runtime_environment_in_yaml_is_obeyed(void **state)
{
    const char *folder = make_folder();

    shell("cd %s && printf 'working_dir: %s # here\nexcludes: [sub]\nnum_cpus: 1\n"
          "resources: null\nsetup: |\n  echo one >made\n  echo two >>made\nenv_vars:\n"
          "  KEY: \"VALUE\"\n  HERE: ${CRT_TEST_JOB}\n' >env.yaml",
          folder, folder);
    cli_expect(0, "The cluster", START);
    cli_expect(0, "one\ntwo\n", "job submit --runtime-env %s/env.yaml -- cat made",
               folder);
    assert_non_null(strstr(cli_output, "num_cpus of the runtime environment: passed"));
    cli_expect(0, "\nKEY=VALUE\n", "job submit --runtime-env %s/env.yaml -- env", folder);
    assert_non_null(strstr(cli_output, getenv("CRT_TEST_JOB"))); /* as the node has it */
    shell("echo 'setpu: make' >>%s/env.yaml", folder);
    cli_expect(1, "env.yaml:11:1: unknown key \"setpu\"; the nearest one is setup",
               "job submit --runtime-env %s/env.yaml -- env", folder);
    shell("chmod o+w %s/env.yaml", folder);
    cli_expect(1, "env.yaml is not obeyed: every user of this host can write it",
               "job submit --runtime-env %s/env.yaml -- env", folder);
    cli_expect(0, "Stopped", "stop");
}

static void a_job_whose_folder_is_being_made_can_be_stopped(void **state)
{
    const char *folder = make_folder();

    shell("echo '{\"setup\":\"echo begins; sleep 1000\"}' > %s/env.json", folder);
    cli_expect(0, "The cluster", START);
    cli_expect(0, "submitted",
               "job submit --no-wait --submission-id slow --working-dir %s --runtime-env "
               "%s/env.json -- ./prog",
               folder, folder);
    cli_expect(0, "Job 'slow' was stopped", "job stop slow");
    cli_expect(0, "Stopped", "stop");
    assert_true(cli_is_clean());
}

/* The other node has a state directory of its own, as on another host. */
static void workers_on_another_node_run_in_the_folder_there(void **state)
{
    char address[64];

    shell("mkdir -p %s && cd %s && cp %s app && echo shared > data", cli_path("folder"),
          cli_path("folder"), getenv("CRT_TEST_JOB"));
    cli_expect(0, "The cluster 127.0.0.1:", START);
    snprintf(address, sizeof(address), "127.0.0.1:%ld",
             atol(strstr(cli_output, "127.0.0.1:") + strlen("127.0.0.1:")));
    setenv("CRT_STATE_DIR", cli_path("s2"), 1);
    cli_expect(0, "This host joined",
               "start --num-cpus 1 --resources far=1 --object-store-memory 50M "
               "--address %s",
               address);
    setenv("CRT_STATE_DIR", cli_path("s"), 1);
    for (int i = 0; i < 2; i++) {
        cli_expect(0, "and reads shared\n",
                   "job submit --address %s --working-dir %s -- ./app look", address,
                   cli_path("folder"));
        assert_non_null(strstr(cli_output, "/s2/packages/"));
        assert_non_null(strstr(cli_output, "/app in /"));
    }
    /* Jobs that run there have their program and their folder from the head's cache. */
    cli_expect(
        0, "a program\n",
        "job submit --address %s --entrypoint-resources far=1 -- /bin/echo a program",
        address);
    cli_expect(0, "shared\n",
               "job submit --address %s --entrypoint-resources far=1 --working-dir %s -- "
               "/bin/cat data",
               address, cli_path("folder"));
    cli_expect(0, "Stopped", "stop");
}

/* ---------------------------------------------------------------- hostile ones */

static void put_package(const http_fixture_t *server, const char *name, const char *bytes,
                        size_t size)
{
    http_answer_t answer;
    char path[200];

    snprintf(path, sizeof(path), "/api/packages/gcs/%s", name);
    http_request(server, "PUT", path, "", true, bytes, size, &answer);
    assert_int_equal(answer.code, 200);
    http_answer_fini(&answer);
}

static void a_broken_zip_fails_its_job_with_the_reason_and_leaves_nothing(void **state)
{
    static const char body[] =
        "{\"entrypoint\":\"true\",\"submission_id\":\"broken\",\"runtime_env\":"
        "{\"working_dir\":\"gcs://_ray_pkg_0123456789abcdef.zip\"}}";
    http_fixture_t server = {0};
    http_answer_t answer;
    const char *at;

    cli_expect(0, "The cluster", START);
    at = strstr(cli_output, "http://127.0.0.1:");
    assert_non_null(at);
    server.port = (unsigned)atoi(at + strlen("http://127.0.0.1:"));
    cli_expect(0, "\n", "token");
    snprintf(server.token, sizeof(server.token), "%.64s", cli_output);
    http_request(&server, "POST", "/api/jobs/", "", true, body, strlen(body), &answer);
    assert_int_equal(answer.code, 400);
    assert_non_null(strstr(answer.body, "was not uploaded"));
    http_answer_fini(&answer);
    put_package(&server, "_ray_pkg_0123456789abcdef.zip", "PK\003\004 no zip at all", 18);
    http_request(&server, "POST", "/api/jobs/", "", true, body, strlen(body), &answer);
    assert_int_equal(answer.code, 200);
    http_answer_fini(&answer);
    cli_expect(1, "no whole zip file", "job logs -f broken");
    cli_expect(0, "runtime_env setup failed: the package is no whole zip file",
               "job status broken");
    shell("test -z \"$(ls %s/packages | grep -v lock)\"", cli_path("s"));
    cli_expect(0, "Stopped", "stop");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(a_job_runs_in_its_folder_under_its_own_name),
        TEST(the_setup_command_runs_once_and_its_failure_is_the_jobs),
        TEST(a_runtime_environment_in_yaml_is_obeyed),
        TEST(a_job_whose_folder_is_being_made_can_be_stopped),
        TEST(workers_on_another_node_run_in_the_folder_there),
        TEST(a_broken_zip_fails_its_job_with_the_reason_and_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
