"""The commands in the recipes for Testcontainers, whatever the language."""

import re
from pathlib import Path

_SIMULATED = re.compile(r"[wW]ith(?:Command|Cmd)\(([^)]*)\)")
_ORDER = re.compile(r"[fF]orewarn\((?:t, simulator, )?((?:\"[^\"]*\"(?:, )?)+)\)")


def simulated(file: Path) -> list[str]:
    """Return the words that the container gives to `forewarn simulate`."""
    [arguments] = _SIMULATED.findall(file.read_text(encoding="utf-8"))
    return _texts(arguments)


def orders(file: Path) -> list[list[str]]:
    """Return the words of each order that is given in the container."""
    return [
        _texts(arguments)
        for arguments in _ORDER.findall(file.read_text(encoding="utf-8"))
    ]


def _texts(literals: str) -> list[str]:
    return re.findall(r'"([^"]*)"', literals)
