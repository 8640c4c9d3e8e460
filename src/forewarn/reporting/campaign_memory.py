"""The hosts of a large campaign by cluster, kept between reads.

To read all hosts of a campaign takes a second for 100,000. The next reads find in the
history which hosts have changed since, and read only these. For operators only.
"""

import threading
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.model import Host
from forewarn.instants import Micros
from forewarn.reporting import campaign_courses, lanes
from forewarn.reporting.campaign_courses import NOWHERE, Attempt, Place
from forewarn.reporting.campaign_states import HostState
from forewarn.reporting.tree_reports import (
    STEPS,
    cluster_report,
    times_of,
    tree_report,
)
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditEntry, AuditKind

Json: TypeAlias = dict[str, Any]

ENTRIES_MAX = 5_000
"""Maximum new entries of the history that are read: a tenth of a second's work. After
more, the whole campaign is read again."""

_HOST_CHANGES = frozenset(kind for kind in AuditKind if kind.name.startswith("HOST_"))
"""The kinds of entries after which a host can stand elsewhere, and some others."""


class _Known(NamedTuple):
    """The part of a host in the counts of its cluster."""

    where: Place
    state: HostState
    work: tuple[Micros, ...]
    """Beginning and end of the work of each attempt; an end 0: it has none."""


@dataclass(slots=True)
class _Cluster:
    counts: Counter[HostState] = field(default_factory=Counter[HostState])
    racks: Counter[str] = field(default_factory=Counter[str])
    begins: list[Micros] = field(default_factory=list[Micros])
    """The beginnings of all work, sorted."""
    ends: list[Micros] = field(default_factory=list[Micros])
    """The ends of all work that has ended, sorted."""


