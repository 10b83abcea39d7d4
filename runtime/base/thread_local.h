/* SPDX-License-Identifier: Apache-2.0 */
/* Thread-local variables on the path of a call. By default a shared library reaches such a
 * variable by a call of the dynamic linker; these are at an offset from the thread pointer that is
 * known when the library is loaded. All thread-local variables of a library that has one of these
 * take part of the little room (about 1.5 KiB in glibc) that libraries share which are opened by
 * dlopen, as Python does: only small ones, and no large ones beside them. */
#ifndef CRTI_BASE_THREAD_LOCAL_H
#define CRTI_BASE_THREAD_LOCAL_H

#define CRTI_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

#endif
