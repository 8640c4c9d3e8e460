"""Select the alerts that count, by names and labels with wildcards in the settings.

A selector is an alert's name, or one or more pairs `label=value` with spaces between
them, which must all match: `Disk*`, `severity=page team=db`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from forewarn.problems import quoted
from forewarn.protocol.frozen import frozen_dataclass

NAME_LABEL = "alertname"
"""The label with an alert's name."""

WORDS_MAX = 20
"""Maximum number of words in one selector: alerts have about a dozen labels."""

_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@frozen_dataclass
class Selector:
    """Matches alerts by their labels; a missing label counts as empty."""

    parts: tuple[tuple[str, str], ...]
    """Each label with the pattern of its value; case-sensitive."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an alert matches."""
        return all(
            fnmatchcase(labels.get(label, ""), pattern) for label, pattern in self.parts
        )


@frozen_dataclass
class Selection:
    """The alerts that count: those of `only`, or all if it is empty, without `ignore`."""

    only: tuple[Selector, ...] = ()
    ignore: tuple[Selector, ...] = ()

    def counts(self, labels: Mapping[str, str]) -> bool:
        """Return whether an alert counts."""
        if self.only and not any(each.matches(labels) for each in self.only):
            return False
        return not any(each.matches(labels) for each in self.ignore)


def selection(only: Sequence[str], ignore: Sequence[str]) -> Selection:
    """Parse the selectors of the settings; raises ValueError with a sentence."""
    return Selection(
        only=tuple(map(selector, only)), ignore=tuple(map(selector, ignore))
    )


def selector(text: str) -> Selector:
    """Parse one selector; raises ValueError with a sentence."""
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
            f"{quoted(text)}: the only operator is =, with * for any characters; write "
            "the opposite into the other list (ignore or only)"
        )
    if not _LABEL.fullmatch(label):
        raise ValueError(f"{quoted(text)}: {quoted(label)} is not a valid label name")
    return label, value
