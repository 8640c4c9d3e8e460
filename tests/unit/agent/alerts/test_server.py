"""The alert server as it is asked: paths, token, certificates, and its silence."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.agent.alerts.reading import AlertsError
from forewarn.agent.alerts.server import AlertServer, AlertSummary, Gatekeeper, Server
from forewarn.agent.core.permits import AskGate, GateAnswer, GateResponse
from forewarn.agent.outbound import look_at_alerts
from forewarn.agent.settings_model import GateSettings, Settings
from forewarn.clock import SystemClock
from forewarn.instants import SECOND, Micros
from forewarn.protocol.errors import ForewarnError
from tests.support.certificates import certificate_in, needs_openssl
from tests.support.fake_alerts import ALERTMANAGER, PROMETHEUS, FakeAlerts, Fires, Odd

KINDS = pytest.mark.parametrize("kind", [PROMETHEUS, ALERTMANAGER])


def ask(fake: FakeAlerts, **settings: object) -> AlertSummary:
    gate_settings = GateSettings(**{fake.kind: fake.url, **settings})  # pyright: ignore[reportArgumentType]
    return AlertServer(gate_settings, clock=SystemClock()).ask(5 * SECOND)


@KINDS
def test_server_is_queried_under_its_base_path(kind: str) -> None:
    with FakeAlerts(kind=kind, base="/behind/a/proxy") as fake:
        fake.alerts = (Fires("DiskFull"), Fires("Watchdog"))
        alert_summary = ask(fake)
        assert alert_summary.answer is GateAnswer.ALERTS
        assert (alert_summary.alerts, alert_summary.all_alerts) == (1, 2)
        assert alert_summary.text == "1 alert fires: DiskFull"
        assert ask(fake, ignore=("*",)).answer is GateAnswer.CLEAR


def test_silenced_and_inhibited_alerts_do_not_count() -> None:
    with FakeAlerts(kind=ALERTMANAGER) as fake:
        fake.alerts = (Fires("A", state="silenced"), Fires("B", state="inhibited"))
        assert ask(fake).answer is GateAnswer.CLEAR


def test_token_is_read_again_each_time_and_not_disclosed(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with FakeAlerts(token="right-one") as fake:
        with pytest.raises(ForewarnError, match="cannot be read"):
            ask(fake, token_file=str(file))
        file.write_text("wrong-one\n")
        with pytest.raises(AlertsError) as caught:
            ask(fake, token_file=str(file))
        assert "401" in caught.value.message
        assert "wrong-one" not in caught.value.message
        file.write_text("right-one\n")
        assert ask(fake, token_file=str(file)).answer is GateAnswer.CLEAR


def test_redirect_is_reported_and_not_followed() -> None:
    with FakeAlerts() as fake:
        fake.odd = Odd(301, headers=(("Location", "https://login.example.com/"),))
        with pytest.raises(AlertsError, match="a redirect to https://login"):
            ask(fake)
        assert fake.asked == 1


def test_oversized_answer_is_rejected() -> None:
    with FakeAlerts() as fake:
        fake.odd = Odd(body=b" " * (8 * 1024 * 1024 + 1))
        with pytest.raises(ForewarnError):
            ask(fake)


def test_hanging_server_times_out() -> None:
    with FakeAlerts(hangs=True) as fake:
        server = AlertServer(GateSettings(prometheus=fake.url), clock=SystemClock())
        with pytest.raises(ForewarnError, match="no time left"):
            server.ask(SECOND // 5)


@needs_openssl
def test_untrusted_certificate_is_rejected(tmp_path: Path) -> None:
    certificate = certificate_in(tmp_path)
    with FakeAlerts(tls=certificate.server()) as fake:
        assert (
            ask(fake, ca_file=str(certificate.certificate)).answer is GateAnswer.CLEAR
        )
        with pytest.raises(ForewarnError):
            ask(fake)


def test_check_reports_the_number_of_alerts_that_do_not_count() -> None:
    with FakeAlerts() as fake:
        settings = Settings(gate=GateSettings(prometheus=fake.url))
        fake.alerts = (Fires("Watchdog"),)
        report = look_at_alerts(settings, SystemClock())
        assert report == (
            True,
            "no alert fires; active alerts that do not count: 1",
        )
        fake.alerts = (Fires("A"),)
        assert look_at_alerts(settings, SystemClock()) == (False, "1 alert fires: A")


# The thread


class Scripted:
    """A server that says what a test wants, when it wants."""

    def __init__(self, say: Callable[[], AlertSummary]) -> None:
        self.say = say

    def ask(self, timeout: Micros) -> AlertSummary:
        assert timeout == SECOND
        return self.say()


OPEN = AlertSummary(
    answer=GateAnswer.CLEAR, alerts=0, text="no alert fires", all_alerts=0
)


def said_of(make: Callable[[], Server], numbers: int = 1) -> list[GateResponse]:
    gate_responses: list[GateResponse] = []
    there = threading.Semaphore(0)

    def tell(response: GateResponse) -> None:
        gate_responses.append(response)
        there.release()

    keeper = Gatekeeper(make, tell=tell, timeout=SECOND)
    for number in range(1, numbers + 1):
        keeper.ask(AskGate(number=number))
        assert there.acquire(timeout=30)
    return gate_responses


def test_each_query_gets_its_answer() -> None:
    gate_responses = said_of(lambda: Scripted(lambda: OPEN), numbers=3)
    assert [(response.number, response.answer) for response in gate_responses] == [
        (number, GateAnswer.CLEAR) for number in (1, 2, 3)
    ]


def test_server_error_or_internal_error_is_reported_as_trouble() -> None:
    def refuse() -> AlertSummary:
        raise AlertsError("it answered 500")

    def break_down() -> AlertSummary:
        raise RuntimeError("oh")

    [said] = said_of(lambda: Scripted(refuse))
    assert (said.answer, said.detail) == (GateAnswer.TROUBLE, "it answered 500")
    [said] = said_of(lambda: Scripted(break_down))
    assert said.answer is GateAnswer.TROUBLE


def test_only_the_last_of_the_waiting_queries_is_sent() -> None:
    goes_on, is_there = threading.Event(), threading.Event()

    def hang() -> AlertSummary:
        is_there.set()
        assert goes_on.wait(30)
        return OPEN

    numbers: list[int] = []
    ended = threading.Semaphore(0)

    def tell(response: GateResponse) -> None:
        numbers.append(response.number)
        ended.release()

    keeper = Gatekeeper(lambda: Scripted(hang), tell=tell, timeout=SECOND)
    keeper.ask(AskGate(number=1))
    assert is_there.wait(30)
    for number in (2, 3, 4):
        keeper.ask(AskGate(number=number))
    goes_on.set()
    assert all(ended.acquire(timeout=30) for _ in range(2))
    assert numbers == [1, 4]


def test_token_in_an_alert_name_is_redacted(tmp_path: Path) -> None:
    """A server may make anything of what it is sent."""
    token = "s3cret-of-alerts"
    file = tmp_path / "token"
    file.write_text(token)
    with FakeAlerts() as fake:
        fake.alerts = (Fires(f"Leak {token.upper()}"), Fires(f"{'x' * 50}{token}"))
        text = ask(fake, token_file=str(file)).text
        assert "Leak (secret)" in text
        assert token[:8] not in text.lower()
        fake.alerts = ()
        fake.odd = Odd(200, f'{{"status":"x","error":"{token}"}}'.encode())
        with pytest.raises(AlertsError) as caught:
            ask(fake, token_file=str(file))
        assert caught.value.message == "it answered with None: (secret)"
