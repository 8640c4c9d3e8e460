"""Slack and Teams: what they are sent, and what their answers do."""

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.agent.core.model import NoteKind
from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.agent.integrations.registry import sink_kind
from forewarn.agent.settings_model import NotifySettings
from forewarn.agent.sinks import chat
from forewarn.agent.sinks.port import Sink
from forewarn.clock import SystemClock
from forewarn.instants import SECOND
from tests.support import fake_hooks
from tests.support.fake_hooks import Hook, hook
from tests.support.notes import REBOOT, told_of

pytestmark = pytest.mark.system

HOOKS = {
    "slack": (fake_hooks.slack, fake_hooks.SLACK_PATH),
    "teams": (fake_hooks.teams, fake_hooks.TEAMS_PATH),
}
HOSTILE = replace(
    REBOOT,
    description="<!channel> [a](http://b) *" + "x" * 9_000,
    resources=tuple(f"vm_{number}<!here>" for number in range(500)),
)


@pytest.fixture(params=HOOKS)
def word(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def there(word: str) -> Iterator[Hook]:
    with hook(HOOKS[word][0]) as server:
        yield server


@pytest.fixture
def url_file(word: str, there: Hook, tmp_path: Path) -> Path:
    file = tmp_path / "url"
    file.write_text(f"http://127.0.0.1:{there.port}{HOOKS[word][1]}\n")
    file.chmod(0o600)
    return file


@pytest.fixture
def sink(word: str, url_file: Path) -> Sink:
    kind = sink_kind(word)
    assert kind is not None
    more = {"url_file": str(url_file), "timeout": 5 * SECOND}
    settings = NotifySettings(kind=word, more=more)
    assert kind.name(settings) == f"{word} {url_file}"
    return kind.make(settings, SystemClock())


@pytest.mark.parametrize("kind", NoteKind)
def test_each_kind_is_sent_as_an_accepted_message(
    sink: Sink, there: Hook, kind: NoteKind
) -> None:
    sink.deliver(1, told_of(kind, "why", handler="drain"))
    sink.deliver(2, told_of(kind, notice=None))
    sink.deliver(3, told_of(kind, "<!channel> " + "y" * 9_000, notice=HOSTILE))
    assert len(there.taken) == 3
    assert there.came[0].headers["Content-Type"] == "application/json"


def test_external_text_is_sent_without_markup() -> None:
    reports = told_of(NoteKind.FAILED, "<!channel> & [a](http://b)", notice=HOSTILE)
    message = chat.slack_message(reports)
    assert "<" not in chat.slack_message(replace(reports, vm="<!here>"))["text"]
    texts = [
        text
        for block in message["blocks"]
        for text in (*block.get("fields", ()), block.get("text"))
        if text
    ]
    assert {text["type"] for text in texts} == {"plain_text"}
    assert any("<!channel>" in text["text"] for text in texts)
    card = chat.teams_message(reports)["attachments"][0]["content"]
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}


def test_message_shows_its_severity() -> None:
    bad, good = told_of(NoteKind.WITHHELD), told_of(NoteKind.PREPARED)
    assert chat.slack_message(bad)["text"].startswith(
        ":red_circle: web_0: Reboot not prep"
    )
    assert chat.slack_message(good)["text"].startswith(":white_circle:")
    card = chat.teams_message(bad)["attachments"][0]["content"]
    assert card["body"][0]["inlines"][0]["color"] == "Attention"


def test_facts_are_shown_as_names_and_values() -> None:
    fields = chat.slack_message(told_of())["blocks"][2]["fields"]
    assert fields[0]["text"] == "VM\nweb_0"
    assert {"type": "plain_text", "text": "VMs\nweb_0, web_1", "emoji": False} in fields


def test_too_many_requests_is_retried_after_the_given_time(
    sink: Sink, there: Hook
) -> None:
    there.script = [(429, "rate_limited", {"Retry-After": "30"})]
    with pytest.raises(DeliveryError) as raised:
        sink.deliver(1, told_of())
    assert (raised.value.may_pass, raised.value.wait) == (True, 30 * SECOND)
    sink.deliver(1, told_of())


@pytest.mark.parametrize(
    ("status", "may_pass"),
    [
        (400, False),
        (413, False),
        (401, True),
        (403, True),
        (404, True),
        (410, True),
        (500, True),
        (503, True),
        (301, False),
    ],
)
def test_refused_address_is_retried_and_refused_message_is_not(
    sink: Sink, there: Hook, status: int, *, may_pass: bool
) -> None:
    there.script = [(status, "channel_is_archived", {})]
    with pytest.raises(DeliveryError, match=f"the answer was {status}") as raised:
        sink.deliver(1, told_of())
    assert raised.value.may_pass is may_pass


def test_url_is_read_again_for_each_delivery(
    sink: Sink, url_file: Path, there: Hook
) -> None:
    good = url_file.read_text()
    url_file.write_text(good.replace("/services", "/s").replace("/workflows", "/w"))
    with pytest.raises(DeliveryError, match="404"):
        sink.deliver(1, told_of())
    url_file.write_text(good)
    sink.deliver(1, told_of())
    assert len(there.taken) == 1


def test_errors_do_not_contain_the_url(
    sink: Sink, word: str, url_file: Path, there: Hook
) -> None:
    path = HOOKS[word][1]
    there.script = [(404, f"no such page: {path}", {})]
    texts: list[str] = []
    for text in ("", f"ftp://127.0.0.1{path}", f"http://127.0.0.1:1{path}"):
        if text:
            url_file.write_text(text)
        with pytest.raises(DeliveryError) as raised:
            sink.deliver(1, told_of())
        texts += [raised.value.message, *sink.check()]
    url_file.unlink()
    with pytest.raises(DeliveryError, match="No such file") as raised:
        sink.deliver(1, told_of())
    assert raised.value.may_pass
    for secret in ("XXXXXX", "B00000000", "S3CR3T", "0123456789abcdef"):
        assert not any(secret in text for text in texts), texts


def test_check_sends_nothing(sink: Sink, url_file: Path, there: Hook) -> None:
    assert list(sink.check()) == []
    url_file.chmod(0o644)
    assert list(sink.check()) == [
        f"other users can read {url_file}: run chmod 600 on it"
    ]
    url_file.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    url_file.write_text(f"http://127.0.0.1:{port}/x")
    assert list(sink.check()) == [f"http://127.0.0.1:{port}: connection refused"]
    url_file.write_text("hello")
    assert "is not an http or https URL" in sink.check()[0]
    url_file.write_text("\n")
    assert list(sink.check()) == [f"the secret {url_file} is empty"]
    assert not there.came
