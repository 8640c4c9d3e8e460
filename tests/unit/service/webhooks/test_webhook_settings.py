"""The tables [[webhook]] of forewarn.toml, and the mistakes in them."""

from pathlib import Path

import pytest

from forewarn.control.rules.policy import Subscriber
from forewarn.instants import SECOND
from forewarn.protocol.events import EventType
from forewarn.service import secret_files
from forewarn.service.settings import (
    SettingsError,
    describe,
    load_settings,
    policy,
)
from forewarn.service.settings_model import WebhookSettings
from forewarn.store.notices import NoticeKind
from forewarn.store.records import EventChange
from tests.unit.service.test_settings import problems


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "forewarn.toml"


WEBHOOK = '[[webhook]]\nname = "a"\nurl = "https://h.example"\nsecret_file = "k"\n'


def test_webhooks_are_read_from_tables_of_the_file(file: Path) -> None:
    file.write_text(
        f'[log]\nlevel = "info"\n{WEBHOOK}[[webhook]]\nname = "b"\ntenant = "shop"\n'
        'url = "http://user:s3cret@[::1]:8300/x?token=s3cret"\nsecret_file = "k"\n'
        'types = ["Reboot"]\nstatuses = ["started", "failed"]\ntimeout = "3s"\n'
    )
    settings = load_settings(file=file, environ={}, flags={})
    first, second = settings.webhook
    assert first == WebhookSettings(name="a", url="https://h.example", secret_file="k")
    assert second.timeout == 3 * SECOND
    everything, some = policy(settings).subscribers
    assert everything == Subscriber(name="a")
    assert some == Subscriber(
        name="b",
        tenant="shop",
        types=frozenset({EventType.REBOOT}),
        changes=frozenset({EventChange.STARTED, EventChange.FAILED}),
    )
    rows = {row.key: row for row in describe(settings)}
    assert rows["webhook.b.url"].value == "http://***@[::1]:8300/x?***"
    assert rows["webhook.b.url"].origin == f"{file}:10"
    assert rows["webhook.a.timeout"].origin == "default"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[webhook]\nname = "a"\n', [":1: webhook: must be an array of tables"]),
        ("webhook = [1]\n", [":1: webhook: must be an array of tables"]),
        (
            '\n[[webhook]]\nname = "a"\n',
            [
                ":2: webhook.url: is missing",
                ":2: webhook.secret_file: is missing",
            ],
        ),
        (
            f"{WEBHOOK}{WEBHOOK}",
            [':6: webhook.name: "a" is not unique: another table has the same name'],
        ),
        (
            f'{WEBHOOK}tpyes = ["Freeze"]\n',
            [':5: webhook.tpyes: there is no such setting (did you mean "types"?)'],
        ),
        (
            f'{WEBHOOK}types = ["Freez"]\n',
            [":5: webhook.types: must be one of Freeze, Reboot"],
        ),
        (f"{WEBHOOK}insecure = 1\n", [":5: webhook.insecure: must be true or false"]),
        (
            WEBHOOK.replace("https", "http"),
            [":3: webhook.url: must be https, since http is not encrypted"],
        ),
        (
            WEBHOOK.replace("https://h", "ftp://u:s3cret@h"),
            [":3: webhook.url: must be a URL such as https://"],
        ),
        (
            f'{WEBHOOK}notices = ["campaign-halt"]\n',
            [":5: webhook.notices: must be one of all, campaign-started"],
        ),
        (
            f'{WEBHOOK}notices = ["all"]\ntenant = "shop"\n',
            [":5: webhook.notices: must be empty, since a tenant's receiver gets no"],
        ),
        (
            f"{WEBHOOK}events = false\n",
            [":5: webhook.events: must be true, since the receiver would get nothing"],
        ),
        (
            '[[webhook]]\nname = "a"\nformat = "slack"\nurl = "https://h.example/s3cret"\n',
            [":4: webhook.url: must be in url_file, since slack has no other secret"],
        ),
        (
            f'{WEBHOOK}url_file = "u"\n',
            [":5: webhook.url_file: cannot be combined with url"],
        ),
        (
            f'{WEBHOOK}format = "irc"\n',
            [":5: webhook.format: must be one of events, slack, teams, text"],
        ),
        (WEBHOOK.replace('"a"', '"A B"'), [":2: webhook.name: 'A B' is not a name"]),
        (f"{WEBHOOK}[webhook.more]\n", [":5: webhook.more: there is no such setting"]),
    ],
)
def test_webhook_mistake_is_reported_with_its_line(
    file: Path, text: str, expected: list[str]
) -> None:
    lines = problems(file, text)
    assert len(lines) == len(expected), lines
    for line, start in zip(lines, expected, strict=True):
        assert line.startswith(start), lines
        assert "s3cret" not in line


def test_a_webhook_gets_the_notices_that_it_names(file: Path) -> None:
    def read(more: str) -> Subscriber:
        file.write_text(f"{WEBHOOK}{more}")
        [subscriber] = policy(
            load_settings(file=file, environ={}, flags={})
        ).subscribers
        return subscriber

    assert read("").notices == frozenset()
    assert read('notices = ["all"]').notices == frozenset(NoticeKind)
    halts = read('events = false\nnotices = ["campaign-halted", "brake-on"]')
    assert halts.notices == {NoticeKind.CAMPAIGN_HALTED, NoticeKind.BRAKE_ON}
    assert halts.changes == frozenset()


def test_http_url_must_be_local_or_marked_insecure(file: Path) -> None:
    for host in ("localhost", "127.0.0.7:8300", "[::1]"):
        file.write_text(WEBHOOK.replace("https://h.example", f"http://{host}"))
        assert load_settings(file=file, environ={}, flags={}).webhook
    file.write_text(WEBHOOK.replace("https", "http") + "insecure = true\n")
    assert load_settings(file=file, environ={}, flags={}).webhook[0].insecure


CHAT = '[[webhook]]\nname = "a"\nformat = "slack"\nurl_file = "{}"\n'


def test_the_url_of_a_chat_is_read_from_its_file(file: Path, tmp_path: Path) -> None:
    url = tmp_path / "url"
    url.write_text("https://chat.example/services/s3cret\nmore\n")
    file.write_text(CHAT.format(url))
    settings = load_settings(file=file, environ={}, flags={})
    [secrets] = secret_files.read_webhook_secrets(settings).values()
    assert secrets.url == "https://chat.example/services/s3cret"
    assert secrets.keys == ()
    assert "s3cret" not in repr(secrets)
    assert not any("s3cret" in row.value for row in describe(settings))
    assert [
        line.startswith(str(url)) for line in secret_files.open_files(settings)
    ] == [True]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3cret", "the first line of URL must be a URL such as https://"),
        ("", "the first line of URL must be a URL such as https://"),
        ("http://h.example/s3cret", "the URL in URL must be https"),
    ],
)
def test_a_wrong_url_file_is_refused_and_not_quoted(
    file: Path, tmp_path: Path, text: str, expected: str
) -> None:
    url = tmp_path / "url"
    url.write_text(text)
    file.write_text(CHAT.format(url))
    settings = load_settings(file=file, environ={}, flags={})
    with pytest.raises(SettingsError) as caught:
        secret_files.read_webhook_secrets(settings)
    [problem] = caught.value.problems
    assert problem.message.replace(str(url), "URL").startswith(expected)
    assert "s3cret" not in caught.value.message
    assert caught.value.__cause__ is None
