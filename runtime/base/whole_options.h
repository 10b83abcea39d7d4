/* SPDX-License-Identifier: Apache-2.0 */
/* Whole options: getopt_long without its abbreviations. "--res" for --resources would mean another
 * thing, or nothing, as soon as a second option begins so; scripts shall not break by a new one.
 */
#ifndef CRTI_BASE_WHOLE_OPTIONS_H
#define CRTI_BASE_WHOLE_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <string.h>

/* The word of the option that getopt has just taken: the one before its value, where that is a word
 * of its own. */
static inline const char *crti_option_word(char **argv)
{
    bool is_apart = optarg && optind > 1 && optarg == argv[optind - 1];

    return argv[optind - (is_apart ? 2 : 1)];
}

/* The next option, as getopt_long tells it. '?' is also one that is not written whole: then
 * `*index_out` says which one it is short for, and is -1 after every other '?' and for letters. */
static inline int crti_whole_option(int argc, char **argv, const char *letters,
                                    const struct option *known, int *index_out)
{
    const char *word;
    int code;

    *index_out = -1;
    code = getopt_long(argc, argv, letters, known, index_out);
    if (code == -1 || code == '?' || code == ':' || *index_out < 0)
        return code;
    word = crti_option_word(argv) + strlen("--");
    return strcspn(word, "=") == strlen(known[*index_out].name) ? code : '?';
}

#endif
