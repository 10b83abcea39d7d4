/* SPDX-License-Identifier: Apache-2.0 */
/* The node's store as this process writes to it.
 *
 * Where it sits
 *     object.c, call.c (results), value_of.c -> [ store_access.c ] -> store
 * Threads
 *     Any. Writing happens in the caller's thread without the core's lock: it may wait for room,
 *     and copies of large values take long.
 */
#include "runtime/core/process/store_access.h"

#include <pthread.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/fault.h"
#include "runtime/core/process/context.h"
#include "runtime/core/values/value.h"

#define STORE_WAIT (5 * CRTI_S)

crt_status_t crti_core_join_store(crti_core_t *core)
{
    static pthread_mutex_t joining = PTHREAD_MUTEX_INITIALIZER;
    crti_store_t *store;
    crt_status_t status = CRT_OK;

    if (__atomic_load_n(&core->store, __ATOMIC_ACQUIRE))
        return CRT_OK;
    pthread_mutex_lock(&joining);
    if (!core->store) {
        status = crti_store_attach(core->arena_fd, core->slot, core->process, &store);
        if (status == CRT_OK) {
            close(core->arena_fd);
            core->arena_fd = -1;
            __atomic_store_n(&core->store, store, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&joining);
    return status;
}

crt_status_t crti_object_room(crti_core_t *core, crti_object_id_t id, size_t size,
                              void **data_out)
{
    uint64_t deadline = 0;
    crt_status_t status = crti_core_join_store(core);

    if (status != CRT_OK)
        return status;
    while ((status = crti_store_create(core->store, id, size, data_out)) ==
           CRT_ERR_STORE_FULL) {
        if (deadline == 0)
            deadline = crti_now_ns() + STORE_WAIT;
        crti_net_lock(core->net);
        crti_object_flush_frees(core); /* what we let go of may be what lacks */
        crti_net_unlock(core->net);
        status = crti_store_wait_space(core->store, size, deadline);
        if (status != CRT_OK)
            return status;
    }
    return status;
}

crt_status_t crti_object_write(crti_core_t *core, crti_object_id_t id,
                               const crti_encoder_t *encoder)
{
    void *data;
    crt_status_t status = crti_object_room(core, id, crti_encoder_size(encoder), &data);

    if (status != CRT_OK)
        return status;
    crti_encoder_write(encoder, data);
    return crti_store_seal(core->store, id, !CRTI_FAULT(6));
}
