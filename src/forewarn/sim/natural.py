"""Natural sort order of names: `web_2` before `web_10`."""

import re

_NUMBER = re.compile(r"([0-9]{1,9})", re.ASCII)


def counted(name: str) -> list[tuple[int, str]]:
    """Return a sort key that compares the numbers in names as numbers."""
    parts = _NUMBER.split(name)
    return [(int(part), "") if at % 2 else (0, part) for at, part in enumerate(parts)]
