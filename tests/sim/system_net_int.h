/* SPDX-License-Identifier: Apache-2.0 */
/* What system_net.c (the interface of net.h) and system_session.c (frames, time) share. */
#ifndef TESTS_SIM_SYSTEM_NET_INT_H
#define TESTS_SIM_SYSTEM_NET_INT_H

#include "runtime/net/session.h"
#include "tests/sim/system.h"

#define SYS_NOWHERE UINT32_MAX /* nobody has that endpoint */

struct crti_peer {
    crti_session_t session;
    crti_net_t *net;
    unsigned to; /* process */
    crti_id_t node;
    bool is_known, is_dialed, has_ended, will_flush;
    uint64_t timer_at;
    size_t refused; /* as in net_int.h */
    void *user;
};

struct crti_net {
    sys_process_t *owner;
    crti_net_config_t config;
    crti_address_t address;
    crti_session_counts_t counts;
    bool is_closed;
    crti_map_t sockets;  /* nonce -> crti_peer_t that this process began */
    crti_map_t accepted; /* nonce -> crti_peer_t */
    uint64_t lane_arrival[SYS_PROCESSES]; /* per destination */
};

/* Which process has, or had, that id; SYS_NOWHERE: none. */
unsigned sys_find_process(crti_id_t id);
crti_peer_t *sys_peer_new(crti_net_t *net, unsigned to, crti_id_t id,
                          uint64_t incarnation, crti_id_t node, uint64_t nonce,
                          crti_session_config_t *config_out);
/* After each event of its session: deadlines, what was gathered. */
void sys_peer_touch(crti_peer_t *peer);

#endif
