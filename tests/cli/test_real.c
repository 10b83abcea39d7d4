/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the crt command with the real daemons: a cluster's whole life on one host, and its end
 * after kill -9 of each kind of process. */
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "../http/http_fixture.h"
#include "cli_fixture.h"

#define START                                                                            \
    "start --head --port 0 --dashboard-port 0 --num-cpus 2 --object-store-memory 100M"

static void put_script(const char *name, const char *text)
{
    FILE *file = fopen(cli_path("%s", name), "we");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(cli_path("%s", name), 0700), 0);
}

static void a_cluster_starts_runs_jobs_and_stops(void **state)
{
    const char *program = getenv("CRT_TEST_JOB");
    json_t *json;

    cli_expect(0, "The cluster 127.0.0.1:", START);
    cli_expect(0, "ALIVE", "status");
    assert_non_null(strstr(cli_output, " 0/2 CPU\n"));
    cli_expect(0, "hello [hello] [a b]\n", "job submit -- %s hello a~b", program);
    assert_non_null(strstr(cli_output, "' succeeded\n"));
    put_script("script", "#!/bin/sh\necho a script says $1\n");
    put_script("no-shell", "#!/no/such/shell\n");
    cli_expect(0, "a script says x\n", "job submit -- %s x", cli_path("script"));
    cli_expect(1, "no-shell can't be executed: No such file or directory",
               "job submit -- %s", cli_path("no-shell"));
    assert_null(strstr(cli_output, "/programs/"));
    cli_expect(0, "one two\n",
               "job submit --env A=one -e B=two -- /bin/sh -c echo~$A~$B");
    cli_expect(3, "' failed\n", "job submit -- %s fail", program);
    assert_non_null(strstr(cli_output, "exit code 3"));
    cli_expect(0, "submitted", "job submit --no-wait --submission-id one -- %s stay",
               program);
    cli_expect(0, "SUCCEEDED", "job list");
    cli_expect(0, "{", "status --json");
    json = json_loads(cli_output, 0, NULL);
    assert_non_null(json);
    assert_int_equal(json_array_size(json_object_get(json, "jobs")), 6);
    json_decref(json);
    cli_expect(0, "Job 'one' was stopped", "job stop one");
    cli_expect(0, "Stopped 1 node and the head", "stop");
    assert_true(cli_is_clean());
}

/* By hand, so that nobody of the cluster is its parent. */
static void run_driver(const char *how)
{
    char command[512];

    snprintf(command, sizeof(command), "'%s' %s >'%s' 2>&1", getenv("CRT_TEST_JOB"), how,
             cli_path("driver"));
    (void)!system(command);
}

/* The node hears of its end a moment later. */
static void expect_job(const char *entrypoint, const char *state, json_int_t code,
                       const char *message)
{
    for (int tries = 0; tries < 200; tries++) {
        json_t *jobs, *job;
        size_t i;

        cli_expect(0, "[", "job list --json");
        jobs = json_loads(cli_output, 0, NULL);
        json_array_foreach(jobs, i, job)
        {
            const char *line = json_string_value(json_object_get(job, "entrypoint"));
            const char *now = json_string_value(json_object_get(job, "status"));

            if (!strstr(line, entrypoint) || strcmp(now, "RUNNING") == 0)
                continue;
            assert_string_equal(now, state);
            assert_int_equal(json_integer_value(json_object_get(job, "driver_exit_code")),
                             code);
            line = json_string_value(json_object_get(job, "message"));
            if (!strstr(line, message))
                fail_msg("the message is \"%s\"", line);
            json_decref(jobs);
            return;
        }
        json_decref(jobs);
        usleep(50000);
    }
    fail_msg("the job \"%s\" does not end: %s", entrypoint, cli_output);
}

