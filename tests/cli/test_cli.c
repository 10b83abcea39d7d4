/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the crt command against daemons that behave, or fail, as a test wants them to
 * (fake_head, fake_node) and the real crt-http. */
#include <arpa/inet.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "cli_fixture.h"

#define START "start --head --port 0 --dashboard-port 0"

static int begin(void **state)
{
    cli_begin(true);
    return 0;
}

/* The port that the system chose for the head. */
static long head_port(void)
{
    const char *at = strstr(cli_output, "The cluster 127.0.0.1:");

    assert_non_null(at);
    return atol(at + strlen("The cluster 127.0.0.1:"));
}

/* ---------------------------------------------------------------- use */

static void every_command_has_a_help_that_lists_options_and_environment(void **state)
{
    static const struct {
        const char *command, *option;
    } commands[] = {{"start", "--object-store-memory BYTES"},
                    {"run", "-n, --nodes N"},
                    {"stop", "-f, --force"},
                    {"status", "--json"},
                    {"logs", "--follow"},
                    {"token", "--key-file FILE"},
                    {"version", "--help"},
                    {"job submit", "--no-wait"},
                    {"job list", "--json"},
                    {"job status", "--address HOST:PORT"},
                    {"job logs", "--follow"},
                    {"job stop", "--no-wait"},
                    {"job", "submit"}};

    cli_expect(0, "Commands:", "--help");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        cli_expect(0, commands[i].option, "%s --help", commands[i].command);
        assert_non_null(strstr(cli_output, "Environment:\n  CRT_ADDRESS"));
    }
    cli_expect(0, "crt 0.", "version");
    cli_expect(0, "crt 0.", "--version");
}

static const struct {
    const char *words, *sentence;
} misuses[] = {
    {"", "crt: which command?"},
    {"nonsense", "crt: unknown command \"nonsense\""},
    {"status --nonsense", "crt status: unknown option --nonsense"},
    {"status -x", "crt status: unknown option -x"},
    {"start --bloc", "crt start: unknown option --bloc (--block is written whole)"},
    {"start --head --num-c 1", "unknown option --num-c (--num-cpus is written whole)"},
    {"start --head --num-c=1", "unknown option --num-c (--num-cpus is written whole)"},
    {"start --head --num 1", "crt start: unknown option --num"},
    {"microbenchmark --jso", "crt microbenchmark: --json is written whole"},
    {"stop more", "crt stop: unexpected argument more"},
    {"status one two", "crt status: unexpected argument two"},
    {"status -a 10.0.0.1:1 one", "crt status: give --address or FILE"},
    {"dashboard one two", "crt dashboard: unexpected argument two"},
    {"up", "crt up: which file?"},
    {"exec one", "crt exec: which command?"},
    {"start", "give --head to start a cluster, or --address to join one"},
    {"start --head --address a:1", "give one of the two"},
    {"start --head --port", "--port needs a value"},
    {"start --head --port 65536", "--port takes a port from 0 to 65535, not \"65536\""},
    {"start --head --port x", "--port takes a port"},
    {"start --head --num-cpus -1", "--num-cpus takes a number"},
    {"start --head --num-cpus 1.23456", "--num-cpus takes a number"},
    {"job submit --priority 0 -- /bin/true", "--priority takes a number of 1 to 1000"},
    {"job submit --priority 1.5 -- /bin/true", "--priority takes a number of 1 to 1000"},
    {"job submit --max-share 1.5 -- /bin/true", "--max-share takes a part above 0 to 1"},
    {"job submit --max-share 0 -- /bin/true", "--max-share takes a part above 0 to 1"},
    {"start --head --num-gpus x", "--num-gpus takes a whole number of 0 to 64"},
    {"start --head --num-gpus 65", "--num-gpus takes a whole number of 0 to 64"},
    {"start --head --headless-timeout 1.5", "takes a whole number of 0 to 1000000000"},
    {"start --head --on-resource-deadlock wait", "takes one of tell|fail-youngest"},
    {"start --head --spill-limit 2000000T", "--spill-limit takes bytes"},
    {"start --head --num-cpus 1000000000000.0001", "--num-cpus takes a number of 0 to"},
    {"start --head --num-cpus 2000000000000", "--num-cpus takes a number of 0 to"},
    {"start --head --resources memory=1000000000001",
     "--resources takes amounts of 0 to 1000000000000"},
    {"start --head --resources gpu", "--resources takes a list"},
    {"start --head --resources gpu=1,", "--resources takes a list"},
    {"start --head --object-store-memory 1X", "--object-store-memory takes bytes"},
    {"start --head --object-store-memory 99999999999999999999", "takes bytes"},
    {"start --head --worker-port-range 5", "--worker-port-range takes two ports"},
    {"start --head --worker-port-range 20-10", "--worker-port-range takes two ports"},
    {"start --head --encrypt-streams maybe", "--encrypt-streams takes on or off"},
    {"start --head --fail-if-infeasible maybe", "--fail-if-infeasible takes on or off"},
    {"start --address h:1 --fail-if-infeasible on",
     "--fail-if-infeasible belongs to the head"},
    {"start --head --resources x=1,x=2",
     "--resources takes each resource once (x comes again), not \"x=1,x=2\""},
    {"start --address 10.0.0.1", "--address takes HOST:PORT, for example "
                                 "10.0.0.1:6380, not \"10.0.0.1\""},
    {"start --address :6380", "--address takes HOST:PORT"},
    {"start --address a:0", "--address takes HOST:PORT"},
    {"start --address a:65536", "--address takes HOST:PORT"},
    {"status --address nonsense", "--address takes HOST:PORT"},
    {"stop --address nonsense", "--address takes HOST:PORT"},
    {"logs --address nonsense x", "--address takes HOST:PORT"},
    {"job list --address nonsense", "--address takes HOST:PORT"},
    {"job submit --address nonsense -- x", "--address takes HOST:PORT"},
    {"start --address a:1 --dashboard-port 1", "--dashboard-port belongs to the head"},
    {"run", "which program?"},
    {"run --", "which program?"},
    {"run --nodes 0 -- true", "--nodes takes 1 to 64, not \"0\""},
    {"run --nodes 1.5 -- true", "--nodes takes 1 to 64, not \"1.5\""},
    {"run --nodes 65 -- true", "--nodes takes 1 to 64"},
    {"start --address a:1 --redis-address b:1", "--redis-address belongs to the head"},
    {"job", "which of submit, list, status, logs, stop and delete?"},
    {"job fly", "unknown command \"fly\""},
    {"job submit", "which program?"},
    {"job submit --env x -- y", "--env takes NAME=VALUE"},
    {"job status", "give one JOB"},
    {"job logs a b", "give one JOB"},
    {"logs a b", "one log at a time"},
};

