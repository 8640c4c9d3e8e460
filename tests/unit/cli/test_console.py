"""`forewarn console`: the link, and how a browser gets it."""

import json
import subprocess
import threading
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx2
import pytest

from forewarn.cli import browsers
from tests.unit.cli.conftest import Ended, Served

Forewarn = Callable[..., Ended]

Removers = list[subprocess.Popen[bytes]]


@pytest.fixture
def token(service: Served) -> str:
    response = httpx2.post(
        f"{service.url}/v1/tokens", json={"tenant": "shop", "name": "ci"}
    )
    return str(response.json()["token"])


@pytest.fixture
def removers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Removers]:
    """Return the processes that remove files later; they end with the test."""
    processes: Removers = []

    class Remover(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            processes.append(self)

    monkeypatch.setattr(subprocess, "Popen", Remover)
    yield processes
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def opened(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    removers: Removers,
) -> list[str]:
    """Return the addresses that a browser gets."""
    urls: list[str] = []

    def opens(url: str) -> bool:
        urls.append(url)
        return True

    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", opens)
    return urls


def who_has(service: Served, url: str) -> Any:
    """Return who the session of a link is, as the page asks it."""
    parts = urlsplit(url)
    assert (parts.path, parts.query) == ("/console/login", "")
    answer = httpx2.post(
        f"{service.url}/v1/session",
        json={"link": parts.fragment},
        headers={"Sec-Fetch-Site": "same-origin"},
    )
    return answer.json()


def test_link_is_printed_where_there_is_no_browser(
    service: Served, forewarn: Forewarn, token: str, opened: list[str]
) -> None:
    ended = forewarn("console", "--token", token)
    assert ended.status == 0
    url = ended.out.strip()
    assert url.startswith(f"{service.url}/console/login#")
    assert "one session of shop/ci, until 2030-01-01T00:02:00Z" in ended.err
    assert who_has(service, url)["name"] == "shop/ci"
    assert who_has(service, url)["kind"] == "unauthorized"
    assert opened == []


def test_browser_gets_the_link_from_a_file_of_the_user(
    service: Served,
    forewarn: Forewarn,
    token: str,
    opened: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    url = forewarn("console", "--token", token).out.strip()
    assert len(opened) == 1
    # The arguments of a process can be read by all users of the machine.
    assert urlsplit(url).fragment not in opened[0]
    file = Path(unquote(urlsplit(opened[0]).path))
    assert file.stat().st_mode & 0o777 == 0o600
    assert f'content="0; url={url}"' in file.read_text()


def test_file_of_the_link_is_removed_when_the_link_has_ended(
    forewarn: Forewarn,
    token: str,
    opened: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    removers: Removers,
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(browsers, "LINK_FILE_SECONDS", 0.01)
    assert forewarn("console", "--token", token).status == 0
    assert len(opened) == 1
    [remover] = removers
    assert remover.wait(timeout=60) == 0
    assert list(tmp_path.iterdir()) == []


def test_browser_in_the_foreground_is_not_waited_for(
    forewarn: Forewarn,
    token: str,
    opened: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    closed = threading.Event()
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(browsers, "START_SECONDS", 0)
    monkeypatch.setattr(webbrowser, "open", lambda _url: closed.wait(60))
    assert forewarn("console", "--token", token).status == 0
    # The browser still shows the page.
    assert not closed.is_set()
    assert len(list(tmp_path.iterdir())) == 1
    closed.set()
    assert opened == []


def test_no_browser_is_opened_if_it_is_not_wanted(
    forewarn: Forewarn,
    token: str,
    opened: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    for option in ("--no-open", "--json"):
        assert forewarn("console", "--token", token, option).status == 0
    assert opened == []
    assert list(tmp_path.iterdir()) == []


def test_file_of_a_browser_that_cannot_start_is_removed(
    forewarn: Forewarn,
    token: str,
    opened: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda _url: False)
    assert forewarn("console", "--token", token).status == 0
    assert list(tmp_path.iterdir()) == []
    assert opened == []


def test_link_is_json_for_programs_and_at_the_address_of_a_proxy(
    service: Served, forewarn: Forewarn, token: str
) -> None:
    ended = forewarn(
        "console", "--token", token, "--json", "--at", "https://ops.example/"
    )
    document = json.loads(ended.out)
    assert document["url"].startswith("https://ops.example/console/login#")
    assert document["expires"] == "2030-01-01T00:02:00Z"


def test_no_link_is_needed_without_tokens(
    service: Served, forewarn: Forewarn, opened: list[str]
) -> None:
    ended = forewarn("console")
    assert ended.out == f"{service.url}/console/\n"
    assert "No login is needed" in ended.err
    history = httpx2.get(f"{service.url}/v1/history").text
    assert "console link created" not in history


def test_address_that_is_no_url_is_refused_before_a_link_is_created(
    service: Served, forewarn: Forewarn, token: str
) -> None:
    ended = forewarn("console", "--token", token, "--at", "unix:/run/forewarn/api")
    assert ended.status == 2
    assert "a browser cannot open unix:/run/forewarn/api" in ended.err
    assert "ssh -L" in ended.err
    history = httpx2.get(f"{service.url}/v1/history").text
    assert "console link created" not in history
