"""The files of the console, as values: their names, media types and digest."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from importlib.resources.abc import Traversable

from forewarn.console.modules import ordered, routes

SHELL = "shell.html"
"""The file that each page begins with."""

ASSETS_PLACE = "{assets}"
"""Placeholder in the shell for the path of the other files."""

MODULES_PLACE = "{modules}"
"""Placeholder in the shell for links to the modules that a page loads."""

STYLE = "style.css"
"""The file with all style sheets: fifteen requests would delay the first paint."""

STYLES = (
    "base",
    "controls",
    "frame",
    "states",
    "campaign",
    "timeline",
    "drawer",
    "lists",
    "tenant",
    "simulator",
    "report",
    "wall",
    "dialogs",
    "narrow",
    "media",
)
"""Names of the style sheets in `css`, in the order in which they apply."""

_MAIN = "js/main.js"
"""The module that the shell loads."""

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


@dataclass(frozen=True, kw_only=True)
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
        digest = hashlib.sha256()
        for name, asset in sorted(self.files.items()):
            digest.update(f"{name}\0{len(asset.content)}\0".encode())
            digest.update(asset.content)
        return digest.hexdigest()[:DIGEST_DIGITS]

    @property
    def style(self) -> str:
        """Return all styles."""
        return self.files[STYLE].content.decode("utf-8")

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """Return the text of each module."""
        return {
            name: file.content.decode("utf-8")
            for name, file in self.files.items()
            if name.endswith(".js")
        }

    def page(self, path: str, modules: Iterable[str]) -> str:
        """Return the shell for assets below `path`.

        The browser fetches the modules at once: it would find a module only after it has
        read those that import it, a round trip for each.
        """
        links = "\n".join(
            f'<link rel="modulepreload" href="{ASSETS_PLACE}/{name}">'
            for name in modules
        )
        shell = self.shell.replace(MODULES_PLACE, links)
        return shell.replace(ASSETS_PLACE, path)

    def modules_of(self, path: str) -> frozenset[str]:
        """Return the modules that every page with a path after `/console/` loads.

        Where the path does not decide which page it is, these are those of all of them.
        """
        first, *others = [
            loaded for pattern, loaded in self._routes if pattern.match(path)
        ] or [self._main]
        return self._main | first.intersection(*others)

    @cached_property
    def _main(self) -> frozenset[str]:
        return frozenset(ordered(self.sources, _MAIN))

    @cached_property
    def _routes(self) -> Sequence[tuple[re.Pattern[str], frozenset[str]]]:
        return [
            (pattern, frozenset(ordered(self.sources, module)))
            for pattern, module in routes(self.sources)
        ]


def read_assets() -> Assets:
    """Return the files of this package."""
    package = resources.files(__package__ or "")
    files = dict(_files(package, ""))
    style = b"\n".join(files[f"css/{name}.css"].content for name in STYLES)
    files[STYLE] = Asset(content=style, media_type=MEDIA_TYPES["css"])
    return Assets(shell=package.joinpath(SHELL).read_text("utf-8"), files=files)


def _files(directory: Traversable, prefix: str) -> Iterator[tuple[str, Asset]]:
    for file in directory.iterdir():
        if file.is_dir():
            yield from _files(file, f"{prefix}{file.name}/")
        elif (kind := MEDIA_TYPES.get(file.name.rpartition(".")[2])) is not None:
            yield (
                f"{prefix}{file.name}",
                Asset(content=file.read_bytes(), media_type=kind),
            )
