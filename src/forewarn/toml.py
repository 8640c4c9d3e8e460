"""TOML from people and from strangers: `tomllib`, with a bound that it lacks.

`tomllib` takes time that grows with the square of the names in one dotted key: a key
of 49,000 names, which is 98 kB of text, takes half a minute. The standard library
only, since the agent uses it.
"""

import re
from typing import Any

KEY_NAMES_MAX = 64
"""Names that dots join to one key. Our files use three, and with so many `tomllib` is
still as fast as with other text."""

_NAME = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_DEEP_KEY = re.compile(
    rf"(?:^|[\[{{,])[ \t]*+{_NAME}(?:[ \t]*+\.[ \t]*+{_NAME}){{{KEY_NAMES_MAX}}}",
    re.MULTILINE,
)
"""A key that is too deep, where a key can begin."""


def loads(text: str) -> dict[str, Any]:
    """Return the tables of a text.

    Raises ValueError, as tomllib.TOMLDecodeError with the line where it can be told,
    or RecursionError.
    """
    # Only what reads such a file needs it, and it is no small module.
    import tomllib  # noqa: PLC0415

    if text.count(".") >= KEY_NAMES_MAX and (deep := _DEEP_KEY.search(text)):
        line = text.count("\n", 0, deep.start()) + 1
        column = deep.start() - text.rfind("\n", 0, deep.start())
        raise tomllib.TOMLDecodeError(
            f"a key has more than {KEY_NAMES_MAX} names, joined by dots "
            f"(at line {line}, column {column})"
        )
    return tomllib.loads(text)
