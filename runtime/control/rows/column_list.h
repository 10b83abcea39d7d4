/* SPDX-License-Identifier: Apache-2.0 */
/* The list of columns of what can be listed (docs/design/state.md). Each stands here once, with
 * the name that the head has for it and the one that clients know; control/rows/NAME_rows.c says
 * what a row has in it, and http/row_columns.c reads filters and writes rows by it.
 *
 * COLUMN(id, head's name, clients' name, kind, level)
 *     in the order in which clients see them; those of BASE come first, as the head writes rows of
 *     them alone, and what the actor's node tells (NODE_NUMBER) comes last, as it has to be asked
 *     for (level: crti_view_level_t; kind: crti_column_kind_t)
 * HEAD(id, head's name)
 *     for the head and its filters alone
 * CLIENT(head's name or constant, clients' name, kind, level)
 *     no column of the head: a second name of one, a constant, or what http/state_views.c makes of
 *     a row (HERE)
 */
#ifndef CRTI_CONTROL_COLUMN_LIST_H
#define CRTI_CONTROL_COLUMN_LIST_H

#define CRTI_ACTOR_COLUMNS(COLUMN, HEAD, CLIENT)                                         \
    COLUMN(ACTOR_ID, "actor_id", "actor_id", TEXT, BASE)                                 \
    COLUMN(CLASS_NAME, "class_name", "class_name", TEXT, BASE)                           \
    COLUMN(STATE, "state", "state", ACTOR_STATE, BASE)                                   \
    COLUMN(JOB_ID, "job_id", "job_id", TEXT, BASE)                                       \
    COLUMN(NAME, "name", "name", TEXT, BASE)                                             \
    COLUMN(NODE_ID, "node_id", "node_id", TEXT_OR_NULL, BASE)                            \
    COLUMN(PID, "pid", "pid", NUMBER, BASE)                                              \
    COLUMN(NAME_SPACE, "namespace", "ray_namespace", TEXT, BASE)                         \
    CLIENT(NULL, "serialized_runtime_env", FIXED, DETAIL)                                \
    CLIENT(NULL, "required_resources", HERE, DETAIL)                                     \
    CLIENT(NULL, "death_cause", HERE, DETAIL)                                            \
    COLUMN(IS_DETACHED, "is_detached", "is_detached", BOOL, DETAIL)                      \
    COLUMN(PLACEMENT_GROUP_ID, "placement_group_id", "placement_group_id", TEXT_OR_NULL, \
           DETAIL)                                                                       \
    CLIENT(NULL, "repr_name", FIXED, DETAIL)                                             \
    COLUMN(NUM_RESTARTS, "num_restarts", "num_restarts", COUNT, DETAIL)                  \
    CLIENT("0", "num_restarts_due_to_lineage_reconstruction", FIXED_NUMBER, DETAIL)      \
    COLUMN(IS_FENCED, "is_fenced", "is_fenced", BOOL, ALL)                               \
    COLUMN(HAS_FAILED, "has_failed", "has_failed", BOOL, ALL)                            \
    COLUMN(MESSAGE, "message", "message", TEXT_OR_NULL, ALL)                             \
    COLUMN(SAVED_BYTES, "saved_bytes", "saved_bytes", COUNT, ALL)                        \
    HEAD(WORKER_ID, "worker_id")                                                         \
    COLUMN(QUEUE_LENGTH, "queue_length", "queue_length", NODE_NUMBER, ALL)               \
    COLUMN(QUEUE_WAIT_MS, "queue_wait_ms", "queue_wait_ms", NODE_NUMBER, ALL)

