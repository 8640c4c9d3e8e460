"""Files named by users: every reader rejects endless files."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.admin.tokens import read_tokens
from forewarn.cli import main
from forewarn.service.assembly import read_fleet_text
from forewarn.service.settings import load_settings
from forewarn.settings.files import UnreadError, opened, read_file, shown
from forewarn.sim.replay import load
from forewarn.sim.scenario.file import load_scenario
from forewarn.testing.kit.files import text_of

ZERO = Path("/dev/zero")


def test_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_file(file, bytes_max=5) == b"12345"
    with pytest.raises(UnreadError, match="it has more than 4 bytes"):
        read_file(file, bytes_max=4)


@pytest.mark.parametrize(
    ("size", "said"), [(5, "5 bytes"), (65_536, "64 KiB"), (64 << 20, "64 MiB")]
)
def test_limit_is_reported_with_a_unit(size: int, said: str) -> None:
    assert shown(size) == said


def test_pipe_is_read_only_for_commands(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"piped",))
    writer.start()
    assert read_file(pipe, bytes_max=5) == b"piped"
    writer.join()
    with pytest.raises(UnreadError, match="it is a FIFO, and must be a regular file"):
        read_file(pipe, bytes_max=5, pipes=False)


def test_null_device_is_read_as_an_empty_file() -> None:
    assert read_file(Path(os.devnull), bytes_max=0) == b""


def test_missing_files_and_directories_are_reported(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        opened(str(tmp_path / "nothing"))
    with pytest.raises(UnreadError, match="it is a directory"):
        read_file(tmp_path, bytes_max=1)


READERS: dict[str, Callable[[], object]] = {
    "scenario": lambda: load_scenario(ZERO),
    "recording": lambda: load(ZERO),
    "settings": lambda: load_settings(file=ZERO, environ={}, flags={}),
    "tokens": lambda: read_tokens(ZERO),
    "fleet of a service": lambda: read_fleet_text(ZERO),
    "fleet of a test": lambda: text_of(ZERO),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_a_device(reader: str) -> None:
    with pytest.raises(Exception, match="it is a device, and must be a regular file"):
        READERS[reader]()


COMMANDS = {
    "simulate --fleet": ("simulate", "user-reboot", "--fleet", str(ZERO)),
    "simulate --faults": ("simulate", "user-reboot", "--faults", str(ZERO)),
    "simulate --replay": ("simulate", "--replay", str(ZERO)),
    "simulate --show": ("simulate", "--show", str(ZERO)),
    "simulate FILE": ("simulate", str(ZERO)),
    "serve": ("serve", "--config", str(ZERO)),
    "config check": ("config", "check", "--config", str(ZERO)),
    "fleet validate": ("fleet", "validate", str(ZERO)),
    "addresses plan": ("addresses", "plan", str(ZERO)),
    "--ca-file": ("--url", "https://127.0.0.1:9", "--ca-file", str(ZERO), "operations"),
    "token": ("operations",),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("command", COMMANDS)
def test_command_refuses_a_device_immediately(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = COMMANDS[command]
    if command == "token":
        monkeypatch.setenv("FOREWARN_TOKEN_FILE", str(ZERO))
    assert main(arguments) in (1, 2)
    assert "it is a device, and must be a regular file" in capsys.readouterr().err
