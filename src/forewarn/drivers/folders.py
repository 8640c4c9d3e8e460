"""Folders in which drivers remember: what to do where one cannot be written."""

import errno

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def hint_for(error: OSError) -> str:
    """Return what an operator can do about a folder that cannot be used."""
    if error.errno in _FULL:
        return "Free some space on its disk."
    return "The service's user must be able to write in that directory."
