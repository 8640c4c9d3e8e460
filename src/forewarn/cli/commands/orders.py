"""The commands for requests: one for each verb of the table."""

from forewarn.cli.command_table import (
    CLIENT,
    NAMES_FILE,
    REASON,
    SELECTORS,
    Command,
    Option,
)
from forewarn.verbs.model import Answer, Argument, Entry, Form
from forewarn.verbs.table import VERBS


def _option(argument: Argument) -> Option:
    has_words = argument.form is Form.WORD
    is_place = not argument.name.startswith("--")
    is_list = argument.form in {Form.NAMES, Form.LINES}
    return Option(
        name=argument.name,
        metavar="" if has_words else argument.metavar or argument.form.value,
        help=" ".join(filter(None, (argument.about, argument.typed))),
        choices=argument.words,
        is_flag=argument.form is Form.SWITCH,
        is_needed=argument.is_needed and not is_place,
        is_optional=is_place and not argument.is_needed,
        many=is_list and is_place,
        repeated=is_list and not is_place,
        may_be_empty=argument.form is Form.TEXT,
    )


_ALL = Option(
    name="--all",
    is_flag=True,
    help="Also print a row for each VM with its event.",
)


def command(entry: Entry) -> Command:
    """Return the command of a verb."""
    targets = Option(
        name=entry.targets.key,
        metavar=entry.targets.metavar,
        many=entry.targets.is_list,
        is_optional=entry.targets.is_list,
        help=entry.targets.about,
    )
    return Command(
        path=entry.path,
        summary=entry.summary,
        text=entry.text,
        run="forewarn.cli.orders:order",
        options=(
            targets,
            *((*SELECTORS, NAMES_FILE) if entry.targets.is_list else ()),
            *map(_option, entry.arguments),
            REASON,
            *((_ALL,) if entry.answer is Answer.REQUEST else ()),
            *CLIENT,
        ),
        examples=entry.examples,
    )


ORDERS = tuple(map(command, VERBS.values()))
