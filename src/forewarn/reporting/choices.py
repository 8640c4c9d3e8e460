"""The choices of tenants about their maintenance, as JSON."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.instants import Micros, format_instant, instant_or_none
from forewarn.protocol.operations import Request, RequestState
from forewarn.store.port import Reader
from forewarn.store.records import Choice

Json: TypeAlias = dict[str, Any]


def in_force(reader: Reader, found: Iterable[Choice]) -> Iterator[Choice]:
    """Yield the choices about requests that are open.

    A tenant's reader shows no others.
    """
    for choice in found:
        if isinstance(reader, TenantReader):
            yield choice
            continue
        request = reader.get(Request, choice.request)
        if request is not None and request.state is RequestState.OPEN:
            yield choice


def choice_report(choice: Choice, *, now: Micros) -> Json:
    """Return a choice; for a tenant, without the request."""
    return {
        "choice": choice.choice_id.rpartition("/")[0],
        "scope": choice.scope,
        "vm": choice.vm or None,
        "tenant": choice.tenant,
        "until": instant_or_none(choice.until),
        "expedited": not choice.until,
        "over": 0 < choice.until <= now,
        "deferrals": choice.deferrals,
        "by": choice.by.text,
        "reason": choice.reason,
        "at": format_instant(choice.at),
        "rollout": choice.request or None,
    }
