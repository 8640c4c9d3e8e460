"""Write the bill of materials: `python -m deploy.sbom dist`.

It lists the dependencies of the service and the distributions in the agent's packages,
in CycloneDX JSON: the releases in requirements/run.txt and agent.txt, with their hashes
and dependents. The same source gives the same bytes.
"""

import argparse
import json
import re
import sys
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deploy import bundle
from deploy.debian.build import PINS, source_moment
from forewarn import __version__

SPEC_VERSION = "1.5"

_NAMESPACE = uuid.UUID("6f1d7d0c-8a43-4a0e-9d0b-5b1c6a7f2e90")
"""The UUID namespace of serial numbers, which are derived from the content."""

_PIN = re.compile(r"([A-Za-z0-9._-]+)==([^ \\]+)(?: ; (.+?))?(?: \\)?")
_HASH = re.compile(r" +--hash=sha256:([0-9a-f]{64})(?: \\)?")
_NEEDED_BY = re.compile(r" +#(?: +via)? +([A-Za-z0-9._-]+)(?: \(pyproject\.toml\))?")
_ROOT = "forewarn"


@dataclass(frozen=True, kw_only=True)
class Pin:
    """One pinned distribution."""

    name: str
    version: str
    marker: str
    """The environment marker; empty: needed everywhere."""
    hashes: tuple[str, ...] = ()
    needed_by: tuple[str, ...] = ()


def read_pins(text: str) -> list[Pin]:
    """Return the pins of a requirements file; raises ValueError for other lines."""
    found: list[Pin] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if pin := _PIN.fullmatch(line):
            found.append(Pin(name=pin[1].lower(), version=pin[2], marker=pin[3] or ""))
        elif digest := _HASH.fullmatch(line):
            last = found[-1]
            found[-1] = replace(last, hashes=(*last.hashes, digest[1]))
        elif needed := _NEEDED_BY.fullmatch(line):
            last = found[-1] if found else None
            if last is not None:
                owners = (*last.needed_by, needed[1].lower())
                found[-1] = replace(last, needed_by=owners)
        elif line.strip() and not line.lstrip().startswith("#"):
            raise ValueError(f"line {number} is not a pin: {line}")
    return found


def agents_pins(text: str) -> list[Pin]:
    """Return the pins of the agent's bundled distributions; raises ValueError."""
    return [
        replace(pin, needed_by=(_ROOT,), marker="python_full_version < '3.11'")
        for pin in read_pins(text)
    ]


def document(pins: list[Pin], *, version: str, seconds: int) -> dict[str, Any]:
    """Return the bill of materials of a version with the time of its source."""
    refs = {pin.name: f"pkg:pypi/{pin.name}@{pin.version}" for pin in pins}
    root = f"pkg:pypi/{_ROOT}@{version}"
    needs: dict[str, set[str]] = {ref: set() for ref in (root, *refs.values())}
    for pin in pins:
        for name in pin.needed_by:
            owner = root if name == _ROOT else refs.get(name)
            if owner is not None:
                needs[owner].add(refs[pin.name])
    body: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(seconds, UTC).isoformat(),
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": _ROOT,
                "version": version,
                "purl": root,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": [_component(pin, refs[pin.name]) for pin in pins],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(needs[ref])} for ref in sorted(needs)
        ],
    }
    content = json.dumps(body, sort_keys=True)
    return {"serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, content)}", **body}


def _component(pin: Pin, ref: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": ref,
        "name": pin.name,
        "version": pin.version,
        "purl": ref,
    }
    # A release has several archives; the machine selects one.
    properties = [{"name": "forewarn:sha256", "value": digest} for digest in pin.hashes]
    if pin.marker:
        properties.append({"name": "forewarn:marker", "value": pin.marker})
    return {**found, "properties": properties}


def text() -> str:
    """Return the bill of materials of this source."""
    pins = read_pins(PINS.read_text(encoding="utf-8"))
    pins += agents_pins(bundle.PINS.read_text(encoding="utf-8"))
    made = document(pins, version=__version__, seconds=source_moment().seconds)
    return json.dumps(made, indent=2) + "\n"


def main() -> int:
    """Write the bill of materials into a directory, and print its path."""
    parser = argparse.ArgumentParser(description="Write the bill of materials.")
    parser.add_argument("dist", type=Path, help="the directory that it is put into")
    file: Path = parser.parse_args().dist / f"forewarn-{__version__}.cdx.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text(), encoding="utf-8")
    print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
