"""The pages at `listen`, and the answers to peers.

`/healthz` fails only if polling or deciding has stopped: restarting the agent would not
repair an endpoint that is down. `/readyz` says whether the agent could act on an event
now, or why not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from forewarn import __version__
from forewarn.agent import forms
from forewarn.agent.agent import TURN_SECONDS, AgentStatus
from forewarn.agent.core.model import Consent, Note, Stage
from forewarn.agent.observability import metrics, status
from forewarn.agent.observability.metrics import Metrics
from forewarn.agent.observability.server import JSON, Reply, Request
from forewarn.agent.watcher import Watched
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros, describe_duration, format_instant
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.texts import json_text

LOOP_GRACE_SECONDS = 30.0
"""Maximum time without an iteration of the main loop. A suspended machine or a slow
disk is not a failure of the agent."""

READY_AGE: Micros = 30 * SECOND
"""Maximum age of the last good poll of a ready agent: the notice of a Preempt."""

_PEERS = "/v1/events/"

_NOT_FOUND = Reply(status=404, body="page not found\n")


@frozen_dataclass
class Pages:
    """Answers requests at `listen`, from sources that any thread may call."""

    agent: Callable[[], AgentStatus]
    watched: Callable[[], Watched]
    is_watching: Callable[[], bool]
    """Whether the watcher's thread works."""
    age: Callable[[], Micros | None]
    """Age of the last good poll; None: there was none."""
    history: Callable[[], Sequence[Note]]
    metrics: Metrics
    clock: Clock
    began: Micros
    state: str = ""
    """The path of the journal, which distinguishes this agent from others."""
    mode: str = "normal"
    """`normal`, `dry run` or `observe`."""
    problems: Callable[[], Sequence[str]] = tuple
    """Other problems to report."""
    has_old_settings: Callable[[], bool] = bool
    """Whether the settings file is refused, so that older settings are in effect."""
    notifications_dropped: Callable[[], int] = int
    lines_dropped: Callable[[], int] = int

    def answer(self, request: Request) -> Reply:
        """Return the answer to a request."""
        pages: Mapping[str, Callable[[], Reply]] = {
            "/": lambda: Reply(body="/healthz\n/metrics\n/readyz\n/status\n"),
            "/healthz": lambda: _verdict(self.why_not_alive()),
            "/readyz": lambda: _verdict(self.why_not_ready()),
            "/metrics": lambda: Reply(
                body=self._metrics(), content_type=metrics.CONTENT_TYPE
            ),
            "/status": lambda: Reply(
                body=f"{json_text(self.document())}\n", content_type=JSON
            ),
        }
        return pages.get(request.path, lambda: _NOT_FOUND)()

    def is_alive(self) -> bool:
        """Return whether the agent works, for systemd's watchdog."""
        return not self.why_not_alive()

    def why_not_alive(self) -> str:
        """Return which part has stopped; empty: none."""
        turned = self.agent().turned
        quiet = self.clock.monotonic() - turned
        # Before its first iteration, the main loop is still reading the journal.
        if turned and quiet > TURN_SECONDS + LOOP_GRACE_SECONDS:
            return f"no decision was made for {quiet:.0f} s"
        return "" if self.is_watching() else "polling of the endpoint has stopped"

    def why_not_ready(self) -> str:
        """Return why the agent could not act on an event now; empty: it could."""
        agent, watched = self.agent(), self.watched()
        if stopped := self.why_not_alive():
            return stopped
        age = self.age()
        if age is None:
            return f"the endpoint has not answered yet{_because(watched)}"
        if age > READY_AGE:
            return (
                f"the endpoint has not answered for {describe_duration(age)}"
                f"{_because(watched)}"
            )
        if not (agent.memory.name or watched.name):
            return "this VM's name is not known yet"
        if agent.journal_fault:
            return f"the journal cannot be used: {agent.journal_fault}"
        return ""

    def summary(self) -> str:
        """Return one line for systemd's status."""
        memory = self.agent().memory
        live = sum(task.is_live and task.mine for task in memory.tasks)
        pending = sum(task.stage is Stage.RECOVERING for task in memory.tasks)
        events = f"{live} events" if live != 1 else "1 event"
        parts = [f"{memory.name or 'unnamed'}: {events}"]
        if pending:
            parts.append(f"{pending} pending recoveries")
        if reason := self.why_not_ready():
            parts.append(reason)
        return "; ".join(parts)

    def document(self) -> dict[str, Any]:
        """Return the document for `/status`."""
        agent, watched = self.agent(), self.watched()
        age = self.age()
        reason = self.why_not_ready()
        problems = [*filter(None, (reason,)), *self.problems()]
        try:
            history = self.history()
        except ForewarnError as error:
            history = ()
            problems.append(error.message)
        about: dict[str, Any] = {
            "version": __version__,
            "mode": self.mode,
            "process": os.getpid(),
            "state": self.state,
            "began": format_instant(self.began),
            "now": format_instant(self.clock.now()),
            "alive": self.is_alive(),
            "ready": not reason,
            "problems": problems,
            "poll": {
                "url": watched.url,
                "api_version": watched.version,
                "age_seconds": None if age is None else age / SECOND,
                "failures": watched.failures,
                "last": watched.last.value if watched.last else None,
                "detail": watched.detail,
                "incarnation": watched.incarnation,
                "events": watched.events,
                "waits_for_changes": watched.waits,
                "warnings": list(watched.warnings),
            },
        }
        return status.document_of(
            agent.memory,
            waits=agent.waits,
            doubts=agent.doubts,
            history=history,
            about=about,
        )

    def _metrics(self) -> str:
        agent, watched = self.agent(), self.watched()
        age = self.age()
        if age is None:
            age = self.clock.now() - self.began
        looked_at: dict[tuple[str, ...], float] = {
            ("forewarn_agent_build_info", __version__, self.mode): 1,
            ("forewarn_agent_alive",): self.is_alive(),
            ("forewarn_agent_ready",): not self.why_not_ready(),
            **{
                ("forewarn_agent_polls_total", result.value): count
                for result, count in watched.polls.items()
            },
            ("forewarn_agent_good_poll_age_seconds",): age / SECOND,
            ("forewarn_agent_failed_polls",): watched.failures,
            ("forewarn_agent_document_incarnation",): (
                -1 if watched.incarnation is None else watched.incarnation
            ),
            ("forewarn_agent_document_events",): watched.events,
            **metrics.now_of(agent.memory),
            ("forewarn_agent_journal_fault",): bool(agent.journal_fault),
            ("forewarn_agent_settings_fault",): self.has_old_settings(),
            (
                "forewarn_agent_notifications_dropped_total",
            ): self.notifications_dropped(),
            ("forewarn_agent_log_lines_dropped_total",): self.lines_dropped(),
            ("process_start_time_seconds",): self.began / SECOND,
            **metrics.of_process(),
        }
        return self.metrics.text(looked_at)


