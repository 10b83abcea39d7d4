/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl: the functions that are called here, found when the first of them is needed.
 *
 * Where it sits
 *     http_client.c, download.c -> [ curl library ] -> libcurl (dlopen)
 * Why
 *     libcurl brings more than 30 libraries along: opening them takes longer than all that most
 *     commands do.
 * How
 *     A file that includes this header writes the library's own names. They lead through a table;
 *     the linker finds those that the table lacks.
 */
#ifndef CRTI_CLI_CURL_LIBRARY_H
#define CRTI_CLI_CURL_LIBRARY_H

#include <curl/curl.h>

#include "runtime/base/late_library.h"

/* As functions: their macros check types, but call the function by its name. */
#undef curl_easy_getinfo
#undef curl_easy_setopt

#define CRTI_CURL_SYMBOLS(X)                                                             \
    X(curl_easy_cleanup)                                                                 \
    X(curl_easy_escape)                                                                  \
    X(curl_easy_getinfo)                                                                 \
    X(curl_easy_init)                                                                    \
    X(curl_easy_perform)                                                                 \
    X(curl_easy_reset)                                                                   \
    X(curl_easy_setopt)                                                                  \
    X(curl_easy_strerror)                                                                \
    X(curl_free)                                                                         \
    X(curl_global_init)                                                                  \
    X(curl_slist_append)                                                                 \
    X(curl_slist_free_all)

CRTI_LATE_TABLE(crti_curl, CRTI_CURL_SYMBOLS);

#define curl_easy_cleanup   crti_curl_api.curl_easy_cleanup_
#define curl_easy_escape    crti_curl_api.curl_easy_escape_
#define curl_easy_getinfo   crti_curl_api.curl_easy_getinfo_
#define curl_easy_init      crti_curl_api.curl_easy_init_
#define curl_easy_perform   crti_curl_api.curl_easy_perform_
#define curl_easy_reset     crti_curl_api.curl_easy_reset_
#define curl_easy_setopt    crti_curl_api.curl_easy_setopt_
#define curl_easy_strerror  crti_curl_api.curl_easy_strerror_
#define curl_free           crti_curl_api.curl_free_
#define curl_global_init    crti_curl_api.curl_global_init_
#define curl_slist_append   crti_curl_api.curl_slist_append_
#define curl_slist_free_all crti_curl_api.curl_slist_free_all_

#endif