static void how_a_driver_ended_is_told_whoever_started_it(void **state)
{
    const char *program = getenv("CRT_TEST_JOB");

    cli_expect(0, "The cluster", START);
    run_driver("fail");
    expect_job(" fail", "FAILED", 3, "driver exited with status 3");
    run_driver("crash");
    expect_job(" crash", "FAILED", -11, "killed by signal 11 (Segmentation fault)");
    run_driver("quit");
    expect_job(" quit", "FAILED", 5, "exited with status 5 without crt_shutdown");
    run_driver("forget");
    expect_job(" forget", "SUCCEEDED", 0, "");
    cli_expect(0, "signal 11 (Segmentation fault)", "job list");
    cli_expect(139, "Driver ended with signal 11 (Segmentation fault)",
               "job submit --submission-id crashed -- %s crash", program);
    cli_expect(0, "Driver ended with signal 11", "job status crashed");
    cli_expect(0, "Job 'crashed' failed: its driver ended with signal 11",
               "job logs crashed");
    cli_expect(139, "' failed\n", "job logs --follow crashed");
    cli_expect(5, "Driver ended with status 5", "job submit -- %s quit", program);
    cli_expect(0, "Stopped", "stop");
    assert_true(cli_is_clean());
}

/* Submits the job that stays; its output until it says which worker it has. */
static void start_and_stay(pid_t *worker)
{
    pid_t follower;
    int fd;

    cli_expect(0, "The cluster", START);
    cli_expect(0, "submitted", "job submit --no-wait --submission-id stays -- %s stay",
               getenv("CRT_TEST_JOB"));
    follower = cli_spawn(&fd, "job logs --follow stays");
    if (!cli_read_until(fd, " stays\n"))
        fail_msg("the job said \"%s\"", cli_output);
    *worker = (pid_t)atol(strstr(cli_output, "worker ") + strlen("worker "));
    kill(follower, SIGKILL);
    close(fd);
    cli_wait(follower);
}

/* The parent of a process: a worker's is its zygote. */
static pid_t parent_of(pid_t pid)
{
    char path[64], name[64];
    long parent = 0;
    FILE *file;
    char process_state;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (!file || fscanf(file, "%*d (%63[^)]) %c %ld", name, &process_state, &parent) != 3)
        fail_msg("no process %d", (int)pid);
    fclose(file);
    return (pid_t)parent;
}

/* The driver of the job: it has the submission in its environment, the worker's zygote, too, so it
 * is the one that is a child of a child of the node daemon, its supervisor, and no zygote. */
static pid_t driver_pid(pid_t node, pid_t zygote)
{
    static char text[1 << 18];
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    pid_t found = 0;

    while (!found && (entry = readdir(proc))) {
        pid_t pid = (pid_t)atol(entry->d_name);
        char path[64];
        ssize_t n;
        int fd;

        if (!isdigit((unsigned char)entry->d_name[0]) || pid == zygote)
            continue;
        snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        n = read(fd, text, sizeof(text));
        close(fd);
        if (n > 0 && memmem(text, (size_t)n, "CRT_SUBMISSION=stays", 20) &&
            memmem(text, (size_t)n, cli_path("r"), strlen(cli_path("r"))) &&
            pid != node && parent_of(pid) != node && parent_of(parent_of(pid)) == node)
            found = pid;
    }
    closedir(proc);
    return found;
}

enum victim { HEAD, HTTP, REDIS, NODE, ZYGOTE, WORKER, DRIVER, EVERY_DAEMON };

