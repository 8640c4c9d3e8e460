"""The files of the console, as values: their names, media types and digest."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

SHELL = "shell.html"
"""The file that each page begins with."""

ASSETS_PLACE = "{assets}"
"""Text of the shell that stands for the path of the other files."""

_STYLE = re.compile(r'rel="stylesheet" href="\{assets\}/(?P<name>[^"]+)"')

DIGEST_DIGITS = 32
"""Hexadecimal digits of the digest of all files: 128 bits."""

MEDIA_TYPES: Mapping[str, str] = {
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
}
"""Media types by the suffix of a file. A file with another suffix is not served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One file."""

    content: bytes
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assets:
    """All files of the console."""

    shell: str
    """The text of the shell, with `ASSETS_PLACE` in it."""
    files: Mapping[str, Asset]
    """The other files by their path in the package, such as `js/main.js`."""

    @property
    def digest(self) -> str:
        """Return the digest of all names and contents. The shell does not count, because
        it is not kept by browsers without asking."""
        found = hashlib.sha256()
        for name, asset in sorted(self.files.items()):
            found.update(f"{name}\0{len(asset.content)}\0".encode())
            found.update(asset.content)
        return found.hexdigest()[:DIGEST_DIGITS]

    @property
    def style(self) -> str:
        """Return all styles, in the order in which the shell loads them."""
        names = [each["name"] for each in _STYLE.finditer(self.shell)]
        return "\n".join(self.files[name].content.decode("utf-8") for name in names)

    def page(self, path: str) -> str:
        """Return the shell for assets below `path`."""
        return self.shell.replace(ASSETS_PLACE, path)


def read_assets() -> Assets:
    """Return the files of this package."""
    package = resources.files(__package__ or "")
    return Assets(
        shell=package.joinpath(SHELL).read_text("utf-8"),
        files=dict(_files(package, "")),
    )


def _files(directory: Traversable, prefix: str) -> Iterator[tuple[str, Asset]]:
    for each in directory.iterdir():
        if each.is_dir():
            yield from _files(each, f"{prefix}{each.name}/")
        elif (kind := MEDIA_TYPES.get(each.name.rpartition(".")[2])) is not None:
            yield (
                f"{prefix}{each.name}",
                Asset(content=each.read_bytes(), media_type=kind),
            )
