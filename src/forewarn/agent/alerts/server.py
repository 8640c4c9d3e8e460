"""Ask Prometheus or Alertmanager over HTTP which alerts are active.

`GET /api/v1/alerts` of Prometheus returns the pending and firing alerts of its own
rules. Alertmanager's `GET /api/v2/alerts` returns the alerts that it received, without
silenced and inhibited ones. Compatible servers (Thanos, vmalert, Mimir, Cortex) work too.
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
    selection,
    words_of,
)
from forewarn.agent.asker import Asker
from forewarn.agent.core.permits import AskGate, GateAnswer, GateResponse
from forewarn.agent.handlers.posting import said_in
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
"""Maximum length of a response, in bytes: about eight thousand alerts."""

_OK = 200


@frozen_dataclass
class AlertSummary:
    """The result of one request."""

    answer: GateAnswer
    """CLEAR or ALERTS."""
    alerts: int
    """Number of alerts that keep the gate closed."""
    text: str
    """A summary for people, of bounded length."""
    all_alerts: int
    """The number of all alerts, including those that do not keep the gate closed."""


class AlertServer:
    """One Prometheus or Alertmanager."""

    def __init__(self, settings: GateSettings, *, clock: Clock) -> None:
        """Send nothing yet."""
        self._settings = settings
        self._url = parse_url(settings.url)
        self._clock = clock
        self._selection = selection(settings.only, settings.ignore)

    def ask(self, timeout: Micros) -> AlertSummary:
        """Summarize the active alerts; raises ForewarnError."""
        answer = self._get(timeout)
        if answer.status != _OK:
            reason = said_in(answer)
            message = f"it answered {answer.status}"
            raise AlertsError(f"{message}: {reason}" if reason else message)
        read = of_prometheus if self._settings.prometheus else of_alertmanager
        alerts = read(answer.body)
        relevant: list[Alert] = counted(
            alerts, self._selection, pending=self._settings.pending
        )
        return AlertSummary(
            answer=GateAnswer.ALERTS if relevant else GateAnswer.CLEAR,
            alerts=len(relevant),
            text=words_of(relevant),
            all_alerts=len(alerts),
        )

    def _get(self, timeout: Micros) -> Answer:
        settings = self._settings
        path = PROMETHEUS_PATH if settings.prometheus else ALERTMANAGER_PATH
        headers = [("Accept", "application/json")]
        if file := settings.token_file:
            headers.append(("Authorization", f"Bearer {read_token(file)}"))
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


class Server(Protocol):
    """The server of a gatekeeper."""

    def ask(self, timeout: Micros) -> AlertSummary:
        """Summarize the active alerts; raises ForewarnError."""
        ...


class Gatekeeper(Asker[Server, AskGate, GateResponse]):
    """Ask one server in a thread, and report its answers."""

    name = "gate"

    def __init__(
        self,
        make: Callable[[], Server],
        *,
        tell: Callable[[GateResponse], None],
        timeout: Micros,
    ) -> None:
        """Send nothing yet; the thread calls `make`, and any thread calls `tell`."""
        super().__init__(make, tell)
        self._timeout = timeout

    def _answer(self, target: Server, request: AskGate) -> GateResponse:
        summary = target.ask(self._timeout)
        return GateResponse(
            number=request.number,
            answer=summary.answer,
            alerts=summary.alerts,
            detail=summary.text,
        )

    def _failure(self, request: AskGate, detail: str) -> GateResponse:
        return GateResponse(
            number=request.number, answer=GateAnswer.TROUBLE, detail=detail
        )
