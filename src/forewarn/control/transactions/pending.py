"""What is owed stays owed until it is done."""

from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def on_failure(put_back: Callable[[], object]) -> Generator[None]:
    """Have what was taken be owed again if it could not be done.

    The store may be held by another program for a while. A step that is forgotten then
    would be found at the next start of the service only.
    """
    try:
        yield
    except BaseException:
        put_back()
        raise