#define CRTI_TASK_COLUMNS(COLUMN, HEAD, CLIENT)                                          \
    COLUMN(TASK_ID, "task_id", "task_id", TEXT, BASE)                                    \
    COLUMN(ATTEMPT_NUMBER, "attempt_number", "attempt_number", COUNT, BASE)              \
    COLUMN(NAME, "name", "name", TEXT, BASE)                                             \
    COLUMN(STATE, "state", "state", TEXT, BASE)                                          \
    COLUMN(JOB_ID, "job_id", "job_id", TEXT, BASE)                                       \
    COLUMN(ACTOR_ID, "actor_id", "actor_id", TEXT_OR_NULL, BASE)                         \
    COLUMN(TYPE, "type", "type", TEXT, BASE)                                             \
    CLIENT("name", "func_or_class_name", TEXT, BASE)                                     \
    COLUMN(PARENT_TASK_ID, "parent_task_id", "parent_task_id", TEXT, BASE)               \
    COLUMN(NODE_ID, "node_id", "node_id", TEXT_OR_NULL, BASE)                            \
    COLUMN(WORKER_ID, "worker_id", "worker_id", TEXT_OR_NULL, BASE)                      \
    COLUMN(WORKER_PID, "worker_pid", "worker_pid", NUMBER, BASE)                         \
    COLUMN(ERROR_TYPE, "error_type", "error_type", TEXT_OR_NULL, BASE)                   \
    CLIENT("C", "language", FIXED, DETAIL)                                               \
    CLIENT(NULL, "events", HERE, DETAIL)                                                 \
    COLUMN(CREATION_TIME, "creation_time", "creation_time_ms", TIME, DETAIL)             \
    COLUMN(START_TIME, "start_time", "start_time_ms", TIME, DETAIL)                      \
    COLUMN(END_TIME, "end_time", "end_time_ms", TIME, DETAIL)                            \
    COLUMN(ERROR_MESSAGE, "error_message", "error_message", TEXT_OR_NULL, DETAIL)        \
    CLIENT(NULL, "is_debugger_paused", FIXED, DETAIL)                                    \
    CLIENT(NULL, "task_log_info", FIXED, DETAIL) /* and what state_views.c has of it */  \
    CLIENT(NULL, "required_resources", FIXED, DETAIL)                                    \
    CLIENT(NULL, "runtime_env_info", FIXED, DETAIL)                                      \
    CLIENT(NULL, "placement_group_id", FIXED, DETAIL)                                    \
    CLIENT(NULL, "profiling_data", FIXED, DETAIL)                                        \
    CLIENT(NULL, "call_site", FIXED, DETAIL)                                             \
    CLIENT(NULL, "label_selector", FIXED, DETAIL)                                        \
    CLIENT(NULL, "fallback_strategy", FIXED, DETAIL)

#define CRTI_OBJECT_COLUMNS(COLUMN, HEAD, CLIENT)                                        \
    COLUMN(OBJECT_ID, "object_id", "object_id", TEXT, BASE)                              \
    COLUMN(SIZE, "size", "object_size", COUNT, BASE)                                     \
    COLUMN(IS_SEALED, "is_sealed", "task_status", SEALED, BASE)                          \
    CLIENT("1", "attempt_number", FIXED_NUMBER, BASE)                                    \
    COLUMN(REFERENCE_TYPE, "reference_type", "reference_type", TEXT, BASE)               \
    COLUMN(CALL_SITE, "call_site", "call_site", TEXT, BASE)                              \
    COLUMN(OWNER_TYPE, "owner_type", "type", TEXT, BASE)                                 \
    COLUMN(OWNER_PID, "owner_pid", "pid", COUNT, BASE)                                   \
    COLUMN(IP, "ip", "ip", TEXT, BASE)                                                   \
    COLUMN(NODE_ID, "node_id", "node_id", TEXT_OR_NULL, ALL)                             \
    COLUMN(OWNER_ID, "owner_id", "owner_id", TEXT_OR_NULL, ALL)                          \
    COLUMN(PINS, "pins", "pins", COUNT, ALL)                                             \
    COLUMN(IS_COPY, "is_copy", "is_copy", BOOL, ALL)                                     \
    COLUMN(CALLS, "calls", "calls", NUMBER, ALL)                                         \
    HEAD(KIND, "kind")                                                                   \
    CLIENT(NULL, "holders", FIXED, ALL) /* and what state_views.c has of it */

