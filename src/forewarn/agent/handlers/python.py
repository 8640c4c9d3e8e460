"""Handlers that are Python functions, each run in a process of its own.

`prepare = "module:function"`: the function is given the event as a dictionary, as it
is on the wire, and empty where the journal was lost; the environment tells the rest.
It has failed when it raises or returns False, and when it is asynchronous or a
generator, since nothing of it has run then. Everything else is as with programs:
the interpreter that runs the agent runs it, and it survives the agent.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from forewarn.agent.handlers.exec import ExecWorker
from forewarn.agent.handlers.port import Ground
from forewarn.agent.settings_model import HandlerSettings

_CALL = """
import importlib, json, sys, types

usual = sys.excepthook
def last_words(kind, error, trace):
    usual(kind, error, trace)
    has_more = hasattr(error, "__notes__") or hasattr(error, "exceptions")
    if has_more or "\\n" in str(error).strip():
        # Its last line alone would not say what it is.
        print(f"{kind.__name__}:", *str(error).split(), file=sys.stderr)
sys.excepthook = last_words

def found(entry):
    module, _, name = entry.partition(":")
    what = importlib.import_module(module)
    for part in name.split("."):
        what = getattr(what, part)
    if not callable(what):
        sys.exit(f"{entry} cannot be called")
    return what

def refuse(entry):
    sys.exit(f"{entry} is asynchronous or a generator, and so does not run: "
        "make it a plain function, with asyncio.run() where it must wait")

def call(entry):
    result = found(entry)(json.loads(sys.stdin.read() or "null") or {})
    lazy = types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType
    if isinstance(result, lazy) or hasattr(result, "__await__"):
        getattr(result, "close", int)()
        refuse(entry)
    sys.exit(1 if result is False else 0)

def look(entry):
    import inspect
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction,
        inspect.isasyncgenfunction)
    what = found(entry)
    if any(kind(each) for kind in kinds for each in (what, type(what).__call__)):
        refuse(entry)
    try:
        takes = inspect.signature(what)
    except (TypeError, ValueError):
        return  # Written in C, or so: it does not say what it takes.
    try:
        takes.bind({})
    except TypeError as error:
        sys.exit(f"{entry} cannot be called with the event alone: {error}")

then, *entries = sys.argv[1:]
for entry in entries[then == "call":]:
    look(entry)
if then == "call":
    call(entries[0])
"""
"""Looks at entry points, or calls the first and looks at the others. It needs nothing
of forewarn, so it runs beside a single file too."""


def python_worker(settings: HandlerSettings, ground: Ground) -> ExecWorker:
    """Return the worker for a handler whose words are entry points."""

    # Modules beside wherever the agent runs are nobody's; those of a folder that the
    # settings name are meant.
    safe = () if settings.directory else ("-P",)

    def words(then: str, *entries: str) -> tuple[str, ...]:
        start = (sys.executable, *safe, "-u", "-c", _CALL, then)
        return (*start, *entries) if entries else ()

    # Whether they can be imported and called is looked at, with and without a check.
    entries = (*settings.check, *settings.prepare, *settings.recover)
    called = replace(
        settings,
        prepare=words("call", *settings.prepare),
        recover=words("call", *settings.recover),
        check=words("call" if settings.check else "look", *entries),
    )
    return ExecWorker(called, ground)
