"""Checks of a real service: asked by commands through the API's own process."""

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.support.processes import Serving
from tests.unit.service.checks.servers import prometheus, serving

pytestmark = pytest.mark.system

FLEET = '[[host]]\nname = "h1"\n[[vm]]\nname = "web_0"\nhost = "h1"\nlisten = "127.0.0.1:0"\n'

Start = Callable[[str], Serving]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Serving] = []

    def begin(text: str) -> Serving:
        (tmp_path / "forewarn.toml").write_text(text, encoding="utf-8")
        started.append(Serving(tmp_path, FLEET))
        return started[-1].wait_ready()

    yield begin
    for service in started:
        service.process.kill()
        service.process.wait()


def test_checks_are_asked_while_control_and_vms_go_on(
    start: Start, tmp_path: Path
) -> None:
    with serving(prometheus({"errors": 0.2})) as server:
        service = start(
            f'[check.errors]\nkind = "promql"\nurl = "{server.url}"\n'
            'query = "errors"\nbelow = 0.5\n'
            '[check.hangs]\nkind = "command"\nprogram = ["sleep", "300"]\n'
            'timeout = "2s"\n'
        )
        listed = service.admin("/v1/checks")["checks"]
        assert [check["name"] for check in listed] == ["errors", "hangs"]
        assert {check["outcome"] for check in listed} == {"unknown"}
        assert server.asked == []
        response = service.admin("/v1/checks/errors/run", {})
        assert (response["outcome"], response["needed"]) == ("pass", False)
        assert response["reason"].startswith("0.2 of errors")
        response = service.admin("/v1/checks/hangs/run", {})
        assert response["outcome"] == "unknown"
        assert response["reason"] == "sleep did not end within 2 s"
        listed = service.admin("/v1/checks")["checks"]
        assert [check["outcome"] for check in listed] == ["pass", "unknown"]
        with urlopen(f"{service.urls['operators']}/metrics", timeout=30) as answer:
            metrics = answer.read().decode()
        assert (
            'forewarn_check_answers_total{check="errors",outcome="pass"} 1' in metrics
        )
        assert (
            'forewarn_check_answers_total{check="errors",outcome="fail"} 0' in metrics
        )
        assert (
            'forewarn_check_answers_total{check="hangs",outcome="unknown"} 1' in metrics
        )
