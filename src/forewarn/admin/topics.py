"""Topics of the change stream: the first objects of each, and its changed objects."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from forewarn.admin import limits, selection
from forewarn.admin.selection import EVERYTHING, About, Lookups, Wanted
from forewarn.campaigns.record import CampaignRecord
from forewarn.control.redaction import tenant_reader
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.requests import campaigns
from forewarn.control.rules import implied_campaigns
from forewarn.control.transactions.event_json import event_report
from forewarn.fleet.model import Host, places_of, tags_of
from forewarn.instants import Micros, cut_to_second, format_instant
from forewarn.protocol.blockers import AnyBlocker, NotDue, NoticeRuns
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.operations import Operation, Request
from forewarn.reporting import attention, campaign_pages, reports
from forewarn.reporting.attention import Problem, ProblemKind
from forewarn.reporting.campaign_rows import has_begun, one_row
from forewarn.reporting.campaigns import campaign_report, why_waiting
from forewarn.reporting.expected import Expected, expected_of
from forewarn.reporting.upcoming import upcoming_report
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditEntry

_CHANGE_WITH_TIME = (NotDue, NoticeRuns)
"""Reasons whose text changes with the time only."""

_TEXT_WITH_TIME = frozenset({ProblemKind.APPROVAL_LATE, ProblemKind.DRIVER_FAILING})
"""Problems whose text changes with the time only."""


class Change(NamedTuple):
    """An object of a topic, as a viewer gets it."""

    topic: str
    key: str
    body: dict[str, Any]
    about: About
    looks: object
    """A value that changes if there is something new to show."""
    is_over: bool = False
    """Whether the object has ended, and does not change again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One read of changes."""

    reader: Reader
    now: Micros
    operations: Sequence[Operation]
    entries: Sequence[AuditEntry]
    hosts: dict[str, set[str]]
    """Hosts of each open operation at the last read, since the destinations of its VMs
    can have changed."""
    lookups: Lookups = field(init=False)

    def __post_init__(self) -> None:
        """Cache names for this read."""
        object.__setattr__(self, "lookups", Lookups(self.reader))


Page = tuple[list[Change], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Functions that read the objects of one topic."""

    page: Callable[[Reader, Wanted, str, Micros], Page]
    """Returns a page of the objects that a stream begins with."""
    changed: Callable[[Look], Iterator[Change]]
    needs_entries: bool = False
    """Whether `changed` also needs the new entries of the history."""


def _operation(
    reader: Reader, operation: Operation, lookups: Lookups, wanted: Wanted, now: Micros
) -> Change:
    blockers = tenant_reader.blockers(reader, operation, now=now)
    body = reports.operation_body(reader, operation, blockers, now=now)
    return Change(
        "operations",
        operation.operation_id,
        body,
        lookups.about(operation, wanted),
        looks_of(body, blockers),
        is_over=operation.ended_at != 0,
    )


def looks_of(body: dict[str, Any], blockers: Iterable[AnyBlocker]) -> object:
    """Return an operation without the reasons that change with the time only."""
    lasting = [
        blocker for blocker in blockers if not isinstance(blocker, _CHANGE_WITH_TIME)
    ]
    return reports.without_reasons(body), lasting


def _operation_page(reader: Reader, wanted: Wanted, after: str, now: Micros) -> Page:
    lookups = Lookups(reader)
    found, following = selection.operations(
        reader, wanted, after=after, limit=limits.PAGE_OBJECTS
    )
    page = [_operation(reader, operation, lookups, wanted, now) for operation in found]
    return page, following


def open_operations(reader: Reader, after: str, now: Micros) -> Page:
    """Return a page of all open operations, for viewers with any filters."""
    lookups = Lookups(reader)
    found, following = selection.operations(
        reader, Wanted(), after=after, limit=limits.PAGE_OBJECTS
    )
    return [
        _operation(reader, operation, lookups, EVERYTHING, now) for operation in found
    ], following


def _changed_operations(look: Look) -> Iterator[Change]:
    for operation in look.operations:
        yield _operation(look.reader, operation, look.lookups, EVERYTHING, look.now)


def _event(event: Event, about: About) -> Change:
    body = event_report(event)
    return Change(
        "events", event.event_id, body, about, body, is_over=not event.is_live
    )


