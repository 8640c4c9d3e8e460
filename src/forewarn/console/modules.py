"""The modules of the console, and what they import: as text, without running them."""

import posixpath
import re
from collections.abc import Iterator, Mapping

IMPORT = re.compile(
    r'(?:^|(?<=;))import\s*(?:\*\s*as\s+(?P<whole>\w+)|\{(?P<names>[^}]*)\})\s*from\s*"(?P<path>[^"]+)";',
    re.MULTILINE,
)
AGAIN = re.compile(
    r'^export\s*\{(?P<names>[^}]*)\}\s*from\s*"(?P<path>[^"]+)";', re.MULTILINE
)
_ROUTE = re.compile(
    r'path: /(?P<path>\^.*?\$)/,\s*load: \(\) => import\("\./(?P<module>[^"]+)"\)'
)

ROUTES = "js/pages.js"
"""The module that has the path and the module of each page."""


def resolved(module: str, path: str) -> str:
    """Return the name of a module that another one imports by a path."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(module), path))


def ordered(sources: Mapping[str, str], *wanted: str) -> Iterator[str]:
    """Yield each module after the modules that it imports, each once."""
    known: set[str] = set()

    def visit(name: str) -> Iterator[str]:
        if name in known:
            return
        known.add(name)
        for pattern in (IMPORT, AGAIN):
            for match in pattern.finditer(sources[name]):
                yield from visit(resolved(name, match["path"]))
        yield name

    for name in wanted:
        yield from visit(name)


def routes(sources: Mapping[str, str]) -> list[tuple[re.Pattern[str], str]]:
    """Return the paths of all pages, after `/console/`, with their modules.

    Several pages can have the same path: who looks decides which is shown.
    """
    return [
        (
            re.compile(match["path"].replace("\\/", "/")),
            resolved(ROUTES, match["module"]),
        )
        for match in _ROUTE.finditer(sources[ROUTES])
    ]
