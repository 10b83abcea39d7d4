/* SPDX-License-Identifier: Apache-2.0 */
/* The library alone: a process without network and node daemon (tests/fuzz/core_net.h). The test
 * says what other processes send and when their sessions end, what the daemon tells, and what time
 * it is; it sees every record that the library sends, and every object whose bytes it has freed. */
#ifndef TESTS_CORE_ALONE_H
#define TESTS_CORE_ALONE_H

#include "runtime/base/clock.h"
#include "runtime/base/scheduling.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/execution/execution_int.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/program.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/process/store_access.h"
#include "runtime/core/refs/refs_int.h"
#include "runtime/core/values/error.h"
#include "runtime/core/values/record.h"

/* Other processes, each on a node of its own. */
#define ALONE_PROCESS(i) ((crti_id_t){0, 20 + (i)})
#define ALONE_NODE(i)    ((crti_id_t){0, 100 + (i)})
#define ALONE_US         ((crti_id_t){0, 5})
#define ALONE_OUR_NODE   ((crti_id_t){0, 9})

crti_core_t *alone_start(void);
void alone_stop(void); /* also checks that no session is referred to for ever */

/* A record of process `i`, on the session that it made; on the one that we made. */
void alone_from(unsigned i, crti_buffer_t *record_take);
void alone_answer(unsigned i, crti_buffer_t *record_take);
/* Both sessions with it are lost, or one of them; it lives. */
void alone_lose(unsigned i);
void alone_lose_ours(unsigned i);
/* The window of the session that process `i` made is full; has room again, and all was
 * acknowledged. */
void alone_fill(unsigned i);
void alone_make_room(unsigned i);
/* So many records were sent to it that it has not acknowledged. */
void alone_unacknowledged(unsigned i, uint64_t count);
/* The same of the session that we made. */
void alone_fill_ours(unsigned i);
void alone_unacknowledged_ours(unsigned i, uint64_t count);
/* Why the last session that it made was ended by us; NULL: none was. */
const char *alone_aborted(unsigned i);
void alone_process_dies(unsigned i);
/* Likewise, and it had taken all that was sent to it. */
void alone_worker_dies(unsigned i);
void alone_node_dies(unsigned i);
/* Time passes. */
void alone_tick(uint64_t ns);

/* The last record of that kind that was sent to process `i`, borrowed until the next step; the
 * number of them. Those before are forgotten by alone_forget. */
crti_span_t alone_sent(unsigned i, crti_record_kind_t kind);
unsigned alone_sent_count(unsigned i, crti_record_kind_t kind);
void alone_forget(void);
/* The last record to process `i` of the one kind was sent before the last one of the other. */
bool alone_sent_before(unsigned i, crti_record_kind_t first, crti_record_kind_t second);
/* How often the daemon was told to free the object at that node. */
unsigned alone_freed(crti_object_id_t object, crti_id_t node);

/* The records. */
void alone_locate(unsigned i, uint64_t number);
/* It has not found the bytes of that name where it was told. */
void alone_locate_missed(unsigned i, uint64_t number, uint64_t object);
void alone_peek(unsigned i, const uint64_t *numbers, unsigned count);
void alone_copy(unsigned i, uint64_t number, uint64_t object, crti_id_t node);
/* BORROW of process `i`, for itself or for `process`. */
void alone_borrow(unsigned i, uint64_t request, uint64_t number,
                  const crti_id_t *process);
void alone_release(unsigned i, uint64_t request, uint64_t number, uint64_t tokens);
void alone_take_back(unsigned i, uint64_t request, uint64_t number, crti_id_t process);
void alone_borrowed(unsigned i, uint64_t request); /* the answer: nothing is gone; */
void alone_borrowed_but(unsigned i, uint64_t request, const uint64_t *gone,
                        unsigned count);
/* BORROW and RELEASE of process `i` of several. */
void alone_borrow_all(unsigned i, uint64_t request, const uint64_t *numbers,
                      unsigned count, const crti_id_t *process);
void alone_release_all(unsigned i, uint64_t request, const crti_release_t *releases,
                       unsigned count);
/* COPY_QUERY for its object; COPY_REPLY, the answer to ours. On the session that it made. */
void alone_seek(unsigned i, uint64_t round, uint64_t number);
void alone_sought(unsigned i, uint64_t round);
/* LOCATED, the answer to ours: its object is at these nodes; at none: it is lost. */
void alone_located(unsigned i, uint64_t number, const crti_id_t *nodes, unsigned count);

/* From now on we are an actor whose one method gives these two refs in a list. Process `i` calls
 * it; the method runs. */
void alone_gives(crt_ref_t *first, crt_ref_t *second);
void alone_call(unsigned i, uint64_t number);
/* Process `i` calls the method with an object of process `owner` that it says is at that node. It
 * does not run before the object is here. */
void alone_call_with(unsigned i, uint64_t number, unsigned owner, uint64_t object,
                     crti_id_t node);

/* PULLs that the daemon was asked for so far. The last one succeeds, or the object is nowhere. */
unsigned alone_pulls(void);
void alone_pulled(bool is_here);

/* A task of ours that may run once, sent to process `i`; its result, a handle. */
crt_ref_t *alone_submit(unsigned i);
/* A task of ours with these options, which is not sent before it has a worker. Process `i` is the
 * worker that the last lease that was asked for gives; false: none was asked for since. */
crt_ref_t *alone_task(const crt_task_options_t *options);
bool alone_grant(unsigned i);
/* The same of a task of so many results. */
void alone_task_of(crt_ref_t **results, size_t returns);
/* The label selector of that lease. */
const char *alone_selector(void);
/* The daemon refuses the last lease that was asked for; false: none was since. */
bool alone_refuse(crt_status_t status);
/* A group whose one bundle, a CPU, is at node `i`; a handle. */
crt_placement_group_t *alone_group(unsigned i);
/* The number of the call that was sent to process `i` last. It answers that call: with a value, or
 * with an error. */
uint64_t alone_called(unsigned i);
void alone_returns(unsigned i, uint64_t call, crt_status_t status);
/* A task with that argument, or NULL, which was not sent. */
crt_ref_t *alone_waiting(crt_ref_t *argument);
/* A handle of an actor that was never placed; a call of it with that argument, or NULL. */
crt_actor_t *alone_actor(void);
crt_ref_t *alone_queued(crt_actor_t *actor, crt_ref_t *argument);
/* Process `i` answers it: the result is a ref of process `owner`, 0 for one of ours. */
void alone_forwarded(unsigned i, const crt_ref_t *result, unsigned owner,
                     uint64_t number);
void alone_gave_ref(unsigned i, uint64_t call, unsigned owner, uint64_t number);

/* COPY_MAKEs that the daemon was asked for so far. Whether the last one is not to be at that node;
 * its answer: the copy is at node `i`, or (`status`) could not be there; 0: there is no node. */
unsigned alone_copies(void);
bool alone_avoids(crti_id_t node);
void alone_copied(unsigned i, crt_status_t status);
/* An object of ours whose bytes are at node `i`, with one hold, and that has two copies. */
crt_ref_t *alone_stored_twice(unsigned i);
/* An object of ours whose bytes are at node `i`, with one hold. Another process's, covered. */
crt_ref_t *alone_stored(unsigned i);
/* Lock held meanwhile. */
void alone_drop(crt_ref_t *ref);
void alone_hold(crt_ref_t *ref);
crt_ref_t *alone_arrived(unsigned owner, uint64_t number);

#endif
