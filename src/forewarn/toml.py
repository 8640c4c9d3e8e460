"""TOML: `tomllib` with a limit that it lacks, and the only writer of TOML values.

The input can come from untrusted users. The time of `tomllib` is quadratic in the
number of names in one dotted key: a key of 49,000 names (98 kB) takes half a minute.
This module uses only the standard library, since the agent imports it.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from typing import Any, cast

KEY_NAMES_MAX = 64
"""Maximum names in one dotted key. forewarn's files use three, and up to this limit
`tomllib` is as fast as with other text."""

_NAME = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_DEEP_KEY = re.compile(
    rf"(?:^|[\[{{,])[ \t]*{_NAME}(?:[ \t]*\.[ \t]*{_NAME}){{{KEY_NAMES_MAX}}}",
    re.MULTILINE,
)
"""Matches a key with too many names at a position where a key can start."""


class DeepKeyError(ValueError):
    """A dotted key with too many names."""


def loads(text: str) -> dict[str, Any]:
    """Parse a TOML text.

    Raises ValueError, with the line if it is known, or RecursionError.
    """
    if text.count(".") >= KEY_NAMES_MAX and (deep := _DEEP_KEY.search(text)):
        line = text.count("\n", 0, deep.start()) + 1
        column = deep.start() - text.rfind("\n", 0, deep.start())
        raise DeepKeyError(
            f"a key has more than {KEY_NAMES_MAX} names, joined by dots "
            f"(at line {line}, column {column})"
        )
    # Imported late, since the module is large and rarely needed. Before Python 3.11 it is
    # `tomli`, which the agent's packages contain.
    name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    return importlib.import_module(name).loads(text)


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STEERING = re.compile("[\x7f-\x9f\u2028\u2029]")
"""Control characters that JSON does not escape, and line separators."""


def text(value: str) -> str:
    """Return a text as a TOML string on one line.

    Characters beyond the BMP are not escaped: JSON escapes them as surrogates, which
    TOML rejects. Lone surrogates are not escaped either; TOML cannot represent them.
    """
    # Everything else that JSON escapes has the same escape in TOML.
    written = json.dumps(value, ensure_ascii=False)
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def key(name: str) -> str:
    """Return a key in TOML: bare if possible, otherwise in quotes."""
    return name if _BARE_KEY.fullmatch(name) else text(name)


def value(item: object) -> str:
    """Return a value from `loads` as TOML on one line."""
    if isinstance(item, str):
        return text(item)
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, dict):
        table = cast("dict[str, object]", item)
        pairs = (f"{key(name)} = {value(one)}" for name, one in table.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(item, list):
        return f"[{', '.join(map(value, cast('list[object]', item)))}]"
    if isinstance(item, (int, float)):
        # Python and TOML write numbers alike, even 1e+16, nan and -inf.
        return repr(item)
    # A date or a time.
    return str(cast("Any", item).isoformat())
