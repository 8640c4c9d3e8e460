"""Webhooks of a real service: receivers that fail, hang and respond falsely; `kill -9`."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificates import certificate_in, needs_openssl
from tests.support.fake_hooks import hook as fake_hook
from tests.support.hooks import SECRET, Hook, receiving
from tests.support.processes import PATIENCE_SECONDS, Serving, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

FLEET = (
    "".join(
        f'[[tenant]]\nname = "{tenant}"\n[[vm]]\nname = "{vm}"\nhost = "h1"\n'
        f'tenant = "{tenant}"\nlisten = "127.0.0.1:0"\n'
        for tenant, vm in (("shop", "web_0"), ("bank", "db_0"))
    )
    + '[[host]]\nname = "h1"\n'
)

LIFE = ["Scheduled", "Started", "Completed"]
SHOP = [f"{change} web_0" for change in LIFE]
BOTH = {f"{change} {vm}" for change in LIFE for vm in ("web_0", "db_0")}

Start = Callable[..., Serving]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Serving] = []
    (tmp_path / "key").write_text(f"{SECRET}\n", encoding="ascii")

    def begin(text: str = "") -> Serving:
        if text:
            (tmp_path / "forewarn.toml").write_text(text, encoding="utf-8")
        started.append(Serving(tmp_path, FLEET, timing_speed="600"))
        return started[-1].wait_ready()

    yield begin
    for service in started:
        service.process.kill()
        service.process.wait()


@pytest.fixture
def hook() -> Iterator[Hook]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def other() -> Iterator[Hook]:
    with receiving() as receiver:
        yield receiver


def webhook(name: str, hook: Hook, more: str = "") -> str:
    return (
        f'[[webhook]]\nname = "{name}"\nurl = "{hook.url}"\nsecret_file = "key"\n'
        f'timeout = "1s"\n{more}\n'
    )


def maintain(service: Serving) -> None:
    service.admin("/v1/maintain", {"hosts": ["h1"], "impact": "freeze"})


def standing(service: Serving, name: str) -> dict[str, Any]:
    [status] = [
        row
        for row in service.admin("/v1/webhooks")["webhooks"]
        if row["webhook"] == name
    ]
    return status


def forewarn(service: Serving, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "forewarn", *words],
        env={"FOREWARN_URL": service.urls["operators"]},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.clause("9.3")
def test_each_receiver_gets_its_messages_despite_a_hanging_one(
    start: Start, hook: Hook, other: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Proxies of the environment are ignored.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    hook.usual = "hang"
    service = start(webhook("ops", hook) + webhook("shop", other, 'tenant = "shop"'))
    maintain(service)
    eventually(other.told, lambda messages: messages == SHOP)
    assert all(message.is_genuine for message in other.came)
    assert not any("bank" in str(message.event) for message in other.came)
    # An ID of random letters and digits can contain these two, but never as a word.
    assert not any(re.search(r"\bh1\b", str(message.event)) for message in other.came)
    # A hanging receiver delays neither VMs nor the end of the service.
    begun = time.monotonic()
    assert service.document("db_0")["Events"] == []
    assert time.monotonic() - begun < 5
    assert len({message.public_id for message in hook.came}) == 1
    assert standing(service, "ops")["pending"] == len(BOTH)
    assert service.terminate() == 0
    assert time.monotonic() - begun < 9


def test_failed_messages_are_retried_in_order(start: Start, hook: Hook) -> None:
    hook.script = ["500", "reset", "302", "flood"]
    service = start(webhook("shop", hook, 'tenant = "shop"'))
    maintain(service)
    eventually(hook.told, lambda messages: messages == SHOP)
    assert [message.what for message in hook.came] == [SHOP[0]] * 4 + SHOP[1:]
    assert len({message.body for message in hook.came[:4]}) == 1
    assert all(message.is_genuine for message in hook.came)
    eventually(lambda: standing(service, "shop"), lambda status: status["pending"] == 0)
    status = standing(service, "shop")
    assert (status["state"], status["delivered"]) == ("idle", 3)
    assert status["last_error"] == "HTTP status 302; redirects are not followed"


@pytest.mark.clause("9.3")
def test_committed_message_is_sent_again_after_a_kill(start: Start, hook: Hook) -> None:
    hook.script = ["hang"]
    service = start(webhook("shop", hook, 'tenant = "shop"'))
    maintain(service)
    # It arrived but got no response, so its fate is unknown.
    eventually(lambda: len(hook.came), lambda count: count == 1)
    service.kill()
    start()
    eventually(hook.told, lambda messages: messages == SHOP)
    first, again = hook.came[:2]
    assert (first.public_id, first.body) == (again.public_id, again.body)


def test_a_notice_reaches_a_chat_after_a_kill_and_its_url_is_nowhere(
    start: Start, tmp_path: Path
) -> None:
    path = "/services/s3cr3t"
    with fake_hook(
        lambda request: (200 if request.path == path else 404, "", {})
    ) as it:
        (tmp_path / "url").write_text(f"http://127.0.0.1:{it.port}{path}\n")
        it.script = [(503, "busy", {"Retry-After": "60"})]
        service = start(
            '[[webhook]]\nname = "chat"\nformat = "slack"\nurl_file = "url"\n'
            'events = false\nnotices = ["brake-on"]\n'
        )
        service.admin("/v1/brake", {"on": True, "reason": "smoke"})
        eventually(
            lambda: standing(service, "chat")["failures"], lambda count: count == 1
        )
        assert standing(service, "chat")["url"] == "file url"
        shown = forewarn(service, "webhook", "list")[1]
        service.kill()
        shown += service.log()
        again = start()
        eventually(lambda: len(it.taken), lambda count: count == 1)
        text = it.taken[0].json["text"]
        assert text == ":red_circle: The brake is on"
        assert "s3cr3t" not in shown + again.log()


def test_unreachable_receiver_is_reported_by_webhook_test(
    start: Start, tmp_path: Path
) -> None:
    with receiving() as away:
        port = int(away.url.rstrip("/").rpartition(":")[2])
    service = start(webhook("shop", away, 'tenant = "shop"'))
    maintain(service)
    failing = eventually(
        lambda: standing(service, "shop"), lambda status: status["failures"] >= 3
    )
    assert failing["state"] == "failing"
    assert failing["next_try"]
    status, output = forewarn(service, "webhook", "test", "shop")
    assert (status, "did not accept it: no connection" in output) == (1, True)
    status, output = forewarn(service, "webhook", "list")
    assert (status, "failing" in output) == (0, True)
    with receiving(port) as back:
        status, output = forewarn(service, "webhook", "test", "shop")
        assert (status, "shop accepted it: 200" in output) == (0, True)
        eventually(back.told, lambda told: sorted(told) == sorted(["Ping", *SHOP]))
        assert all(message.is_genuine for message in back.came)
    # Messages for a removed name would otherwise stay forever.
    maintain(service)
    eventually(lambda: standing(service, "shop"), lambda status: status["pending"] > 0)
    assert service.terminate() == 0
    service = start("[log]\n")
    assert service.admin("/v1/webhooks") == {"webhooks": []}
    eventually(
        lambda: json.dumps(service.admin("/v1/history?limit=1000")["entries"]),
        lambda text: "its receiver is no longer configured" in text,
    )
    assert SECRET not in (tmp_path / "log").read_text(encoding="utf-8")


def test_a_bad_secret_stops_the_start(start: Start, hook: Hook, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("my secret\n", encoding="ascii")
    (tmp_path / "forewarn.toml").write_text(webhook("shop", hook), encoding="utf-8")
    service = Serving(tmp_path, FLEET)
    assert service.ended() == 2
    assert "forewarn.toml:4: webhook.secret_file: key must have whsec_" in service.log()
    assert "my secret" not in service.log()


@needs_openssl
def test_only_known_certificates_are_trusted(start: Start, tmp_path: Path) -> None:
    certificate = certificate_in(tmp_path)
    with receiving(tls=certificate.server()) as lock_scopes:
        service = start(
            webhook("strict", lock_scopes)
            + webhook(
                "known", lock_scopes, f'ca_file = "{certificate.certificate.name}"'
            )
        )
        status, output = forewarn(service, "webhook", "test", "strict")
        assert (status, "certificate verify failed" in output) == (1, True), output
        assert not lock_scopes.came
        status, output = forewarn(service, "webhook", "test", "known")
        assert (status, "known accepted it" in output) == (0, True), output
        assert [message.what for message in lock_scopes.came] == ["Ping"]
