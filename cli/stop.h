/* SPDX-License-Identifier: Apache-2.0 */
/* What crt stop does to places, for `crt start --block` too. */
#ifndef CRTI_CLI_STOP_H
#define CRTI_CLI_STOP_H

#include "cli/places.h"

/* Ends every process of the places and removes the directories. Returns an exit status; a
 * failure was printed. */
int crti_cli_end_places(const place_t *places, size_t count, bool force);

#endif
