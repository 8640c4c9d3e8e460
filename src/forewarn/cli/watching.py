"""`--watch`: the current objects, then each change, until a signal.

A terminal shows one picture that is updated in place: a row for each object, with the
time of its last change. A pipe gets a line, or a JSON document, for each change. If the
service stops, the command waits until it runs again.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from forewarn.cli import output
from forewarn.cli.client import Client, Json
from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.cli.list_state import BACK, LOST, ListState
from forewarn.cli.listings import Listing
from forewarn.clock import SystemClock
from forewarn.texts import printable

AGAIN_SECONDS = 1.0
"""Seconds between two attempts to reach a service that has stopped."""

READ_SECONDS = 2.0
"""Seconds between two reads of a list that the stream of changes does not have: its
sums are read by operators, who need no faster ones."""


def watch(
    call: Call,
    listing: Listing,
    filters: Mapping[str, str],
    names: frozenset[str] | None = None,
    *,
    read: Callable[[], Sequence[Json]] | None = None,
) -> int:
    """Show a list and its changes until a signal, which is not a failure.

    The stream of changes has the list, unless `read` returns all its objects. Raises
    CommandError for `--all` with the stream, which begins with the open objects.
    """
    if call.flag("all") and read is None:
        raise CommandError(
            Exit.USAGE,
            "--all cannot be used with --watch",
            hint="Leave out one of them: --watch shows open objects, and keeps those that "
            "end meanwhile.",
        )
    state = ListState(listing, state=filters.get("state", ""), names=names)
    query = {key: value for key, value in filters.items() if key != "state"}
    query["topics"] = listing.path
    client = Client.of(call)
    with suppress(KeyboardInterrupt):
        begin = partial(client.watch, query)
        if read is not None:
            begin = partial(repeated, read, listing.path, pause=time.sleep)
        news = follow(begin, pause=time.sleep)
        if sys.stdout.isatty() and not call.flag("json"):
            from forewarn.cli import live_list  # noqa: PLC0415 - slow, only for terminals

            title = " ".join(f"{key} {value}" for key, value in filters.items())
            if live_list.show(state, news, title=f"{listing.path} {title}".rstrip()):
                return Exit.DONE
        _lines(state, news, is_json=call.flag("json"))
    return Exit.DONE


def repeated(
    read: Callable[[], Sequence[Json]], path: str, *, pause: Callable[[float], None]
) -> Iterator[tuple[str, Any]]:
    """Yield all objects of a list again and again, as a stream of changes sends them."""
    while True:
        yield "reset", {}
        yield from ((path, row) for row in read())
        yield "ready", {}
        pause(READ_SECONDS)


def follow(
    begin: Callable[[], Iterator[tuple[str, Any]]], *, pause: Callable[[float], None]
) -> Iterator[tuple[str, Any]]:
    """Yield the messages of a stream, and of each stream after it breaks.

    Raises CommandError if the first stream cannot begin, or if waiting cannot help.
    """
    is_open = is_lost = False
    while True:
        try:
            for item in begin():
                if is_lost:
                    yield BACK, None
                is_open, is_lost = True, False
                yield item
        except CommandError as error:
            if error.status is not Exit.UNREACHABLE or not is_open:
                raise
            if not is_lost:
                yield LOST, error.message
            is_lost = True
        pause(AGAIN_SECONDS)


def _lines(state: ListState, news: Iterator[tuple[str, Any]], *, is_json: bool) -> None:
    clock = SystemClock()
    for name, data in news:
        is_new = state.take(name, data, now=clock.now())
        if name in {LOST, BACK}:
            sys.stderr.write(f"forewarn: {printable(state.note)}\n")
        elif is_json:
            if name == state.listing.path and state.wants(data):
                output.json_line(data)
        elif is_new:
            output.line("  ".join(cell for cell in state.listing.row(data) if cell))
