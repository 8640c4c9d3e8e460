"""Hints for directories of drivers that cannot be written."""

import errno

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def hint_for(error: OSError) -> str:
    """Return a hint about a directory that cannot be used."""
    if error.errno in _FULL:
        return "Free some space on the disk of that directory."
    return "Allow the service's user to write in that directory."
