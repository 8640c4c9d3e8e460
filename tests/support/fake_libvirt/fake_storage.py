"""The storage pool `images` of the fake libvirt, and the error of the library.

The pool is the directory of all hosts, and a volume is a file with its definition. Files
there are its faults:

    kill-before-create   the process is killed before it creates a volume
    kill-in-create       the process is killed while a volume is created
    full                 there is no space for a volume
"""

from pathlib import Path
from xml.etree import ElementTree as ET

INVALID = 55


class libvirtError(Exception):  # noqa: N801 - the name of the real one
    """An error of the library."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self._code = code

    def get_error_code(self) -> int:
        return self._code


class KilledError(BaseException):
    """Stands for the end of the process that calls the library."""


class Volume:
    """A disk."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def XMLDesc(self, flags: int) -> str:  # noqa: N802
        return self._file.read_text()

    def storagePoolLookupByVolume(self) -> "Pool":  # noqa: N802
        return Pool(self._file.parent)

    def delete(self, flags: int) -> int:
        self._file.unlink()
        return 0


class Pool:
    """The pool."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def name(self) -> str:
        return "images"

    def refresh(self, flags: int) -> int:
        """Read the directory again, as each call of this one does."""
        return 0

    def createXML(self, xml: str, flags: int) -> None:  # noqa: N802
        name = ET.fromstring(xml).findtext("name")
        file = self._directory / f"{name}.volume"
        if file.exists():
            raise libvirtError(f"volume target path '{name}' already exists", INVALID)
        if (self._directory / "full").exists():
            raise libvirtError("No space left on device", INVALID)
        if (self._directory / "kill-before-create").exists():
            raise KilledError
        if (self._directory / "kill-in-create").exists():
            file.write_text(f"<volume><name>{name}</name></volume>")
            raise KilledError
        file.write_text(xml)
