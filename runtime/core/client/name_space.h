/* SPDX-License-Identifier: Apache-2.0 */
/* The namespace of a job: what CRT_JOB_NAMESPACE says, else its driver's options, else one of its
 * own, named by its id.
 *
 * Where it sits
 *     client.c -> [ name_space.c ] -> ATTACH, by which workers find the variable in their
 *     environment
 */
#ifndef CRTI_CORE_NAME_SPACE_H
#define CRTI_CORE_NAME_SPACE_H

#include "runtime/base/buffer.h"
#include "runtime/core/types.h"

/* Of a driver, before it attaches: checked, and packed for its workers. `asked` is what the options
 * say, or NULL. */
crt_status_t crti_name_space_pack(const char *asked, crti_buffer_t *environment);

/* When the job is known; core->name_space is what the options say, or "". */
void crti_name_space_settle(crti_core_t *core);

#endif
