"""The scripts of the console insert text only as text, and keep no secret.

The content policy refuses most of this in a browser. These rules find it before.
"""

import re
from pathlib import Path

import pytest

CONSOLE = Path(__file__).parents[2] / "src" / "forewarn" / "console"

FORBIDDEN = {
    "markup from text": r"\b(?:innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment"
    r"|setHTMLUnsafe|parseFromString|srcdoc)\b|\bdocument\s*\.\s*write",
    "a template that is not escaped": r"\bunsafe(?:HTML|SVG|CSS|Static|MathML)\b|unsafe-html"
    r"|\bstatic-html\b",
    "code from text": r"\beval\s*\(|\bnew\s+Function\b|\b(?:setTimeout|setInterval)\s*\(\s*[\"'`]"
    r"|javascript:|\bimportScripts\b",
    "an inline style": r"\bstyle\s*=|\.cssText\b|\bsetAttribute\(\s*[\"']style",
    "an inline handler": r"[\s\"'`]on(?:click|load|error|input|submit|change|key\w+|mouse\w+)\s*=",
    "another server": r"[\"'`](?:https?:)?//(?!www\.w3\.org/)[\w\[]",
    "a cookie in a script": r"\bdocument\s*\.\s*cookie\b",
    "a policy of its own": r"\btrustedTypes\b",
}

ADDRESS = re.compile(r"\b(?:href|src|action|formaction)=\$\{\s*(?:`\$\{)?([^\s(.}+]*)")
"""An address in a template, with the first name in it."""

OWN_ADDRESS = re.compile(r"BASE|\w*[aA]ddress")
"""The start of the console's addresses, and functions that begin with it: an address from
data could have any scheme."""

KEPT = re.compile(r"(?:local|session)Storage\s*\.\s*setItem\(([^,]*),\s*(.*)\)")


def scripts() -> list[Path]:
    return sorted((CONSOLE / "js").rglob("*.js"))


def code_of(path: Path) -> str:
    """Return a script without its comments, which may name what is forbidden."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return re.sub(r"(?m)(?:^|(?<=\s))//.*$", "", text)


def found_in(code: str) -> list[str]:
    return [what for what, pattern in FORBIDDEN.items() if re.search(pattern, code)]


def foreign_in(code: str) -> list[str]:
    return [name for name in ADDRESS.findall(code) if not OWN_ADDRESS.fullmatch(name)]


@pytest.mark.parametrize("path", scripts(), ids=lambda path: path.name)
def test_script_has_nothing_forbidden(path: Path) -> None:
    assert found_in(code_of(path)) == []


@pytest.mark.parametrize("path", scripts(), ids=lambda path: path.name)
def test_addresses_in_templates_are_those_of_the_console(path: Path) -> None:
    assert foreign_in(code_of(path)) == []


@pytest.mark.parametrize("path", scripts(), ids=lambda path: path.name)
def test_script_keeps_no_secret(path: Path) -> None:
    for key, value in KEPT.findall(code_of(path)):
        assert not re.search(
            r"token|link|session|secret", f"{key} {value}", re.IGNORECASE
        )


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("node.innerHTML = name;", "markup from text"),
        ("node.insertAdjacentHTML('beforeend', name)", "markup from text"),
        ("document.write(name)", "markup from text"),
        ("html`<b>${unsafeHTML(name)}</b>`", "a template that is not escaped"),
        ("eval(name)", "code from text"),
        ("setTimeout('go()', 1)", "code from text"),
        ("html`<a href='javascript:go()'>`", "code from text"),
        ('html`<i style="left: 1px">`', "an inline style"),
        ("html`<i style=${left}>`", "an inline style"),
        ('html`<b onclick="go()">`', "an inline handler"),
        ('fetch("https://cdn.example/x.js")', "another server"),
        ('import "//cdn.example/x.js"', "another server"),
        ("document.cookie", "a cookie in a script"),
        ("trustedTypes.createPolicy('x', {})", "a policy of its own"),
    ],
)
def test_rule_finds_its_violation(code: str, what: str) -> None:
    assert what in found_in(code)


def test_address_from_data_is_found() -> None:
    assert foreign_in("html`<a href=${event.link}>x</a>`") == ["event"]
    assert foreign_in("html`<a href=${`${link}/x`}>x</a>`") == ["link"]
    assert foreign_in("html`<a href=${address('hosts', name)}>x</a>`") == []


def test_rules_pass_usual_code() -> None:
    code = "html`<a href=${BASE}>${name}</a><i class=${kind}></i>`; setTimeout(go, 1);"
    assert found_in(code) == []
    assert foreign_in(code) == []
    assert scripts()


def test_shell_has_no_inline_code() -> None:
    shell = (CONSOLE / "shell.html").read_text(encoding="utf-8")
    assert len(shell) <= 1_536
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\son\w+=", shell)
    for link in re.findall(r'(?:src|href)="([^"]*)"', shell):
        assert link.startswith("{assets}/")
