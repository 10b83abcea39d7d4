/* SPDX-License-Identifier: Apache-2.0 */
/* Creations that could not be stored. */
#ifndef CRTI_CONTROL_CONTROL_REVOKE_H
#define CRTI_CONTROL_CONTROL_REVOKE_H

#include "runtime/control/control_state.h"

/* A creation with this id could not be stored: from now on it has failed, whatever the store has of
 * it. The raised detail, of CRT_ERR_IO, is the reason to report. */
void crti_control_revoke(crti_control_t *c, crti_id_t id, const char *text);
/* Its rows may still be there. */
bool crti_control_is_revoked(const crti_control_t *c, crti_id_t id);
/* All rows that it may have are deleted. */
void crti_control_delete_revoked_rows(crti_control_t *c, crti_id_t id);
/* That row is deleted, durably. */
void crti_control_row_deleted(crti_control_t *c, crti_store_table_t table, crti_id_t id);
/* What an earlier head could not delete. */
void crti_control_delete_revoked(crti_control_t *c);

#endif