def _event_page(reader: Reader, wanted: Wanted, after: str, _now: Micros) -> Page:
    found, following = selection.events(
        reader, wanted, after=after, limit=limits.PAGE_OBJECTS
    )
    return [_event(event, About()) for event in found], following


def _changed_events(look: Look) -> Iterator[Change]:
    for operation in look.operations:
        for event in every(
            look.reader, kinds.EVENTS_OF_OPERATION, operation.operation_id
        ):
            if event.status is not EventStatus.NEW:
                yield _event(event, look.lookups.about_event(event, operation))


def _host(reader: Reader, host: Host, *, is_bare: bool = False) -> Change:
    body = reports.host_report(reader, host)
    vms = [] if is_bare else list(every(reader, kinds.VMS_ON_HOST, host.name))
    about = About(
        vms={vm.name for vm in vms},
        hosts=(host.name,),
        scopes={vm.scope for vm in vms},
        tenants={vm.tenant for vm in vms},
        places=places_of(host),
        tags={tag for vm in vms for tag in tags_of(vm)},
    )
    return Change("hosts", host.name, body, about, body)


def _host_page(reader: Reader, wanted: Wanted, after: str, _now: Micros) -> Page:
    rows = reader.select(kinds.ALL_HOSTS, after=after, limit=limits.PAGE_OBJECTS)
    page = [_host(reader, row, is_bare=wanted == Wanted()) for row in rows]
    following = rows[-1].key if len(rows) == limits.PAGE_OBJECTS else ""
    return [change for change in page if wanted.matches(change.about)], following


def _changed_hosts(look: Look) -> Iterator[Change]:
    names: set[str] = set()
    for operation in look.operations:
        hosts = {operation.host, *(move.to_host for move in operation.moves)}
        names |= hosts | look.hosts.pop(operation.operation_id, set())
        if not operation.ended_at:
            look.hosts[operation.operation_id] = hosts
    for entry in look.entries:
        kinds_and_names = (subject.partition(":") for subject in entry.subjects)
        names |= {name for kind, _, name in kinds_and_names if kind == "host"}
    for name in sorted(names - {""}):
        host = look.reader.get(Host, name)
        if host is not None:
            yield _host(look.reader, host)


def _campaign(reader: Reader, campaign: CampaignRecord, now: Micros) -> Change:
    body = campaign_report(reader, campaign, now=now)
    until = why_waiting(reader, campaign, now=now).until
    # Until a known time, only the rest of the time changes in the texts.
    same = {"waits_for": until, "waits_shortly": until} if until else {}
    looks = {**body, **same}
    return Change(
        "campaigns",
        campaign.campaign_id,
        body,
        About(hosts=campaign.failed_hosts, rollout=campaign.request),
        looks,
        is_over=campaign.has_ended,
    )


def _campaign_page(reader: Reader, wanted: Wanted, after: str, now: Micros) -> Page:
    rows = campaign_pages.page_of(
        reader, after=after, limit=limits.PAGE_OBJECTS, with_ended=False
    )
    page = [_campaign(reader, row, now) for row in rows]
    following = rows[-1].key if len(rows) == limits.PAGE_OBJECTS else ""
    return [change for change in page if wanted.matches(change.about)], following


def _changed_campaigns(look: Look) -> Iterator[Change]:
    """Yield the open campaigns, which are few, and those with new entries.

    A rollout without a stored campaign needs a read of all its operations, so it is
    yielded if one of them has changed.
    """
    campaigns = {each.key: each for each in every(look.reader, kinds.CAMPAIGNS_OPEN)}
    for entry in look.entries:
        for kind, _, name in (subject.partition(":") for subject in entry.subjects):
            if kind == "campaign" and name not in campaigns:
                campaign = look.reader.get(CampaignRecord, name)
                if campaign is not None:
                    campaigns[name] = campaign
    for request_id in sorted({operation.request for operation in look.operations}):
        request = look.reader.get(Request, request_id)
        if request is not None and request.implies_campaign:
            campaigns[request_id] = implied_campaigns.record_of(look.reader, request)
    for campaign in campaigns.values():
        yield _campaign(look.reader, campaign, look.now)