static void kill_and_stop(enum victim victim)
{
    pid_t worker, node, head, pid = 0;

    start_and_stay(&worker);
    node = (pid_t)cli_info("node-", "pid");
    head = (pid_t)cli_info("head-", "pid");
    switch (victim) {
    case HEAD: pid = head; break;
    case HTTP: pid = (pid_t)cli_info("head-", "http_pid"); break;
    case REDIS: pid = (pid_t)cli_info("head-", "redis_pid"); break;
    case NODE: pid = node; break;
    case ZYGOTE: pid = parent_of(worker); break;
    case WORKER: pid = worker; break;
    case DRIVER: pid = driver_pid(node, parent_of(worker)); break;
    case EVERY_DAEMON:
        kill(head, SIGKILL);
        pid = node;
        break;
    }
    assert_true(pid > 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    cli_expect(0, "", "stop");
    assert_true(cli_is_clean());
}

static void a_failed_start_leaves_the_tables_of_a_killed_head(void **state)
{
    long port;

    cli_expect(0, "The cluster 127.0.0.1:", START);
    port = atol(strstr(cli_output, "127.0.0.1:") + strlen("127.0.0.1:"));
    cli_expect(0, "hello", "job submit --submission-id before -- %s hello",
               getenv("CRT_TEST_JOB"));
    kill((pid_t)cli_info("node-", "pid"), SIGKILL);
    kill((pid_t)cli_info("head-", "pid"), SIGKILL);
    for (int i = 0; i < 2; i++)
        cli_expect(
            1, "crt start: ",
            "start --head --dashboard-port 0 --port %ld --object-store-memory 900T",
            port);
    cli_expect(0, "The cluster", "start --head --dashboard-port 0 --port %ld", port);
    cli_expect(0, "before", "job list");
    cli_expect(0, "Stopped", "stop");
}

/* Submitted jobs run on the head's host: its node is replaced by one that joins there. */
static void a_node_that_joins_on_the_heads_host_runs_jobs(void **state)
{
    pid_t node;

    cli_expect(0, "The cluster 127.0.0.1:", START);
    node = (pid_t)cli_info("node-", "pid");
    assert_int_equal(kill(node, SIGKILL), 0);
    cli_await_end(node);
    cli_expect(0, "This host joined", "start --num-cpus 1 --address 127.0.0.1:%ld",
               atol(strstr(cli_output, "127.0.0.1:") + strlen("127.0.0.1:")));
    cli_expect(0, "hello [hello]", "job submit -- %s hello", getenv("CRT_TEST_JOB"));
    cli_expect(0, "Stopped", "stop");
}

static void stop_leaves_nothing_after_kill_9_of_the_head(void **state)
{
    kill_and_stop(HEAD);
}

static void stop_leaves_nothing_after_kill_9_of_the_http_server(void **state)
{
    kill_and_stop(HTTP);
}

static void stop_leaves_nothing_after_kill_9_of_redis(void **state)
{
    kill_and_stop(REDIS);
}

static void stop_leaves_nothing_after_kill_9_of_the_node(void **state)
{
    kill_and_stop(NODE);
}

static void stop_leaves_nothing_after_kill_9_of_a_zygote(void **state)
{
    kill_and_stop(ZYGOTE);
}

static void stop_leaves_nothing_after_kill_9_of_a_worker(void **state)
{
    kill_and_stop(WORKER);
}

static void stop_leaves_nothing_after_kill_9_of_a_jobs_driver(void **state)
{
    kill_and_stop(DRIVER);
}

static void stop_leaves_nothing_after_kill_9_of_both_daemons(void **state)
{
    kill_and_stop(EVERY_DAEMON);
}

static void logs_of_an_actor_are_found_by_its_name(void **state)
{
    pid_t worker;

    start_and_stay(&worker);
    cli_expect(0, "Holder", "logs");
    assert_non_null(strstr(cli_output, " worker  "));
    assert_non_null(strstr(cli_output, " driver  "));
    cli_expect(0, "the actor holds\n", "logs held");
    cli_expect(1,
               "\"nobody\" is neither the id of a worker or an actor nor an actor's name",
               "logs nobody");
    cli_expect(0, "Stopped", "stop");
}

static void what_stands_in_the_way_of_a_start_is_one_sentence(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const char *key;
    FILE *file;

    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 1), 0);
    getsockname(fd, (struct sockaddr *)&address, &size);
    cli_expect(1, "crt start: ", "start --head --dashboard-port 0 --port %d",
               ntohs(address.sin_port));
    assert_ptr_equal(strchr(cli_output, '\n'), strrchr(cli_output, '\n'));
    assert_true(cli_is_clean());
    cli_expect(1, "--dashboard-port", "start --head --port 0 --dashboard-port %d",
               ntohs(address.sin_port));
    assert_true(cli_is_clean());
    cli_expect(1, "crt start: ", START " --object-store-memory 900T");
    assert_ptr_equal(strchr(cli_output, '\n'), strrchr(cli_output, '\n'));
    assert_true(cli_is_clean());
    close(fd);
    key = cli_path("wrong.key");
    file = fopen(key, "we");
    fprintf(file, "%064d\n", 7);
    fclose(file);
    assert_int_equal(chmod(key, 0600), 0);
    cli_expect(1, "crt start: ", "start --address 127.0.0.1:%d --key-file %s",
               ntohs(address.sin_port),
               cli_path("wrong.key")); /* nobody listens any more */
    assert_true(cli_is_clean());
}

