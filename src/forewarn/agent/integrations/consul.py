"""Consul's maintenance mode: this node, or some services of it, get no new clients.

The check that Consul makes of it bears our mark, so nothing need be remembered: what
an operator has put into maintenance bears none, and stays. It speaks to the agent of
Consul on this machine, and knows nothing of the rest of the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forewarn.agent.foreign import members
from forewarn.agent.forms import percent_quoted
from forewarn.agent.handlers.port import Ground, Job, Result
from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.integrations.api import (
    NOT_FOUND,
    ApiError,
    Ask,
    Shape,
)
from forewarn.agent.integrations.base import Integration
from forewarn.agent.integrations.hashicorp import (
    connection_keys,
    local_agent,
)
from forewarn.agent.integrations.kind import Entry, Faults, HandlerKind, too_long
from forewarn.agent.options import Forms
from forewarn.agent.settings_model import HandlerSettings
from forewarn.agent.wire.answers import Answer
from forewarn.instants import (
    HOUR,
    SECOND,
    Micros,
    format_duration,
    format_instant,
    parse_instant,
)
from forewarn.settings.forms import Option

URL = "http://127.0.0.1:8500"
"""Where Consul's agent listens unless somebody says otherwise."""

WAIT_MOST: Micros = HOUR
"""Of the wait for clients; names are remembered for seconds or minutes."""

NODE_CHECK = "_node_maintenance"
SERVICE_CHECK = "_service_maintenance:"
"""What Consul calls the checks that maintenance mode is made of."""


