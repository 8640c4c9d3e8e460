"""The VMs of one host, as its relay knows them, and the lines of its stream."""

import asyncio
import hashlib
import json
from collections.abc import Mapping

from forewarn.admin import limits
from forewarn.admin.relay_links import Unconfirmed
from forewarn.instants import Micros

_DIGESTS = 1 << 256
"""Number of digests: those of SHA-256."""


class Host:
    """The VMs of one host, as its relay knows them."""

    def __init__(self, name: str, since: int) -> None:
        """Begin empty; `since` is the number of the latest change."""
        self.name = name
        self.since = since
        """Changes up to this number are not known."""
        self.entries: dict[tuple[str, str], tuple[int, str]] = {}
        """The number and the text of each object, by kind and name; the latest last."""
        self._sum: int | None = None
        """The sum of the digests of all objects; None: it was not asked for."""
        self.gone: dict[tuple[str, str], int] = {}
        """The number of the change that removed an object."""
        self.view_of: Mapping[str, str] = {}
        self.tokens: Mapping[str, Micros] = {}
        self.is_read = False
        """Whether it was read from the store since it was created."""
        self.streams = 0
        self.left_at = 0.0
        self.connected_at: Micros = 0
        """When its relay connected; 0: it is not connected."""
        self.heard_at: Micros = 0
        """When its relay last sent a request, or left."""
        self.unconfirmed = Unconfirmed()
        self.confirms = False
        """Whether its relay says what it has applied. If not, it counts as confirmed as
        soon as it is sent."""
        self.heard_time = 0.0
        """`heard_at` by the clock of the loop."""
        self.changed = asyncio.Event()
        """Set at each change, and then replaced."""

    @property
    def views(self) -> list[str]:
        """Return the IDs of its views."""
        return [name for kind, name in self.entries if kind == "views"]

    @property
    def digest(self) -> str:
        """Return a digest of all its objects.

        A relay that holds the same after a restart of the service needs none of them.
        """
        if self._sum is None:
            texts = (self.name, *(text for _, text in self.entries.values()))
            self._sum = sum(map(_digest_of, texts))
        # As a sum, a change of one object costs only its own digest.
        return f"{self._sum % _DIGESTS:064x}"

    def put(self, kind: str, objects: Mapping[str, str], number: int) -> bool:
        """Replace all objects of a kind; return whether one of them has changed."""
        has_changed = False
        for name in [
            name for held, name in self.entries if held == kind and name not in objects
        ]:
            _, text = self.entries.pop((kind, name))
            if self._sum is not None:
                self._sum -= _digest_of(text)
            self.gone[kind, name] = number
            has_changed = True
        if len(self.gone) > limits.RELAY_GONE_MAX:
            # A relay that continues from an earlier position gets everything.
            self.gone.clear()
            self.since = number
        for name, text in objects.items():
            has_changed |= self.set(kind, name, text, number)
        return has_changed

    def set(self, kind: str, name: str, text: str, number: int) -> bool:
        """Set an object; return whether it has changed."""
        held = self.entries.get((kind, name))
        if held is not None and held[1] == text:
            return False
        if self._sum is not None:
            self._sum += _digest_of(text) - (_digest_of(held[1]) if held else 0)
        if held is not None:
            del self.entries[kind, name]
        self.entries[kind, name] = number, text
        self.gone.pop((kind, name), None)
        return True

    def message(self, after: int | None, position: str) -> str:
        """Return the objects that changed after a number; None: all of them.

        `since` is that number. A relay that knows less has missed a line.
        """
        number = -1 if after is None else after
        parts = [f'"position":{json.dumps(position)}']
        if after is None:
            parts.append(f'"whole":true,"host":{json.dumps(self.name)}')
        else:
            parts.append(f'"since":{after}')
        has_content = after is None
        for kind, texts in self._texts_after(number).items():
            gone = [
                name
                for (held, name), changed in self.gone.items()
                if held == kind and changed > number and after is not None
            ]
            has_content |= bool(texts or gone)
            if texts:
                parts.append(f'"{kind}":[{",".join(texts)}]')
            if gone:
                parts.append(f'"{kind}_gone":{json.dumps(gone)}')
        if has_content:
            # Without content, the relay keeps the digest that it has.
            parts.append(f'"digest":"{self.digest}"')
        return "{" + ",".join(parts) + "}\n"

    def _texts_after(self, number: int) -> dict[str, list[str]]:
        """Return the objects that changed after a number, by their kinds.

        Of the hundreds of a host, most often one has changed.
        """
        texts: dict[str, list[str]] = {"views": [], "guests": []}
        for (kind, _), (changed, text) in reversed(self.entries.items()):
            if changed <= number:
                break
            texts[kind].append(text)
        return texts


def _digest_of(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")


def alive(since: int, position: str) -> str:
    """Return the line that says that nothing has changed since a number."""
    return json.dumps({"position": position, "since": since}) + "\n"


def same(position: str) -> str:
    """Return the line that says that all is as the relay holds it."""
    return json.dumps({"position": position, "same": True}) + "\n"


def await_confirmation(state: Host, number: int) -> None:
    """Note a change that the relay has to confirm."""
    state.unconfirmed.add(number, asyncio.get_running_loop().time())


def report_state(state: Host) -> None:
    """Let the streams of a host send a line."""
    state.changed.set()
    state.changed = asyncio.Event()