static void expect_no_directories(void)
{
    assert_int_equal(access(cli_path("r"), F_OK), -1);
    assert_int_equal(access(cli_path("s"), F_OK), -1);
}

static void a_start_that_fails_leaves_no_directory(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port;
    FILE *file;

    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 1), 0);
    getsockname(fd, (struct sockaddr *)&address, &size);
    port = ntohs(address.sin_port);
    cli_expect(1, "crt start: ", "start --head --dashboard-port 0 --port %d", port);
    expect_no_directories();
    cli_expect(1, "--dashboard-port", "start --head --port 0 --dashboard-port %d", port);
    expect_no_directories();
    cli_expect(
        1, "crt start: ", START " --object-store-memory 900T"); /* the node's reason */
    expect_no_directories();
    close(fd);
    file = fopen(cli_path("wrong.key"), "we");
    fprintf(file, "%064d\n", 7);
    fclose(file);
    assert_int_equal(chmod(cli_path("wrong.key"), 0600), 0);
    cli_expect(1, "crt start: ", "start --address 127.0.0.1:%d --key-file %s", port,
               cli_path("wrong.key"));
    expect_no_directories();
    /* What was there before stays. */
    assert_int_equal(mkdir(cli_path("s"), 0700), 0);
    assert_int_equal(mkdir(cli_path("s/mine"), 0700), 0);
    cli_expect(1, "crt start: ", START " --object-store-memory 900T");
    assert_int_equal(access(cli_path("r"), F_OK), -1);
    assert_int_equal(rmdir(cli_path("s/mine")), 0);
    assert_int_equal(rmdir(cli_path("s")), 0); /* it holds nothing else */
}

static void a_second_start_and_a_wrong_key_are_said_and_the_first_goes_on(void **state)
{
    char address[32];
    FILE *file = NULL;

    cli_expect(0, "The cluster 127.0.0.1:", START);
    snprintf(address, sizeof(address), "127.0.0.1:%ld",
             atol(strstr(cli_output, "127.0.0.1:") + 10));
    cli_expect(1, "crt start: ", "start --head --dashboard-port 0 --port %s",
               strchr(address, ':') + 1);
    file = fopen(cli_path("wrong.key"), "we");
    fprintf(file, "%064d\n", 7);
    fclose(file);
    assert_int_equal(chmod(cli_path("wrong.key"), 0600), 0);
    cli_expect(1, "key", "start --address %s --key-file %s", address,
               cli_path("wrong.key"));
    cli_expect(0, "ALIVE", "status");
    cli_expect(0, "This host joined",
               "start --address %s --num-cpus 1 --object-store-memory 50M", address);
    cli_expect(0, " 0/3 CPU\n", "status");
    cli_expect(0, "Stopped 2 nodes and the head", "stop");
}

