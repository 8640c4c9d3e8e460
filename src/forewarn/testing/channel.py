"""Worlds for programs in any language: JSON Lines in, JSON Lines out.

Each line on standard input is a request. Each line on standard output is the answer to
one request, in the same sequence. An answer has `ok`; errors are values in it and never
end the channel. The end of the input judges and closes every open world.
"""

import json
import logging
from collections.abc import Callable, Iterable
from typing import Any

from forewarn.problems import did_you_mean
from forewarn.protocol.errors import ForewarnError
from forewarn.service.listening import StartError
from forewarn.testing.channel_verbs import VERBS, Worlds
from forewarn.testing.kit.failure_report import NotSeenError
from forewarn.testing.messages import Message, MessageError
from forewarn.wording import operators

logger = logging.getLogger("forewarn.testing.channel")


def serve(lines: Iterable[str], write: Callable[[str], object]) -> list[str]:
    """Answer each line until the end of the input; then judge and close every world.

    Return the unmet expectations of worlds that were still open.
    """
    worlds = Worlds()
    try:
        for line in lines:
            write(json.dumps(answer(worlds, line), separators=(",", ":")))
        return worlds.close()
    finally:
        worlds.close(judge=False)


def answer(worlds: Worlds, line: str) -> dict[str, Any]:
    """Return the answer to one line."""
    number: Any = None
    try:
        message = Message.read(line)
        number = message.id
        found: dict[str, Any] = {"ok": True, **_carry_out(worlds, message)}
    except ForewarnError as error:
        found = {"ok": False, "kind": _kind(error), "error": operators.refusal(error)}
        if error.hint:
            found["hint"] = error.hint
    except OSError as error:
        found = {"ok": False, "kind": "machine", "error": str(error)}
        if notes := getattr(error, "__notes__", []):
            found["hint"] = " ".join(notes).removeprefix("hint: ")
    except Exception as error:
        # The last resort: the other worlds of the channel must stay open.
        logger.exception("could not answer a line because of a bug in forewarn")
        told = f"this is a bug in forewarn: {error!r}"
        found = {"ok": False, "kind": "bug", "error": told}
    if number is not None:
        found["id"] = number
    return found


def _carry_out(worlds: Worlds, message: Message) -> dict[str, Any]:
    verb = VERBS.get(message.verb)
    if verb is None:
        raise MessageError(
            f"there is no verb {message.verb!r}{did_you_mean(message.verb, VERBS)}",
            hint=f"The verbs are: {', '.join(sorted(VERBS))}.",
        )
    message.check(verb.keys)
    return verb.run(worlds, message)


def _kind(error: ForewarnError) -> str:
    """Return the kind of an error: caused by the program, the machine or the line."""
    if isinstance(error, NotSeenError):
        return "failed"
    if isinstance(error, StartError):
        return "machine"
    return "usage" if isinstance(error, MessageError) else "refused"
