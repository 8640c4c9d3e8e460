"""The programs of the driver for QEMU, which the driver runs as operators' own.

    program.py SETTINGS work                       # the call is on standard input
    program.py SETTINGS observe                    # the VMs are on standard input
    program.py SETTINGS probe ACTION VM HOST TO_HOST MARK
    program.py SETTINGS marks                      # the VMs are on standard input
    program.py SETTINGS abilities                  # the hosts are on standard input
    program.py SETTINGS watch

It is run by its path, without site packages: the standard library is enough.
"""

import asyncio
import contextlib
import json
import select
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from forewarn.drivers.marks import MarkState, parse_mark
from forewarn.drivers.qemu import answers
from forewarn.drivers.qemu.places import Places, places_from
from forewarn.drivers.qemu.watching import Watching
from forewarn.drivers.qemu.work import UNKNOWN_STATUS, Order, carry_out
from forewarn.protocol.operations import Action

STOPPED_STATUS = 143
"""Exit status after SIGTERM: 128 and the number of the signal, as in shells."""


def main(arguments: list[str]) -> int:
    """Run the program that the arguments name, and return its exit status."""
    places, name, rest = places_from(arguments[0]), arguments[1], arguments[2:]
    match name:
        case "work":
            return _run(carry_out(places, _order()))
        case "observe":
            return _run(_lines(answers.observe(places, answers.vms_in(sys.stdin))))
        case "probe":
            return _run(_said(answers.probe(places, _probed(*rest))))
        case "marks":
            return _run(_lines(answers.marks(places, answers.vms_in(sys.stdin))))
        case "abilities":
            hosts = answers.hosts_in(sys.stdin)
            return _run(_lines(answers.abilities(places, hosts)))
        case "watch":
            return _run(_watch(places))
        case _:
            return UNKNOWN_STATUS


def _run(work: Coroutine[object, object, int]) -> int:
    """Run to the end, or until SIGTERM, which lets the work tidy up."""

    async def supervised() -> int:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            return await task
        except asyncio.CancelledError:
            return STOPPED_STATUS

    return asyncio.run(supervised())


async def _said(answer: Coroutine[object, object, tuple[int, str]]) -> int:
    status, text = await answer
    if text:
        print(text)  # noqa: T201 - the output of a program
    return status


async def _lines(answer: Coroutine[object, object, list[str]]) -> int:
    for line in await answer:
        print(line)  # noqa: T201 - the output of a program
    return 0


async def _watch(places: Places) -> int:
    def say(line: str) -> None:
        print(line, flush=True)  # noqa: T201 - the output of a program

    with contextlib.suppress(BrokenPipeError):
        await Watching(places, say, is_heard=_is_read).run()
    return 0


def _is_read() -> bool:
    """Return whether a process still reads the standard output.

    Without it, the program would keep the monitors of all VMs from its successor.
    """
    output = select.poll()
    output.register(sys.stdout, 0)
    return not output.poll(0)


def _order() -> Order:
    """Return the order on standard input."""
    call = json.load(sys.stdin)
    return Order(
        action=Action(call["action"]),
        vm=call["vm"],
        host=call["host"],
        to_host=call["to_host"] or "",
        seconds=call["seconds"],
        mark=parse_mark(
            call["mark"],
            MarkState.BEGUN.value,
            # A call of an older version has none.
            term=call.get("term", 0),
            store=call.get("store", ""),
        ),
    )


def _probed(action: str, vm: str, host: str, to_host: str, mark: str) -> Order:
    """Return the order whose outcome is asked for."""
    return Order(
        action=Action(action),
        vm=vm,
        host=host,
        to_host=to_host,
        seconds=-1,
        mark=parse_mark(mark, MarkState.BEGUN.value),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
