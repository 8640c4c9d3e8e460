"""Amounts in settings: a number, or a percentage of a group. Pure."""

from __future__ import annotations

import re

from forewarn.protocol.frozen import frozen_dataclass
from forewarn.settings import forms
from forewarn.settings.forms import Form, Option

PERCENT_MAX = 100
"""Maximum percentage: the whole group."""

_NUMBER = re.compile(r"-?[0-9]{1,10}", re.ASCII)
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,2})?)%", re.ASCII)


@frozen_dataclass
class Amount:
    """A number, or a percentage of a group."""

    value: float
    is_percent: bool = False

    def of(self, total: int) -> int:
        """Return the number for a group of `total`.

        A percentage is rounded down, but to at least 1, unless it is 0 %.
        """
        if not self.is_percent:
            return int(self.value)
        return max(int(total * self.value / 100), 1 if self.value else 0)

    def __str__(self) -> str:
        """Return the amount as a file writes it."""
        shown = f"{self.value:.10g}"
        return f"{shown}%" if self.is_percent else shown


def amount_of(text: str) -> Amount:
    """Return the amount that `str` wrote."""
    return Amount(value=float(text.rstrip("%")), is_percent=text.endswith("%"))


def amount(option: Option, value: object) -> Amount:
    """Return the amount that a file contains; raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Amount(value=forms.bounded(option, value))
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise forms.unfit(option, value)
    percent = float(match[1])
    if percent > PERCENT_MAX or (not percent and option.least):
        raise ValueError(f"must be more than 0% and at most 100%, not {value}")
    return Amount(value=percent, is_percent=True)


def _amount_of_text(option: Option, written: str) -> Amount:
    """Return the amount of a flag, a variable or a request, within the same bounds."""
    return amount(option, int(written) if _NUMBER.fullmatch(written) else written)


AMOUNT = Form(
    expected='a whole number or a percentage such as "3%"',
    read=amount,
    read_text=_amount_of_text,
    metavar="NUMBER|PERCENT",
)