static void wrong_use_is_one_sentence_and_exit_status_2(void **state)
{
    for (size_t i = 0; i < sizeof(misuses) / sizeof(misuses[0]); i++) {
        cli_expect(2, misuses[i].sentence, "%s", misuses[i].words);
        assert_ptr_equal(strchr(cli_output, '\n'), strrchr(cli_output, '\n'));
    }
}

static void an_address_of_the_environment_that_is_none_is_named(void **state)
{
    setenv("CRT_ADDRESS", "nonsense", 1);
    cli_expect(1,
               "CRT_ADDRESS: \"nonsense\" is no address of a cluster; one is HOST:PORT",
               "status");
    cli_expect(1, "CRT_ADDRESS: \"nonsense\" is no address", "job list");
    cli_expect(2, "CRT_ADDRESS is HOST:PORT, not \"nonsense\"", "stop");
    unsetenv("CRT_ADDRESS");
}

static void without_a_cluster_each_command_says_how_to_start_one(void **state)
{
    static const char *const commands[] = {"status", "logs", "token", "job list",
                                           "job submit -- true"};

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        cli_expect(1, "no cluster runs on this host; start one with: crt start --head",
                   "%s", commands[i]);
    cli_expect(1, "no node of the cluster 10.9.9.9:1", "status --address 10.9.9.9:1");
    cli_expect(0, "No cluster runs on this host.", "stop");
    cli_expect(1, "no node or head of the cluster 10.9.9.9:1",
               "stop --address 10.9.9.9:1");
}

static void stop_says_why_it_can_not_look_into_the_run_directory(void **state)
{
    char run[PATH_MAX];

    snprintf(run, sizeof(run), "%s", getenv("CRT_RUN_DIR"));
    setenv("CRT_RUN_DIR", "relative", 1);
    cli_expect(1, "the directory relative is relative", "stop");
    setenv("CRT_RUN_DIR", cli_path("open"), 1);
    assert_int_equal(mkdir(cli_path("open"), 0700), 0);
    assert_int_equal(chmod(cli_path("open"), 0755), 0);
    cli_expect(1, "can be used by others (mode 0755); run: chmod 700", "stop");
    cli_expect(1, "can be used by others", "stop --address 10.9.9.9:1");
    assert_int_equal(rmdir(cli_path("open")), 0);
    setenv("CRT_RUN_DIR", run, 1);
}

