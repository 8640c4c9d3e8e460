"""Print the notes of a release: the section of CHANGELOG.md about its version.

python -m deploy.notes 0.2.0
"""

import sys
from pathlib import Path

CHANGELOG = Path(__file__).parent.parent / "CHANGELOG.md"


def section(text: str, version: str) -> str:
    """Return the section of a version without its heading; raises LookupError."""
    for part in text.split("\n## ")[1:]:
        heading, _, body = part.partition("\n")
        if heading.split()[0] == version:
            return body.strip() + "\n"
    raise LookupError(f"CHANGELOG.md has no section {version}")


def main() -> None:
    """Print the section of the version that is the only argument."""
    try:
        print(section(CHANGELOG.read_text("utf-8"), sys.argv[1]), end="")
    except LookupError as error:
        sys.exit(f"{error}: rename its section Unreleased first")


if __name__ == "__main__":
    main()
