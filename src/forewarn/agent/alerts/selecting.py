"""Which alerts count: names and labels with wildcards, as the settings write them.

A selector is an alert's name, or pairs `label=value`, or several of these with spaces
between them, which must all hold: `Disk*`, `severity=page team=db`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from forewarn.problems import quoted
from forewarn.protocol.frozen import frozen_dataclass

NAME_LABEL = "alertname"
"""The label that has an alert's name."""

WORDS_MAX = 20
"""Of one selector: alerts have a dozen labels."""

_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@frozen_dataclass
class Selector:
    """Alerts that have these labels; a label that an alert lacks is empty."""

    parts: tuple[tuple[str, str], ...]
    """Each label with the pattern of its value, in upper and lower case as written."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether an alert is one of those."""
        return all(
            fnmatchcase(labels.get(label, ""), pattern) for label, pattern in self.parts
        )


@frozen_dataclass
class Selection:
    """Which alerts count: those of `only`, or all where it is empty, without `ignore`."""

    only: tuple[Selector, ...] = ()
    ignore: tuple[Selector, ...] = ()

    def counts(self, labels: Mapping[str, str]) -> bool:
        """Tell whether an alert counts."""
        if self.only and not any(each.matches(labels) for each in self.only):
            return False
        return not any(each.matches(labels) for each in self.ignore)


def selection(only: Sequence[str], ignore: Sequence[str]) -> Selection:
    """Return which alerts count; raises ValueError with a sentence."""
    return Selection(
        only=tuple(map(selector, only)), ignore=tuple(map(selector, ignore))
    )


def selector(text: str) -> Selector:
    """Return what a text selects; raises ValueError with a sentence."""
    words = text.split()
    if not 0 < len(words) <= WORDS_MAX:
        raise ValueError(f"{quoted(text)} must have 1 to {WORDS_MAX} words")
    return Selector(parts=tuple(_part(text, word) for word in words))


def _part(text: str, word: str) -> tuple[str, str]:
    if set(word) & set('{}"'):
        raise ValueError(
            f"{quoted(text)}: write a name such as DiskFull or Disk*, or labels such as "
            "severity=page, without braces and quotes"
        )
    label, equals, value = word.partition("=")
    if not equals:
        return NAME_LABEL, word
    if label.endswith("!") or value.startswith("~"):
        raise ValueError(
            f"{quoted(text)}: only = is known, with * for any characters; what must not "
            "hold goes to the other list (ignore or only)"
        )
    if not _LABEL.fullmatch(label):
        raise ValueError(f"{quoted(text)}: {quoted(label)} is no name of a label")
    return label, value