class PeerPages:
    """Answers the agents of other VMs at `peers.listen`."""

    def __init__(self, agent: Callable[[], AgentStatus], *, token: str) -> None:
        """Answer requests that have the token, which must not be empty."""
        assert token, "without a token, every request would be answered"
        # It loads OpenSSL, which few agents need.
        from hmac import compare_digest  # noqa: PLC0415

        self._is_same = compare_digest
        self._agent = agent
        self._shown = f"Bearer {token}"

    def answer(self, request: Request) -> Reply:
        """Return the state of an event in this agent: `GET /v1/events/ID`.

        An unknown event is not prepared. The answer also shows that the agent is alive.
        """
        shown = request.headers.get("authorization", "")
        if not self._is_same(shown.encode(), self._shown.encode()):
            return Reply(status=401, body="a token is required\n")
        path = request.path.removeprefix(_PEERS)
        event_id = forms.percent_read(path)
        # An ID may contain a slash, which is quoted in the path.
        if not request.path.startswith(_PEERS) or not event_id or "/" in path:
            return _NOT_FOUND
        memory = self._agent().memory
        task = memory.find(event_id.upper())
        body = {
            "vm": memory.name,
            "EventId": event_id,
            "known": task is not None,
            "prepared": task is not None
            and (task.stage is Stage.PREPARED or task.consent is Consent.GIVEN),
        }
        return Reply(body=f"{json.dumps(body)}\n", content_type=JSON)


def _because(watched: Watched) -> str:
    return f": {watched.detail}" if watched.detail else ""


def _verdict(reason: str) -> Reply:
    return Reply(status=503, body=f"{reason}\n") if reason else Reply(body="ok\n")
