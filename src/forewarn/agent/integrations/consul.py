"""`consul`: puts this node, or some of its services, into maintenance mode.

Consul then removes it from service discovery, so it gets no new clients. The reason text
of the maintenance starts with the handler's mark, so no memo is needed. Maintenance that
an operator has set has no mark and stays. The handler only uses Consul's agent on this
machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forewarn.agent.foreign import instant_in, members
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
from forewarn.agent.integrations.kind import HandlerKind, too_long
from forewarn.agent.options import Forms
from forewarn.agent.settings_model import HandlerSettings
from forewarn.instants import (
    HOUR,
    SECOND,
    Micros,
    format_duration,
    format_instant,
)
from forewarn.settings.forms import Option

URL = "http://127.0.0.1:8500"
"""Consul's default address of its local agent."""

WAIT_MAX: Micros = HOUR
"""Maximum wait for clients: they cache addresses for seconds or minutes."""

NODE_CHECK = "_node_maintenance"
SERVICE_CHECK = "_service_maintenance:"
"""Names of the checks with which Consul implements maintenance mode."""


class ConsulWorker(Integration):
    """Sets and ends maintenance mode."""

    def __init__(self, settings: HandlerSettings, ground: Ground) -> None:
        """Store the settings; nothing is contacted."""
        super().__init__(settings, ground)
        more = settings.more
        self._services: tuple[str, ...] = more.get("services", ())
        self._wait: Micros = more.get("wait", 0)
        self._mark = f"forewarn {settings.name}: "
        """The mark: the prefix of the reasons that this handler sets."""
        kind = "service" if self._services else "node"
        self._right = f'its token needs {kind} "NAME" {{ policy = "write" }}'
        self._api = local_agent(more, ground.clock, url=URL, header="X-Consul-Token")

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Set maintenance mode, and wait for clients; raises HandlerError."""
        kind = job.notice.event_type if job.notice is not None else ""
        reason = f"{self._mark}{kind or 'event'} since {format_instant(job.now)}"
        before = self._maintained(context)
        for target in self._targets():
            if target not in before:
                self._set(target, context, reason=reason)
        notes = self._maintained(context)
        if missing := [
            _name(service_id)
            for service_id in self._targets()
            if service_id not in notes
        ]:
            raise HandlerError(
                f"Consul does not show {', '.join(missing)} in maintenance: can the "
                "token read this node and its services?"
            )
        own = {
            service_id
            for service_id in self._targets()
            if self._is_mine(notes[service_id])
        }
        self._wait_for_clients([notes[service_id] for service_id in own], context)
        return Result(detail=self._told(own, notes))

    def recover(self, _job: Job, context: RunContext) -> Result:
        """End its maintenance, even if the settings have changed; raises HandlerError."""
        notes_found = self._maintained(context)
        own = [
            service_id
            for service_id, notes in notes_found.items()
            if self._is_mine(notes)
        ]
        for target in own:
            self._set(target, context)
        if left := [
            service_id for service_id in self._maintained(context) if service_id in own
        ]:
            names = ", ".join(map(_name, left))
            raise HandlerError(f"Consul still shows {names} in maintenance")
        others = ", ".join(
            _name(service_id) for service_id in notes_found if service_id not in own
        )
        sentences = [f"{_name(service_id)} is back" for service_id in own]
        if others:
            sentences.append(
                f"{others} stays in maintenance, which this handler did not set"
            )
        return Result(detail="; ".join(sentences) or "nothing was in maintenance")

    def _wrong(self, context: RunContext) -> Sequence[str]:
        # Do not retry, since a person waits for the result.
        ask = Ask(method="GET", path="/v1/agent/services", again=False)
        known = self._listed(ask, context, key="ID", subject="services")
        self._maintained(context)
        return [
            f"Consul's agent at {self._api.base} has no service {service}, or the token "
            "cannot read it"
            for service in self._services
            if service not in known
        ]

    # Requests to Consul

    def _targets(self) -> tuple[str, ...]:
        """Return the checks that the settings require."""
        return tuple(SERVICE_CHECK + service for service in self._services) or (
            NODE_CHECK,
        )

    def _maintained(self, context: RunContext) -> dict[str, str]:
        """Return the checks of maintenance mode, each with its reason."""
        ask = Ask(method="GET", path="/v1/agent/checks")
        checks = self._listed(ask, context, key="CheckID", subject="checks")
        return {
            name: str(check.get("Notes", ""))
            for name, check in checks.items()
            if name == NODE_CHECK or name.startswith(SERVICE_CHECK)
        }

    def _listed(
        self, ask: Ask, context: RunContext, *, key: str, subject: str
    ) -> Mapping[str, Mapping[str, Any]]:
        """Return Consul's objects by ID; raises HandlerError for any other response."""
        answer, entries = self._api.allowed(ask, context, self._right)
        for entry in entries.values():
            # Each object contains its ID, so another JSON object is recognized.
            if not members(entry).get(key):
                raise ask.unexpected(answer, f"no {subject} of Consul")
        return entries

    def _set(self, target: str, context: RunContext, *, reason: str = "") -> None:
        """Start maintenance with a reason, or end it without one; raises HandlerError."""
        service = target.removeprefix(SERVICE_CHECK) if target != NODE_CHECK else ""
        name = percent_quoted(service)
        where = f"service/maintenance/{name}" if service else "maintenance"
        why = f"true&reason={percent_quoted(reason)}" if reason else "false"
        try:
            # The response is empty; the result is checked afterwards.
            ask = Ask(
                method="PUT", path=f"/v1/agent/{where}?enable={why}", shape=Shape.ANY
            )
            self._api.allowed(ask, context, self._right)
        except ApiError as error:
            if error.status != NOT_FOUND or not service:
                raise
            if reason:
                raise HandlerError(
                    f"Consul's agent has no service {service}"
                ) from error
            # The service was deregistered in the meantime, together with its maintenance.

    # Results

    def _is_mine(self, notes: str) -> bool:
        return notes.startswith(self._mark)

    def _wait_for_clients(self, reasons: Sequence[str], context: RunContext) -> None:
        """Wait until clients no longer cache the address."""
        starts = (
            instant_in(reason.rpartition(" since ")[2]) or 0 for reason in reasons
        )
        began = max(starts, default=0)
        left = min(began + self._wait - self._clock.now(), self._wait)
        doing = "waiting for clients that cache the address of this node"
        timer = context.timer(left / SECOND)
        while timer() > 0:
            context.pause(timer(), f"{doing} ({format_duration(self._wait)})")

    def _told(self, own: set[str], notes: Mapping[str, str]) -> str:
        return "; ".join(
            f"{_name(target)} is in maintenance"
            + ("" if target in own else f" set by others: {notes[target]}")
            for target in self._targets()
        )


def _name(target: str) -> str:
    """Return the name of a check's target for messages."""
    if target == NODE_CHECK:
        return "the node"
    return f"service {target.removeprefix(SERVICE_CHECK)}"


KIND = HandlerKind(
    make=ConsulWorker,
    faults=lambda entry: too_long(entry, "wait", 0),
    keys={
        **connection_keys("Consul", URL),
        "services": Option(
            form=Forms.NAMES,
            text="The IDs of the services to put into maintenance instead of the whole "
            "node. Default: the node.",
        ),
        "wait": Option(
            form=Forms.DURATION,
            most=WAIT_MAX,
            text="How long to wait afterwards for clients that still cache the address. "
            "Default: `0s`.",
        ),
    },
)
