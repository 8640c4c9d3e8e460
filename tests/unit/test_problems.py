"""Hints about directories that accept no file."""

import errno
import os

import pytest

from forewarn.problems import hint_for


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (errno.ENOSPC, "Free some space"),
        (errno.EROFS, "Mount that file system for writing"),
        (errno.EACCES, "Allow the service's user"),
    ],
)
def test_a_directory_that_accepts_no_file_has_a_hint_by_its_error(
    code: int, hint: str
) -> None:
    assert hint_for(OSError(code, os.strerror(code))).startswith(hint)
