"""The paths of the documentation, and its generated parts."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

TUTORIALS = DOCS / "tutorials"
OPERATE = DOCS / "how-to" / "operate"
AGENT = DOCS / "how-to" / "agent"
TESTING = DOCS / "how-to" / "test"
MIGRATE = DOCS / "how-to" / "migrate"
REFERENCE = DOCS / "reference"
EXPLANATION = DOCS / "explanation"


def check_block(page: Path, name: str, wanted: str, *, rewrite: bool) -> None:
    """Check that the part of a page between `<!-- NAME -->` and its end is as wanted.

    With `rewrite`, write it there first.
    """
    block = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)
    text = page.read_text(encoding="utf-8")
    assert len(block.findall(text)) == 1, f"{page.name} has no block {name}"
    new_text = block.sub(lambda _: wanted, text)
    if rewrite and new_text != text:
        page.write_text(new_text, encoding="utf-8")
        text = new_text
    assert text == new_text, "run `pytest --rewrite` on this file"