#define CRTI_JOB_COLUMNS(COLUMN, HEAD, CLIENT)                                           \
    COLUMN(TYPE, "type", "type", TEXT, BASE)                                             \
    COLUMN(JOB_ID, "job_id", "job_id", TEXT_OR_NULL, BASE)                               \
    COLUMN(SUBMISSION_ID, "submission_id", "submission_id", TEXT_OR_NULL, BASE)          \
    COLUMN(DRIVER_INFO, "driver_info", "driver_info", TEXT, BASE)                        \
    COLUMN(STATUS, "status", "status", TEXT, BASE)                                       \
    COLUMN(ENTRYPOINT, "entrypoint", "entrypoint", TEXT, BASE)                           \
    COLUMN(MESSAGE, "message", "message", TEXT_OR_NULL, BASE)                            \
    COLUMN(ERROR_TYPE, "error_type", "error_type", TEXT_OR_NULL, BASE)                   \
    COLUMN(START_TIME, "start_time", "start_time", NUMBER, BASE)                         \
    COLUMN(END_TIME, "end_time", "end_time", NUMBER, BASE)                               \
    COLUMN(METADATA, "metadata", "metadata", OBJECT, BASE)                               \
    COLUMN(RUNTIME_ENV, "runtime_env", "runtime_env", OBJECT, BASE)                      \
    CLIENT(NULL, "driver_agent_http_address", FIXED, BASE)                               \
    COLUMN(DRIVER_NODE_ID, "driver_node_id", "driver_node_id", TEXT_OR_NULL, BASE)       \
    COLUMN(DRIVER_EXIT_CODE, "driver_exit_code", "driver_exit_code", NUMBER, BASE)       \
    COLUMN(ATTEMPT_NUMBER, "attempt_number", "attempt_number", NUMBER, BASE)             \
    HEAD(NUMBER, "number")                                                               \
    HEAD(RETRIES_LEFT, "retries_left")                                                   \
    HEAD(HAS_RUNTIME_ENV, "has_runtime_env")                                             \
    HEAD(DRIVER_NODE_IP, "driver_node_ip")                                               \
    HEAD(DRIVER_PID, "driver_pid")

/* Of jobs that have one. */
#define CRTI_RUNTIME_ENV_COLUMNS(COLUMN, HEAD, CLIENT)                                   \
    CLIENT("runtime_env", "runtime_env", OBJECT, BASE)                                   \
    CLIENT(NULL, "success", HERE, BASE)                                                  \
    CLIENT("start_time", "creation_time_ms", NUMBER, BASE)                               \
    CLIENT("driver_node_id", "node_id", TEXT, BASE)                                      \
    CLIENT("1", "ref_cnt", FIXED_NUMBER, DETAIL)                                         \
    CLIENT(NULL, "error", FIXED, DETAIL)

#define CRTI_EVENT_COLUMNS(COLUMN, HEAD, CLIENT)                                         \
    COLUMN(SEVERITY, "severity", "severity", TEXT, BASE)                                 \
    COLUMN(TIME, "time", "time", TEXT, BASE)                                             \
    COLUMN(SOURCE_TYPE, "source_type", "source_type", TEXT, BASE)                        \
    COLUMN(MESSAGE, "message", "message", TEXT, BASE)                                    \
    COLUMN(EVENT_ID, "event_id", "event_id", TEXT, BASE)                                 \
    CLIENT(NULL, "custom_fields", FIXED, DETAIL)

