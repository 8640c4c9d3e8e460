"""A page of the console as one file: it needs no service and loads nothing."""

import base64
import hashlib
import json
import re
from typing import Any

from forewarn.console.single import single_page

HOSTILE = "</script><script>alert(1)</script><!--"


def page(data: Any = None, title: str = "report") -> str:
    """Return a report with this data."""
    return single_page(title, module="js/paper.js", view="paper", data=data)


def test_policy_names_the_digests_of_the_script_and_the_style() -> None:
    text = page()
    policy = re.search(r'Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    for element, directive in (("script", "script-src"), ("style", "style-src")):
        match = re.search(f"<{element}>(.*?)</{element}>", text, re.DOTALL)
        assert match is not None
        digest = base64.b64encode(hashlib.sha256(match[1].encode()).digest()).decode()
        assert f"{directive} &#x27;sha256-{digest}&#x27;" in policy[1]
    assert "default-src &#x27;none&#x27;" in policy[1]


def test_file_loads_nothing_and_has_no_import() -> None:
    text = page()
    # A color can be a pattern of the page itself.
    assert not re.search(r"<(?:link|img|iframe)|\bsrc=|url\((?!#)", text)
    assert not re.search(r"^(?:import|export)\b[^(]", text, re.MULTILINE)


def test_data_cannot_end_its_element() -> None:
    text = page({"reason": HOSTILE}, title=HOSTILE)
    assert HOSTILE not in text
    match = re.search(r'id="sheet-data">(.*?)</script>', text)
    assert match is not None
    assert json.loads(match[1]) == {"reason": HOSTILE}
