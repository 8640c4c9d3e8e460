"""Sessions of the console at two real replicas, whose logs say nothing of them."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support import postgres
from tests.support.processes import Serving, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow, postgres.needing_postgres]

FLEET = """
[[tenant]]
name = "shop"
[[scope]]
name = "web"
tenant = "shop"
kind = "availability-set"
[[host]]
name = "h1"
[[vm]]
name = "web_0"
host = "h1"
scope = "web"
address = "127.0.0.1"
fault_domain = 0
"""

SECRET = "0123456789abcdef01234567"
BEARER = {"Authorization": f"Bearer {SECRET}"}
NAME = "__Host-forewarn"

END_SECONDS = 10.0
"""Far above the second in which a stream ends, for a busy machine."""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[Serving]]:
    file = tmp_path / "tokens"
    file.write_text(f"alice:{SECRET}\n")
    file.chmod(0o600)
    with postgres.one_database(is_empty=True) as url:
        replicas = [
            Serving(
                tmp_path / name,
                FLEET,
                store_url=url,
                cluster_name=name,
                cluster_lease="1s",
                metadata_listen="127.0.0.1:0",
                admin_token_file=str(file),
                log_level="debug",
            ).wait_ready()
            for name in ("r1", "r2")
        ]
        yield replicas
        for replica in replicas:
            replica.process.kill()
            replica.process.wait()


class Tab:
    """A page of the console, with its cookie."""

    def __init__(self) -> None:
        self.cookie = ""

    def ask(self, method: str, service: Serving, path: str, body: Any = None) -> Any:
        headers = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
        if self.cookie:
            headers["Cookie"] = f"{NAME}={self.cookie}"
        answer = httpx2.request(
            method, service.urls["operators"] + path, headers=headers, json=body
        )
        for header in answer.headers.get_list("set-cookie"):
            if header.startswith(f"{NAME}="):
                self.cookie = header.partition("=")[2].partition(";")[0]
        return answer

    def who(self, service: Serving) -> str:
        answer = self.ask("GET", service, "/v1/session")
        return answer.json()["name"] if answer.status_code == 200 else ""

    def log_in(self, service: Serving, **body: str) -> int:
        return self.ask("POST", service, "/v1/session", body).status_code


def order(service: Serving, path: str, body: Any) -> Any:
    answer = httpx2.post(
        f"{service.urls['operators']}/v1/{path}", headers=BEARER, json=body
    )
    assert answer.is_success, answer.text
    return answer.json()


class Watching:
    """A stream of a page, read by a thread until its end."""

    def __init__(self, tab: Tab, service: Serving) -> None:
        self.text = ""
        self.is_open = threading.Event()
        self._url = f"{service.urls['operators']}/v1/watch?topics=problems"
        self._headers = {"Cookie": f"{NAME}={tab.cookie}"}
        self.thread = threading.Thread(target=self._read)
        self.thread.start()
        assert self.is_open.wait(END_SECONDS)

    def _read(self) -> None:
        with httpx2.stream("GET", self._url, headers=self._headers) as answer:
            for text in answer.iter_text():
                self.text += text
                self.is_open.set()

    def has_ended(self) -> bool:
        self.thread.join(END_SECONDS)
        return not self.thread.is_alive() and "event: error" in self.text


def test_session_is_good_at_both_replicas_until_its_token_or_a_logout_ends_it(
    pair: list[Serving],
) -> None:
    first, second = pair
    response = order(first, "tokens", {"tenant": "shop", "name": "ci"})
    tenant, alice = Tab(), Tab()
    assert tenant.log_in(second, token=response["token"]) == 201
    link = order(first, "session/links", {})["link"]
    # That a link is used must be stored, which only the leader does.
    assert alice.log_in(second, link=link) == 503
    assert alice.log_in(first, link=link) == 201
    assert Tab().log_in(first, link=link) == 401
    for service in pair:
        assert (tenant.who(service), alice.who(service)) == ("shop/ci", "alice")
    streams = [Watching(tenant, first), Watching(tenant, second)]
    order(first, "tokens/revoke", {"id": response["id"]})
    assert [stream.has_ended() for stream in streams] == [True, True]
    assert [tenant.who(service) for service in pair] == ["", ""]
    # Another replica leads.
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    assert alice.who(second) == "alice"

    def restart() -> int:
        return alice.ask("POST", second, "/v1/reboot", {"vms": ["web_0"]}).status_code

    eventually(restart, lambda status: status == 201)
    copy = alice.cookie
    assert alice.ask("DELETE", second, "/v1/session").json() == {"ended": True}
    alice.cookie = copy
    assert alice.who(second) == ""
    for service in pair:
        log = service.log()
        assert log
        for secret in (SECRET, link, copy, tenant.cookie, response["token"]):
            assert secret not in log
