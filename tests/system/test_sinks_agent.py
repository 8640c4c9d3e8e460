"""A whole life of an event, told to syslog and by letter by a real agent."""

import contextlib
import email
import email.policy
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents import DRAIN, WHOLE_LIFE, Ground
from tests.support.certificates import Certificate, certificate_in, needs_openssl
from tests.support.fake_smtp import FakeSmtp, fake_smtp
from tests.support.processes import eventually

pytestmark = [pytest.mark.system, pytest.mark.slow, needs_openssl]

SETTINGS = """
[[notify]]
kind = "syslog"
address = "udp://127.0.0.1:SYSLOG"
facility = "local0"

[[notify]]
kind = "email"
server = "localhost:SMTP"
from = "forewarn@example.com"
to = ["ops@example.com"]
user = "fore"
password_file = "DIRECTORY/password"
ca_file = "CERTIFICATE"
on = ["seen", "approved", "recovered"]
"""


@pytest.fixture
def own(tmp_path: Path) -> Certificate:
    return certificate_in(tmp_path)


@pytest.fixture
def mail(own: Certificate) -> Iterator[FakeSmtp]:
    with fake_smtp(own.server()) as new_mail:
        new_mail.logins = {"fore": "pässw0rd"}
        yield new_mail
        assert not new_mail.sins


class Heard:
    """A syslog daemon that keeps what came by UDP."""

    def __init__(self, wire: socket.socket) -> None:
        wire.setblocking(False)
        self._wire = wire
        self.port: int = wire.getsockname()[1]
        self.lines: list[str] = []

    def kinds(self) -> list[str]:
        with contextlib.suppress(BlockingIOError):
            while True:
                self.lines.append(self._wire.recv(65_536).decode())
        matches = [
            re.search(r'number="(\d+)" kind="(\w+)"', line) for line in self.lines
        ]
        # A notification that was sent during a crash is sent again with its number.
        return list({match[1]: match[2] for match in matches if match}.values())


@pytest.fixture
def heard() -> Iterator[Heard]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.bind(("127.0.0.1", 0))
        yield Heard(wire)


def subjects(mail: FakeSmtp) -> list[str]:
    return [
        str(
            email.message_from_bytes(letter.data, policy=email.policy.default)[
                "Subject"
            ]
        )
        for letter in mail.letters
    ]


def test_all_sinks_get_every_notification_and_delay_no_event(
    still_place: Ground, own: Certificate, mail: FakeSmtp, heard: Heard
) -> None:
    """The mail server hangs, then is ill; the event is prepared for meanwhile."""
    directory = still_place.directory / "web_0"
    directory.mkdir()
    (directory / "password").write_text("pässw0rd\n")
    (directory / "password").chmod(0o600)
    settings = SETTINGS.replace("CERTIFICATE", str(own.certificate))
    settings = settings.replace("SMTP", str(mail.port))
    settings = settings.replace("SYSLOG", str(heard.port))
    mail.hangs_at = "."
    agent = still_place.agent(settings=DRAIN + settings).wait_ready()
    checked = agent.command("check")
    assert "notify" in checked.stdout
    assert "no problem found" in checked.stdout.split("notify")[1]
    event = still_place.event()
    still_place.wait_approved(event, "web_0")
    still_place.finish(event, agent)
    eventually(heard.kinds, lambda kinds: len(kinds) >= len(WHOLE_LIFE))
    # It may have started before the answer to the approval was there.
    assert sorted(heard.kinds()) == sorted(WHOLE_LIFE)
    assert (heard.kinds()[0], heard.kinds()[-1]) == (WHOLE_LIFE[0], WHOLE_LIFE[-1])
    assert all(f'id="{event}"' in line for line in heard.lines)
    assert not mail.letters

    # The agent ends with a letter under way, and the next one sends it again.
    agent.kill()
    mail.hangs_at = ""
    mail.answers = {"MAIL": ["451 come again"]}
    mail.released.set()
    agent.again()
    eventually(lambda: len(mail.letters), (3).__eq__)
    assert subjects(mail) == [
        "web_0: Reboot announced",
        "web_0: Reboot approved",
        "web_0: Reboot recovered",
    ]
    assert {letter.user for letter in mail.letters} == {"fore"}
    assert all(letter.was_secret for letter in mail.letters)
    eventually(lambda: "accepts notifications again" in agent.log(), bool)
    assert len(heard.kinds()) == len(WHOLE_LIFE)
    assert "pässw0rd" not in agent.log()
