"""Earlier versions of forewarn, from the history of the project."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _is_complete() -> bool:
    """Return whether this is a clone with its whole history, and no unpacked archive."""
    process = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "--is-shallow-repository"],
        capture_output=True,
        text=True,
        check=False,
    )
    return process.stdout.strip() == "false"


def unpack(commit: str, name: str, directory: Path) -> Path:
    """Unpack the source of a commit; return its directory, or skip the test.

    `name` is the version, for the reason. A clone with its whole history must have it.
    """
    got = subprocess.run(
        ["git", "-C", ROOT, "archive", commit, "src/forewarn"],
        capture_output=True,
        check=False,
    )
    if got.returncode:
        reason = f"the history of this checkout has no {name} ({commit[:8]})"
        assert not _is_complete(), f"{reason}: {got.stderr.decode()}"
        pytest.skip(reason)
    with tarfile.open(fileobj=io.BytesIO(got.stdout)) as archive:
        archive.extractall(directory, filter="data")
    return directory / "src"
