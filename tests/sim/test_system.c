/* SPDX-License-Identifier: Apache-2.0 */
/* Whole clusters of the real code, up to 50 nodes, in every weather. See system.h.
 *
 * Checked all the time: no call runs twice, calls of one caller run in their order, no incarnation
 * of an actor is made twice, a result is what it must be, a caller who is told "did not run" was
 * told the truth, an actor begins with what it saved last, no worker has two leases, no resource is
 * given twice. Checked at the end, a while after everything is well again: every program has come
 * to its end, no lease, process, pull, object or question is left over, the head's actors are those
 * that run. A call runs no more often than its retries allow; a fenced actor's process takes no
 * call once its next one took one. In mild weather (the head restarts, links break, a node is cut
 * off for less than 3 s, frames get lost, redis is away) nothing may fail at all, but calls of
 * fenced actors while the head is away for long.
 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/node/process/context.h"
#include "tests/sim/runner.h"
#include "tests/sim/seed_limits.h"
#include "tests/sim/system_truth.h"

typedef enum sky { CALM, HEAD, NETWORK, DEATHS, STORM, SKIES } sky_t;

#define REST      (90 * CRTI_S * sim_limits_slack())
#define DRAIN_MAX (20 * CRTI_S)

static sky_t sky;
static bool
    cuts_head; /* mild weather: links to the head are cut, or they break: a broken link that
                        * can't be made again at once is a dead node */
static unsigned driver_hosts;

static unsigned any_host(void)
{
    return (unsigned)sim_below(sys->world, sys->hosts);
}

/* ---------------------------------------------------------------- weather */

/* What is away for longer is given up by somebody. */
static uint64_t longest_outage(void)
{
    uint64_t lost = CRTI_LIMIT(heartbeat_timeout) / 5 * 8, /* actor.c, SUSPECT_NS */
        attached = CRTI_LIMIT(attach_timeout) / 15 * 4,
             answered = CRTI_LIMIT(head_timeout) / 15 * 4;

    lost = lost < attached ? lost : attached;
    return lost < answered ? lost : answered;
}

/* No node counts as dead, no session as lost, and no program waits in vain. */
static uint64_t longest_cut(void)
{
    uint64_t cut = CRTI_LIMIT(heartbeat_timeout) / 5 * 3,
             session = CRTI_LIMIT(session_timeout) / 2, outage = longest_outage();

    cut = cut < session ? cut : session;
    return cut < outage ? cut : outage;
}

/* In mild weather there is time to breathe between cuts: a node that is silent for longer is
 * dead. */
static void cut(unsigned a, unsigned b, uint64_t time)
{
    const uint64_t *until =
        &sys->net.cut_until[a < b ? a * SYS_PLACES + b : b * SYS_PLACES + a];

    if (!truth->is_mild ||
        *until + CRTI_LIMIT(heartbeat_timeout) / 5 * 4 < sys->world->now)
        sys_cut(a, b, time);
}

static void revive_head(void *user, uint64_t number)
{
    sys_head_start();
}

static void revive_node(void *user, uint64_t host)
{
    sys_node_start((unsigned)host);
}

/* A drained node ends when the head reaches it. */
static void revive_drained(void *user, uint64_t host)
{
    if (sys->node[host] == user)
        sim_after(sys->world, CRTI_S, revive_drained, user, host);
    else
        sys_node_start((unsigned)host);
}

static void trouble_head(void)
{
    sim_world_t *w = sys->world;
    uint64_t kind = sim_below(w, 100);

    if (kind < 25 && sys_head_is_up() && !(truth->is_mild && cuts_head)) {
        sys_head_kill();
        sim_after(
            w,
            sim_below(w, sim_chance(w, 2000) ? longest_outage() : longest_outage() / 8),
            revive_head, NULL, 0);
    } else if (kind < 80 && !(truth->is_mild && cuts_head)) {
        sys_streams_break(any_host(), SYS_HEAD_HOST);
    } else if (kind < 80) {
        cut(any_host(), SYS_HEAD_HOST, sim_below(w, longest_cut()));
    } else if (truth->is_mild || sim_chance(w, 5000)) {
        sys_redis_stall(w->now + sim_below(w, longest_outage() / 4));
    } else {
        sys_redis_refuse(w->now + sim_below(w, longest_outage() / 4));
        if (sim_chance(w, 5000)) { /* what it could not write may be there */
            sys_head_kill();
            sim_after(w, sim_below(w, CRTI_S), revive_head, NULL, 0);
        }
    }
}

static void drain_some(void)
{
    unsigned host = any_host();
    sys_process_t *p = sys->node[host];
    unsigned living = 0;

    for (unsigned i = 0; i < sys->hosts; i++)
        living += sys->node[i] != NULL;
    if (!p || !p->node || living < 2)
        return;
    sim_note(sys->world, "the node on %u is drained", host);
    truth->drains++;
    sys_head_drain(p->node->id, sim_between(sys->world, 1000, DRAIN_MAX / CRTI_MS));
    sim_after(sys->world, sim_between(sys->world, CRTI_S, 30 * CRTI_S), revive_drained, p,
              host);
}

static void trouble_network(void)
{
    sim_world_t *w = sys->world;
    uint64_t kind = sim_below(w, 100);
    unsigned a = any_host(), b = any_host();

    if (kind < 40)
        sys_streams_break(a, b);
    else if (kind < 70)
        sim_network_reconnect(&sys->net, a, b);
    else if (kind < 90)
        cut(a, b, sim_below(w, longest_cut()));
    else
        for (unsigned i = 0; i < sys->hosts; i++)
            cut(a, i, sim_below(w, longest_cut()));
}

