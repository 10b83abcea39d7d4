/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a daemon: a table of option_list.h, parsed as a daemon has to.
 *
 * Where it sits
 *     node/options.c, control/head_options.c, http/main.c
 *         -> [ daemon/daemon_options.c ] -> option.c
 */
#ifndef CRTI_DAEMON_DAEMON_OPTIONS_H
#define CRTI_DAEMON_DAEMON_OPTIONS_H

#include "runtime/daemon/option.h"

/* Takes the options, and nothing but options. --help is printed and ends the process. Descriptors
 * that are not given are -1. CRT_ERR_INVALID: the detail says what is wrong; --ready-fd is taken
 * all the same, as there it is told. */
crt_status_t crti_daemon_options(option_scan_t *scan, int argc, char **argv);

#endif
