"""TOML from people and from strangers: `tomllib`, with a bound that it lacks.

`tomllib` takes time that grows with the square of the names in one dotted key: a key
of 49,000 names, which is 98 kB of text, takes half a minute. The standard library
only, since the agent uses it.
"""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

KEY_NAMES_MAX = 64
"""Names that dots join to one key. Our files use three, and with so many `tomllib` is
still as fast as with other text."""

_NAME = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_DEEP_KEY = re.compile(
    rf"(?:^|[\[{{,])[ \t]*{_NAME}(?:[ \t]*\.[ \t]*{_NAME}){{{KEY_NAMES_MAX}}}",
    re.MULTILINE,
)
"""A key that is too deep, where a key can begin."""


class DeepKeyError(ValueError):
    """A key has too many names."""


def loads(text: str) -> dict[str, Any]:
    """Return the tables of a text.

    Raises ValueError, with the line where it can be told, or RecursionError.
    """
    if text.count(".") >= KEY_NAMES_MAX and (deep := _DEEP_KEY.search(text)):
        line = text.count("\n", 0, deep.start()) + 1
        column = deep.start() - text.rfind("\n", 0, deep.start())
        raise DeepKeyError(
            f"a key has more than {KEY_NAMES_MAX} names, joined by dots "
            f"(at line {line}, column {column})"
        )
    # Only what reads such a file needs it, and it is no small module. It had another
    # name before Python 3.11, under which it is in the agent's packages.
    name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    return importlib.import_module(name).loads(text)
