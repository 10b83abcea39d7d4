/* SPDX-License-Identifier: Apache-2.0 */
/* The namespace of a job. See name_space.h. */
#include "runtime/core/client/name_space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/net/message.h"

static crt_status_t check(const char *name_space)
{
    size_t size = strlen(name_space);

    if (size == 0 || size >= CRTI_NAMESPACE_SIZE || strchr(name_space, '/'))
        return crt_raise(CRT_ERR_INVALID, "\"%.200s\": " CRTI_NAMESPACE_RULE, name_space);
    return CRT_OK;
}

/* "": the environment has none. */
static const char *variable(void)
{
    const char *given = getenv(CRTI_JOB_NAMESPACE);

    return given ? given : "";
}

crt_status_t crti_name_space_pack(const char *asked, crti_buffer_t *environment)
{
    char entry[sizeof(CRTI_JOB_NAMESPACE) + CRTI_NAMESPACE_SIZE + 1];
    crt_status_t status;

    if (*variable())
        return check(variable());
    if (!asked || !*asked)
        return CRT_OK;
    status = check(asked);
    if (status != CRT_OK)
        return status;
    snprintf(entry, sizeof(entry), CRTI_JOB_NAMESPACE "=%s", asked);
    return crti_list_pack(environment, entry, strlen(entry));
}

void crti_name_space_settle(crti_core_t *core)
{
    if (*variable() || !*core->name_space)
        snprintf(core->name_space, sizeof(core->name_space), "%s",
                 *variable() ? variable() : core->job_hex);
}

/* ------------------------------------------------------------------ crt.h */

const char *crt_namespace(void)
{
    crti_core_t *core = crti_is_forked() ? NULL : crti_enter_quiet();
    const char *name_space = core ? core->name_space : "";

    if (core)
        crti_leave(core);
    return name_space;
}
