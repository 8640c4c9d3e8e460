"""The answers of hosts about VMs, and the conclusions from all of them. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from forewarn.drivers.marks import Mark, Reading, parse_mark
from forewarn.drivers.port import Observation
from forewarn.protocol.abilities import Ability, Able
from forewarn.protocol.operations import Action

HERE, ELSEWHERE, OFF, DOWN = "here", "elsewhere", "off", "down"
"""The presence of a VM in a domain, in the words of `worker.states`."""

UNKNOWN = "unknown"
"""The host did not tell about this VM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainState:
    """The domain of one VM on one host."""

    presence: str
    mark: Mark | None = None
    is_readable: bool = True
    """Whether the mark was asked for and is not spoiled."""
    cannot: tuple[tuple[str, str], ...] = ()
    """Actions that are not possible, with the reasons."""


HostAnswer = Mapping[str, DomainState]
"""The domains of a host by the names of their VMs."""


def answer_in(lines: Sequence[object]) -> dict[str, DomainState]:
    """Return the domains in a line of a worker; what is not valid is left out."""
    domains: dict[str, DomainState] = {}
    for answer in lines:
        if not isinstance(answer, dict):
            continue
        line = cast("dict[str, Any]", answer)
        vm, presence = line.get("vm"), line.get("presence")
        if isinstance(vm, str) and presence in {HERE, ELSEWHERE, OFF, DOWN, UNKNOWN}:
            domains[vm] = replace(
                _domain(line, str(presence)), cannot=_limits(line.get("cannot"))
            )
    return domains


def _limits(members: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(members, dict):
        return ()
    limits = cast("dict[object, object]", members)
    return tuple((str(action), str(reason)) for action, reason in limits.items())


def abilities_of(vms: Sequence[str], answer: HostAnswer) -> Iterator[Ability]:
    """Yield what the answer of a host tells about the host and these VMs.

    Yes means that libvirt knows of no obstacle.
    """
    yield Ability(able=Able.YES)
    for vm in vms:
        domain = answer.get(vm)
        if domain is None or domain.presence == UNKNOWN:
            reason = "the host has no domain of this name" if domain is None else ""
            yield Ability(able=Able.UNKNOWN, vm=vm, reason=reason)
            continue
        yield Ability(able=Able.YES, vm=vm)
        for action, reason in domain.cannot:
            yield Ability(able=Able.NO, action=Action(action), vm=vm, reason=reason)


def _domain(line: Mapping[str, Any], presence: str) -> DomainState:
    text = line.get("mark")
    if text is None:
        return DomainState(presence=presence, is_readable=presence != UNKNOWN)
    try:
        mark = parse_mark(text, line.get("state", "begun"))
    except (ValueError, TypeError):
        return DomainState(presence=presence, is_readable=False)
    return DomainState(presence=presence, mark=mark)


def observation_of(
    vm: str, answers: Mapping[str, HostAnswer], *, missing: Collection[str]
) -> Observation:
    """Return where a VM is; `missing` are the hosts that have not answered.

    A VM that its user shut down, or that is saved, is neither running nor down.
    """
    states = {
        host: answer[vm].presence for host, answer in answers.items() if vm in answer
    }
    here = [host for host, presence in states.items() if presence == HERE]
    if len(here) == 1:
        return Observation(running=True, host=here[0])
    if here or missing or set(states.values()) != {DOWN}:
        return Observation()
    return Observation(running=False)


def reading_of(
    vm: str, answers: Mapping[str, HostAnswer], *, missing: Collection[str]
) -> Reading | None:
    """Return the last mark of a VM; None: it cannot be read.

    The domain that runs has it. If none runs, each definition can.
    """
    domains = {host: answer[vm] for host, answer in answers.items() if vm in answer}
    here = [host for host, domain in domains.items() if domain.presence == HERE]
    if len(here) > 1 or (missing and not here):
        return None
    marked = [host for host in domains if domains[host].mark is not None]
    candidates = here or marked or list(domains)
    if len(candidates) != 1 or not domains[candidates[0]].is_readable:
        return None
    domain = domains[candidates[0]]
    running = {HERE: True, DOWN: False}.get(domain.presence)
    return Reading(
        mark=domain.mark, running=running, host=candidates[0] if running else ""
    )


def running_in(answers: Mapping[str, HostAnswer]) -> frozenset[str]:
    """Return the VMs that run on one of the hosts."""
    return frozenset(
        vm
        for answer in answers.values()
        for vm, domain in answer.items()
        if domain.presence == HERE
    )
