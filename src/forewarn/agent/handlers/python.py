"""Handlers that are Python functions, each run in a process of its own.

`prepare = "module:function"`: the function is given the event as a dictionary, as it
is on the wire, and empty where the journal was lost; the environment tells the rest.
It has failed when it raises or returns False. Everything else is as with programs:
the interpreter that runs the agent runs it, and it survives the agent.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace

from forewarn.agent.handlers.exec import ExecWorker, Program
from forewarn.agent.handlers.records import Shelf

_CALL = """
import importlib, json, sys
module, _, name = sys.argv[1].partition(":")
found = importlib.import_module(module)
for part in name.split("."):
    found = getattr(found, part)
if not callable(found):
    sys.exit(f"{sys.argv[1]} cannot be called")
if sys.argv[2] == "call":
    sys.exit(1 if found(json.load(sys.stdin) or {}) is False else 0)
"""
"""It needs nothing of forewarn, so it runs beside a single file too."""


def python_worker(
    program: Program, *, shelf: Shelf, environment: Mapping[str, str]
) -> ExecWorker:
    """Return the worker for a handler whose words are entry points."""

    def words(entries: tuple[str, ...], then: str) -> tuple[str, ...]:
        # Modules beside wherever the agent runs are nobody's; those of a folder that
        # the settings name are meant.
        safe = () if program.directory else ("-P",)
        return tuple(
            word
            for entry in entries[:1]
            for word in (sys.executable, *safe, "-u", "-c", _CALL, entry, then)
        )

    # Without a check of its own, whether one can be imported is looked at.
    look = words(program.prepare or program.recover, "look")
    called = replace(
        program,
        prepare=words(program.prepare, "call"),
        recover=words(program.recover, "call"),
        check=words(program.check, "call") or look,
    )
    return ExecWorker(called, shelf=shelf, environment=environment)
