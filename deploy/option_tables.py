"""Generate the tables of a reference page from the options of a format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from forewarn.settings.forms import Option, bounds_of, shown

REQUIRED = "required"
"""Shown instead of a default if the key is required."""


def table(
    options: Mapping[str, Option],
    default_of: Callable[[str, Option], str],
    *,
    what: str = "setting",
) -> Iterator[str]:
    """Yield the lines of a table of options; `what` is the page's word for an option."""
    yield f"| {what} | default | meaning |"
    yield "|---|---|---|"
    for name, option in options.items():
        kinds = f"({', '.join(option.kinds)}) " if option.kinds else ""
        default = REQUIRED if option.is_needed else default_of(name, option)
        yield f"| `{name}` | {default} | {kinds}{meaning_of(option)} |"


def meaning_of(option: Option) -> str:
    """Return the meaning of an option, with its bounds."""
    return option.text + bounds_of(option)


def default_shown(option: Option, value: object, *, nothing: str = "empty") -> str:
    """Return a default as the page shows it, or `nothing` if it is empty."""
    text = shown(option, value)
    return f"`{text}`" if text else nothing


def in_table(options: Mapping[str, Option], table: str) -> dict[str, Option]:
    """Return the options of one table; "" means no table."""
    return {
        name: option
        for name, option in options.items()
        if name.rpartition(".")[0] == table
    }
