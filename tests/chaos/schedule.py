# SPDX-License-Identifier: Apache-2.0
"""What happens when, from one seed: which kind of process is killed or stopped, which link is cut,
when the disk is full."""
import random

# kind -> weight; "link" is cut, "disk" (that of redis-server) is filled, "drain" is a node that is
# drained, the others are processes.
KINDS = {"worker": 26, "zygote": 8, "driver": 7, "job": 6, "command": 4, "redis-server": 8,
         "http": 6, "watchdog": 5, "head": 8, "node": 9, "drain": 4, "link": 9, "disk": 3}
MORE = {"spill": 9}  # only when asked for: the disk is full that objects are spilled to
NOT_PROCESSES = {"link": "cut", "disk": "fill", "spill": "jam"}  # where there are namespaces
STOPPED = 0.4  # this part of the faults of processes is a stop
LONG = 0.35  # and this part of the stops and cuts is long
MOMENT, SHORT, LONG_STOP, LONG_CUT = (0.05, 1.0), (1.0, 3.0), (5.5, 9.0), (8.0, 14.0)
DRAIN = (2.0, 12.0)  # until it ends at the latest
FULL, LONG_FULL = (0.5, 3.0), (5.0, 12.0)


class Fault:
    """`pick` chooses among the processes of that kind that there are; `seconds` is how long it is
    stopped, cut or full, or until what was killed is started again (where nobody else does
    that)."""

    def __init__(self, at, act, kind, pick, seconds):
        self.at, self.act, self.kind, self.pick, self.seconds = at, act, kind, pick, seconds

    def __str__(self):
        return (f"{self.at:7.2f} s  {self.act:4} {self.kind:12} pick {self.pick:04x}  "
                f"{self.seconds:5.2f} s")


def some_fault(rng, at, kinds, weights):
    kind = rng.choices(kinds, weights)[0]
    pick = rng.randrange(1 << 16)
    is_long, share = rng.random() < LONG, rng.random()
    if kind == "drain":
        return Fault(at, kind, kind, pick, DRAIN[0] + share * (DRAIN[1] - DRAIN[0]))
    if kind in NOT_PROCESSES:
        low, high = {"link": ((2.5, 3.0), LONG_CUT)}.get(kind, (FULL, LONG_FULL))[is_long]
        return Fault(at, NOT_PROCESSES[kind], kind, pick, low + share * (high - low))
    if rng.random() >= STOPPED:
        return Fault(at, "kill", kind, pick, 2 * share)
    low, high = LONG_STOP if is_long else SHORT if rng.random() < 0.5 else MOMENT
    return Fault(at, "stop", kind, pick, low + share * (high - low))


def schedule(seed, seconds, rate, kinds=None, has_links=True):
    """The faults of a run in their order; the same arguments give the same list."""
    rng = random.Random(f"crt chaos {seed}")
    kinds = [k for k in (kinds or KINDS) if has_links or k not in NOT_PROCESSES]
    weights = [(KINDS | MORE)[k] for k in kinds]
    faults, at = [], 0.0
    while rate > 0:
        at += rng.expovariate(rate)
        if at >= seconds:
            break
        faults.append(some_fault(rng, at, kinds, weights))
    return faults
