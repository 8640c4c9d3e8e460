"""Handlers that are Python functions, each run in a separate process.

With `prepare = "module:function"`, the function gets the event as a dictionary with the
names of the wire. The dictionary is empty if the journal was lost. All other values are
in the environment. The run fails if the function raises or returns False, or if it is
asynchronous or a generator, since its body has not run then. Otherwise it works like a
program: the agent's interpreter runs it, and it survives the agent.
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
        # The last line of the traceback would not name the error.
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
    sys.exit(f"{entry} is asynchronous or a generator, so calling it runs nothing: "
        "make it a normal function, which may call asyncio.run()")

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
        return  # Functions written in C have no signature.
    try:
        takes.bind({})
    except TypeError as error:
        sys.exit(f"{entry} cannot be called with the event as its only argument: {error}")

then, *entries = sys.argv[1:]
for entry in entries[then == "call":]:
    look(entry)
if then == "call":
    call(entries[0])
"""
"""A script that checks entry points, or calls the first one and checks the others. It
does not import forewarn, so it also works with the agent's single file."""


def python_worker(settings: HandlerSettings, ground: Ground) -> ExecWorker:
    """Return the worker for a handler whose actions are entry points."""

    # -P keeps modules in the current directory out. Modules in a directory that the
    # settings name are wanted.
    safe = () if settings.directory else ("-P",)

    def words(then: str, *entries: str) -> tuple[str, ...]:
        start = (sys.executable, *safe, "-u", "-c", _CALL, then)
        return (*start, *entries) if entries else ()

    # Check that the functions can be imported and called, even without a `check`.
    entries = (*settings.check, *settings.prepare, *settings.recover)
    called = replace(
        settings,
        prepare=words("call", *settings.prepare),
        recover=words("call", *settings.recover),
        check=words("call" if settings.check else "look", *entries),
    )
    return ExecWorker(called, ground)
