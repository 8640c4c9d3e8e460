"""A fake of the module `libvirt`, for workers: hosts are directories, domains are files.

The URI of a host is `fake:///DIRECTORY`. All processes that use a directory see the same host,
and a lock makes each call one step. Files in the directory of a host are its faults:

    down             nothing can connect, and connections are lost
    hang             each call waits until the file is gone
    slow             a migration takes until the file is gone
    hidden-VM        the worker that watches may not look at a domain
    lose-migration   the connection is lost at the end of a migration
"""

import fcntl
import json
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

if (_here := str(Path(__file__).parent)) not in sys.path:
    # It was loaded by its path.
    sys.path.append(_here)
from fake_storage import INVALID, KilledError, Pool, Volume, libvirtError

__all__ = ["KilledError", "libvirtError"]

VIR_MIGRATE_PARAM_URI = "migrate_uri"

RUNNING, PAUSED, SHUTOFF = 1, 3, 5
NO_DOMAIN, NO_METADATA, RPC = 42, 80, 38
LIVE, CONFIG = 1, 2
OFFLINE, PERSIST_DEST, UNDEFINE_SOURCE = 1 << 10, 8, 16
LIFECYCLE, REBOOT = 0, 1
PAUSE_SECONDS = 0.01

DISKS = "urn:forewarn:libvirt:disks:1"
"""Namespace of the second element that the driver keeps with a domain."""

Note = dict[str, Any]
_connections: list["virConnect"] = []
_is_over, _hearing = threading.Event(), threading.Lock()


def registerErrorHandler(handler: object, context: object) -> None:  # noqa: N802
    """Print no errors, like this one."""


def virEventRegisterDefaultImpl() -> None:  # noqa: N802
    """Do nothing: the loop is always there."""


def virEventRunDefaultImpl() -> int:  # noqa: N802
    """Hear the new events of all connections; return 0, and another number after `end`."""
    time.sleep(PAUSE_SECONDS)
    with _hearing:
        if _is_over.is_set():
            return 1
        for conn in _connections:
            conn._hear()
    return 0


def open(uri: str) -> "virConnect":  # noqa: A001 - the name of the real one
    """Connect to a host."""
    directory = Path(uri.removeprefix("fake://"))
    _wait_while(directory / "hang")
    if not directory.is_dir() or (directory / "down").exists():
        raise libvirtError(f"unable to connect to {directory.name}", RPC)
    return virConnect(directory)


def end() -> None:
    """End the thread that hears events, at once; the real one has no such call."""
    with _hearing:
        _is_over.set()


def _wait_while(file: Path) -> None:
    while file.exists():
        time.sleep(PAUSE_SECONDS)


