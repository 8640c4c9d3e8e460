"""Files that are replaced as a whole: a crash leaves the old content or the new."""

import os
from pathlib import Path


def replace_file(path: Path, data: bytes, *, mode: int) -> None:
    """Replace a file durably, with these permissions; raises OSError.

    After an error, the file has its old content or the new one, and an unfinished file
    can be left (`unfinished`), which the next call overwrites.
    """
    fresh = unfinished(path)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    fresh.replace(path)
    make_durable(path.parent)


def unfinished(path: Path) -> Path:
    """Return the file that becomes `path` when it is complete."""
    return path.with_name(f"{path.name}.new")


def make_durable(path: Path) -> None:
    """Write a file, or the names in a directory, to the disk; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
