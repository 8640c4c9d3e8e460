"""The files that a user names, which may be pipes or open files of a process."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from forewarn.cli.command_table import CommandError
from forewarn.cli.files import is_replaceable, replace_text


def test_file_and_future_file_are_replaceable(tmp_path: Path) -> None:
    file = tmp_path / "report.xml"
    assert is_replaceable(str(file))
    file.touch()
    assert is_replaceable(str(file))


def test_file_in_memory_is_replaceable() -> None:
    with TemporaryDirectory(dir="/dev/shm") as directory:
        assert is_replaceable(str(Path(directory, "report.xml")))


def test_link_to_a_file_is_replaceable(tmp_path: Path) -> None:
    (tmp_path / "report.xml").touch()
    (tmp_path / "latest.xml").symlink_to("report.xml")
    assert is_replaceable(str(tmp_path / "latest.xml"))


def test_pipe_and_device_are_not_replaceable(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert not is_replaceable(str(tmp_path / "pipe"))
    assert not is_replaceable("/dev/null")


def test_open_file_of_a_process_is_not_replaceable(tmp_path: Path) -> None:
    with (tmp_path / "output").open("w") as output:
        number = output.fileno()
        (tmp_path / "mine").symlink_to(f"/dev/fd/{number}")
        (tmp_path / "other").symlink_to("mine")
        for name in (
            f"/dev/fd/{number}",
            f"/proc/self/fd/{number}",
            str(tmp_path / "mine"),
            str(tmp_path / "other"),
        ):
            assert not is_replaceable(name), name


def test_links_in_a_circle_are_not_followed_without_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(CommandError, match="symbolic links"):
        replace_text(str(tmp_path / "a"), "text")