class CampaignMemory:
    """The hosts of one campaign, as last read; threads can share it.

    It takes some 40 MB for 100,000 hosts.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self._lock = threading.Lock()
        self._hosts: dict[str, _Known] = {}
        self._clusters: dict[str, _Cluster] = {}
        self._after = ""
        """The last entry of the history that is known."""
        self._failed: frozenset[str] = frozenset()
        self._whole: tuple[str, int, bool] | None = None
        """Facts whose change concerns all hosts: rollout, hosts, and end of the
        campaign; None: nothing is known."""

    def tree(
        self,
        reader: Reader,
        campaign: CampaignRecord,
        *,
        first: Micros = 0,
        last: Micros = 0,
        now: Micros,
    ) -> Json:
        """Return the clusters of the campaign, as `campaign_tree` does without racks."""
        times = times_of(campaign, first=first, last=last, now=now)
        with self._lock:
            self._update(reader, campaign)
            clusters = {
                name: cluster_report(
                    name,
                    cluster.counts,
                    racks=len(cluster.racks),
                    busy=lanes.busy_between(
                        cluster.begins,
                        cluster.ends,
                        times.first,
                        times.until,
                        steps=STEPS,
                    ),
                )
                for name, cluster in self._clusters.items()
            }
            total = sum(
                (cluster.counts for cluster in self._clusters.values()),
                Counter[HostState](),
            )
            racks = sum(len(cluster.racks) for cluster in self._clusters.values())
        return tree_report(times, total, clusters, racks=[], racks_left_out=racks)

    def _update(self, reader: Reader, campaign: CampaignRecord) -> None:
        whole = (campaign.request, campaign.hosts, campaign.has_ended)
        failed = frozenset(campaign.failed_hosts)
        entries = (
            list(islice(every(reader, kinds.ALL_AUDIT, after=self._after), ENTRIES_MAX))
            if whole == self._whole
            else None
        )
        if entries is None or len(entries) == ENTRIES_MAX:
            self._read_all(reader, campaign, failed)
        else:
            changed = {*_hosts_in(entries, campaign), *(failed ^ self._failed)}
            for host in changed & self._hosts.keys():
                self._read_one(reader, campaign, host, failed)
            if entries:
                self._after = entries[-1].key
        self._whole, self._failed = whole, failed

    def _read_all(
        self, reader: Reader, campaign: CampaignRecord, failed: Collection[str]
    ) -> None:
        # A read that fails leaves nothing that counts as known.
        self._whole = None
        newest = reader.latest(kinds.ALL_AUDIT, limit=1)
        all_attempts = campaign_courses.of_campaign(reader, reader, campaign)
        places = campaign_courses.places_of_hosts(
            reader, {attempt.host for attempt in all_attempts}
        )
        self._hosts = {
            host: _known(campaign, attempts, failed, places.get(host, NOWHERE))
            for host, attempts in campaign_courses.by_host(all_attempts).items()
        }
        self._clusters = _clusters(self._hosts)
        self._after = newest[0].key if newest else ""

    def _read_one(
        self,
        reader: Reader,
        campaign: CampaignRecord,
        name: str,
        failed: Collection[str],
    ) -> None:
        old = self._hosts[name]
        host = reader.get(Host, name)
        where = NOWHERE if host is None else Place(host.cluster, host.rack)
        attempts = [
            campaign_courses.attempt_of(
                operation, campaign_courses.visit_of(reader, operation)
            )
            for operation in campaign_courses.on_host(reader, campaign, name)
        ]
        new = (
            _known(campaign, attempts, failed, where)
            if attempts
            else old._replace(where=where)
        )
        if new != old:
            self._change(old, new)
            self._hosts[name] = new

    def _change(self, old: _Known, new: _Known) -> None:
        cluster = self._clusters[old.where.cluster]
        cluster.counts[old.state] -= 1
        cluster.racks[old.where.rack] -= 1
        for begins, ends in _pairs(old.work):
            _remove(cluster.begins, begins)
            if ends:
                _remove(cluster.ends, ends)
        cluster.counts, cluster.racks = +cluster.counts, +cluster.racks
        if not cluster.counts:
            del self._clusters[old.where.cluster]
        cluster = self._clusters.setdefault(new.where.cluster, _Cluster())
        cluster.counts[new.state] += 1
        cluster.racks[new.where.rack] += 1
        for begins, ends in _pairs(new.work):
            insort(cluster.begins, begins)
            if ends:
                insort(cluster.ends, ends)


def _clusters(hosts: Mapping[str, _Known]) -> dict[str, _Cluster]:
    clusters: dict[str, _Cluster] = {}
    for host in hosts.values():
        cluster = clusters.setdefault(host.where.cluster, _Cluster())
        cluster.counts[host.state] += 1
        cluster.racks[host.where.rack] += 1
        cluster.begins += host.work[::2]
        cluster.ends += filter(None, host.work[1::2])
    for cluster in clusters.values():
        cluster.begins.sort()
        cluster.ends.sort()
    return clusters


def _known(
    campaign: CampaignRecord,
    attempts: list[Attempt],
    failed: Collection[str],
    where: Place,
) -> _Known:
    state = campaign_courses.state_in(campaign, attempts[-1], failed)
    begun = [attempt for attempt in attempts if attempt.started]
    work = tuple(at for attempt in begun for at in (attempt.started, attempt.over))
    return _Known(where, state, work)


def _hosts_in(entries: Iterable[AuditEntry], campaign: CampaignRecord) -> Iterable[str]:
    """Yield the hosts that new entries can have changed."""
    request = f"request:{campaign.request}"
    for entry in entries:
        if request in entry.subjects or entry.kind in _HOST_CHANGES:
            for subject in entry.subjects:
                kind, _, name = subject.partition(":")
                if kind == "host":
                    yield name


def _pairs(work: tuple[Micros, ...]) -> Iterable[tuple[Micros, Micros]]:
    return zip(work[::2], work[1::2], strict=True)


def _remove(instants: list[Micros], instant: Micros) -> None:
    del instants[bisect_left(instants, instant)]
