"""The history of changes, the accounts of operations, and the availability of VMs."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from forewarn.admin import history_shapes, limits, selection
from forewarn.admin.answers import answer, documented
from forewarn.admin.context import RouteGateway, v1_router
from forewarn.admin.lists import Filters, Name, Ordered, Paged, Selectors, check_places
from forewarn.admin.selection import Lookups, Wanted
from forewarn.control.redaction import tenant_reader
from forewarn.control.transactions.named import kind_of_work, need
from forewarn.fleet.availability import Period
from forewarn.fleet.model import Host, Scope, Tenant, Vm, VmState
from forewarn.instants import Micros, format_instant, parse_duration, parse_instant
from forewarn.protocol.errors import BadRequestError
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation, Request
from forewarn.reporting import accounts, reports, uptime
from forewarn.reporting.coming_holds import coming_holds
from forewarn.reporting.main_changes import is_main
from forewarn.store import kinds, questions
from forewarn.store.port import Reader, Record
from forewarn.store.records import AuditEntry

router = v1_router(tags=["history"])

_EXAMPLES = ["2026-11-21T10:00:00Z", "24h"]
_SINCE = Field(
    default="",
    description="Only from this time: RFC 3339, or a duration before now.",
    examples=_EXAMPLES,
)
_UNTIL = Field(
    default="",
    description="Only before this time: RFC 3339, or a duration before now.",
    examples=_EXAMPLES,
)


def instant_of(name: str, text: str, *, now: Micros) -> Micros:
    """Return the instant in a parameter; raises BadRequestError."""
    try:
        if text[:1].isdigit() and "T" in text:
            return max(0, parse_instant(text))
        return max(0, now - parse_duration(text))
    except ValueError as error:
        raise BadRequestError(
            f"{name}: {error}",
            hint="Give a time in RFC 3339, or a duration before now.",
        ) from error


def check_order(since: Micros, until: Micros) -> None:
    """Raise BadRequestError for a period that ends before it begins."""
    if until <= since:
        raise BadRequestError(
            "until must be later than since",
            hint="Give the earlier time, or the longer duration, as since.",
        )


class AvailabilityQuery(Selectors, Paged):
    """VMs and period of a request for availability."""

    since: Name = Field(
        default="7d",
        description="Start of the period: RFC 3339, or a duration before now.",
        examples=["2026-11-21T10:00:00Z", "30d"],
    )
    until: Name = Field(
        default="",
        description="End of the period, in the same form. Default: now.",
    )


@router.get(
    "/availability", responses=documented(history_shapes.AvailabilityPage, 400, 404)
)
async def availability(
    query: Annotated[AvailabilityQuery, Query()], gateway: RouteGateway
) -> Response:
    """List the downtime of VMs in a period by cause, and the time without records.

    `holds` has what holds their maintenance now or will hold it: the brake, blackouts and
    the windows of their scopes. A tenant sees its windows.

    `total` is the total of this page. Add the totals of all pages for the whole list.
    `host`, `zone`, `cluster`, `rack`, `pool`, `label` and `tag` select the VMs that are
    there, or have the tag, now.
    """
    now = gateway.now()
    since = instant_of("since", query.since or "7d", now=now)
    until = now
    if query.until:
        # There are no records of the future.
        until = min(now, instant_of("until", query.until, now=now))
    check_order(since, until)
    period = Period(since=since, until=until)

    def ask(reader: Reader) -> dict[str, Any]:
        if query.host:
            need(reader, Host, query.host)
        check_places(reader, query)
        selection = uptime.SpanSelection(
            period=period,
            vm=query.vm,
            scope=query.scope,
            tenant=query.tenant,
            is_placed=_placed(reader, query),
        )
        page = uptime.page(reader, selection, after=query.after, limit=query.limit)
        scopes = (vm["scope"] for vm in page["vms"])
        return {**page, "holds": coming_holds(reader, scopes, now=now)}

    return answer(await gateway.read(ask))


def _placed(reader: Reader, query: Selectors) -> Callable[[str], bool] | None:
    """Return whether a VM is at the selected place now; None: everywhere.

    A deleted VM is at no place.
    """
    wanted = Wanted(host=query.host, places=query.places, tag=query.tag)
    if wanted == Wanted():
        return None
    lookups = Lookups(reader)

    def is_placed(name: str) -> bool:
        vm = reader.get(Vm, name)
        return (
            vm is not None
            and vm.state is not VmState.DELETED
            and wanted.matches(lookups.about_vm(vm, wanted))
        )

    return is_placed


_KINDS: dict[str, type[Record]] = {
    "vm": Vm,
    "event": Event,
    "host": Host,
    "scope": Scope,
    "tenant": Tenant,
    "request": Request,
    "operation": Operation,
}


NEVER: Micros = 2**62
"""An instant after all others."""

_ALL = ("", "")
"""Bounds of keys that exclude nothing."""


class HistoryQuery(Selectors, Ordered):
    """Filters and paging parameters of the history; all filters must match."""

    operation: Name = Field(
        default="", description="Only this operation, rollout or request."
    )
    event: Name = Field(
        default="", description="Only this event; a GUID in upper or lower case."
    )
    actor: Name = Field(
        default="",
        description="Only actions of this actor, such as `clock` or the name of a token.",
    )
    what: Name = Field(
        default="",
        description="Only entries with this text, or this beginning: `event approved`.",
    )
    main: bool = Field(default=False, description="Only main changes.")
    brief: bool = Field(
        default=False,
        description="Only the first line of each detail: that of a fleet file has a line "
        "for each change.",
    )
    since: Name = _SINCE
    until: Name = _UNTIL

    def subjects(self, reader: Reader) -> list[tuple[str, str]]:
        """Return the kinds and names that entries must be about."""
        whole = tenant_reader.real_id(reader, self.operation)
        subjects = {
            "vm": self.vm,
            "event": self.event.upper(),
            "host": self.host,
            "scope": self.scope,
            "tenant": self.tenant,
        }
        subjects[_kind_of_work(whole)] = whole
        return [(kind, name) for kind, name in subjects.items() if name]

    def matches(self, entry: AuditEntry, subjects: list[str], lookups: Lookups) -> bool:
        """Return whether an entry matches."""
        wanted = Wanted(places=self.places, tag=self.tag)
        return (
            all(subject in entry.subjects for subject in subjects)
            and self.actor in {"", entry.actor.text}
            and entry.kind.value.startswith(self.what)
            and wanted.matches(lookups.about_entry(entry, wanted))
            and (not self.main or is_main(entry, lookups.visit_of(entry)))
        )


class AccountQuery(Filters, Ordered):
    """Filters and paging parameters of the accounts of operations, open ones too."""

    operation: Name = Field(
        default="", description="Only this operation, rollout or request."
    )
    since: Name = _SINCE
    until: Name = _UNTIL


@router.get("/history", responses=documented(history_shapes.HistoryPage, 400, 404))
async def history(
    query: Annotated[HistoryQuery, Query()], gateway: RouteGateway
) -> Response:
    """List all changes with their actor, time and reason, the oldest first.

    With `newest`, the newest come first. The work for a page does not grow with the
    number of changes that are older.
    """
    since, until = _period(query.since, query.until, now=gateway.now())
    end = NEVER if until is None else until

    def ask(reader: Reader) -> dict[str, Any]:
        named = query.subjects(reader)
        subjects = [f"{kind}:{name}" for kind, name in named]
        lookups = Lookups(reader)
        last: Micros = since

        def matches(entry: AuditEntry) -> bool:
            nonlocal last
            last = entry.at
            # Entries are in the order of the decisions, even if the clock was set back.
            return since <= entry.at < end and query.matches(entry, subjects, lookups)

        source, value, begin = _source(reader, query, named)
        first = max(since, begin)
        bounds = reader.audit_keys(first, end) if first or until is not None else _ALL
        entries, following = (
            ([], "")
            if bounds is None
            else selection.scan(
                reader,
                source,
                value,
                matches=matches,
                limit=query.limit,
                **_edges(query, bounds),
            )
        )
        if not entries and not query.after:
            _check_known(reader, named, said=query.event)
            check_places(reader, query)
        return {
            "entries": [
                _report(entry, lookups, is_brief=query.brief) for entry in entries
            ],
            "searched_to": format_instant(last) if following else None,
            "next": following or None,
        }

    return answer(await gateway.read(ask))


def _report(entry: AuditEntry, lookups: Lookups, *, is_brief: bool) -> dict[str, Any]:
    report = reports.audit_report(entry, lookups.visit_of(entry))
    if is_brief:
        report["detail"] = next(iter(report["detail"].splitlines()), "")
    return report


@router.get(
    "/history/operations", responses=documented(history_shapes.AccountPage, 400, 404)
)
async def accounts_of(
    query: Annotated[AccountQuery, Query()], gateway: RouteGateway
) -> Response:
    """List the accounts of operations: planned and actual times, and approvals.

    They are in the order in which they were announced; with `newest`, the last first.
    """
    now = gateway.now()
    since, until = _period(query.since, query.until, now=now)

    def ask(reader: Reader) -> dict[str, Any]:
        wanted = query.wanted(reader, ended=True)
        lookups = Lookups(reader)
        whole = tenant_reader.real_id(reader, query.operation)

        def matches(operation: Operation) -> bool:
            return (
                whole in {"", operation.operation_id, operation.request}
                and selection.is_wanted(operation, wanted, lookups)
                and _overlaps(operation, since, until)
            )

        found, following = _find(reader, query, wanted, whole, matches)
        if not found and not query.after:
            _check_known(reader, list(_names(query)))
            check_places(reader, query)
        return {
            "operations": [
                accounts.account(reader, operation, now=now) for operation in found
            ],
            "next": following or None,
        }

    return answer(await gateway.read(ask))


@router.get(
    "/history/operations/{name}", responses=documented(history_shapes.AccountShape, 404)
)
async def account_of(name: str, gateway: RouteGateway) -> Response:
    """Return the account of one operation."""
    now = gateway.now()
    return answer(
        await gateway.read(
            lambda reader: accounts.account(
                reader,
                need(reader, Operation, tenant_reader.real_id(reader, name)),
                now=now,
            )
        )
    )


def _source(
    reader: Reader, query: HistoryQuery, named: list[tuple[str, str]]
) -> tuple[questions.Query[AuditEntry], str, Micros]:
    """Return the query that finds the entries of the history, its value, and the time of
    the first entry.

    The query by subject gathers all keys of its entries for each page. A large rollout
    has very many, so its newest are found among all those since its beginning.
    """
    if not named:
        return kinds.ALL_AUDIT, "", 0
    kind, name = named[0]
    if query.newest and kind == "request" and not tenant_reader.is_tenant(reader):
        request = reader.get(Request, name)
        if request is not None and request.hosts > limits.GATHERED_HOSTS_MAX:
            return kinds.ALL_AUDIT, "", request.created
    return kinds.AUDIT_OF_SUBJECT, f"{kind}:{name}", 0


def _edges(query: HistoryQuery, bounds: tuple[str, str]) -> dict[str, Any]:
    """Return where a page begins and ends at the latest, between bounds of keys."""
    low, high = bounds
    if not query.newest:
        return {"after": query.after or low, "last": high}
    # The entry at the second bound belongs to the period.
    start = f"{high} " if high else ""
    return {"after": query.after or start, "last": low, "newest": True}


def _find(
    reader: Reader,
    query: AccountQuery,
    wanted: Wanted,
    whole: str,
    matches: Callable[[Operation], bool],
) -> tuple[list[Operation], str]:
    """Return a page of operations, and where the next one begins."""
    asked, value = selection.narrowest(wanted)
    if whole:
        one = reader.get(Operation, whole)
        asked, value = kinds.OPERATIONS_OF_REQUEST, (one.request if one else whole)
    return selection.scan(
        reader,
        asked,
        value,
        matches=matches,
        after=query.after,
        limit=query.limit,
        newest=query.newest,
    )


def _period(since: str, until: str, *, now: Micros) -> tuple[Micros, Micros | None]:
    first = instant_of("since", since, now=now) if since else 0
    if not until:
        return first, None
    last = instant_of("until", until, now=now)
    check_order(first, last)
    return first, last


def _overlaps(operation: Operation, since: Micros, until: Micros | None) -> bool:
    """Return whether the operation was open at some time in the period."""
    begins_before = until is None or operation.created < until
    return begins_before and (not operation.ended_at or operation.ended_at >= since)


def _names(filters: AccountQuery) -> Iterator[tuple[str, str]]:
    for kind in ("operation", "vm", "host", "scope", "tenant"):
        if name := str(getattr(filters, kind)):
            yield _kind_of_work(name) if kind == "operation" else kind, name


def _kind_of_work(name: str) -> str:
    return "request" if kind_of_work(name) is Request else "operation"


def _check_known(
    reader: Reader, named: list[tuple[str, str]], *, said: str = ""
) -> None:
    """Raise NotFoundError for a misspelled name, which would match nothing.

    `said` is the ID of the event as the caller wrote it. A removed object is known as long as the history has entries about it.
    """
    for kind, name in named:
        if reader.get(_KINDS[kind], name) is None and not reader.select(
            kinds.AUDIT_OF_SUBJECT, f"{kind}:{name}", limit=1
        ):
            need(reader, _KINDS[kind], name, said=said if kind == "event" else "")
