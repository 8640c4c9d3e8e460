"""Both ends of a process that plans apart from the service.

The process reads a snapshot of the store and changes nothing. Both ends are forewarn, so
messages are pickled.
"""

import contextlib
import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeAlias

from forewarn.protocol.errors import ForewarnError

Serve: TypeAlias = Callable[[Path, IO[bytes], IO[bytes]], None]
"""Answers questions about the store in a file: from one stream, to another."""

NICENESS = 5
"""Niceness: if the process competes with the service for one processor, it still gets a
quarter. If the system rejects it, both get the same share."""


def command(module: str, store: Path) -> list[str]:
    """Return the command that runs the function `main` of a module, with a store."""
    # With `-m`, its classes would not match the pickled ones.
    code = f"from {module} import main; main()"
    return [sys.executable, "-P", "-c", code, str(store.absolute())]


def begin(module: str, store: Path) -> "subprocess.Popen[bytes]":
    """Start the function `main` of a module as a process, with pipes to it and from it.

    Raises OSError.
    """
    return subprocess.Popen(  # noqa: S603 - our own program
        command(module, store),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # A signal from the terminal must reach only the service.
        start_new_session=True,
    )


def answering(make: Callable[[Path, Any], Any]) -> Serve:
    """Return a server of one pickled request, which `make` answers from the store's file.

    A ForewarnError of `make` is an answer, too.
    """

    def serve(store: Path, asked: IO[bytes], told: IO[bytes]) -> None:
        answer: Any
        try:
            answer = make(store, pickle.load(asked))  # noqa: S301 - from the service
        except ForewarnError as error:
            answer = error
        pickle.dump(answer, told)
        told.flush()

    return serve


def run(serve: Serve) -> None:
    """Serve on standard input and output; the argument is the store's file."""
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    # The process lives for seconds and creates hardly any garbage.
    gc.disable()
    try:
        serve(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
    except BrokenPipeError:
        # The service closed the pipe; exit without flushing.
        os._exit(1)