def _changed_campaign_hosts(look: Look) -> Iterator[Change]:
    """Yield the hosts of campaigns on which an operation has changed.

    A host whose first attempt waits has nothing to show: a campaign has as many at its
    start as it has hosts. The forecasts of other hosts change with each, and are not sent.
    """
    by_request: defaultdict[str, dict[str, Operation]] = defaultdict(dict)
    for looked_at in look.operations:
        by_request[looked_at.request][looked_at.host] = looked_at
    for request_id, changed in by_request.items():
        request = look.reader.get(Request, request_id)
        if request is None or not (request.campaign or request.implies_campaign):
            continue
        campaign = campaigns.find(look.reader, request_id)
        expected = expected_of(look.reader, campaign, now=look.now)
        for name, operation in sorted(changed.items()):
            host = look.reader.get(Host, name)
            if host is not None and has_begun(expected, operation):
                row = one_row(expected, host)
                yield _campaign_host(expected, row, look.lookups.about(operation))


def _campaign_host(expected: Expected, row: dict[str, Any], about: About) -> Change:
    campaign = expected.campaign.campaign_id
    body = {"campaign": campaign, **row}
    blockers = [{**blocker, "text": ""} for blocker in row["blockers"]]
    looks = {**body, "blockers": blockers, "forecast": None}
    return Change("campaign-hosts", f"{campaign}/{row['host']}", body, about, looks)


def problems(found: Sequence[Problem], lookups: Lookups) -> dict[str, Change]:
    """Return the objects of problems by their keys."""
    changes: dict[str, Change] = {}
    for problem in found:
        body = attention.report(problem)
        is_timed = problem.kind in _TEXT_WITH_TIME
        looks = {**body, "text": "", "text_shortly": ""} if is_timed else body
        changes[body["problem"]] = Change(
            "problems", body["problem"], body, lookups.about_problem(problem), looks
        )
    return changes


def over(problem: Change, *, now: Micros) -> Change:
    """Return the end of a problem."""
    body = {**problem.body, "ended": format_instant(cut_to_second(now))}
    return problem._replace(body=body, looks=body, is_over=True)


def _changed_history(look: Look) -> Iterator[Change]:
    for entry in look.entries:
        body = reports.audit_report(entry, look.lookups.visit_of(entry))
        yield Change(
            "history",
            entry.entry_id,
            body,
            look.lookups.about_entry(entry),
            body,
            is_over=True,
        )


def _upcoming_page(reader: Reader, wanted: Wanted, after: str, now: Micros) -> Page:
    """Return a page of the coming work on the VMs of a tenant; operators have none."""
    if not isinstance(reader, TenantReader):
        return [], ""
    lookups = Lookups(reader)
    page = reader.upcoming(
        scope=wanted.scope,
        vm=wanted.vm,
        after=after,
        limit=limits.PAGE_OBJECTS,
        now=now,
    )
    changes: list[Change] = []
    for operation in page.work:
        body = upcoming_report(operation)
        about = About(
            vms=(operation.vm,),
            scopes=(operation.scope,),
            tenants=(reader.tenant,),
            tags=lookups.tags_of(operation.vm),
        )
        changes.append(Change("upcoming", operation.work, body, about, body))
    return [change for change in changes if wanted.matches(change.about)], page.next


def no_more_work(key: str, about: About, *, now: Micros) -> Change:
    """Return the end of coming work: it has started, or it is not planned any more."""
    body = {
        "work": key,
        "vm": next(iter(about.vms)),
        "scope": next(iter(about.scopes)),
        "state": "Over",
        "ended": format_instant(cut_to_second(now)),
    }
    return Change("upcoming", key, body, about, body, is_over=True)


def _nothing(_reader: Reader, _wanted: Wanted, _after: str, _now: Micros) -> Page:
    return [], ""


TOPICS: Mapping[str, Topic] = {
    "hosts": Topic(page=_host_page, changed=_changed_hosts, needs_entries=True),
    "operations": Topic(page=_operation_page, changed=_changed_operations),
    "events": Topic(page=_event_page, changed=_changed_events),
    "campaigns": Topic(
        page=_campaign_page, changed=_changed_campaigns, needs_entries=True
    ),
    # Its lists have the present ones, by place.
    "campaign-hosts": Topic(page=_nothing, changed=_changed_campaign_hosts),
    # The hub compares all problems with the previous ones.
    "problems": Topic(page=_nothing, changed=lambda _look: iter(())),
    # The hub compares all coming work with the previous one.
    "upcoming": Topic(page=_upcoming_page, changed=lambda _look: iter(())),
    "history": Topic(page=_nothing, changed=_changed_history, needs_entries=True),
}
"""All topics, in the order in which a stream begins with their objects."""
