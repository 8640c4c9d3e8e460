"""Scripts of tests, compiled once: Python compiles a script again at each start."""

import py_compile
from functools import cache


@cache
def compiled(script: str) -> str:
    """Return the compiled script beside a script, which Python can run instead.

    Several workers may write it at once: each puts a whole file in its place.
    """
    file = py_compile.compile(script, doraise=True)
    assert file is not None, "errors are raised"
    return file
