"""Generate the tables of `docs/reference/settings.md` from the options."""

from collections.abc import Mapping
from dataclasses import fields

from deploy.option_tables import default_shown, in_table, table
from forewarn.service import array_tables, named_tables
from forewarn.service.option_table import OPTIONS, SECTIONS
from forewarn.service.settings import value_of
from forewarn.service.settings_model import Settings
from forewarn.settings.forms import Option


def tables() -> Mapping[str, str]:
    """Return the Markdown of each table of settings, by the name of the table."""
    usual = Settings()
    found = {
        section: table(
            in_table(OPTIONS, section),
            lambda name, option: default_shown(option, value_of(usual, name)),
        )
        for section in SECTIONS
    }
    for array, kind in array_tables.ARRAYS.items():
        defaults = {f"{array}.{field.name}": field.default for field in fields(kind)}
        options: dict[str, Option] = {
            f"{array}.{key}": option
            for key, option in array_tables.OPTIONS[array].items()
        }
        found[array] = table(
            options,
            lambda name, option, known=defaults: default_shown(option, known[name]),
        )
    for group, kind in named_tables.GROUPS.items():
        defaults = {
            f"{group}.NAME.{field.name}": field.default for field in fields(kind)
        }
        options = {
            f"{group}.NAME.{key}": option
            for key, option in named_tables.OPTIONS[group].items()
        }
        found[group] = table(
            options,
            lambda name, option, known=defaults: default_shown(option, known[name]),
        )
    return {name: "\n".join(lines) + "\n" for name, lines in found.items()}