/* Its output, both streams, is in cli_output. */
static void say_hello(const char *before)
{
    char command[600];
    FILE *output;
    size_t used;

    snprintf(command, sizeof(command), "%s %s hello 2>&1", before,
             getenv("CRT_TEST_JOB"));
    output = popen(command, "re");
    assert_non_null(output);
    used = fread(cli_output, 1, sizeof(cli_output) - 1, output);
    cli_output[used] = '\0';
    if (pclose(output) != 0)
        fail_msg("the driver failed: %s", cli_output);
}

static void a_driver_says_which_cluster_it_joins(void **state)
{
    char address[32], text[96];

    cli_expect(0, "The cluster 127.0.0.1:", START);
    snprintf(address, sizeof(address), "127.0.0.1:%ld",
             atol(strstr(cli_output, "127.0.0.1:") + 10));
    say_hello("");
    snprintf(text, sizeof(text), "joins the cluster %s (the only one here)", address);
    assert_non_null(strstr(cli_output, text));
    setenv("CRT_ADDRESS", address, 1);
    say_hello("");
    snprintf(text, sizeof(text), "joins the cluster %s (CRT_ADDRESS)", address);
    assert_non_null(strstr(cli_output, text));
    say_hello("CRT_LOG=warn");
    assert_null(strstr(cli_output, "joins"));
    unsetenv("CRT_ADDRESS");
    /* They know: one was submitted to it, the others have one of their own. */
    cli_expect(0, "hello", "job submit -- %s hello", getenv("CRT_TEST_JOB"));
    assert_null(strstr(cli_output, "joins"));
    cli_expect(0, "hello", "run -- %s hello", getenv("CRT_TEST_JOB"));
    assert_null(strstr(cli_output, "joins"));
    setenv("CRT_STATE_DIR", cli_path("t"), 1);
    say_hello(""); /* of another state directory: it starts its own */
    assert_null(strstr(cli_output, "joins"));
    setenv("CRT_STATE_DIR", cli_path("s"), 1);
    cli_expect(0, "Stopped 1 node and the head", "stop");
}

/* Quotes, escapes and comments of the shell, of redis-server's configuration and of our own
 * lines. */
static void directories_may_have_any_name_but_control_characters(void **state)
{
    const char *program = getenv("CRT_TEST_JOB");
    char run[512];

    snprintf(run, sizeof(run), "%s", cli_path("r/a \\x41'\"#%%20\xc3\xbc"));
    assert_int_equal(mkdir(cli_path("r"), 0700), 0);
    setenv("CRT_RUN_DIR", run, 1);
    setenv("CRT_STATE_DIR", cli_path("s \\n\\\"'#%%41 $(x)\xc3\xbc"), 1);
    cli_expect(0, "The cluster 127.0.0.1:", START);
    cli_expect(0, "hello [hello]", "job submit -- %s hello", program);
    say_hello("");
    assert_non_null(strstr(cli_output, "joins"));
    cli_expect(0, "SUCCEEDED", "job list");
    cli_expect(0, "Stopped 1 node and the head", "stop");
    cli_expect(0, "hello", "run -- %s hello", program);
    say_hello(""); /* starts its own */
    assert_int_equal(rmdir(run), 0);
    setenv("CRT_RUN_DIR", cli_path("r"), 1);
    setenv("CRT_STATE_DIR", cli_path("s\nt"), 1);
    cli_expect(1, "a control character (byte 10)", START);
    assert_ptr_equal(strchr(cli_output, '\n'), strrchr(cli_output, '\n'));
    setenv("CRT_STATE_DIR", cli_path("s"), 1);
    setenv("CRT_RUN_DIR", cli_path("r\nt"), 1);
    cli_expect(1, "set CRT_RUN_DIR to one without", START);
    setenv("CRT_RUN_DIR", cli_path("r"), 1);
}