class ConsulWorker(Integration):
    """One handler of maintenance mode."""

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Ask nobody yet."""
        super().__init__(settings, ground)
        more = settings.more
        self._services: tuple[str, ...] = more.get("services", ())
        self._wait: Micros = more.get("wait", 0)
        self._mark = f"forewarn {settings.name}: "
        """How the reasons that this handler gives begin."""
        self._api = local_agent(more, ground.clock, url=URL, header="X-Consul-Token")

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Put it into maintenance, and wait for its clients; raises HandlerError."""
        kind = job.notice.event_type if job.notice is not None else ""
        reason = f"{self._mark}{kind or 'event'} since {format_instant(job.now)}"
        before = self._maintained(context)
        for target in self._targets():
            if target not in before:
                self._set(target, context, reason=reason)
        found = self._maintained(context)
        missing = [_name(each) for each in self._targets() if each not in found]
        if missing:
            raise HandlerError(
                f"Consul does not show {', '.join(missing)} in maintenance: may its "
                "token read this node and its services?"
            )
        mine = {each for each in self._targets() if self._is_mine(found[each])}
        self._wait_for_clients([found[each] for each in mine], context)
        return Result(detail=self._told(mine, found))

    def recover(self, job: Job, context: RunContext) -> Result:
        """End what it began, whatever the settings name now; raises HandlerError."""
        del job
        found = self._maintained(context)
        mine = [each for each, notes in found.items() if self._is_mine(notes)]
        for target in mine:
            self._set(target, context)
        left = [each for each in self._maintained(context) if each in mine]
        if left:
            names = ", ".join(map(_name, left))
            raise HandlerError(f"Consul still shows {names} in maintenance")
        kept = ", ".join(_name(each) for each in found if each not in mine)
        told = [f"{_name(each)} is back" for each in mine]
        if kept:
            told.append(f"{kept} was put into maintenance by somebody else and stays")
        return Result(detail="; ".join(told) or "nothing was in maintenance")

    def _wrong(self, context: RunContext) -> Sequence[str]:
        # Once, since a person waits to hear that nobody is there.
        ask = Ask(method="GET", path="/v1/agent/services", again=False)
        known = self._listed(ask, context, key="ID", what="services")
        self._maintained(context)
        return [
            f"Consul's agent at {self._api.base} has no service {each}, or its token "
            "may not read it"
            for each in self._services
            if each not in known
        ]

    # What Consul is asked

    def _targets(self) -> tuple[str, ...]:
        """Return the checks that are to be there."""
        return tuple(SERVICE_CHECK + each for each in self._services) or (NODE_CHECK,)

    def _maintained(self, context: RunContext) -> dict[str, str]:
        """Return what is in maintenance, by its check, with the reason of each."""
        ask = Ask(method="GET", path="/v1/agent/checks")
        checks = self._listed(ask, context, key="CheckID", what="checks")
        return {
            name: str(check.get("Notes", ""))
            for name, check in checks.items()
            if name == NODE_CHECK or name.startswith(SERVICE_CHECK)
        }

    def _listed(
        self, ask: Ask, context: RunContext, *, key: str, what: str
    ) -> Mapping[str, Mapping[str, Any]]:
        """Return what Consul has by id; raises HandlerError where it is no such list."""
        answer, found = self._answered(ask, context)
        for each in found.values():
            # Each has its id in it, so that no other JSON object counts as such a list.
            if not members(each).get(key):
                raise ask.odd(answer, f"no {what} of Consul")
        return found

    def _set(self, target: str, context: RunContext, *, reason: str = "") -> None:
        """Begin maintenance for a reason, or end it; raises HandlerError."""
        path = "/v1/agent/maintenance"
        service = target.removeprefix(SERVICE_CHECK) if target != NODE_CHECK else ""
        if service:
            path = f"/v1/agent/service/maintenance/{percent_quoted(service)}"
        query = "enable=false"
        if reason:
            query = f"enable=true&reason={percent_quoted(reason)}"
        try:
            # Consul answers nothing, and what came of it is looked for afterwards.
            ask = Ask(method="PUT", path=f"{path}?{query}", shape=Shape.ANY)
            self._answered(ask, context)
        except ApiError as error:
            if error.status != NOT_FOUND or not service:
                raise
            if reason:
                raise HandlerError(f"Consul has no service {service} here") from error
            # It was deregistered meanwhile, and its maintenance went with it.

    def _answered(self, ask: Ask, context: RunContext) -> tuple[Answer, Any]:
        what = "service" if self._services else "node"
        right = f'{what} "NAME" {{ policy = "write" }}'
        return self._api.allowed(ask, context, right)

    # What was found

    def _is_mine(self, notes: str) -> bool:
        return notes.startswith(self._mark)

    def _wait_for_clients(self, reasons: Sequence[str], context: RunContext) -> None:
        """Wait until those who remember an address have forgotten it."""
        began = max((_since(each) for each in reasons), default=0)
        left = min(began + self._wait - self._clock.now(), self._wait)
        if left <= 0:
            return
        doing = "waiting for clients that remember this node"
        timer = context.timer(left / SECOND)
        while timer() > 0:
            context.pause(timer(), f"{doing} ({format_duration(self._wait)})")

    def _told(self, mine: set[str], found: Mapping[str, str]) -> str:
        told = [
            f"{_name(each)} is in maintenance"
            + ("" if each in mine else f" by somebody else: {found[each]}")
            for each in self._targets()
        ]
        return "; ".join(told)


def _name(target: str) -> str:
    """Return what a person calls the target of a check."""
    if target == NODE_CHECK:
        return "the node"
    return f"service {target.removeprefix(SERVICE_CHECK)}"


def _since(reason: str) -> Micros:
    """Return when a reason of ours was given; 0: it does not say."""
    try:
        return parse_instant(reason.rpartition(" since ")[2])
    except ValueError:
        return 0


def _faults(entry: Entry) -> Faults:
    return too_long(entry, "wait", 0)


KIND = HandlerKind(
    make=ConsulWorker,
    faults=_faults,
    keys={
        **connection_keys("Consul", URL),
        "services": Option(
            form=Forms.NAMES,
            text="The ids of services that are put into maintenance, in the place of "
            "the whole node. Default: the node.",
        ),
        "wait": Option(
            form=Forms.DURATION,
            most=WAIT_MOST,
            text="How long it waits then for clients that still remember the address. "
            "Default: `0s`.",
        ),
    },
)
