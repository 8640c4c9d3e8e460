"""The hosts and VMs of a simulated hypervisor that cannot do everything. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from forewarn.drivers.port import HostVms
from forewarn.fleet.validators import name_fault
from forewarn.protocol.abilities import Ability, Able
from forewarn.protocol.operations import Action

_ACTIONS = {action.value: action for action in Action if action is not Action.NONE}
_FORM = "write ACTION host=NAME or ACTION vm=NAME, and able=unknown if it is not known"
_REASON = "simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """A host or VM on which an action cannot be carried out."""

    action: Action
    host: str = ""
    vm: str = ""
    """Set instead of `host`."""
    able: Able = Able.NO
    """NO or UNKNOWN."""
    reason: str = _REASON


def parse_limited(text: str) -> Limited:
    """Return the value of a setting; raises ValueError with a message for the operator."""
    action, *options = text.split() or [""]
    if action not in _ACTIONS:
        raise ValueError(f"{action!r} is not an action: {_FORM}")
    parts = dict[str, str]()
    for word in options:
        key, _, value = word.partition("=")
        if key not in {"host", "vm", "able"} or key in parts or not value:
            raise ValueError(f"{word!r} is not a part of a limit: {_FORM}")
        parts[key] = value
    places = [parts[key] for key in ("host", "vm") if key in parts]
    if len(places) != 1:
        raise ValueError(f"a limit needs one host or one VM: {_FORM}")
    if fault := name_fault(places[0]):
        raise ValueError(f"{places[0]!r} is not a name: {fault}")
    if parts.get("able", "unknown") != "unknown":
        raise ValueError(f"able can only be unknown, not {parts['able']!r}")
    return Limited(
        action=_ACTIONS[action],
        host=parts.get("host", ""),
        vm=parts.get("vm", ""),
        able=Able.UNKNOWN if "able" in parts else Able.NO,
    )


def abilities_by_limits(
    limited: Sequence[Limited], host: HostVms
) -> tuple[Ability, ...]:
    """Return the answer of the simulated hypervisor about a host and its VMs."""
    return tuple(_abilities_by_limits(limited, host))


def _abilities_by_limits(
    limited: Sequence[Limited], host: HostVms
) -> Iterator[Ability]:
    for vm in ("", *host.vms):
        yield Ability(able=Able.YES, vm=vm)
    for limit in limited:
        if (not limit.vm and limit.host == host.host) or limit.vm in host.vms:
            yield Ability(
                able=limit.able, action=limit.action, vm=limit.vm, reason=limit.reason
            )