/* As Ray's clients submit: no program is uploaded, a shell runs the entrypoint. */
static void a_shell_command_is_a_job_too(void **state)
{
    static const char body[] =
        "{\"entrypoint\":\"echo hi $K; exit 4\",\"submission_id\":\"sh\","
        "\"runtime_env\":{\"env_vars\":{\"K\":\"there\"}}}";
    http_fixture_t server = {0};
    http_answer_t answer;
    char *at;

    cli_expect(0, "The cluster", START);
    at = strstr(cli_output, "http://127.0.0.1:");
    assert_non_null(at);
    server.port = (unsigned)atoi(at + strlen("http://127.0.0.1:"));
    cli_expect(0, "\n", "token");
    snprintf(server.token, sizeof(server.token), "%.64s", cli_output);
    http_request(&server, "POST", "/api/jobs/", "", true, body, strlen(body), &answer);
    assert_int_equal(answer.code, 200);
    http_answer_fini(&answer);
    cli_expect(4, "hi there\n", "job logs -f sh");
    assert_non_null(strstr(cli_output, "exit code 4"));
    cli_expect(0, "Stopped", "stop");
}

static void run_in_shell(const http_fixture_t *server, const char *id)
{
    char body[200];
    http_answer_t answer;

    snprintf(body, sizeof(body),
             "{\"entrypoint\":\"mkdir -p a/b; echo said by $CRT_SUBMISSION | tee a/b/c\","
             "\"submission_id\":\"%s\"}",
             id);
    http_request(server, "POST", "/api/jobs/", "", true, body, strlen(body), &answer);
    assert_int_equal(answer.code, 200);
    http_answer_fini(&answer);
    snprintf(body, sizeof(body), "said by %s\n", id);
    cli_expect(0, body, "job logs -f %s", id);
}

/* Waits until so many directories of jobs are there, and nothing that is on its way out. */
static void expect_directories(int count)
{
    char command[300];
    int found = -1;

    snprintf(command, sizeof(command), "ls -A %s/head-*/jobs | grep -vc notes",
             getenv("CRT_STATE_DIR"));
    for (int i = 0; i < 2000 && found != count; i++) {
        FILE *list = popen(command, "re");

        assert_non_null(list);
        assert_int_equal(fscanf(list, "%d", &found), 1);
        pclose(list);
        usleep(5000);
    }
    assert_int_equal(found, count);
}

static void what_a_job_left_goes_with_its_record(void **state)
{
    http_fixture_t server = {0};
    char port[16], command[300];
    pid_t head;
    char *at;

    cli_expect(0, "The cluster", START);
    at = strstr(cli_output, "http://127.0.0.1:");
    assert_non_null(at);
    server.port = (unsigned)atoi(at + strlen("http://127.0.0.1:"));
    cli_expect(0, "\n", "token");
    snprintf(server.token, sizeof(server.token), "%.64s", cli_output);
    run_in_shell(&server, "one");
    run_in_shell(&server, "two");
    expect_directories(2);
    assert_int_equal(http_code(&server, "DELETE", "/api/jobs/one", "", true), 200);
    expect_directories(1);
    cli_expect(0, "said by two", "job logs two");
    /* Of a job whose record went and whose head died before it could remove the rest. */
    head = (pid_t)cli_info("head-", "pid");
    cli_expect(0, "127.0.0.1:", "status");
    snprintf(port, sizeof(port), "%ld", atol(strstr(cli_output, "127.0.0.1:") + 10));
    assert_int_equal(kill(head, SIGKILL), 0);
    cli_await_end(head);
    snprintf(command, sizeof(command),
             "cd %s/head-%s/jobs && mkdir -p 0123456789abcdef0123456789abcdef/cwd/x "
             ".gone-0123456789abcdef0123456789abcdee/y notes",
             getenv("CRT_STATE_DIR"), port);
    assert_int_equal(system(command), 0);
    expect_directories(3);
    cli_expect(0, " runs again: node ", "start --head --dashboard-port 0 --port %s",
               port);
    expect_directories(1);
    cli_expect(0, "said by two", "job logs two");
    snprintf(command, sizeof(command), "rmdir %s/head-%s/jobs/notes",
             getenv("CRT_STATE_DIR"), port); /* it was not ours */
    assert_int_equal(system(command), 0);
    cli_expect(0, "Stopped", "stop");
}

