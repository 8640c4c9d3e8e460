"""The hosts of a campaign by cluster and rack: counts, and what was done when.

A small campaign has a lane for each rack. A large one has only its clusters, each with the
number of hosts in work in each step of a time, and the racks of one cluster when they are
asked for. For operators only.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.redaction import tenant_reader
from forewarn.fleet.model import place
from forewarn.instants import Micros, format_instant, instant_or_none
from forewarn.protocol.operations import Operation
from forewarn.reporting import campaign_courses, lanes
from forewarn.reporting.campaign_courses import NOWHERE, Attempt, Place
from forewarn.reporting.campaign_states import (
    IN_FLIGHT_STATES,
    HostState,
    worst,
)
from forewarn.reporting.expected import Expected, announced_at, expected_of
from forewarn.reporting.lanes import Stretch
from forewarn.reporting.reports import names_each
from forewarn.reporting.tree_reports import (
    STEPS,
    cluster_report,
    counts_report,
    times_of,
    tree_report,
)
from forewarn.store import kinds
from forewarn.store.port import Reader, every

Json: TypeAlias = dict[str, Any]

RACKS_MAX = 100
"""Maximum racks of a whole campaign that are shown with their lanes: 400 hosts have some
40. A larger campaign has only its clusters."""

STRETCHES_MAX = 40
"""Maximum stretches of one lane, the last ones: more do not fit into a row of a screen."""

LANES_HOSTS_MAX = 2_000
"""Maximum hosts of a whole campaign that are shown with lanes: more take a tenth of a
second to read, and `campaign_memory` counts them."""


@dataclass(slots=True)
class _Part:
    """The hosts of a campaign in a cluster or in a rack."""

    counts: Counter[HostState] = field(default_factory=Counter[HostState])
    work: list[Stretch] = field(default_factory=list[Stretch])
    racks: set[str] = field(default_factory=set[str])
    planned: list[int] = field(default_factory=list[int])
    """The positions of hosts that are not announced."""
    announced: list[str] = field(default_factory=list[str])
    """Operations that are announced and have not ended."""
    hosts: list[tuple[str, HostState]] = field(
        default_factory=list[tuple[str, HostState]]
    )

    def take(self, attempts: list[Attempt], state: HostState) -> None:
        """Count a host with its attempts."""
        self.counts[state] += 1
        last = attempts[-1]
        self.hosts.append((last.host, state))
        for attempt in attempts:
            if attempt.started:
                shown = (
                    state
                    if attempt is last
                    else campaign_courses.earlier_state(attempt)
                )
                self.work.append(Stretch(shown, attempt.started, attempt.over))
        if state is HostState.PLANNED:
            self.planned.append(last.position)
        elif state in IN_FLIGHT_STATES:
            self.announced.append(last.operation)


def campaign_tree(
    reader: Reader,
    campaign: CampaignRecord,
    *,
    cluster: str | None = None,
    first: Micros = 0,
    last: Micros = 0,
    now: Micros,
) -> Json:
    """Return the clusters of a campaign, and the racks if they are few.

    With `cluster`, return only this cluster and its racks. `first` and `last` narrow the
    lanes and are the time of the steps; 0: since the start of the campaign, and up to now.
    """
    # The list of the hosts that are not planned yet can be long: it is read once.
    known = tenant_reader.remembered(reader)
    attempts, places = (
        _of_cluster(known, campaign, cluster)
        if cluster
        else _whole(reader, known, campaign)
    )
    if cluster == "":  # no index has the hosts without a cluster
        attempts = [
            attempt
            for attempt in attempts
            if not places.get(attempt.host, NOWHERE).cluster
        ]
    racks = _racks(campaign, attempts, places)
    clusters: dict[str, _Part] = {}
    for where, part in racks.items():
        _add(clusters.setdefault(where.cluster, _Part()), part)
    total = Counter[HostState]()
    for part in clusters.values():
        total += part.counts
    is_small = len(racks) <= RACKS_MAX and total.total() <= LANES_HOSTS_MAX
    has_lanes = cluster is not None or is_small
    names_hosts = names_each(total.total())
    times = times_of(campaign, first=first, last=last, now=now)
    expected = expected_of(known, campaign, now=now)
    return tree_report(
        times,
        total,
        {
            name: cluster_report(
                name,
                part.counts,
                racks=len(part.racks),
                busy=lanes.busy(part.work, times.first, times.until, steps=STEPS),
            )
            for name, part in clusters.items()
        },
        racks=[
            {
                **_rack(expected, where, racks[where], times.first, last),
                "states": _states(racks[where]) if names_hosts else [],
            }
            for where in sorted(racks)
        ]
        if has_lanes
        else [],
        racks_left_out=0 if has_lanes else len(racks),
    )


def _whole(
    reader: Reader, known: Reader, campaign: CampaignRecord
) -> tuple[list[Attempt], Mapping[str, Place]]:
    attempts = campaign_courses.of_campaign(reader, known, campaign)
    hosts = {attempt.host for attempt in attempts}
    return attempts, campaign_courses.places_of_hosts(reader, hosts)


def _of_cluster(
    reader: Reader, campaign: CampaignRecord, cluster: str
) -> tuple[list[Attempt], Mapping[str, Place]]:
    at = place("cluster", cluster)
    hosts = {
        host.name: Place(host.cluster, host.rack)
        for host in every(reader, kinds.HOSTS_AT_PLACE, at)
    }
    return list(campaign_courses.on_hosts(reader, campaign, hosts)), hosts


def _racks(
    campaign: CampaignRecord, found: list[Attempt], places: Mapping[str, Place]
) -> dict[Place, _Part]:
    failed = set(campaign.failed_hosts)
    racks: defaultdict[Place, _Part] = defaultdict(_Part)
    for host, attempts in campaign_courses.by_host(found).items():
        where = places.get(host, NOWHERE)
        state = campaign_courses.state_in(campaign, attempts[-1], failed)
        racks[where].take(attempts, state)
    for where, part in racks.items():
        part.racks.add(where.rack)
    return racks


def _add(whole: _Part, part: _Part) -> None:
    whole.counts += part.counts
    whole.work += part.work
    whole.racks |= part.racks


def _states(part: _Part) -> list[list[str]]:
    return [[host, state.value] for host, state in sorted(part.hosts)]


def _rack(
    expected: Expected, where: Place, part: _Part, first: Micros, last: Micros
) -> Json:
    stretches = [
        *part.work,
        *_notices(expected.reader, part.announced),
        *_plans(expected, part.planned),
    ]
    lane = lanes.merged(stretches, stretches_max=STRETCHES_MAX, now=expected.now)
    return {
        "cluster": where.cluster,
        "rack": where.rack,
        "hosts": part.counts.total(),
        "counts": counts_report(part.counts),
        "worst": worst(part.counts).value,
        "lane": [
            stretch_report(stretch) for stretch in lanes.within(lane, first, last)
        ],
    }


def stretch_report(stretch: Stretch) -> list[str | None]:
    """Return a stretch as state, beginning and end; no end: it goes on."""
    begins = format_instant(stretch.begins)
    return [stretch.state.value, begins, instant_or_none(stretch.ends)]


def _notices(reader: Reader, operations: Iterable[str]) -> Iterable[Stretch]:
    """Yield the times of the notices of hosts in flight."""
    for name in operations:
        operation = reader.get(Operation, name)
        announced = 0 if operation is None else announced_at(reader, operation)
        if operation is not None and announced:
            yield Stretch(HostState.ANNOUNCED, announced, operation.started_at)


def _plans(expected: Expected, positions: list[int]) -> Iterable[Stretch]:
    """Yield the time in which the waiting hosts of a rack are expected to be in work."""
    usual = expected.pace_of_hosts
    if positions and usual is not None:
        begins = expected.host_begins(min(positions))
        ends = expected.host_begins(max(positions))
        if begins is not None and ends is not None:
            yield Stretch(HostState.PLANNED, begins, ends + usual.turn)
