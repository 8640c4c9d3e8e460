"""TOML: `tomllib` with a bound that it lacks, and the only writer of TOML values.

What is read comes from people and from strangers. `tomllib` takes time that grows with the square of the names in one dotted key: a key
of 49,000 names, which is 98 kB of text, takes half a minute. The standard library
only, since the agent uses it.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from typing import Any, cast

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


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STEERING = re.compile("[\x7f-\x9f\u2028\u2029]")
"""Control characters that JSON keeps, and what ends a line for some readers."""


def text(value: str) -> str:
    """Return a text as a TOML string on one line.

    Characters beyond the BMP stay as they are: JSON escapes them as two halves, which
    TOML refuses. Halves of characters stay, too, and no TOML file can hold them.
    """
    # What JSON escapes then has the same escapes in TOML.
    written = json.dumps(value, ensure_ascii=False)
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def key(name: str) -> str:
    """Return a key as TOML writes it: bare where it can be, or else in quotes."""
    return name if _BARE_KEY.fullmatch(name) else text(name)


def value(each: object) -> str:
    """Return a value that `loads` gave as TOML on one line."""
    if isinstance(each, str):
        return text(each)
    if isinstance(each, bool):
        return "true" if each else "false"
    if isinstance(each, dict):
        table = cast("dict[str, object]", each)
        pairs = (f"{key(name)} = {value(one)}" for name, one in table.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(each, list):
        return f"[{', '.join(map(value, cast('list[object]', each)))}]"
    if isinstance(each, (int, float)):
        # Python writes them as TOML does: 1e+16, nan and -inf, too.
        return repr(each)
    # Dates and times, whose module the agent does not load.
    return str(cast("Any", each).isoformat())