static void kill_some(sys_kind_t kind)
{
    for (int tries = 0; tries < 40; tries++) {
        sys_process_t *p = &sys->process[sim_below(sys->world, sys->processes)];

        if (!p->is_alive || p->kind != kind)
            continue;
        sys_kill(p, SIGKILL);
        if (kind == SYS_NODE)
            sim_after(sys->world, sim_below(sys->world, 4 * CRTI_S), revive_node, NULL,
                      p->host);
        return;
    }
}

static void kill_somebody(void)
{
    uint64_t kind = sim_below(sys->world, 100);

    kill_some(kind < 65   ? SYS_WORKER
              : kind < 80 ? SYS_DRIVER
              : kind < 88 ? SYS_ZYGOTE
                          : SYS_NODE);
}

static void part(void)
{
    sim_world_t *w = sys->world;
    uint64_t kind = sim_below(w, 100), time = sim_between(w, 4 * CRTI_S, 60 * CRTI_S);
    unsigned a = any_host();

    if (kind < 40) {
        /* Often about as long as a fence stays open, and a node counts as living. */
        sys_cut(a, SYS_HEAD_HOST,
                sim_chance(w, 5000) ? sim_between(w, 4 * CRTI_S, 8 * CRTI_S) : time);
    } else if (kind < 60) {
        sys_cut(a, any_host(), time);
    } else {
        for (unsigned i = 0; i < sys->hosts; i++)
            sys_cut(a, i, time);
        if (kind < 90)
            sys_cut(a, SYS_HEAD_HOST, time);
    }
}

static void weather(void *user, uint64_t number)
{
    sim_world_t *w = sys->world;
    uint64_t kind = sim_below(w, 100);

    if (truth->is_ending || sky == CALM)
        return;
    sim_after(w, sim_below(w, 700 * CRTI_MS), weather, NULL, 0);
    sys->faults++;
    if (sky == HEAD || (sky == STORM && kind < 25))
        trouble_head();
    else if (sky == NETWORK || (sky == STORM && kind < 50))
        trouble_network();
    else if (kind >= 96 || (sky == DEATHS && kind < 5))
        drain_some();
    else if (sky == DEATHS || kind < 90)
        kill_somebody();
    else
        part();
}

/* ---------------------------------------------------------------- a run */

static void more_drivers(void *user, uint64_t number)
{
    sim_world_t *w = sys->world;
    unsigned living = 0;

    if (truth->is_ending)
        return;
    sim_after(w, sim_below(w, 800 * CRTI_MS), more_drivers, NULL, 0);
    for (unsigned i = 0; i < sys->processes; i++)
        living += sys->process[i].is_alive && sys->process[i].kind == SYS_DRIVER;
    if (living < driver_hosts) {
        unsigned host = any_host();

        if (sys->node[host])
            sys_program_start_driver(host);
    }
}

static void begin(sim_world_t *w)
{
    static const unsigned losses[] = {0, 0, 20, 100};
    unsigned hosts = sim_chance(w, 1000) ? SYS_HOSTS : (unsigned)sim_between(w, 2, 12);

    sky = (sky_t)sim_below(w, SKIES);
    sys_start(w, hosts);
    truth = calloc(1, sizeof(*truth));
    if (!truth)
        abort();
    truth->is_mild = sky <= NETWORK;
    cuts_head = sim_chance(w, 5000);
    driver_hosts = (unsigned)sim_between(w, 1, 4);
    sys->net.law = (sim_law_t){.delay = sim_between(w, 30000, CRTI_MS),
                               .jitter = sim_between(w, 1000, 3 * CRTI_MS),
                               .is_ordered = sim_chance(w, 5000)};
    if (sky == NETWORK || sky == STORM) {
        sys->net.law.loss = losses[sim_below(w, 4)];
        sys->net.law.duplicate = losses[sim_below(w, 4)];
    }
    sys->kills_young = sky == DEATHS || sky == STORM;
    sys_head_start();
    for (unsigned i = 0; i < hosts; i++)
        sys_node_start(i);
    sim_after(w, CRTI_S, more_drivers, NULL, 0);
    sim_after(w, 2 * CRTI_S, weather, NULL, 0);
}

static void start_all(void)
{
    sys_head_start();
    for (unsigned i = 0; i < sys->hosts; i++)
        sys_node_start(i);
}

static void let_rest(sim_world_t *w)
{
    truth->is_ending = true;
    sys->kills_young = false;
    sim_network_heal(&sys->net);
    start_all();
    sys_redis_stall(0);
    sys_redis_refuse(0);
    if (truth->drains) { /* nodes end meanwhile, and others take their places */
        sim_run_until(w, w->now + DRAIN_MAX + 5 * CRTI_S, 2000000,
                      "as nodes were drained");
        start_all();
    }
    sim_run_until(w, w->now + REST, 2000000 * 32, "after all was well again");
}

static void run(sim_world_t *w)
{
    uint64_t until = w->now + sim_between(w, 5 * CRTI_S, 25 * CRTI_S), count = 0;

    begin(w);
    while (w->now < until && sim_step(w))
        if (++count % 64 == 0)
            sys_check_now();
    if (!w->failed)
        let_rest(w);
    if (!w->failed)
        sys_check_rest();
    sim_note(w, "sky %d, %u hosts, %u processes, %u calls, %u failed", (int)sky,
             sys->hosts, sys->processes, truth->calls, truth->failures);
    sys = NULL;
}

int main(int argc, char **argv)
{
    static const char *const machines[] = {"node lease", "call", "content"};
    static const sim_scenario_t scenario = {.name = "system",
                                            .run = run,
                                            .machines = machines,
                                            .machine_count = 3,
                                            .forks = true,
                                            .seeds = 45};

    crti_log_select(getenv("CRT_LOG") ? getenv("CRT_LOG") : "error");
    return sim_main(argc, argv, &scenario);
}
