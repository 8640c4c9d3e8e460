"""Find objects by the beginning of their names or IDs, for operators.

The names that begin with a text are next to each other in the order of keys, so a page of
each kind is read, however many objects there are. Campaigns are stored by their IDs and
are few: of all, single fields are read.
"""

from itertools import takewhile
from typing import Any, NamedTuple, TypeAlias, TypeVar

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.fleet.model import Host, Scope, Tenant, Vm
from forewarn.instants import Micros
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation
from forewarn.store import kinds
from forewarn.store.port import Reader, Record, columns
from forewarn.store.questions import Query
from forewarn.wording import operators

Json: TypeAlias = dict[str, Any]
R = TypeVar("R", bound=Record)


class _Campaign(NamedTuple):
    """The fields of a campaign that are read, in their order."""

    campaign_id: str
    name: str
    state: CampaignState
    ended: Micros


def search(reader: Reader, text: str, *, limit: int) -> tuple[list[Json], bool]:
    """Return objects whose names or IDs begin with a text, at most `limit` of each kind.

    Also return whether a kind has more.
    """
    pages = [
        [_host(host) for host in _some(reader, kinds.ALL_HOSTS, Host, text, limit)],
        [_vm(vm) for vm in _some(reader, kinds.ALL_VMS, Vm, text, limit)],
        [_campaign(campaign) for campaign in _campaigns(reader, text, limit)],
        [
            _operation(operation)
            for operation in _some(reader, kinds.ALL_OPERATIONS, Operation, text, limit)
        ],
        [
            _event(event)
            for event in _some(reader, kinds.ALL_EVENTS, Event, text.upper(), limit)
        ],
        [
            _of("scope", scope.name, tenant=scope.tenant)
            for scope in _some(reader, kinds.EXPLICIT_SCOPES, Scope, text, limit)
            if not scope.implied
        ],
        [
            _of("tenant", tenant.name)
            for tenant in _some(reader, kinds.ALL_TENANTS, Tenant, text, limit)
        ],
    ]
    has_more = any(len(page) > limit for page in pages)
    return [one for page in pages for one in page[:limit]], has_more


def _some(
    reader: Reader, query: Query[R], kind: type[R], text: str, limit: int
) -> list[R]:
    """Return the first objects of a kind whose keys begin with a text, and one more."""
    exact = reader.get(kind, text)
    behind = reader.select(query, after=text, limit=limit + 1)
    matching = takewhile(lambda record: record.key.startswith(text), behind)
    return [*([] if exact is None else [exact]), *matching][: limit + 1]


def _campaigns(reader: Reader, text: str, limit: int) -> list[_Campaign]:
    """Return the campaigns with such a name or ID, the open ones first, and one more.

    IDs sort by the time of the start; the newest ones come first.
    """
    campaigns = [
        campaign
        for page in columns(reader, kinds.ALL_CAMPAIGNS, _Campaign._fields)
        for campaign in map(_Campaign._make, zip(*page, strict=True))
        if campaign.name.startswith(text) or campaign.campaign_id.startswith(text)
    ]
    campaigns.reverse()
    campaigns.sort(key=lambda campaign: campaign.ended != 0)
    return campaigns[: limit + 1]


def _of(kind: str, name: str, **more: str) -> Json:
    return {
        "kind": kind,
        "name": name,
        "title": more.get("title", name),
        "state": more.get("state") or None,
        "tenant": more.get("tenant") or None,
        "scope": more.get("scope") or None,
        "host": more.get("host") or None,
        "cluster": more.get("cluster") or None,
        "rack": more.get("rack") or None,
    }


def _host(host: Host) -> Json:
    return _of(
        "host",
        host.name,
        state=host.state.value,
        cluster=host.cluster,
        rack=host.rack,
        host=host.name,
    )


def _vm(vm: Vm) -> Json:
    return _of(
        "vm",
        vm.name,
        state=vm.state.value,
        tenant=vm.tenant,
        scope=vm.scope,
        host=vm.host,
    )


def _campaign(campaign: _Campaign) -> Json:
    return _of(
        "campaign",
        campaign.campaign_id,
        title=campaign.name,
        state=campaign.state.value,
    )


def _operation(operation: Operation) -> Json:
    return _of(
        "operation",
        operation.operation_id,
        title=operators.task(operation),
        state=operation.state.value,
        host=operation.host,
    )


def _event(event: Event) -> Json:
    return _of(
        "event",
        event.event_id,
        title=event.event_type.value,
        state=event.status.value,
        tenant=event.tenant,
    )
