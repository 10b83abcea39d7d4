/* SPDX-License-Identifier: Apache-2.0 */
/* Options of crt start: its table, and what was given. Cluster files have the same options as keys.
 *
 * Where it sits
 *     cli/start.c, cli/cluster_file.c -> [ cli/start_options.c ] -> cli/options.c
 *                                                                -> daemon/option_list.h
 */
#ifndef CRTI_CLI_START_OPTIONS_H
#define CRTI_CLI_START_OPTIONS_H

#include "cli/options.h"
#include "runtime/daemon/option_list.h"

#define CRTI_START_TABLE(O)                                                              \
    CRTI_START_OPTIONS(O)                                                                \
    CRTI_START_HEAD_OPTIONS(O)                                                           \
    CRTI_HEAD_AND_NODE_OPTIONS(O)                                                        \
    CRTI_NODE_OPTIONS(O)                                                                 \
    CRTI_HEAD_OPTIONS(O)

/* bool of a flag, const char * of others, NULL when they were not given. */
typedef struct start_given {
#define FIELD(field, name, letter, argument, kind, ...) OPTION_GIVEN_##kind field;
    CRTI_START_TABLE(FIELD)
#undef FIELD
} start_given_t;

extern start_given_t crti_start_given;
extern const command_spec_t crti_start_spec;

/* The option of that name, NULL: there is none. */
const option_spec_t *crti_start_option(const char *name);

/* True of an option that goes with --head alone. */
bool crti_start_is_head_only(const option_spec_t *option);

/* False of those that say what a file says in another way, or what it may not say each time. */
bool crti_start_is_key(const option_spec_t *option);

/* The first one given that goes with --head alone; NULL: there is none. */
const option_spec_t *crti_start_given_for_head(void);

/* What was given for the head, or for the node, one by one: "--name", and its value or NULL. NULL
 * behind the last one. `*index` begins with 0. */
const char *crti_start_pass_on(bool to_head, size_t *index, const char **text_out);

#endif
