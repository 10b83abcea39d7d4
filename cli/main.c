/* SPDX-License-Identifier: Apache-2.0 */
/* The crt command: which part runs. See cli.h. */
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/config_file.h"
#include "cli/microbenchmark.h"
#include "cli/options.h"

static const struct {
    const char *name, *summary; /* without a summary: called by other commands */
    int (*run)(int argc, char **argv);
} commands[] = {
    {"start", "start a cluster on this host (--head), or join one (--address)",
     crti_cli_start},
    {"run", "run a program on a cluster of its own that ends with it", crti_cli_run},
    {"slurm", "run a program on a cluster of the nodes of a Slurm job", crti_cli_slurm},
    {"slurm-node", NULL, crti_cli_slurm_node},
    {"symmetric-run", "run a program on a cluster of the hosts that all run this command",
     crti_cli_symmetric_run},
    {"up", "start a cluster on the hosts of a cluster file, by ssh", crti_cli_up},
    {"down", "end that cluster on all its hosts", crti_cli_down},
    {"exec", "run a command on its head, or on all its hosts", crti_cli_exec},
    {"rsync", "send the program's folder to its hosts, what differs", crti_cli_rsync},
    {"attach", "open a terminal on its head", crti_cli_attach},
    {"host", NULL, crti_cli_host},
    {"drain", "end a node when what it has is done or moved", crti_cli_drain},
    {"health-check", "say whether the node of this host answers", crti_cli_health_check},
    {"pool", NULL, crti_cli_pool},
    {"kubernetes", NULL, crti_cli_kubernetes},
    {"request", "ask an autoscaler for nodes before work is there", crti_cli_request},
    {"stop", "end this host's part of a cluster", crti_cli_stop},
    {"status", "show nodes, resources, what waits, actors and jobs", crti_cli_status},
    {"list", "list actors, tasks, objects, nodes, workers, jobs ...", crti_cli_list},
    {"get", "show everything that is known of one of them", crti_cli_get},
    {"summary", "count tasks, actors or objects by state", crti_cli_summary},
    {"memory", "show which process holds which objects, and where they were made",
     crti_cli_memory},
    {"timeline", "print what calls did when, as a trace for a browser",
     crti_cli_timeline},
    {"stack", "print the stacks of drivers and workers, and what they wait for",
     crti_cli_stack},
    {"top", "show again and again what processes use", crti_cli_top},
    {"logs", "show the output of workers and actors, and the logs of daemons",
     crti_cli_logs},
    {"job", "submit a program; list, watch, read and stop jobs", crti_cli_job},
    {"data", "bring the files of a data set", crti_cli_data},
    {"archive", "write this crt as one file, with the libraries that it needs",
     crti_cli_archive},
    {"dashboard", "print a link that signs a browser in", crti_cli_dashboard},
    {"token", "print the cluster's token for HTTP", crti_cli_token},
    {"microbenchmark", "measure calls, tasks and objects on this host",
     crt_microbenchmark_main},
    {"config", "show the settings of the configuration files", crti_cli_config},
    {"version", "print the version", crti_cli_version},
};

int crti_cli_version(int argc, char **argv)
{
    static const command_spec_t spec = {.name = "crt version",
                                        .summary = "Prints the version of crt."};
    int first = crti_cli_parse(argc, argv, &spec);

    if (first <= 0)
        return -first;
    printf("crt %s\n", crt_version());
    return 0;
}

/* "start", or the first word of "job submit". */
static bool is_command(const char *name)
{
    size_t length = strcspn(name, " ");

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (commands[i].summary && strlen(commands[i].name) == length &&
            strncmp(commands[i].name, name, length) == 0)
            return true;
    return false;
}

static void print_help(void)
{
    printf(
        "Usage: crt COMMAND [OPTIONS]\n\ncrt runs tasks and actors on the processes and "
        "machines of a cluster.\n\nCommands:\n");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (commands[i].summary)
            printf("  %-16s %s\n", commands[i].name, commands[i].summary);
    printf("\ncrt COMMAND --help shows the options of a command.\n");
    crti_cli_print_environment();
}

/* What was printed is what was asked for: a full disk must not look like success. A terminal may
 * hang up. */
static int finish(int result)
{
    int error = fflush(stdout) == 0 ? EIO : errno;

    if (!ferror(stdout) || isatty(STDOUT_FILENO) || errno == EIO)
        return result;
    crti_cli_fail("crt", "standard output: %s", strerror(error));
    return result ? result : CLI_FAILED;
}

/* Where one is closed, the next file that is opened would be taken for it. What is written to it
 * must fail. */
static void hold_standard_files(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", O_RDONLY);
}

/* Of characters only (numbers stay as they are): names are UTF-8, whatever the terminal says. */
static void choose_characters(void)
{
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        (void)setlocale(LC_CTYPE, "C.UTF-8");
}

int main(int argc, char **argv)
{
    hold_standard_files();
    choose_characters();
    if (argc < 2) {
        fprintf(stderr, "crt: which command? crt --help lists them\n");
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help();
        return finish(0);
    }
    if (strcmp(argv[1], "--version") == 0)
        return finish(crti_cli_version(1, argv));
    if (crti_config_read(is_command) != CRT_OK) {
        fprintf(stderr, "crt: %s\n", crt_error_detail());
        return CLI_USAGE;
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(commands[i].name, argv[1]) == 0)
            return finish(commands[i].run(argc - 1, argv + 1));
    fprintf(stderr, "crt: unknown command \"%s\"; crt --help lists them\n", argv[1]);
    return CLI_USAGE;
}
