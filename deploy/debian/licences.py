"""The licenses of bundled distributions in the format of Debian's copyright file.

Each distribution names its license in its metadata and contains the full text. A text
that is part of every Debian system is replaced by its path, as Debian's policy demands.
"""

import csv
import re
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path

_TEXTS = ("LICEN[CS]E*", "COPYING*", "NOTICE*")

_APACHE = re.compile(
    r"^ *Apache License\n.*^ *limitations under the License\.$",
    re.DOTALL | re.MULTILINE,
)
"""The full text of the Apache license, which each Debian system has."""

_COMMON = (
    "/usr/share/common-licenses/Apache-2.0 has the full text of the Apache license."
)


def stanzas(home: Path, place: str) -> str:
    """Return a stanza for each distribution that is installed in `home`.

    `place` is the path of that directory in the package. Each distribution must have its
    RECORD. Raises ValueError for one without a license or without its text.
    """
    made = [_stanza(notes, place) for notes in sorted(home.glob("*.dist-info"))]
    return "".join(f"\n{stanza}" for stanza in made)


def _stanza(notes: Path, place: str) -> str:
    metadata = HeaderParser().parsestr((notes / "METADATA").read_text("utf-8"))
    name, version = metadata["Name"], metadata["Version"]
    licence = metadata["License-Expression"] or metadata["License"] or ""
    if not licence or "\n" in licence:
        licence = "; ".join(_classified(metadata.get_all("Classifier") or []))
    texts = sorted({path for form in _TEXTS for path in notes.rglob(form)})
    texts = [path for path in texts if path.is_file()]
    if not licence or not texts:
        raise ValueError(f"{name} {version} does not bring its licence")
    lines = [
        "Files: " + " ".join(f"{place.lstrip('/')}/{part}" for part in _parts(notes)),
        f"Comment: {name} {version}",
        "Copyright: The text of the licence names the holders.",
        f"License: {licence.strip()}",
    ]
    for text in texts:
        lines.append(f" From {text.relative_to(notes.parent).as_posix()}:")
        lines.append(" .")
        said = _APACHE.sub(_COMMON, text.read_text("utf-8"))
        lines += [_line(line) for line in said.splitlines()]
        lines.append(" .")
    return "\n".join(lines[:-1]) + "\n"


def _parts(notes: Path) -> list[str]:
    """Return the files and directories in the RECORD of a distribution."""
    with (notes / "RECORD").open(encoding="utf-8", newline="") as opened:
        files = [row[0] for row in csv.reader(opened) if row]
    tops = [file.partition("/") for file in files if not file.startswith("..")]
    return sorted({f"{top}/*" if inside else top for top, inside, _ in tops})


def _line(text: str) -> str:
    """Return a line of a license in the format of the copyright file."""
    stripped = text.rstrip()
    return f"  {stripped}" if stripped else " ."


def _classified(classifiers: list[str]) -> Iterator[str]:
    for classifier in classifiers:
        if classifier.startswith("License :: "):
            yield classifier.rpartition(" :: ")[2]
