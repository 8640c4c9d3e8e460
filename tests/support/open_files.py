"""A machine with few open files, for as long as a test wants one."""

import os
import resource
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def open_files_up_to(number: int) -> Generator[None]:
    """Have a lower limit of open files, as a shell sets it; raising it is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def no_more_files() -> Generator[None]:
    """Have no file be opened."""
    # The lowest number that is free; whatever is open stays so.
    free = os.dup(0)
    os.close(free)
    with open_files_up_to(free):
        yield


def allowed() -> int:
    """Return how many files this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
