"""The examples of examples/testing, and what docs/tutorials/test-your-service.md and testkit.md show."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.system, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "testing"
SECONDS_MAX = 50


def _run(*command: str, directory: Path = ROOT) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def _blocks(name: str, language: str) -> list[str]:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_tests_of_the_sample_service_pass() -> None:
    done = _run(sys.executable, "-m", "pytest", "-q", str(EXAMPLES))
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout


def test_sample_tests_pass_under_unittest() -> None:
    file = EXAMPLES / "test_with_unittest.py"
    done = _run(sys.executable, "-W", "error", "-m", "unittest", str(file))
    assert done.returncode == 0, done.stderr


def test_a_bash_script_tests_the_sample_client() -> None:
    script = EXAMPLES / "test_client.sh"
    assert script.read_text(encoding="utf-8") in _blocks(
        "how-to/test/other-languages.md", "bash"
    )
    done = _run("bash", str(script))
    assert done.returncode == 0, done.stderr
    assert "the client approved" in done.stdout


def test_bash_script_fails_if_its_client_fails(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "testing")
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients" / "watch.sh").write_text("true\n", encoding="utf-8")
    done = _run("bash", str(tmp_path / "testing" / "test_client.sh"))
    assert done.returncode == 1
    assert '"kind":"failed","error":"Reboot' in done.stderr


def test_test_of_the_guide_fails_and_then_passes(tmp_path: Path) -> None:
    blocks = _blocks("tutorials/test-your-service.md", "python")
    service, test, line, _, without_pytest, *_ = blocks
    (tmp_path / "service.py").write_text(service, encoding="utf-8")
    (tmp_path / "test_service.py").write_text(test, encoding="utf-8")
    command = (sys.executable, "-m", "pytest", "-q", "-W", "error")

    done = _run(*command, directory=tmp_path)
    assert done.returncode == 1
    messages = _blocks("tutorials/test-your-service.md", "text")[0].splitlines()
    for message in messages:
        shown = re.sub(r"[0-9A-F]{8}", "[0-9A-F]{8}", re.escape(message))
        assert re.search(shown.replace(r"0\ s\ ago", r"[\d.]+ s ago"), done.stdout), (
            message
        )

    (tmp_path / "service.py").write_text(service + line, encoding="utf-8")
    done = _run(*command, directory=tmp_path)
    assert done.returncode == 0, done.stdout

    (tmp_path / "test_unittest.py").write_text(without_pytest, encoding="utf-8")
    done = _run(sys.executable, "-m", "unittest", "test_unittest", directory=tmp_path)
    assert done.returncode == 0, done.stderr


def test_test_of_the_readme_passes(tmp_path: Path) -> None:
    (test,) = _blocks("../README.md", "python")
    (tmp_path / "test_readme.py").write_text(test, encoding="utf-8")
    done = _run(sys.executable, "-m", "pytest", "-q", "-W", "error", directory=tmp_path)
    assert done.returncode == 0, done.stdout


def test_a_campaign_of_the_reference_reaches_the_vms(tmp_path: Path) -> None:
    [test] = [
        block
        for block in _blocks("reference/pytest-plugin.md", "python")
        if "[campaign]" in block
    ]
    (tmp_path / "test_campaign.py").write_text(test, encoding="utf-8")
    done = _run(sys.executable, "-m", "pytest", "-q", "-W", "error", directory=tmp_path)
    assert done.returncode == 0, done.stdout


def test_user_test_passes_strict_type_checks(tmp_path: Path) -> None:
    """A strict type check finds nothing unknown."""
    (tmp_path / "test_it.py").write_text(
        "import datetime\n\nimport pytest\n\n"
        "from forewarn.testing import (Event, JournalEntry, NotSeenError,\n"
        "    ScheduledEvents, Vm)\n\n\n"
        "@pytest.mark.scheduled_events(vms=2)\n"
        "def test_it(scheduled_events: ScheduledEvents) -> None:\n"
        '    vm: Vm = scheduled_events.vm("web_0")\n'
        "    event: Event = vm.preempt(notice=datetime.timedelta(seconds=9))\n"
        "    after: float = event.wait_for_approval().after.total_seconds()\n"
        "    seen: list[JournalEntry] = vm.requests\n"
        "    url: str = vm.url\n"
        "    with pytest.raises(NotSeenError):\n"
        "        event.assert_approved(by=url, within=after + len(seen))\n\n\n"
        "async def test_async(scheduled_events: ScheduledEvents) -> None:\n"
        "    await scheduled_events.vms[0].reboot().aio.wait_until('Removed')\n",
        encoding="utf-8",
    )
    settings = '{"typeCheckingMode": "strict", "venvPath": "%s", "venv": "%s"}'
    venv = Path(sys.prefix)
    (tmp_path / "pyrightconfig.json").write_text(
        settings % (venv.parent, venv.name), encoding="utf-8"
    )
    program = Path(sys.executable).parent / "pyright"
    done = _run(str(program), directory=tmp_path)
    assert done.returncode == 0, done.stdout
