"""The commands for requests: one for each verb of the table."""

from forewarn.cli.command_table import (
    CLIENT,
    DRY_RUN,
    NAMES_FILE,
    REASON,
    SELECTORS,
    Command,
    Option,
)
from forewarn.verbs.campaign_terms import HOSTS
from forewarn.verbs.model import Answer, Argument, Entry, Form, Kind
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
        # Hosts of a campaign can be selected.
        is_optional=is_place and (is_list or not argument.is_needed),
        many=is_list and is_place,
        repeated=is_list and not is_place,
        may_be_empty=argument.form is Form.TEXT,
    )


_ALL = Option(
    name="--all",
    is_flag=True,
    help="Also print a row for each VM with its event.",
)


_REVISION = Option(
    name="--revision",
    metavar="REVISION",
    help="`revision` of the campaign that you have seen, from `campaign show --json`. After "
    "another decision about it, the request is refused.",
)


_ROLLOUT = Option(
    name="--rollout", metavar="ROLLOUT", help="Only events of this rollout."
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
    takes_hosts = any(argument.key == HOSTS for argument in entry.arguments)
    return Command(
        path=entry.path,
        summary=entry.summary,
        text=entry.text,
        run="forewarn.cli.orders:order",
        options=(
            targets,
            *((*SELECTORS, NAMES_FILE) if entry.targets.is_list else ()),
            # `cancel` takes the rollout itself.
            *((_ROLLOUT,) if entry.targets.kind is Kind.EVENT else ()),
            *map(_option, entry.arguments),
            *((*SELECTORS, NAMES_FILE) if takes_hosts else ()),
            REASON,
            DRY_RUN,
            *((_REVISION,) if entry.targets.kind is Kind.CAMPAIGN else ()),
            *((_ALL,) if entry.answer is Answer.REQUEST else ()),
            *CLIENT,
        ),
        examples=entry.examples,
    )


ORDERS = tuple(map(command, VERBS.values()))
