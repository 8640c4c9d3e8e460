"""The base of enumerations that decisions and rows use.

`enum.Enum` hashes a member and reads its value with functions of Python. An approval that
starts an impact did so a hundred times, which was an eighth of its calls. Here, both are
done in C: each member exists once, so its identity is its hash. Pure.
"""

from __future__ import annotations

import enum
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Enumeration = enum.Enum
else:

    class Enumeration(enum.Enum):
        """An enumeration with fast hashes, names and values."""

        __hash__ = object.__hash__
        name = property(attrgetter("_name_"))
        value = property(attrgetter("_value_"))
