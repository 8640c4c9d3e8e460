"""The worker's arguments.

run.py SETTINGS serve                                # lines: see `serving`
run.py SETTINGS work                                 # the call is on standard input
run.py SETTINGS probe ACTION VM HOST TO_HOST MARK
run.py "" discover SECONDS URI…                      # prints an inventory
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial

from . import actions, inventory, probing
from .domains import Domains
from .hosts import Hosts, load_libvirt, run_events
from .orders import (
    STOPPED_STATUS,
    UNKNOWN_STATUS,
    Mark,
    Order,
    WorkError,
    order_from,
    settings_from,
)
from .serving import Server, printer

STOP_SECONDS = 8.0
"""Seconds after SIGTERM until a call to libvirt that hangs is given up: less than the
grace of the driver, so that the exit status tells it."""


def main(arguments: list[str]) -> int:
    """Do what the arguments say, and return the exit status."""
    try:
        api = load_libvirt()
        if arguments[1] == "check":
            return 0
        if arguments[1] == "discover":
            merged = inventory.discover(api, arguments[3:], seconds=float(arguments[2]))
            print(json.dumps(merged))
            return 0
        hosts = Hosts(api, settings_from(arguments[0]))
        run_events(api)
        if arguments[1] == "serve":
            Server(hosts, printer()).run(sys.stdin)
            return 0
        return _do(hosts, arguments[1], arguments[2:])
    except WorkError as error:
        print(error, file=sys.stderr if arguments[1] == "discover" else sys.stdout)
        return UNKNOWN_STATUS


def _do(hosts: Hosts, name: str, arguments: list[str]) -> int:
    stop = threading.Event()
    domains = Domains(hosts, stop, say=partial(print, flush=True))
    if name == "probe":
        action, vm, host, to_host, mark = arguments
        order = Order(action, vm, host, to_host, -1, Mark(mark))
        return _until_stopped(lambda: probing.probe(domains, order), stop)
    order = order_from(json.load(sys.stdin))
    return _until_stopped(lambda: actions.carry_out(domains, order), stop)


def _until_stopped(
    work: Callable[[], tuple[int, list[str]]], stop: threading.Event
) -> int:
    """Work in a thread; after SIGTERM, wait only for a while.

    A signal interrupts no call to the library.
    """
    result: list[int] = []

    def run() -> None:
        status, lines = work()
        for line in lines:
            print(line, flush=True)
        result.append(status)

    def end_early(*_: object) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, end_early)
    thread = threading.Thread(target=run, name="work", daemon=True)
    thread.start()
    while thread.is_alive() and not stop.is_set():
        thread.join(0.1)
    thread.join(STOP_SECONDS)
    if not result:
        return UNKNOWN_STATUS
    return STOPPED_STATUS if stop.is_set() and result[0] else result[0]


def end(status: int) -> None:
    """End the process, whatever its threads wait for."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
