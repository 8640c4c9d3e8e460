"""The requests of an operator in a story: the verbs, as on the command line."""

from forewarn.control.requests.verbs import DECISIONS
from forewarn.fleet.model import Host
from forewarn.verbs.model import Argument, Entry, Form, Value, VerbRequest
from forewarn.verbs.table import VERBS
from tests.support.transcripts.story import Story
from tests.support.transcripts.words import Words

ORDERS = frozenset(VERBS)


def order(story: Story, words: Words) -> None:
    """Make the request of a command line."""
    entry = VERBS[words.name]
    arguments = _given(entry, story, words)
    story.world.order(lambda work: DECISIONS[entry.name](work, arguments))


def _given(entry: Entry, story: Story, words: Words) -> VerbRequest:
    values = {
        argument.key: _option(argument, story, words)
        for argument in entry.arguments
        if argument.name.startswith("--")
    }
    # The verb itself refuses a request without targets.
    targets = words.all(least=0 if entry.name == "maintain" else 1)
    for argument in entry.arguments:
        if not argument.name.startswith("--"):
            values[argument.key] = _word(
                argument, targets.pop() if targets else "", words
            )
    if not entry.targets.is_list and len(targets) != 1:
        raise words.error(f"{words.name} takes exactly one target")
    if entry.name in {"fail", "restore"} and story.world.read(
        lambda reader: reader.get(Host, targets[0])
    ):
        # Hosts of stories may have the names of VMs.
        values["kind"] = "host"
    return VerbRequest(
        targets=tuple(targets),
        values={key: value for key, value in values.items() if value is not None},
    )


def _option(argument: Argument, story: Story, words: Words) -> Value | None:
    match argument.form:
        case Form.SWITCH:
            return words.flag(argument.name)
        case Form.NAMES | Form.LINES:
            return words.options(argument.name)
        case Form.SECONDS:
            return words.seconds(argument.name)
        case Form.DURATION:
            return words.duration(argument.name)
        case Form.MOMENT:
            return words.moment(argument.name, now=story.world.now)
        case Form.COUNT:
            text = words.option(argument.name)
            return int(text) if text else None
        case Form.WORD:
            text = words.option(argument.name)
            if text or argument.is_needed:
                return _word(argument, text, words)
            return None
        case _:
            return words.option(argument.name) or None


def _word(argument: Argument, text: str, words: Words) -> str:
    if text not in argument.words:
        raise words.error(f"say {' or '.join(argument.words)}")
    return text