class virConnect:  # noqa: N801 - the name of the real one
    """A connection to a host."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._callbacks: dict[int, tuple[int, Callable[..., object], object]] = {}
        self._lost = False
        self._heard = len(self._events())
        _connections.append(self)

    def isAlive(self) -> int:  # noqa: N802
        is_there = self.directory.is_dir() and not (self.directory / "down").exists()
        return int(is_there and not self._lost)

    def setKeepAlive(self, interval: int, count: int) -> int:  # noqa: N802
        return 0

    def getLibVersion(self) -> int:  # noqa: N802
        with self._locked():
            return 9_000_000

    def getHostname(self) -> str:  # noqa: N802
        return self.directory.name

    def getInfo(self) -> list[Any]:  # noqa: N802
        with self._locked():
            return ["x86_64", 4096, 8, 2000, 1, 1, 8, 1]

    def close(self) -> int:
        if self in _connections:
            _connections.remove(self)
        return 0

    def lookupByName(self, name: str) -> "virDomain":  # noqa: N802
        with self._locked():
            if sys.argv[-1] == "serve" and (self.directory / f"hidden-{name}").exists():
                raise libvirtError("access denied", 88)
            self._note(name)
        return virDomain(self, name)

    def listAllDomains(self, flags: int) -> list["virDomain"]:  # noqa: N802
        with self._locked():
            return [
                virDomain(self, file.stem) for file in self.directory.glob("*.json")
            ]

    def listAllNetworks(self, flags: int) -> list["_Network"]:  # noqa: N802
        return [_Network(text) for text in self.directory.glob("*.network")]

    def defineXML(self, xml: str) -> "virDomain":  # noqa: N802
        with self._locked():
            root = ET.fromstring(xml)
            name = root.findtext("name") or ""
            mark, disks = root.find("metadata/*"), root.find(f"metadata/{{{DISKS}}}*")
            if disks is not None:
                mark = None if mark is disks else mark
                disks.tag = "disks"
            devices = root.find("devices")
            note = {
                **(self._known(name) or _new()),
                "persistent": True,
                "config": "" if mark is None else ET.tostring(mark, "unicode"),
                "disks": "" if disks is None else ET.tostring(disks, "unicode"),
                "devices": ""
                if devices is None
                else ET.tostring(devices, encoding="unicode"),
            }
            self._write(name, note)
        return virDomain(self, name)

    def storageVolLookupByPath(self, path: str) -> Volume:  # noqa: N802
        volume = Path(f"{path}.volume")
        if not volume.exists():
            raise libvirtError(f"no storage vol with matching path {path}", 50)
        return Volume(volume)

    def storagePoolLookupByName(self, name: str) -> Pool:  # noqa: N802
        if name != "images":
            raise libvirtError(f"no storage pool with matching name '{name}'", 49)
        return Pool(self.directory.parent)

    def domainEventRegisterAny(  # noqa: N802
        self, domain: object, kind: int, hear: Callable[..., object], opaque: object
    ) -> int:
        with self._locked():
            number = len(self._callbacks)
            self._callbacks[number] = kind, hear, opaque
            return number

    def domainEventDeregisterAny(self, number: int) -> int:  # noqa: N802
        del self._callbacks[number]
        return 0

    # The host

    @contextmanager
    def _locked(self) -> Generator[None]:
        _wait_while(self.directory / "hang")
        if not self.isAlive():
            raise libvirtError("client socket is closed", 1)
        with _exclusive(self.directory.parent):
            yield

    def _known(self, name: str) -> Note | None:
        file = self.directory / f"{name}.json"
        return json.loads(file.read_text()) if file.exists() else None

    def _note(self, name: str) -> Note:
        note = self._known(name)
        if note is None:
            text = f"Domain not found: no domain with matching name '{name}'"
            raise libvirtError(text, NO_DOMAIN)
        return note

    def _write(self, name: str, note: Note | None) -> None:
        file = self.directory / f"{name}.json"
        if note is None:
            file.unlink()
        else:
            file.write_text(json.dumps(note))

    def _say(self, name: str, event: int, detail: int, kind: int = LIFECYCLE) -> None:
        with (self.directory / "events").open("a") as file:
            file.write(json.dumps([name, event, detail, kind]) + "\n")

    def _events(self) -> list[list[Any]]:
        file = self.directory / "events"
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    def _hear(self) -> None:
        if not self.isAlive() or (self.directory / "hang").exists():
            return
        try:
            with _exclusive(self.directory.parent):
                events = self._events()[self._heard :]
        except libvirtError:
            return
        self._heard += len(events)
        for name, event, detail, kind in events:
            for wanted, hear, opaque in list(self._callbacks.values()):
                if wanted != kind:
                    continue
                domain = virDomain(self, name)
                if kind == REBOOT:
                    hear(self, domain, opaque)
                else:
                    hear(self, domain, event, detail, opaque)


@contextmanager
def _exclusive(directory: Path) -> Generator[None]:
    try:
        file = (directory / "lock").open("a")
    except FileNotFoundError:
        # The test has ended.
        raise libvirtError("the host is gone", RPC) from None
    with file as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _new() -> Note:
    return {
        "state": SHUTOFF,
        "reason": 0,
        "persistent": False,
        "live": "",
        "config": "",
        "disks": "",
        "devices": "",
        "saved": False,
        "obeys": True,
        "job": 0,
    }


class _Network:
    def __init__(self, file: Path) -> None:
        self._file = file

    def XMLDesc(self, flags: int) -> str:  # noqa: N802
        return self._file.read_text()


class virDomain:  # noqa: N801 - the name of the real one
    """A domain on a host."""

    def __init__(self, conn: virConnect, name: str) -> None:
        self._conn = conn
        self._name = name

    def name(self) -> str:
        return self._name

    def connect(self) -> virConnect:
        return self._conn

    @contextmanager
    def _changing(self) -> Generator[Note]:
        with self._conn._locked():
            note = self._conn._note(self._name)
            yield note
            self._conn._write(self._name, note)

    def _read(self) -> Note:
        with self._conn._locked():
            return self._conn._note(self._name)

    def state(self) -> list[int]:
        note = self._read()
        return [note["state"], note["reason"]]

    def isActive(self) -> int:  # noqa: N802
        return int(self._read()["state"] != SHUTOFF)

    def isPersistent(self) -> int:  # noqa: N802
        return int(self._read()["persistent"])

    def info(self) -> list[int]:
        return [self._read()["state"], 2 << 20, 2 << 20, 2, 0]

    def interfaceAddresses(self, source: int, flags: int) -> dict[str, Any]:  # noqa: N802
        leases = self._conn.directory / f"{self._name}.leases"
        if not leases.exists():
            raise libvirtError("no leases", INVALID)
        addresses = [{"addr": address} for address in leases.read_text().split()]
        return {"vnet0": {"addrs": addresses}, "vnet1": {"addrs": None}}

    def XMLDesc(self, flags: int) -> str:  # noqa: N802
        note = self._read()
        mark = note["config" if flags & 2 else "live"]
        disks = note["disks"].replace("<disks", f"<d:disks xmlns:d='{DISKS}'")
        disks = disks.replace("</disks", "</d:disks")
        return (
            f"<domain type='fake'><name>{self._name}</name>"
            f"<metadata>{mark}{disks}</metadata>{note['devices']}</domain>"
        )

    def setMetadata(  # noqa: N802
        self, kind: int, text: "str | None", key: str, uri: str, flags: int
    ) -> int:
        if uri == DISKS:
            with self._changing() as note:
                note["disks"] = text or ""
            return 0
        root = ET.fromstring(text or "")
        root.set("xmlns", uri)
        with self._changing() as note:
            if flags & LIVE:
                self._need_active(note)
                note["live"] = ET.tostring(root, encoding="unicode")
            if flags & CONFIG:
                note["config"] = ET.tostring(root, encoding="unicode")
        return 0

    def metadata(self, kind: int, uri: str, flags: int) -> str:
        note = self._read()
        text = note["live"] if flags & LIVE else note["config"]
        text = note["disks"] if uri == DISKS else text
        if not text:
            raise libvirtError("metadata not found", NO_METADATA)
        return str(text)

    def _need_active(self, note: Note) -> None:
        if note["state"] == SHUTOFF:
            raise libvirtError("Requested operation is not valid: not running", INVALID)

    # Changes of the guest

    def suspend(self) -> int:
        with self._changing() as note:
            self._need_active(note)
            note.update(state=PAUSED, reason=1)
            self._conn._say(self._name, 3, 0)
        return 0

    def resume(self) -> int:
        with self._changing() as note:
            self._need_active(note)
            note.update(state=RUNNING, reason=5)
            self._conn._say(self._name, 4, 0)
        return 0

    def create(self) -> int:
        with self._changing() as note:
            if note["state"] != SHUTOFF:
                raise libvirtError("domain is already running", INVALID)
            detail = 2 if note["saved"] else 0
            live = note["live"] if note["saved"] else note["config"]
            note.update(state=RUNNING, reason=1, saved=False, live=live)
            self._conn._say(self._name, 2, detail)
        return 0

    def _ended(self, note: Note, *, reason: int, event: int) -> None:
        self._conn._say(self._name, 5, event)
        note.update(state=SHUTOFF, reason=reason)

    def _end(self, *, reason: int, event: int) -> None:
        with self._conn._locked():
            note = self._conn._note(self._name)
            self._need_active(note)
            self._ended(note, reason=reason, event=event)
            self._conn._write(self._name, note if note["persistent"] else None)

    def shutdown(self) -> int:
        if self._read()["obeys"]:
            self._end(reason=1, event=0)
        return 0

    def destroy(self) -> int:
        self._end(reason=2, event=1)
        return 0

    def crash(self) -> None:
        """Let QEMU be killed; the real one has no such call."""
        self._end(reason=6, event=5)

    def reboot(self, flags: int) -> int:
        if self._read()["obeys"]:
            self._conn._say(self._name, 0, 0, kind=REBOOT)
        return 0

    def reset(self, flags: int) -> int:
        with self._changing() as note:
            self._need_active(note)
        self._conn._say(self._name, 0, 0, kind=REBOOT)
        return 0

    def managedSave(self, flags: int) -> int:  # noqa: N802
        with self._changing() as note:
            self._need_active(note)
            note["saved"] = True
            self._ended(note, reason=5, event=4)
        return 0

    def rename(self, name: str, flags: int) -> int:
        with self._conn._locked():
            note = self._conn._note(self._name)
            self._conn._write(name, note)
            self._conn._write(self._name, None)
            self._conn._say(self._name, 1, 1)
            self._conn._say(name, 0, 2)
        return 0

    def undefineFlags(self, flags: int) -> int:  # noqa: N802
        with self._conn._locked():
            note = self._conn._note(self._name)
            self._conn._say(self._name, 1, 0)
            is_active = note["state"] != SHUTOFF
            left = {**note, "persistent": False} if is_active else None
            self._conn._write(self._name, left)
        return 0

    # Migration

    def jobInfo(self) -> list[int]:  # noqa: N802
        return [self._read()["job"]]

    def jobStats(self, flags: int) -> dict[str, int]:  # noqa: N802
        return {"downtime": 17} if flags else {"memory_iteration": 2}

    def abortJob(self) -> int:  # noqa: N802
        with self._changing() as note:
            if not note["job"]:
                raise libvirtError("no job is active on the domain", INVALID)
            note["job"] = 0
        return 0

    def migrateStartPostCopy(self, flags: int) -> int:  # noqa: N802
        (self._conn.directory / "slow").unlink(missing_ok=True)
        (self._conn.directory / "post-copied").touch()
        return 0

    def migrateToURI3(self, uri: str, params: Note, flags: int) -> int:  # noqa: N802
        destination = open(uri)
        with self._changing() as note:
            is_active = note["state"] != SHUTOFF
            if is_active == bool(flags & OFFLINE):
                raise libvirtError("cannot be migrated in this state", INVALID)
            note["job"] = 1
        slow = self._conn.directory / "slow"
        while slow.exists():
            if not self._read()["job"]:
                raise libvirtError("operation aborted: canceled by client", 78)
            time.sleep(PAUSE_SECONDS)
        self._move(destination, flags)
        lose = self._conn.directory / "lose-migration"
        if lose.exists():
            lose.unlink()
            self._conn._lost = True
            raise libvirtError("client socket is closed", 1)
        return 0

    def _move(self, destination: virConnect, flags: int) -> None:
        with self._conn._locked():
            note = {**self._conn._note(self._name), "job": 0}
            is_active = note["state"] != SHUTOFF
            destination._write(
                self._name, {**note, "persistent": bool(flags & PERSIST_DEST)}
            )
            if is_active:
                destination._say(self._name, 2, 1)
                destination._say(self._name, 4, 1)
                self._conn._say(self._name, 5, 3)
            gone = flags & UNDEFINE_SOURCE or not note["persistent"]
            left = {**note, "state": SHUTOFF, "reason": 4}
            self._conn._write(self._name, None if gone else left)
