"""A small disk of a test's own, which it fills and frees."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.support.namespaces import run


class SmallDisk:
    """A tmpfs. Only root can mount one: see `no_disk`."""

    def __init__(self, directory: Path, mebibytes: int) -> None:
        """Make nothing; `directory` is where it will be."""
        self.directory, self._mebibytes = directory, mebibytes
        self._filler = directory / "filler"

    def begin(self) -> None:
        """Mount it."""
        self.directory.mkdir()
        size = f"size={self._mebibytes}m,mode=755"
        run("mount", "-t", "tmpfs", "-o", size, "tmpfs", str(self.directory))

    def fill(self) -> None:
        """Leave no room on it."""
        block = bytes(os.statvfs(self.directory).f_bsize)
        with suppress(OSError), self._filler.open("ab", buffering=0) as file:
            while True:
                file.write(block)

    def free(self) -> None:
        """Give back what `fill` took."""
        self._filler.unlink()

    def end(self) -> None:
        """Unmount it."""
        subprocess.run(["umount", "-l", str(self.directory)], check=False)


def no_disk(place: Path) -> str:
    """Return why a small disk is not possible; empty: it is."""
    if os.geteuid():
        return "needs root, to mount a small disk"
    disk = SmallDisk(place / f"fw{os.getpid()}-disk", 1)
    try:
        disk.begin()
    except AssertionError as error:
        return str(error)
    finally:
        disk.end()
        disk.directory.rmdir()
    return ""
