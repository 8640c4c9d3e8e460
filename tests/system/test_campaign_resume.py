"""Every refusal of `forewarn campaign resume`, from a real service, and its hint.

Two operators with tokens of their own run the commands. Where a hint names a command, that
command works.
"""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.verbs.table import VERBS
from tests.support.forked import ran
from tests.support.processes import Serving, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

PAUSED_BY_CHECKS = "campaign … is paused until its checks answer: …"
"""A check that does not answer pauses a campaign after a quarter of an hour:
`tests/unit/control/test_campaign_checks.py` has that on the virtual clock."""

TOKENS = {name: f"{name}-0123456789abcdef0123" for name in ("alice", "bob")}

FLEET = "".join(f'[[host]]\nname = "h{number}"\n' for number in range(4))

CAMPAIGN = """
[campaign]
name = "bios"
reason = "CVE-2026-1234"
impact = "none"
select = { all = true }
[campaign.steps]
work = { step = "flash" }
[[campaign.check]]
use = "errors"
[[campaign.stage]]
hosts = 1
soak = "1h"
"""

REFUSED = {2, 4}
"""Exit statuses of a command that the service refuses; 2: something is missing in it."""


class Company:
    """A service with a check that a file decides, and its two operators."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.good = directory / "good"
        self.good.touch()
        (directory / "tokens").write_text(
            "".join(f"{name}:{token}\n" for name, token in TOKENS.items())
        )
        (directory / "tokens").chmod(0o600)
        (directory / "bios.toml").write_text(CAMPAIGN)
        (directory / "forewarn.toml").write_text(
            "[campaigns]\nsecond_person = true\n"
            '[check.errors]\nkind = "command"\nevery = "5s"\n'
            f'program = ["test", "-e", "{self.good}"]\n'
            '[host_step.flash]\nprogram = ["true"]\n'
        )
        self.service = Serving(directory, FLEET, admin_token_file="tokens").wait_ready()
        self.refused: list[str] = []
        """The messages of all refusals of `campaign resume`."""

    def run(self, who: str, command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command as an operator."""
        environ = {
            "PATH": "/usr/bin:/bin",
            "FOREWARN_URL": self.service.urls["operators"],
            "FOREWARN_TOKEN": TOKENS[who],
        }
        return ran(shlex.split(command)[1:], cwd=self.directory, environ=environ)

    def done(self, who: str, command: str) -> str:
        """Run a command that works; return what it says."""
        ended = self.run(who, command)
        assert ended.returncode == 0, (command, ended.stderr)
        return ended.stdout

    def refuses(self, who: str, command: str) -> str:
        """Run a command that is refused; return its message and hint on one line."""
        ended = self.run(who, f"forewarn campaign resume bios {command}")
        assert ended.returncode in REFUSED, ended
        assert ended.stdout == ""
        message = " ".join(ended.stderr.split())
        self.refused.append(message)
        return message

    def state(self) -> str:
        """Return the state of the campaign."""
        shown = self.done("bob", "forewarn campaign show bios --json")
        return str(json.loads(shown)["state"])


@pytest.fixture
def company(tmp_path: Path) -> Iterator[Company]:
    new_company = Company(tmp_path)
    plan = json.loads(
        new_company.done("alice", "forewarn campaign plan bios.toml --json")
    )
    new_company.done(
        "alice", f"forewarn campaign start bios.toml --plan {plan['digest']}"
    )
    yield new_company
    new_company.service.kill()


def hinted(message: str) -> str:
    """Return the command that a hint names, with a reason in place of TEXT."""
    match = re.search(r"`(forewarn [^`]*)`", message)
    assert match, message
    return match[1].replace("TEXT", "'it is repaired'")


@pytest.mark.long
def test_each_refusal_of_a_resumption_tells_how_to_go_on(company: Company) -> None:
    message = company.refuses("alice", "--reason over")
    assert "campaign bios is neither paused nor halted" in message
    company.done("alice", hinted(message))

    company.done("bob", "forewarn campaign pause bios --reason 'release tonight'")
    message = company.refuses("alice", "--reason over --despite latency")
    assert "campaign bios has no check latency" in message
    assert "Its checks are errors." in message
    message = company.refuses("bob", "")
    assert "a resumption needs a reason" in message
    assert "--reason TEXT" in message
    message = company.refuses("alice", "--reason over")
    assert "campaign bios is paused by bob, not by alice" in message
    company.done("alice", hinted(message))
    assert company.state() == "Running"

    company.good.unlink()
    eventually(company.state, lambda state: state == "Halted")
    message = company.refuses("bob", "--reason over")
    assert "check errors of campaign bios fails" in message
    despite = hinted(message)
    message = company.refuses("alice", "--reason over --despite errors")
    assert "alice started the campaign and cannot override check errors" in message
    assert "Ask another operator" in message
    company.done("bob", despite)
    assert company.state() == "Running"

    company.done("bob", "forewarn campaign abort bios --reason 'faulty image'")
    message = company.refuses("bob", "--reason over")
    assert "campaign bios is Aborted" in message
    company.done("bob", hinted(message))

    for refusal in VERBS["campaign-resume"].refusals:
        for sentence in refusal.sentences:
            if sentence == PAUSED_BY_CHECKS:
                continue
            pattern = ".*".join(map(re.escape, sentence.split("…")))
            assert any(re.search(pattern, reason) for reason in company.refused), (
                sentence
            )