/* The head tells all of these, and picks none. */
#define CRTI_NODE_COLUMNS(COLUMN, HEAD, CLIENT)                                          \
    CLIENT("node_id", "node_id", TEXT, BASE)                                             \
    CLIENT("ip", "node_ip", TEXT, BASE)                                                  \
    CLIENT("is_head_node", "is_head_node", BOOL, BASE)                                   \
    CLIENT("state", "state", TEXT, BASE)                                                 \
    CLIENT("state_message", "state_message", TEXT_OR_NULL, BASE)                         \
    CLIENT("hostname", "node_name", TEXT, BASE)                                          \
    CLIENT("resources_total", "resources_total", OBJECT, BASE)                           \
    CLIENT(NULL, "labels", HERE, BASE)                                                   \
    CLIENT("start_time", "start_time_ms", NUMBER, DETAIL)                                \
    CLIENT("end_time", "end_time_ms", NUMBER, DETAIL)                                    \
    CLIENT("heard_time", "heard_time_ms", NUMBER, ALL)

#define CRTI_WORKER_COLUMNS(COLUMN, HEAD, CLIENT)                                        \
    CLIENT("worker_id", "worker_id", TEXT, BASE)                                         \
    CLIENT("is_alive", "is_alive", BOOL, BASE)                                           \
    CLIENT("worker_type", "worker_type", TEXT, BASE)                                     \
    CLIENT(NULL, "exit_type", FIXED, BASE)                                               \
    CLIENT("node_id", "node_id", TEXT, BASE)                                             \
    CLIENT("ip", "ip", TEXT, BASE)                                                       \
    CLIENT("pid", "pid", COUNT, BASE)                                                    \
    CLIENT("exit_detail", "exit_detail", TEXT_OR_NULL, DETAIL)                           \
    CLIENT(NULL, "worker_launch_time_ms", FIXED, DETAIL)                                 \
    CLIENT(NULL, "worker_launched_time_ms", FIXED, DETAIL)                               \
    CLIENT(NULL, "start_time_ms", FIXED, DETAIL)                                         \
    CLIENT(NULL, "end_time_ms", FIXED, DETAIL)                                           \
    CLIENT(NULL, "debugger_port", FIXED, DETAIL)                                         \
    CLIENT(NULL, "num_paused_threads", FIXED, DETAIL)                                    \
    CLIENT("job_id", "job_id", TEXT_OR_NULL, ALL)                                        \
    CLIENT("actor_id", "actor_id", TEXT_OR_NULL, ALL)

#define CRTI_REF_COLUMNS(COLUMN, HEAD, CLIENT)                                           \
    HEAD(OBJECT_ID, "object_id")                                                         \
    HEAD(WORKER_ID, "worker_id")                                                         \
    HEAD(NODE_ID, "node_id")                                                             \
    HEAD(JOB_ID, "job_id")                                                               \
    HEAD(ACTOR_ID, "actor_id")                                                           \
    HEAD(SIZE, "size")                                                                   \
    HEAD(CONTENT, "content")                                                             \
    HEAD(KIND, "kind")                                                                   \
    HEAD(CALL_SITE, "call_site")                                                         \
    HEAD(HANDLES, "handles")                                                             \
    HEAD(CALLS, "calls")                                                                 \
    HEAD(BORROWER_COUNT, "borrower_count")                                               \
    HEAD(WORKER_TYPE, "worker_type")                                                     \
    HEAD(PID, "pid")                                                                     \
    HEAD(IP, "ip")

/* The head's columns of a list: an enum of their ids, ended by COLUMNS, and their names. */
#define CRTI_COLUMN_ID(id, ...)       id,
#define CRTI_COLUMN_KEY(id, key, ...) key,
#define CRTI_COLUMN_NONE(...)
#define CRTI_COLUMN_IDS(LIST)                                                            \
    enum { LIST(CRTI_COLUMN_ID, CRTI_COLUMN_ID, CRTI_COLUMN_NONE) COLUMNS }
#define CRTI_COLUMN_KEYS(LIST)                                                           \
    static const char *const columns[COLUMNS + 1] = {                                    \
        LIST(CRTI_COLUMN_KEY, CRTI_COLUMN_KEY, CRTI_COLUMN_NONE)}

#endif