/* ---------------------------------------------------------------- start */

static void start_says_what_to_type_next(void **state)
{
    const char *newline;

    cli_expect(0, "The cluster 127.0.0.1:", START);
    assert_non_null(strstr(cli_output, "--key-file /"));
    assert_non_null(strstr(cli_output, "crt job submit -- ./program"));
    assert_non_null(strstr(cli_output, "http://127.0.0.1:"));
    assert_non_null(strstr(cli_output, "(crt dashboard prints a link that signs it in)"));
    assert_null(strchr(cli_output, '#')); /* no secret into what is no terminal */
    assert_non_null(strstr(cli_output, "crt stop"));
    cli_expect(0, "\n", "token");
    newline = strchr(cli_output, '\n');
    assert_int_equal(newline - cli_output, 64);
    cli_expect(0, "Stopped 1 node and the head", "stop");
}

static void a_taken_port_is_said_and_nothing_is_left(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 1), 0);
    getsockname(fd, (struct sockaddr *)&address, &size);
    cli_expect(1, "is taken; choose another with --port",
               "start --head --dashboard-port 0 --port %d", ntohs(address.sin_port));
    assert_true(cli_is_clean());
    cli_expect(1, "is taken; choose another with --dashboard-port",
               "start --head --port 0 --dashboard-port %d", ntohs(address.sin_port));
    close(fd);
}

static void a_second_start_is_said_and_the_first_goes_on(void **state)
{
    long port;

    cli_expect(0, "runs", START);
    port = head_port();
    cli_expect(1, "a head runs at port", "start --head --dashboard-port 0 --port %ld",
               port);
    cli_expect(0, "ALIVE", "status");
    cli_expect(0, "Stopped", "stop");
}

static void what_a_daemon_says_is_the_error_and_nothing_is_left(void **state)
{
    setenv("FAKE_HEAD",
           "error there is no redis-server; install it with: apt-get install "
           "redis-server",
           1);
    cli_expect(1, "crt start: there is no redis-server; install it with", START);
    setenv("FAKE_HEAD", "crash", 1);
    cli_expect(1, "crt start: crt-head ended before it served", START);
    unsetenv("FAKE_HEAD");
    setenv("FAKE_NODE", "error 100 MB of memory are free, the object store needs 200 MB",
           1);
    cli_expect(1, "crt start: 100 MB of memory are free", START);
    assert_true(cli_is_clean()); /* the head, too */
    setenv("FAKE_NODE", "crash", 1);
    cli_expect(1, "crt-node ended before it served: something broke", START);
    unsetenv("FAKE_NODE");
}

static void without_daemons_the_place_is_named(void **state)
{
    setenv("CRT_LIBEXEC", "/nowhere", 1);
    cli_expect(1, "crt-head is not in CRT_LIBEXEC=/nowhere", START);
}

static bool head_has_info(void)
{
    return cli_info("head-", "pid") != 0;
}

static bool node_hangs(void)
{
    return access(cli_path("s/node-hangs"), F_OK) == 0;
}

/* Ctrl-C to a start that has come so far. */
static void interrupt_when(bool (*has_come_so_far)(void))
{
    pid_t pid;
    int fd;

    pid = cli_spawn(&fd, START);
    for (int i = 0; i < 15000 && !has_come_so_far(); i++)
        usleep(2000);
    assert_true(has_come_so_far());
    kill(pid, SIGINT);
    cli_read_until(fd, NULL);
    close(fd);
    assert_int_equal(cli_wait(pid), 130);
    assert_non_null(strstr(cli_output, "interrupted; nothing is left running"));
    assert_true(cli_is_clean());
}

static void ctrl_c_while_the_node_starts_leaves_nothing(void **state)
{
    setenv("FAKE_NODE", "hang", 1);
    interrupt_when(node_hangs);
}

static void ctrl_c_while_the_head_says_that_it_serves_leaves_nothing(void **state)
{
    setenv("FAKE_HEAD", "late", 1);
    interrupt_when(head_has_info);
}

static void ctrl_c_leaves_nothing_of_a_head_that_must_be_killed(void **state)
{
    setenv("FAKE_HEAD", "stubborn", 1);
    interrupt_when(head_has_info);
}

/* ---------------------------------------------------------------- joining */

