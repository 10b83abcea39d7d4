/* SPDX-License-Identifier: Apache-2.0 */
/* A bad network. See network.h. */
#include "tests/sim/network.h"

#include <stdlib.h>
#include <string.h>

static void *zeroed(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);

    if (!p)
        abort();
    return p;
}

sim_blob_t *sim_blob_new(size_t size)
{
    sim_blob_t *blob = malloc(sizeof(*blob) + size);

    if (!blob)
        abort();
    blob->refs = 1;
    blob->size = size;
    return blob;
}

sim_blob_t *sim_blob_of(const struct iovec *parts, int count, size_t size)
{
    sim_blob_t *blob = sim_blob_new(size);
    size_t at = 0;

    for (int i = 0; i < count; i++) {
        memcpy(blob->data + at, parts[i].iov_base, parts[i].iov_len);
        at += parts[i].iov_len;
    }
    return blob;
}

void sim_blob_unref(sim_blob_t *blob)
{
    if (blob && --blob->refs == 0)
        free(blob);
}

void sim_network_init(sim_network_t *net, sim_world_t *world, unsigned nodes,
                      unsigned places, const unsigned *node_of, sim_receive_t *receive,
                      void *user)
{
    *net = (sim_network_t){.world = world,
                           .nodes = nodes,
                           .places = places,
                           .node_of = node_of,
                           .receive = receive,
                           .user = user,
                           .law = {.delay = CRTI_MS, .jitter = CRTI_MS}};
    net->cut_until = zeroed((size_t)nodes * nodes, sizeof(*net->cut_until));
    net->pairs = zeroed((size_t)places * places, sizeof(*net->pairs));
}

void sim_network_fini(sim_network_t *net)
{
    for (size_t i = 0; i < net->packet_count; i++)
        if (net->packets[i].is_used)
            sim_blob_unref(net->packets[i].blob);
    free(net->packets);
    free(net->free_packets);
    free(net->cut_until);
    free(net->pairs);
}

/* ---------------------------------------------------------------- cuts */

static uint64_t *cut_of(const sim_network_t *net, unsigned a, unsigned b)
{
    return &net->cut_until[a < b ? a * net->nodes + b : b * net->nodes + a];
}

static sim_pair_t *pair_of(const sim_network_t *net, unsigned from, unsigned to)
{
    return &net->pairs[from * net->places + to];
}

void sim_network_cut(sim_network_t *net, unsigned a, unsigned b, uint64_t time)
{
    uint64_t until = net->world->now + time;

    if (a != b && *cut_of(net, a, b) < until)
        *cut_of(net, a, b) = until;
}

void sim_network_isolate(sim_network_t *net, unsigned node, uint64_t time)
{
    for (unsigned i = 0; i < net->nodes; i++)
        sim_network_cut(net, node, i, time);
}

bool sim_network_is_cut(const sim_network_t *net, unsigned a, unsigned b)
{
    return *cut_of(net, a, b) > net->world->now;
}

void sim_network_reconnect(sim_network_t *net, unsigned a, unsigned b)
{
    pair_of(net, a, b)->epoch++;
    pair_of(net, b, a)->epoch++;
}

void sim_network_heal(sim_network_t *net)
{
    memset(net->cut_until, 0, (size_t)net->nodes * net->nodes * sizeof(*net->cut_until));
    net->law.loss = net->law.duplicate = net->law.garble = 0;
}

uint64_t sim_network_cut_at(const sim_network_t *net, unsigned a, unsigned b)
{
    uint64_t there = pair_of(net, a, b)->cut_at, back = pair_of(net, b, a)->cut_at;

    return there > back ? there : back;
}

/* ---------------------------------------------------------------- packets */

static void arrive(void *user, uint64_t number)
{
    sim_network_t *net = user;
    sim_packet_t packet = net->packets[number];

    net->packets[number].is_used = false;
    net->free_packets[net->free_count++] = number;
    if (packet.epoch == pair_of(net, packet.from, packet.to)->epoch)
        net->receive(net->user, &packet);
    else
        net->lost++;
    sim_blob_unref(packet.blob);
}

static size_t new_packet(sim_network_t *net)
{
    size_t room;

    if (net->free_count)
        return net->free_packets[--net->free_count];
    if ((net->packet_count & (net->packet_count - 1)) == 0) {
        room = net->packet_count ? net->packet_count * 2 : 1;
        net->packets = realloc(net->packets, room * sizeof(*net->packets));
        net->free_packets = realloc(net->free_packets, room * sizeof(size_t));
        if (!net->packets || !net->free_packets)
            abort();
    }
    return net->packet_count++;
}

static void carry(sim_network_t *net, const sim_packet_t *packet)
{
    sim_pair_t *pair = pair_of(net, packet->from, packet->to);
    bool near = net->node_of[packet->from] == net->node_of[packet->to];
    uint64_t delay = net->law.delay + sim_below(net->world, net->law.jitter + 1);
    size_t number = new_packet(net);

    delay = near ? delay / 10 + 1 : delay;
    if (net->law.is_ordered && net->world->now + delay < pair->arrival)
        delay = pair->arrival - net->world->now;
    pair->arrival = net->world->now + delay;
    net->packets[number] = *packet;
    net->packets[number].is_used = true;
    net->packets[number].epoch = pair->epoch;
    packet->blob->refs++;
    sim_after(net->world, delay, arrive, net, number);
}

/* A copy with a few wrong bytes. */
static sim_blob_t *garble(sim_network_t *net, const sim_blob_t *blob)
{
    sim_blob_t *bad = sim_blob_new(blob->size);

    memcpy(bad->data, blob->data, blob->size);
    for (uint64_t n = sim_between(net->world, 1, 3); n > 0; n--)
        bad->data[sim_below(net->world, blob->size)] ^=
            (unsigned char)sim_between(net->world, 1, 255);
    net->garbled++;
    return bad;
}

bool sim_network_send(sim_network_t *net, sim_packet_t packet)
{
    sim_world_t *w = net->world;

    net->sent++;
    if (sim_network_is_cut(net, net->node_of[packet.from], net->node_of[packet.to])) {
        pair_of(net, packet.from, packet.to)->cut_at = w->now;
        net->lost++;
        return sim_chance(w, 5000);
    }
    if (net->law.loss && sim_chance(w, net->law.loss)) {
        net->lost++;
        return true;
    }
    if (net->law.garble && sim_chance(w, net->law.garble)) {
        packet.blob = garble(net, packet.blob);
        carry(net, &packet);
        sim_blob_unref(packet.blob);
        return true;
    }
    carry(net, &packet);
    if (net->law.duplicate && sim_chance(w, net->law.duplicate)) {
        net->duplicated++;
        carry(net, &packet);
    }
    return true;
}
