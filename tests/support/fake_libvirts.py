"""Hosts with a fake libvirt, and a Python whose module `libvirt` is that fake."""

import importlib.util
import shlex
import sys
from pathlib import Path
from typing import Any

from forewarn.drivers.libvirt.commands import Connections

FAKE = Path(__file__).with_name("fake_libvirt") / "libvirt.py"

RUNNER = f"""
import runpy, sys
sys.path.insert(0, {str(FAKE.parent)!r})
del sys.argv[0]
while sys.argv[0].startswith("-"):
    del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def load_fake() -> Any:
    """Return the fake as a module of its own."""
    spec = importlib.util.spec_from_file_location("fake_libvirt", FAKE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fake_python(directory: Path) -> str:
    """Return a Python in `directory` that has the fake."""
    runner, python = directory / "runner.py", directory / "python"
    runner.write_text(RUNNER)
    command = shlex.join([sys.executable, "-I", "-S", str(runner)])
    python.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    python.chmod(0o755)
    return str(python)


class FakeLibvirts:
    """Hosts in a directory."""

    def __init__(self, directory: Path, *hosts: str) -> None:
        self.directory = directory
        self.api = load_fake()
        for host in hosts:
            (directory / host).mkdir(parents=True)
        self.uri = f"fake://{directory}/{{host}}"

    def connections(self, **more: Any) -> Connections:
        """Return the settings of a driver for these hosts."""
        usual: dict[str, Any] = {"uri": self.uri, "freeze": 0.05, "shutdown": 0.5}
        return Connections(**{**usual, **more})

    def host(self, name: str) -> Any:
        """Return a connection of a test to a host."""
        return self.api.open(self.uri.replace("{host}", name))

    def domain(self, vm: str, host: str) -> Any:
        """Return a domain."""
        return self.host(host).lookupByName(vm)

    def start(self, vm: str, host: str, *, devices: str = "") -> Any:
        """Define a domain and start it."""
        xml = f"<domain><name>{vm}</name>{devices}</domain>"
        domain = self.host(host).defineXML(xml)
        domain.create()
        return domain

    def set(self, vm: str, host: str, **fields: Any) -> None:
        """Change what the fake knows about a domain."""
        with self.domain(vm, host)._changing() as note:
            note.update(fields)

    def fault(self, host: str, name: str) -> Path:
        """Let a host have a fault, until the file is removed."""
        file = self.directory / host / name
        file.touch()
        return file
