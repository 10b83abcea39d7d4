/* SPDX-License-Identifier: Apache-2.0 */
/* libarchive: the functions that are called here, found when the first of them is needed.
 *
 * Where it sits
 *     folder.c, crt_archive.c, data.c -> [ archive library ] -> libarchive (dlopen)
 * Why
 *     Few commands need an archive, and libarchive brings 12 libraries along.
 * How
 *     A file that includes this header writes the library's own names. They lead through a table;
 *     the linker finds those that the table lacks.
 */
#ifndef CRTI_CLI_ARCHIVE_LIBRARY_H
#define CRTI_CLI_ARCHIVE_LIBRARY_H

#include <archive.h>
#include <archive_entry.h>

#include "runtime/base/late_library.h"

#define CRTI_ARCHIVE_SYMBOLS(X)                                                          \
    X(archive_entry_filetype)                                                            \
    X(archive_entry_free)                                                                \
    X(archive_entry_new)                                                                 \
    X(archive_entry_pathname)                                                            \
    X(archive_entry_set_filetype)                                                        \
    X(archive_entry_set_pathname)                                                        \
    X(archive_entry_set_perm)                                                            \
    X(archive_entry_set_size)                                                            \
    X(archive_entry_set_symlink)                                                         \
    X(archive_error_string)                                                              \
    X(archive_read_data)                                                                 \
    X(archive_read_free)                                                                 \
    X(archive_read_new)                                                                  \
    X(archive_read_next_header)                                                          \
    X(archive_read_open_filename)                                                        \
    X(archive_read_support_filter_gzip)                                                  \
    X(archive_read_support_format_tar)                                                   \
    X(archive_write_add_filter_gzip)                                                     \
    X(archive_write_add_filter_zstd)                                                     \
    X(archive_write_close)                                                               \
    X(archive_write_data)                                                                \
    X(archive_write_free)                                                                \
    X(archive_write_header)                                                              \
    X(archive_write_new)                                                                 \
    X(archive_write_open_fd)                                                             \
    X(archive_write_set_format_ustar)                                                    \
    X(archive_write_set_format_zip)                                                      \
    X(archive_write_set_options)

CRTI_LATE_TABLE(crti_archive, CRTI_ARCHIVE_SYMBOLS);

#define archive_entry_filetype     crti_archive_api.archive_entry_filetype_
#define archive_entry_free         crti_archive_api.archive_entry_free_
#define archive_entry_new          crti_archive_api.archive_entry_new_
#define archive_entry_pathname     crti_archive_api.archive_entry_pathname_
#define archive_entry_set_filetype crti_archive_api.archive_entry_set_filetype_
#define archive_entry_set_pathname crti_archive_api.archive_entry_set_pathname_
#define archive_entry_set_perm     crti_archive_api.archive_entry_set_perm_
#define archive_entry_set_size     crti_archive_api.archive_entry_set_size_
#define archive_entry_set_symlink  crti_archive_api.archive_entry_set_symlink_
#define archive_error_string       crti_archive_api.archive_error_string_
#define archive_read_data          crti_archive_api.archive_read_data_
#define archive_read_free          crti_archive_api.archive_read_free_
#define archive_read_new           crti_archive_api.archive_read_new_
#define archive_read_next_header   crti_archive_api.archive_read_next_header_
#define archive_read_open_filename crti_archive_api.archive_read_open_filename_
#define archive_read_support_filter_gzip                                                 \
    crti_archive_api.archive_read_support_filter_gzip_
#define archive_read_support_format_tar crti_archive_api.archive_read_support_format_tar_
#define archive_write_add_filter_gzip   crti_archive_api.archive_write_add_filter_gzip_
#define archive_write_add_filter_zstd   crti_archive_api.archive_write_add_filter_zstd_
#define archive_write_close             crti_archive_api.archive_write_close_
#define archive_write_data              crti_archive_api.archive_write_data_
#define archive_write_free              crti_archive_api.archive_write_free_
#define archive_write_header            crti_archive_api.archive_write_header_
#define archive_write_new               crti_archive_api.archive_write_new_
#define archive_write_open_fd           crti_archive_api.archive_write_open_fd_
#define archive_write_set_format_ustar  crti_archive_api.archive_write_set_format_ustar_
#define archive_write_set_format_zip    crti_archive_api.archive_write_set_format_zip_
#define archive_write_set_options       crti_archive_api.archive_write_set_options_

#endif
