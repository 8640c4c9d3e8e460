"""Durations of past work, as the expectation for a campaign: values in, values out.

Past work of the same impact counts if its step `work` was the same one, and of the models
of the campaign's hosts only if there is enough of it. If the work moves VMs away, hosts
without VMs do not count. Of failed work nothing counts: its duration is that of a deadline.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from forewarn.campaigns.model import Expectation
from forewarn.instants import SECOND, Micros

SAMPLES_MIN = 10
"""Minimum hosts for a measured duration: with fewer, the slowest tenth is one guess."""

SAMPLES_MAX = 1_000
"""Maximum hosts that count, the newest ones: hosts and programs change over time."""

TYPICAL, SLOW = 50, 90
"""Percentiles of typical and of slow hosts."""

MODEL_LABEL = "model"
"""The label of hosts that groups durations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The times of one host that was done."""

    at: Micros
    """When it was done."""
    model: str
    """Its label `model`; empty: none."""
    work: Micros
    """From the start of the work to its end, with host steps. The recovery time of the
    VMs comes after it."""
    notice: Micros
    """The part of its notice that passed before the work, by approval or by time."""
    has_vms: bool
    step: str = ""
    """Name of its host step `work`; empty: none."""
    needed: Micros = 0
    """The duration of its step `needed`, before the notice."""
    moving: Micros | None = None
    """The part of the work until its VMs had moved away; None: they stayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Durations that past work had."""

    hosts: int
    """Hosts that they were measured on."""
    models: tuple[str, ...]
    """The models of these hosts; empty: hosts of all models count."""
    work: Expectation
    """It is never below the slow time that the file has."""
    slow: Micros
    """Nine of ten hosts took at most this time."""
    notice_typical: Micros | None
    """Part of the notice that passes before the work; None: it was not measured."""
    notice_slow: Micros | None
    needed: Micros = 0
    """Time of the step `needed`, before the notice."""
    moving: Micros | None = None
    """Part of the work until the VMs of a host have moved away; None: it was not
    measured."""
    step: str = ""
    """Name of the host step `work` that was measured; empty: there was none."""
    notices: tuple[Micros, ...] = ()
    """The part of the notice of each host that passed before its work, the shortest
    first; none if it was not measured."""


def measured(
    samples: Collection[Sample],
    models: Iterable[str],
    *,
    step: str = "",
    moves_vms: bool = False,
    slow_min: Micros = 0,
) -> Measured | None:
    """Return the durations for hosts of these models; None: there are too few samples.

    `step` is the name of the step `work`, `moves_vms` whether VMs are moved away first, and
    `slow_min` the slow time that the campaign's file has.
    """
    wanted = tuple(sorted({*models} - {""}))
    same = [
        sample
        for sample in samples
        if sample.step == step and (sample.has_vms or not moves_vms)
    ]
    newest = sorted(same, key=lambda each: each.at, reverse=True)
    ours = [sample for sample in newest if sample.model in wanted]
    is_enough = len(ours) >= SAMPLES_MIN
    used = (ours if is_enough else newest)[:SAMPLES_MAX]
    if len(used) < SAMPLES_MIN:
        return None
    notices = [sample.notice for sample in used if sample.has_vms]
    knows_notice = len(notices) >= SAMPLES_MIN
    works = [sample.work for sample in used]
    moves = [sample.moving for sample in used if sample.moving is not None]
    slow = max(SECOND, percentile(works, SLOW))
    return Measured(
        hosts=len(used),
        step=step,
        models=wanted if is_enough else (),
        work=Expectation(
            typical=max(SECOND, percentile(works, TYPICAL)),
            slow=max(slow, slow_min),
            is_given=True,
            slow_min=slow_min,
        ),
        slow=slow,
        notice_typical=percentile(notices, TYPICAL) if knows_notice else None,
        notice_slow=percentile(notices, SLOW) if knows_notice else None,
        needed=percentile([sample.needed for sample in used], TYPICAL),
        moving=percentile(moves, TYPICAL) if len(moves) >= SAMPLES_MIN else None,
        notices=tuple(sorted(notices)) if knows_notice else (),
    )


def percentile(values: Sequence[Micros], percent: int) -> Micros:
    """Return the smallest value that at least so many percent do not exceed."""
    place = -(-len(values) * percent // 100)
    return sorted(values)[max(0, place - 1)]