static void
a_head_that_was_killed_starts_again_and_takes_its_node_and_jobs_back(void **state)
{
    pid_t worker, head;
    char port[16];

    start_and_stay(&worker);
    head = (pid_t)cli_info("head-", "pid");
    cli_expect(0, "127.0.0.1:", "status");
    snprintf(port, sizeof(port), "%ld", atol(strstr(cli_output, "127.0.0.1:") + 10));
    assert_int_equal(kill(head, SIGKILL), 0);
    cli_await_end(head);
    cli_expect(0, " runs again: node ", "start --head --dashboard-port 0 --port %s",
               port);
    cli_expect(0, " 0/2 CPU\n", "status"); /* one node, as before */
    cli_expect(0, "RUNNING", "job status stays");
    cli_expect(0, "held", "status");
    assert_int_equal(kill(worker, 0), 0);
    cli_expect(0, "was stopped", "job stop stays");
    cli_expect(0, "Stopped 1 node and the head", "stop");
}

/* `logs -f` of the job that stays, when it has said all so far. */
static pid_t follow(int *fd)
{
    pid_t follower = cli_spawn(fd, "job logs -f stays");

    if (!cli_read_until(*fd, " stays\n"))
        fail_msg("the job said \"%s\"", cli_output);
    return follower;
}

/* Its link to the head breaks first: what became of the job is known a moment later. */
static void who_follows_a_job_hears_that_its_node_died(void **state)
{
    pid_t worker, node, follower;
    int fd;

    start_and_stay(&worker);
    follower = follow(&fd);
    node = (pid_t)cli_info("node-", "pid");
    assert_int_equal(kill(node, SIGKILL), 0);
    assert_false(cli_read_until(fd, NULL));
    close(fd);
    cli_check(cli_wait(follower), 1, "Job 'stays' failed", __LINE__);
    cli_check(1, 1, "its connection broke", __LINE__);
    cli_await_end(node);
    cli_await_end(worker);
    cli_expect(0, "and the head", "stop");
    assert_true(cli_is_clean());
}

static void who_follows_a_job_hears_that_the_head_is_away(void **state)
{
    pid_t worker, head, follower;
    int fd;

    start_and_stay(&worker);
    follower = follow(&fd);
    head = (pid_t)cli_info("head-", "pid");
    assert_int_equal(kill(head, SIGKILL), 0);
    assert_true(cli_read_until(fd, "; trying again for 10m\n"));
    kill(follower, SIGKILL);
    close(fd);
    cli_wait(follower);
    cli_await_end(head);
    cli_expect(0, "Stopped", "stop");
    assert_true(cli_is_clean());
}

static void what_a_driver_used_is_free_when_its_shutdown_returns(void **state)
{
    cli_expect(0, "The cluster", START);
    cli_expect(0, "its actor is gone", "job submit -- %s leave", getenv("CRT_TEST_JOB"));
    cli_expect(0, "Stopped", "stop");
}

static void a_job_stops_with_its_actors_and_their_litter(void **state)
{
    pid_t worker;

    start_and_stay(&worker);
    cli_expect(0, "was stopped", "job stop stays");
    cli_await_end(worker);
    cli_expect(0, "Stopped", "stop");
    assert_true(cli_is_clean());
}

static void ctrl_c_ends_a_blocked_start_with_everything_it_runs(void **state)
{
    pid_t pid;
    int fd;

    pid = cli_spawn(&fd, START " --block");
    assert_true(cli_read_until(fd, "Ctrl-C ends it"));
    kill(pid, SIGINT);
    cli_read_until(fd, NULL);
    close(fd);
    assert_int_equal(cli_wait(pid), 0);
    assert_true(cli_is_clean());
}

