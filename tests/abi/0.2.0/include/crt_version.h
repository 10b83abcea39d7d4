/* SPDX-License-Identifier: Apache-2.0 */
/* The version of these headers. crt_version and crt_version_number tell that of the library. */
#ifndef CRT_VERSION_H
#define CRT_VERSION_H

#define CRT_VERSION_MAJOR 0
#define CRT_VERSION_MINOR 2
#define CRT_VERSION_PATCH 0
#define CRT_VERSION_TEXT  "0.2.0"

/* One number that grows with each version: #if CRT_VERSION >= CRT_MAKE_VERSION(0, 3, 0) */
#define CRT_MAKE_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define CRT_VERSION                                                                      \
    CRT_MAKE_VERSION(CRT_VERSION_MAJOR, CRT_VERSION_MINOR, CRT_VERSION_PATCH)

#endif
