/* SPDX-License-Identifier: Apache-2.0 */
/* The crt command: one function per command.
 *
 * Where it sits
 *     user -> cli/main.c -> one file per command -> libcrt (public headers only), crt-http by
 *     HTTP, crt-head and crt-node by exec
 */
#ifndef CRTI_CLI_CLI_H
#define CRTI_CLI_CLI_H

#include "cli/failure.h"

int crti_cli_archive(int argc, char **argv);
int crti_cli_health_check(int argc, char **argv);
int crti_cli_start(int argc, char **argv);
int crti_cli_up(int argc, char **argv);
int crti_cli_down(int argc, char **argv);
int crti_cli_exec(int argc, char **argv);
int crti_cli_attach(int argc, char **argv);
int crti_cli_rsync(int argc, char **argv);
int crti_cli_slurm(int argc, char **argv);
int crti_cli_slurm_node(int argc, char **argv);
int crti_cli_symmetric_run(int argc, char **argv);
int crti_cli_host(int argc, char **argv);
int crti_cli_run(int argc, char **argv);
int crti_cli_stop(int argc, char **argv);
int crti_cli_status(int argc, char **argv);
int crti_cli_logs(int argc, char **argv);
int crti_cli_list(int argc, char **argv);
int crti_cli_get(int argc, char **argv);
int crti_cli_summary(int argc, char **argv);
int crti_cli_timeline(int argc, char **argv);
int crti_cli_job(int argc, char **argv);
int crti_cli_job_submit(int argc, char **argv);
int crti_cli_drain(int argc, char **argv);
int crti_cli_request(int argc, char **argv);
int crti_cli_pool(int argc, char **argv);
int crti_cli_kubernetes(int argc, char **argv);
int crti_cli_token(int argc, char **argv);
int crti_cli_dashboard(int argc, char **argv);
int crti_cli_data(int argc, char **argv);
int crti_cli_memory(int argc, char **argv);
int crti_cli_stack(int argc, char **argv);
int crti_cli_top(int argc, char **argv);
int crti_cli_config(int argc, char **argv);
int crti_cli_version(int argc, char **argv);

#endif