static void joining_needs_a_key_that_only_its_owner_can_read(void **state)
{
    FILE *file = fopen(cli_path("k"), "we");

    fprintf(file, "%064d\n", 1);
    fclose(file);
    cli_expect(1, "to join a cluster its key is needed", "start --address 127.0.0.1:1");
    cli_expect(1, "does not exist", "start --address 127.0.0.1:1 --key-file /nowhere");
    chmod(cli_path("k"), 0644);
    cli_expect(1, "can be used by others (mode 0644); run: chmod 600",
               "start --address 127.0.0.1:1 --key-file %s", cli_path("k"));
    chmod(cli_path("k"), 0600);
    setenv("FAKE_NODE",
           "error the head at 127.0.0.1:1 can't be reached: connection refused", 1);
    cli_expect(1, "crt start: the head at 127.0.0.1:1 can't be reached",
               "start --address 127.0.0.1:1 --key-file %s", cli_path("k"));
    unsetenv("FAKE_NODE");
    cli_expect(0, "This host joined 127.0.0.1:1",
               "start --address 127.0.0.1:1 --key-file %s", cli_path("k"));
    cli_expect(0, "Stopped 1 node of 127.0.0.1:1", "stop");
}

static void a_second_node_on_the_heads_host_needs_no_key_file(void **state)
{
    long port;

    cli_expect(0, "runs", START);
    port = head_port();
    cli_expect(0, "This host joined", "start --address 127.0.0.1:%ld", port);
    cli_expect(0, "Stopped 2 nodes and the head", "stop");
}

/* ---------------------------------------------------------------- several clusters */

static void clusters_live_side_by_side(void **state)
{
    long first, second;

    cli_expect(0, "runs", START);
    first = head_port();
    cli_expect(0, "--address", START); /* the lines to type next say which */
    second = head_port();
    cli_expect(1, "several clusters run here", "status");
    cli_expect(1, "several clusters run here", "stop");
    assert_non_null(strstr(cli_output, "--address"));
    cli_expect(0, "ALIVE", "status --address 127.0.0.1:%ld", first);
    cli_expect(0, "Stopped 1 node and the head", "stop --address 127.0.0.1:%ld", first);
    cli_expect(0, "ALIVE", "status"); /* the other one is meant now */
    setenv("CRT_ADDRESS", "127.0.0.1:1", 1);
    cli_expect(1, "127.0.0.1:1", "status");
    unsetenv("CRT_ADDRESS");
    cli_expect(0, "Stopped 1 node and the head", "stop --address 127.0.0.1:%ld", second);
}

static void a_state_directory_of_ones_own_keeps_other_clusters_out(void **state)
{
    long port;

    cli_expect(0, "\n  crt stop\n", START);
    port = head_port();
    setenv("CRT_STATE_DIR", cli_path("t"), 1);
    cli_expect(1, "no cluster of CRT_STATE_DIR=", "status");
    cli_expect(0, "No cluster of CRT_STATE_DIR=", "stop");
    assert_true(cli_info("node-", "pid") > 1);
    cli_expect(0, "\n  crt stop\n",
               START); /* the only one that is meant without --address */
    cli_expect(0, "Stopped 1 node and the head", "stop");
    cli_expect(0, "ALIVE", "status --address 127.0.0.1:%ld", port);
    setenv("CRT_STATE_DIR", cli_path("s"), 1);
    cli_expect(0, "Stopped 1 node and the head", "stop");
}

static void a_wrong_key_file_is_refused_on_the_heads_host_too(void **state)
{
    char wrong[512];
    FILE *file;
    long port;

    cli_expect(0, "runs", START);
    snprintf(wrong, sizeof(wrong), "%s", cli_path("wrong.key"));
    file = fopen(wrong, "w");
    assert_non_null(file);
    for (int i = 0; i < 64; i++)
        fputc('a', file);
    fputc('\n', file);
    fclose(file);
    assert_int_equal(chmod(wrong, 0600), 0);
    port = head_port();
    cli_expect(1, wrong, "start --address 127.0.0.1:%ld --key-file %s", port, wrong);
    assert_non_null(strstr(cli_output, "cluster.key"));
    setenv("CRT_KEY_FILE", wrong, 1);
    cli_expect(1, wrong, "status");
    assert_non_null(strstr(cli_output, "cluster.key"));
    cli_expect(1, wrong, "job list");
    cli_expect(1, wrong, "stop");
    unsetenv("CRT_KEY_FILE");
    cli_expect(0, "Stopped 1 node and the head", "stop");
}

/* ---------------------------------------------------------------- stop */

