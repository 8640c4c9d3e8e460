"""Asks Prometheus or Alertmanager which alerts are active, over HTTP.

`GET /api/v1/alerts` of Prometheus has what its own rules find, pending or firing;
Alertmanager's `GET /api/v2/alerts` what it was sent, without what is silenced or
inhibited. Others that answer so (Thanos, vmalert, Mimir, Cortex) do as well.
https://prometheus.io/docs/prometheus/latest/querying/api/#alerts
https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Protocol

from forewarn.agent.alerts.reading import (
    Alert,
    AlertsError,
    counted,
    of_alertmanager,
    of_prometheus,
    words_of,
)
from forewarn.agent.alerts.selecting import selection
from forewarn.agent.asker import Asker
from forewarn.agent.core.gate import AskGate, GateAnswer, GateSaid
from forewarn.agent.handlers.records import last_line
from forewarn.agent.handlers.secret import read_token
from forewarn.agent.settings_model import GateSettings
from forewarn.agent.wire.http import Answer, Client, parse_url
from forewarn.clock import Clock
from forewarn.instants import Micros
from forewarn.protocol.frozen import frozen_dataclass

PROMETHEUS_PATH = "/api/v1/alerts"
ALERTMANAGER_PATH = (
    "/api/v2/alerts?active=true&silenced=false&inhibited=false&unprocessed=true"
)

ANSWER_BYTES_MAX = 8 * 1024 * 1024
"""Of an answer: an alert has about a kilobyte, so some eight thousand alerts."""

SAID_BYTES = 4_096
"""Of a refusal, for a sentence."""

_OK = 200
_REDIRECTS = range(300, 400)


@frozen_dataclass
class Found:
    """What the server said."""

    answer: GateAnswer
    """CLEAR or ALERTS."""
    alerts: int
    """How many count."""
    text: str
    """Which, for a person; its length is bounded."""
    all_alerts: int
    """How many there are, with those that do not count."""


class AlertServer:
    """One Prometheus or Alertmanager."""

    def __init__(self, settings: GateSettings, *, clock: Clock) -> None:
        """Connect nowhere yet."""
        self._settings = settings
        self._url = parse_url(settings.url)
        self._clock = clock
        self._selection = selection(settings.only, settings.ignore)

    def ask(self, timeout: Micros) -> Found:
        """Return which alerts are active and count; raises ForewarnError."""
        file = self._settings.token_file
        token = read_token(file) if file else ""
        answer = self._get(token, timeout)
        if answer.status != _OK:
            raise AlertsError(f"it answered {answer.status}{_said(answer)}")
        read = of_prometheus if self._settings.prometheus else of_alertmanager
        alerts = read(answer.body)
        mine: list[Alert] = counted(
            alerts, self._selection, pending=self._settings.pending
        )
        return Found(
            answer=GateAnswer.ALERTS if mine else GateAnswer.CLEAR,
            alerts=len(mine),
            text=words_of(mine),
            all_alerts=len(alerts),
        )

    def _get(self, token: str, timeout: Micros) -> Answer:
        settings = self._settings
        path = PROMETHEUS_PATH if settings.prometheus else ALERTMANAGER_PATH
        headers = [("Accept", "application/json")]
        if token:
            headers.append(("Authorization", f"Bearer {token}"))
        client = Client(
            self._url,
            clock=self._clock,
            ca_file=settings.ca_file,
            cert_file=settings.cert_file,
            key_file=settings.key_file,
            body_max=ANSWER_BYTES_MAX,
        )
        with contextlib.closing(client):
            return client.get(
                f"{self._url.target.rstrip('/')}{path}",
                headers=headers,
                timeout=timeout,
                connect_timeout=timeout,
            )


def _said(answer: Answer) -> str:
    if answer.status in _REDIRECTS:
        where = last_line(answer.header("location") or "nowhere")
        return f", a redirect to {where}, which is not followed: write that URL"
    text = last_line(answer.body[:SAID_BYTES].decode("utf-8", "replace"))
    return f": {text}" if text else ""


class Server(Protocol):
    """Who is asked by a gatekeeper."""

    def ask(self, timeout: Micros) -> Found:
        """Return which alerts are active and count; raises ForewarnError."""
        ...


class Gatekeeper(Asker[Server, AskGate, GateSaid]):
    """Asks one server in a thread, and tells what it said."""

    name = "gate"

    def __init__(
        self,
        make: Callable[[], Server],
        *,
        tell: Callable[[GateSaid], None],
        timeout: Micros,
    ) -> None:
        """Ask nothing yet; `make` is called by the thread, `tell` by any thread."""
        super().__init__(make, tell)
        self._timeout = timeout

    def _answer(self, target: Server, asked: AskGate) -> GateSaid:
        found = target.ask(self._timeout)
        return GateSaid(
            number=asked.number,
            answer=found.answer,
            alerts=found.alerts,
            detail=found.text,
        )

    def _trouble(self, asked: AskGate, detail: str) -> GateSaid:
        return GateSaid(number=asked.number, answer=GateAnswer.TROUBLE, detail=detail)
