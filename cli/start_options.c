/* SPDX-License-Identifier: Apache-2.0 */
/* Options of crt start. See start_options.h. */
#include "cli/start_options.h"

#include <string.h>

start_given_t crti_start_given;

static const option_spec_t options[] = {
#define ROW(field, name, letter, argument, kind, least, most, standard, key, help)       \
    {name, letter,   argument, OPTION_##kind, &crti_start_given.field,                   \
     help, standard, least,    most},
    CRTI_START_TABLE(ROW)
#undef ROW
};

/* What becomes of each one. */
static const struct use {
    const char *dashed;
    bool is_key, is_for_head, is_for_node, is_head_only;
} uses[] = {
#define IS_KEY  true
#define IS_ONCE false
#define USE(head, node, head_only, field, name, letter, argument, kind, least, most,     \
            standard, key, help)                                                         \
    {"--" name, IS_##key, head, node, head_only},
#define START(...)      USE(false, false, false, __VA_ARGS__)
#define START_HEAD(...) USE(false, false, true, __VA_ARGS__)
#define BOTH(...)       USE(true, true, false, __VA_ARGS__)
#define NODE(...)       USE(false, true, false, __VA_ARGS__)
#define HEAD(...)       USE(true, false, true, __VA_ARGS__)
    CRTI_START_OPTIONS(START) CRTI_START_HEAD_OPTIONS(START_HEAD)
        CRTI_HEAD_AND_NODE_OPTIONS(BOTH) CRTI_NODE_OPTIONS(NODE) CRTI_HEAD_OPTIONS(HEAD)};

const command_spec_t crti_start_spec = {
    .name = "crt start",
    .summary =
        "Starts a cluster on this host (--head), or adds this host to one (--address).\n"
        "Returns when it serves, and prints what to type next.",
    .options = options,
    .count = sizeof(options) / sizeof(options[0])};

const option_spec_t *crti_start_option(const char *name)
{
    for (size_t i = 0; i < crti_start_spec.count; i++)
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    return NULL;
}

bool crti_start_is_head_only(const option_spec_t *option)
{
    return uses[option - options].is_head_only;
}

bool crti_start_is_key(const option_spec_t *option)
{
    return uses[option - options].is_key;
}

/* NULL: it was not given. */
static const char *text_of(const option_spec_t *option)
{
    if (option->kind == OPTION_FLAG)
        return *(const bool *)option->to ? "" : NULL;
    return *(const char *const *)option->to;
}

const option_spec_t *crti_start_given_for_head(void)
{
    for (size_t i = 0; i < crti_start_spec.count; i++)
        if (uses[i].is_head_only && text_of(&options[i]))
            return &options[i];
    return NULL;
}

const char *crti_start_pass_on(bool to_head, size_t *index, const char **text_out)
{
    while (*index < crti_start_spec.count) {
        size_t i = (*index)++;
        bool is_for = to_head ? uses[i].is_for_head : uses[i].is_for_node;
        const char *text = text_of(&options[i]);

        if (is_for && text) {
            *text_out = options[i].argument ? text : NULL;
            return uses[i].dashed;
        }
    }
    return NULL;
}