static void kill_and_stop(const char *prefix, const char *key, const char *options)
{
    pid_t pid;

    cli_expect(0, "runs", START);
    pid = (pid_t)cli_info(prefix, key);
    assert_true(pid > 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    cli_await_end(pid);
    cli_expect(0, "", "stop %s", options);
    assert_true(cli_is_clean());
}

/* crt-http is its head's zombie until it is reaped, so it is not waited for. */
static void stop_leaves_nothing_after_kill_9_of_any_daemon(void **state)
{
    pid_t http;

    setenv("FAKE_NODE", "litter", 1);
    kill_and_stop("head-", "pid", "");
    kill_and_stop("node-", "pid", "--force");
    cli_expect(0, "runs", START);
    http = (pid_t)cli_info("head-", "http_pid");
    assert_int_equal(kill(http, SIGKILL), 0);
    cli_run("stop --force");
    assert_true(cli_is_clean());
}

static void stop_leaves_nothing_after_kill_9_of_all_daemons(void **state)
{
    pid_t head, node;

    setenv("FAKE_NODE", "litter", 1);
    cli_expect(0, "runs", START);
    head = (pid_t)cli_info("head-", "pid");
    node = (pid_t)cli_info("node-", "pid");
    kill(head, SIGKILL);
    kill(node, SIGKILL);
    cli_await_end(head);
    cli_await_end(node);
    cli_expect(1, "no cluster runs on this host", "status");
    cli_expect(0, "removed what was left of it", "stop");
    assert_true(cli_is_clean());
}

/* A directory as a daemon leaves it that is killed before it knows its cluster. */
static void leave_nameless(const char *name, const char *number)
{
    char path[600];
    FILE *lock;

    snprintf(path, sizeof(path), "%s/%s", cli_path("r"), name);
    assert_int_equal(mkdir(path, 0700), 0);
    strcat(path, "/lock");
    lock = fopen(path, "w");
    assert_non_null(lock);
    fputs(number, lock);
    fclose(lock);
}

static void stop_of_an_address_removes_what_killed_starts_left(void **state)
{
    long first, second;

    cli_expect(0, "runs", START);
    first = head_port();
    cli_expect(0, "--address", START);
    second = head_port();
    leave_nameless("node-0badcafe", "1073741824\n"); /* no process has that number */
    cli_expect(0, "Stopped 1 node and the head", "stop --address 127.0.0.1:%ld", first);
    assert_int_equal(access(cli_path("r/node-0badcafe"), F_OK), -1);
    leave_nameless("node-0badcaff", ""); /* has yet to take its lock */
    cli_expect(1, "no node or head of the cluster 127.0.0.1:1",
               "stop --address 127.0.0.1:1");
    cli_expect(0, "Stopped 1 node and the head", "stop --address 127.0.0.1:%ld", second);
    assert_int_equal(access(cli_path("r/node-0badcaff"), F_OK), 0);
    cli_expect(0, "removed what was left", "stop");
}

/* What a killed node left, each ignoring SIGTERM; more than files may be open at once. */
static void more_processes_than_files_that_may_be_open_are_ended(void **state)
{
    struct rlimit before, few;
    char text[600];
    pid_t starter;

    assert_int_equal(mkdir(cli_path("r"), 0700), 0);
    leave_nameless("node-0badcafe", "1073741824\n"); /* no process has that number */
    starter = fork();
    if (starter == 0) {
        setenv("CRT_NODE_DIR", cli_path("r/node-0badcafe"), 1);
        execl(
            "/bin/sh", "sh", "-c",
            "trap '' TERM; i=0; while [ $i -lt 300 ]; do sleep 1000 & i=$((i + 1)); done",
            (char *)NULL);
        _exit(127);
    }
    waitpid(starter, NULL, 0);
    getrlimit(RLIMIT_NOFILE, &before);
    few = (struct rlimit){32, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    cli_run("stop --force");
    setrlimit(RLIMIT_NOFILE, &before);
    snprintf(text, sizeof(text), "%s", cli_output);
    if (!strstr(text, "removed what was left of it"))
        fail_msg("%s", text);
    assert_true(cli_is_clean());
}

static void a_daemon_that_does_not_end_is_killed(void **state)
{
    setenv("FAKE_NODE", "stubborn", 1);
    cli_expect(0, "runs", START);
    cli_expect(0, "Stopped 1 node and the head", "stop --force");
    assert_true(cli_is_clean());
}

static void a_recorded_number_that_belongs_to_another_process_is_left_alone(void **state)
{
    pid_t node, stranger = fork();
    char command[600];

    if (stranger == 0) {
        execl("/bin/sleep", "sleep", "1000", NULL);
        _exit(127);
    }
    cli_expect(0, "runs", START);
    node = (pid_t)cli_info("node-", "pid");
    kill(node, SIGKILL);
    cli_await_end(node);
    snprintf(command, sizeof(command), "sed -i 's/^pid .*/pid %d/' %s/node-*/node.info",
             (int)stranger, cli_path("r"));
    assert_int_equal(system(command), 0);
    cli_expect(0, "Stopped", "stop");
    assert_int_equal(kill(stranger, 0), 0);
    kill(stranger, SIGKILL);
    cli_wait(stranger);
}

static void block_stays_until_ctrl_c_and_then_leaves_nothing(void **state)
{
    pid_t pid;
    int fd;

    pid = cli_spawn(&fd, START " --block");
    assert_true(cli_read_until(fd, "Ctrl-C ends it"));
    kill(pid, SIGINT);
    cli_read_until(fd, NULL);
    close(fd);
    assert_int_equal(cli_wait(pid), 0);
    assert_non_null(strstr(cli_output, "Stopped."));
    assert_true(cli_is_clean());
}

static void block_ends_with_its_terminal_and_leaves_nothing(void **state)
{
    int terminal;
    pid_t pid = cli_spawn_on_terminal(&terminal, START " --block");

    assert_true(cli_read_until(terminal, "Ctrl-C ends it."));
    close(terminal);
    assert_int_equal(cli_wait(pid), 0);
    assert_true(cli_is_clean());
}

static void block_ends_when_a_daemon_does(void **state)
{
    pid_t pid;
    int fd;

    pid = cli_spawn(&fd, START " --block");
    assert_true(cli_read_until(fd, "Ctrl-C ends it"));
    kill((pid_t)cli_info("node-", "pid"), SIGKILL);
    cli_read_until(fd, NULL);
    close(fd);
    assert_int_equal(cli_wait(pid), 1);
    assert_non_null(strstr(cli_output, "crt-node ended by itself; the rest was stopped"));
    assert_true(cli_is_clean());
}

/* ---------------------------------------------------------------- status, logs */

static void status_shows_the_cluster_as_text_and_json(void **state)
{
    static const char *const parts[] = {"ALIVE  127.0.0.1  1.5/2",
                                        "DEAD   127.0.0.2",
                                        "connection lost",
                                        " 1.5/2 CPU\n",
                                        " 0 B/4.0 GiB memory\n",
                                        "needs 3 CPU, the cluster has 2",
                                        "Actors: 1 ALIVE, 1 DEAD, 1 ENDED",
                                        "<b>Bold</b>",
                                        "Counter",
                                        "tally"};
    json_t *json;

    cli_expect(0, "runs", START);
    cli_expect(0, "Nodes\n", "status");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        assert_non_null(strstr(cli_output, parts[i]));
    assert_null(strstr(cli_output, "its job ended")); /* nothing failed there */
    cli_expect(0, "its job ended", "status -v");
    assert_non_null(strstr(cli_output, "Brief"));
    assert_non_null(strstr(cli_output, "<b>Bold</b>"));
    cli_expect(0, "{", "status --json");
    json = json_loads(cli_output, 0, NULL);
    assert_non_null(json);
    assert_int_equal(json_array_size(json_object_get(json, "actors")), 3);
    json_decref(json);
    cli_expect(0, "Stopped", "stop");
}

static void a_node_that_is_away_is_not_shown_as_used(void **state)
{
    setenv("FAKE_HEAD", "away", 1);
    cli_expect(0, "runs", START);
    cli_expect(0, "not back yet", "status");
    assert_non_null(strstr(cli_output, "AWAY"));
    assert_null(strstr(cli_output, "2/2"));
    assert_non_null(strstr(cli_output, "Resources (used/total)\n (none)\n"));
    cli_expect(0, "Stopped", "stop");
}

static void logs_lists_or_prints_and_follows(void **state)
{
    cli_expect(0, "runs", START);
    cli_expect(0, "ac000000000000000000000000000001  Counter", "logs");
    cli_expect(0, "Running entrypoint for job\nhello\n",
               "logs ac000000000000000000000000000001");
    cli_expect(0, "hello\n", "logs --follow ac000000000000000000000000000001");
    cli_expect(1, "no log of nobody", "logs nobody");
    cli_expect(0, "Stopped", "stop");
}

static void a_dead_head_is_said(void **state)
{
    pid_t head;

    cli_expect(0, "runs", START);
    head = (pid_t)cli_info("head-", "pid");
    kill(head, SIGKILL);
    cli_await_end(head);
    cli_expect(1, "does not answer; start it again with: crt start --head --port",
               "status");
    cli_expect(0, "Stopped 1 node", "stop");
}

/* ---------------------------------------------------------------- jobs */

static void a_job_is_uploaded_once_followed_and_decides_the_exit_status(void **state)
{
    cli_expect(0, "runs", START);
    cli_expect(0, "Uploading", "job submit -- /bin/true one two~three");
    assert_non_null(strstr(cli_output, "submitted successfully"));
    assert_non_null(strstr(cli_output, "Running entrypoint for job\nhello\n"));
    assert_non_null(strstr(cli_output, "' succeeded\n"));
    cli_expect(3, "' failed\n", "job submit -- /bin/true fail");
    assert_null(strstr(cli_output, "Uploading"));
    cli_expect(0, "/bin/true one 'two three'", "job list");
    cli_expect(0, "submitted",
               "job submit --no-wait --submission-id mine -- true forever");
    assert_null(strstr(cli_output, "hello"));
    cli_expect(1, "already exists", "job submit --submission-id mine -- true");
    cli_expect(0, "Status for job 'mine': RUNNING", "job status mine");
    cli_expect(0, "hello\n", "job logs mine");
    cli_expect(0, "Job 'mine' was stopped", "job stop mine");
    cli_expect(0, "had ended: STOPPED", "job stop mine");
    cli_expect(1, "Job 'mine' was stopped", "job logs -f mine");
    cli_expect(0, "Stopped", "stop");
}

static void output_that_can_not_be_written_is_a_failure(void **state)
{
    char command[512];

    snprintf(command, sizeof(command), "'%s' version >/dev/full 2>'%s'",
             getenv("CRT_TEST_CRT"), cli_path("error"));
    assert_int_equal(WEXITSTATUS(system(command)), 1);
    snprintf(command, sizeof(command),
             "grep -q 'crt: standard output: No space left on device' '%s'",
             cli_path("error"));
    assert_int_equal(system(command), 0);
}

/* How many lines of the last output have `text` in them. */
static int lines_with(const char *text)
{
    int count = 0;

    for (const char *at = cli_output; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

static void the_newest_jobs_are_listed_and_the_others_counted(void **state)
{
    json_t *json;

    cli_expect(0, "runs", START);
    cli_expect(0, "No jobs.", "job list");
    for (int i = 0; i < 25; i++)
        cli_expect(0, "submitted", "job submit --no-wait --submission-id j%02d -- true",
                   i);
    cli_expect(0, "and 5 older (--all shows all", "job list");
    assert_int_equal(lines_with("SUCCEEDED"), 20);
    assert_non_null(strstr(cli_output, "j24"));
    assert_non_null(strstr(cli_output, "j05"));
    assert_null(strstr(cli_output, "j04"));
    assert_true(strstr(cli_output, "j24") < strstr(cli_output, "j23"));
    cli_expect(0, "and 22 older", "job list --limit 3");
    assert_int_equal(lines_with("SUCCEEDED"), 3);
    cli_expect(0, "j00", "job list --all");
    assert_null(strstr(cli_output, "older"));
    cli_expect(0, "j00", "job list --limit 25");
    assert_null(strstr(cli_output, "older"));
    cli_expect(2, "--all or --limit", "job list --all --limit 3");
    cli_expect(0, "[", "job list --json");
    json = json_loads(cli_output, 0, NULL);
    assert_int_equal(json_array_size(json), 25);
    json_decref(json);
    cli_expect(0, "[", "job list --json --limit 2");
    json = json_loads(cli_output, 0, NULL);
    assert_int_equal(json_array_size(json), 2);
    json_decref(json);
    cli_expect(0, "Stopped", "stop");
}

static void put_file(const char *name, const char *text, mode_t mode)
{
    FILE *file = fopen(cli_path("%s", name), "we");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(cli_path("%s", name), mode), 0);
}

static void what_can_not_be_submitted_is_said(void **state)
{
    cli_expect(0, "runs", START);
    cli_expect(1, "can't read the program ./none", "job submit -- ./none");
    cli_expect(1, "can't read the program no-such-program",
               "job submit -- no-such-program");
    cli_expect(1, "is not an executable file", "job submit -- /etc/passwd");
    cli_expect(1, "is not an executable file", "job submit -- /tmp");
    put_file("notes", "hello\n", 0700);
    cli_expect(1, "notes can't be executed: it is neither a binary", "job submit -- %s",
               cli_path("notes"));
    assert_null(strstr(cli_output, "submitted"));
    put_file("empty", "", 0700);
    cli_expect(1, "empty can't be executed", "job submit -- %s", cli_path("empty"));
    put_file("script", "#!/bin/sh\necho hello\n", 0700);
    cli_expect(0, "submitted successfully", "job submit -- %s", cli_path("script"));
    cli_expect(1, "\"submission_id\" must be", "job submit --submission-id ../x -- true");
    cli_expect(1, "Job none does not exist", "job status none");
    cli_expect(1, "Job none does not exist", "job logs none");
    cli_expect(1, "Job none does not exist", "job logs -f none");
    cli_expect(1, "Job none does not exist", "job stop none");
    cli_expect(1, "not a job id", "job status a~b");
    cli_expect(0, "Stopped", "stop");
}

static void another_hosts_server_is_reached_by_crt_http(void **state)
{
    char http[64], tunnel[160], token[65], *at;
    long port;

    cli_expect(0, "runs", START);
    port = atol(strstr(cli_output, "The cluster 127.0.0.1:") + 22);
    at = strstr(cli_output, "http://");
    snprintf(http, sizeof(http), "%.*s", (int)strcspn(at, "\n"), at);
    cli_expect(0, "\n", "token");
    snprintf(token, sizeof(token), "%.64s", cli_output);
    setenv("CRT_TOKEN", token, 1);
    setenv("CRT_HTTP", http, 1);
    cli_expect(1, "the token would go to whoever listens there", "job list");
    unsetenv("CRT_TOKEN");
    snprintf(tunnel, sizeof(tunnel), "unix:%s", cli_path("r/head-%ld/http.sock", port));
    setenv("CRT_HTTP", tunnel, 1);
    cli_expect(1, "CRT_HTTP needs CRT_TOKEN or CRT_KEY_FILE", "job list");
    setenv("CRT_TOKEN", "wrong", 1);
    cli_expect(1, "Forbidden: Invalid authentication token", "job list");
    setenv("CRT_TOKEN", token, 1);
    cli_expect(0, "No jobs.", "job list");
    unsetenv("CRT_HTTP");
    unsetenv("CRT_TOKEN");
    cli_expect(0, "Stopped", "stop");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, cli_teardown)
        TEST(every_command_has_a_help_that_lists_options_and_environment),
        TEST(wrong_use_is_one_sentence_and_exit_status_2),
        TEST(an_address_of_the_environment_that_is_none_is_named),
        TEST(without_a_cluster_each_command_says_how_to_start_one),
        TEST(stop_says_why_it_can_not_look_into_the_run_directory),
        TEST(start_says_what_to_type_next),
        TEST(a_taken_port_is_said_and_nothing_is_left),
        TEST(a_second_start_is_said_and_the_first_goes_on),
        TEST(what_a_daemon_says_is_the_error_and_nothing_is_left),
        TEST(without_daemons_the_place_is_named),
        TEST(ctrl_c_while_the_node_starts_leaves_nothing),
        TEST(ctrl_c_while_the_head_says_that_it_serves_leaves_nothing),
        TEST(ctrl_c_leaves_nothing_of_a_head_that_must_be_killed),
        TEST(joining_needs_a_key_that_only_its_owner_can_read),
        TEST(a_second_node_on_the_heads_host_needs_no_key_file),
        TEST(clusters_live_side_by_side),
        TEST(a_state_directory_of_ones_own_keeps_other_clusters_out),
        TEST(a_wrong_key_file_is_refused_on_the_heads_host_too),
        TEST(stop_leaves_nothing_after_kill_9_of_any_daemon),
        TEST(stop_leaves_nothing_after_kill_9_of_all_daemons),
        TEST(stop_of_an_address_removes_what_killed_starts_left),
        TEST(more_processes_than_files_that_may_be_open_are_ended),
        TEST(a_daemon_that_does_not_end_is_killed),
        TEST(a_recorded_number_that_belongs_to_another_process_is_left_alone),
        TEST(block_stays_until_ctrl_c_and_then_leaves_nothing),
        TEST(block_ends_with_its_terminal_and_leaves_nothing),
        TEST(block_ends_when_a_daemon_does),
        TEST(status_shows_the_cluster_as_text_and_json),
        TEST(a_node_that_is_away_is_not_shown_as_used),
        TEST(logs_lists_or_prints_and_follows),
        TEST(a_dead_head_is_said),
        TEST(a_job_is_uploaded_once_followed_and_decides_the_exit_status),
        TEST(output_that_can_not_be_written_is_a_failure),
        TEST(the_newest_jobs_are_listed_and_the_others_counted),
        TEST(what_can_not_be_submitted_is_said),
        TEST(another_hosts_server_is_reached_by_crt_http),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
