"""The bill of materials, and the licences of what is bundled."""

import json
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from deploy import bundle, sbom
from deploy.debian import licences
from deploy.debian.build import PINS
from forewarn import __version__

Json = dict[str, Any]


@pytest.fixture(scope="module")
def bill() -> Json:
    return json.loads(sbom.text())


def names(text: str) -> set[str]:
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^ ]+)", text, re.MULTILINE)
    return {f"pkg:pypi/{name.lower()}@{version}" for name, version in pins}


def test_every_pin_is_a_component_with_its_hashes(bill: Json) -> None:
    pinned = PINS.read_text("utf-8") + bundle.PINS.read_text("utf-8")
    assert {component["purl"] for component in bill["components"]} == names(pinned)
    hashes = [
        entry["value"]
        for component in bill["components"]
        for entry in component["properties"]
        if entry["name"] == "forewarn:sha256"
    ]
    assert sorted(hashes) == sorted(re.findall(r"sha256:([0-9a-f]{64})", pinned))


def test_sbom_is_in_cyclonedx_format(bill: Json) -> None:
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert bill["version"] == 1
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
                        bill["serialNumber"])  # fmt: skip
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00",
                        bill["metadata"]["timestamp"])  # fmt: skip
    root = bill["metadata"]["component"]
    assert (root["type"], root["name"], root["version"]) == (
        "application", "forewarn", __version__
    )  # fmt: skip
    for component in bill["components"]:
        assert component["type"] == "library"
        assert component["bom-ref"] == component["purl"]
        assert all(set(pair) == {"name", "value"} for pair in component["properties"])


def test_every_component_is_needed_by_the_program(bill: Json) -> None:
    needs = {
        dependency["ref"]: dependency["dependsOn"]
        for dependency in bill["dependencies"]
    }
    refs = {component["bom-ref"] for component in bill["components"]}
    root = bill["metadata"]["component"]["bom-ref"]
    assert set(needs) == refs | {root}
    reached, ahead = {root}, [root]
    while ahead:
        for ref in needs[ahead.pop()]:
            if ref not in reached:
                reached.add(ref)
                ahead.append(ref)
    assert reached == refs | {root}


def test_sbom_marks_bundled_tomli_as_for_older_pythons(bill: Json) -> None:
    [tomli] = [
        component for component in bill["components"] if component["name"] == "tomli"
    ]
    marker = {"name": "forewarn:marker", "value": "python_full_version < '3.11'"}
    assert marker in tomli["properties"]


def test_same_source_gives_an_identical_sbom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first = sbom.text()
    assert first == sbom.text()
    assert "2023-11-14T22:13:20+00:00" in first
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000001")
    other = json.loads(sbom.text())
    assert other["serialNumber"] != json.loads(first)["serialNumber"]


def test_line_that_is_not_a_pin_is_refused() -> None:
    with pytest.raises(ValueError, match="line 2 is not a pin"):
        sbom.read_pins("a==1 \\\n--index-url x\n")


# Licences


@pytest.mark.parametrize(
    "name", ["fastapi", "uvloop", "click", "rich", "typing-extensions"]
)
def test_bundled_distribution_includes_its_license(name: str, tmp_path: Path) -> None:
    distribution = metadata.distribution(name)
    notes = tmp_path / f"{name}-{distribution.version}.dist-info"
    for file in distribution.files or ():
        source = Path(str(file.locate()))
        if ".dist-info/" in str(file) and source.exists():
            target = notes / str(file).partition(".dist-info/")[2]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    text = licences.stanzas(tmp_path, "/usr/lib/forewarn/lib")
    lines = text.splitlines()
    assert lines[0] == ""
    directory = name.replace("-", "_")
    assert f"usr/lib/forewarn/lib/{directory}" in lines[1]
    assert (
        lines[2] == f"Comment: {distribution.metadata['Name']} {distribution.version}"
    )
    assert lines[3].startswith("Copyright: ")
    assert re.fullmatch(r"License: .*(MIT|BSD|Apache|PSF).*", lines[4])
    # A paragraph ends at the first empty line.
    assert all(line.startswith(" ") and line.strip() for line in lines[5:])
    assert len(lines) > 15
    # Debian's policy: refer to the text that each system has.
    assert "FOR USE, REPRODUCTION, AND DISTRIBUTION" not in text
    refers = "/usr/share/common-licenses/Apache-2.0" in text
    assert refers == (name == "uvloop")


def test_distribution_without_a_license_is_refused(tmp_path: Path) -> None:
    notes = tmp_path / "a-1.dist-info"
    notes.mkdir()
    (notes / "RECORD").touch()
    (notes / "METADATA").write_text("Name: a\nVersion: 1\nLicense: MIT\n")
    with pytest.raises(ValueError, match="a 1 does not bring its licence"):
        licences.stanzas(tmp_path, "/usr/lib")