/* The head is found there, for submitted jobs; it is not this command's. */
static void ctrl_c_of_a_node_that_joined_leaves_the_head_of_this_host_alone(void **state)
{
    long head, http;
    pid_t pid;
    int fd;

    cli_expect(0, "The cluster 127.0.0.1:", START);
    head = cli_info("head-", "pid");
    http = cli_info("head-", "http_pid");
    pid = cli_spawn(&fd,
                    "start --block --address 127.0.0.1:%ld --num-cpus 1 "
                    "--object-store-memory 50M",
                    atol(strstr(cli_output, "127.0.0.1:") + strlen("127.0.0.1:")));
    assert_true(cli_read_until(fd, "Ctrl-C ends it"));
    kill(pid, SIGINT);
    cli_read_until(fd, NULL);
    close(fd);
    assert_int_equal(cli_wait(pid), 0);
    cli_expect(0, " 0/2 CPU\n", "status");
    assert_int_equal(cli_info("head-", "pid"), head);
    assert_int_equal(cli_info("head-", "http_pid"), http);
    cli_expect(0, "Stopped 1 node and the head", "stop");
    assert_true(cli_is_clean());
}

/* A pipe or lock of a script that starts a cluster would be held for as long as that runs. */
static void daemons_keep_no_file_open_that_the_starter_had(void **state)
{
    char byte;
    int ends[2];

    assert_int_equal(pipe(ends), 0); /* both are inherited */
    cli_expect(0, "The cluster", START);
    close(ends[1]);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(read(ends[0], &byte, 1), 0); /* the end: nobody has it open */
    close(ends[0]);
    cli_expect(0, "Stopped", "stop");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, cli_setup, cli_teardown)
        TEST(a_cluster_starts_runs_jobs_and_stops),
        TEST(how_a_driver_ended_is_told_whoever_started_it),
        TEST(a_failed_start_leaves_the_tables_of_a_killed_head),
        TEST(a_node_that_joins_on_the_heads_host_runs_jobs),
        TEST(stop_leaves_nothing_after_kill_9_of_the_head),
        TEST(stop_leaves_nothing_after_kill_9_of_the_http_server),
        TEST(stop_leaves_nothing_after_kill_9_of_redis),
        TEST(stop_leaves_nothing_after_kill_9_of_the_node),
        TEST(stop_leaves_nothing_after_kill_9_of_a_zygote),
        TEST(stop_leaves_nothing_after_kill_9_of_a_worker),
        TEST(stop_leaves_nothing_after_kill_9_of_a_jobs_driver),
        TEST(stop_leaves_nothing_after_kill_9_of_both_daemons),
        TEST(logs_of_an_actor_are_found_by_its_name),
        TEST(what_stands_in_the_way_of_a_start_is_one_sentence),
        TEST(a_start_that_fails_leaves_no_directory),
        TEST(a_second_start_and_a_wrong_key_are_said_and_the_first_goes_on),
        TEST(a_driver_says_which_cluster_it_joins),
        TEST(directories_may_have_any_name_but_control_characters),
        TEST(a_shell_command_is_a_job_too),
        TEST(what_a_job_left_goes_with_its_record),
        TEST(a_head_that_was_killed_starts_again_and_takes_its_node_and_jobs_back),
        TEST(who_follows_a_job_hears_that_its_node_died),
        TEST(who_follows_a_job_hears_that_the_head_is_away),
        TEST(what_a_driver_used_is_free_when_its_shutdown_returns),
        TEST(a_job_stops_with_its_actors_and_their_litter),
        TEST(ctrl_c_ends_a_blocked_start_with_everything_it_runs),
        TEST(ctrl_c_of_a_node_that_joined_leaves_the_head_of_this_host_alone),
        TEST(daemons_keep_no_file_open_that_the_starter_had),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
