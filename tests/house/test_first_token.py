"""The first token of the Debian package, and what the chart refuses.

The part of `postinst` that makes the token is run for itself, in another directory.
"""

import os
import re
import stat
import subprocess
from pathlib import Path

from forewarn.admin.tokens import read_tokens
from forewarn.cli.places import TOKEN_FILE, token_of_file
from forewarn.service.settings import load_settings

ROOT = Path(__file__).resolve().parents[2]
DEBIAN = ROOT / "deploy" / "debian" / "forewarn"
TEMPLATES = ROOT / "deploy" / "helm" / "forewarn" / "templates"


def make_token(directory: Path) -> Path:
    """Run the part of postinst that makes the token; return its file."""
    script = (DEBIAN / "postinst").read_text("utf-8")
    match = re.search(r"^token=.*?^fi$", script, re.MULTILINE | re.DOTALL)
    assert match is not None
    text = match[0].replace("/etc/forewarn", str(directory))
    text = text.replace("root:forewarn", f"{os.getuid()}:{os.getgid()}")
    subprocess.run(["/bin/sh", "-euc", text], check=True, timeout=60)
    return directory / "token"


def test_package_creates_a_token_for_service_and_commands(tmp_path: Path) -> None:
    file = make_token(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    token = token_of_file(str(file), is_here=True)
    assert re.fullmatch("[0-9a-f]{64}", token)
    assert read_tokens(file).name_of(token) == "operator"
    assert [path.name for path in tmp_path.iterdir()] == ["token"]
    # An upgrade makes no other.
    assert token_of_file(str(make_token(tmp_path)), is_here=True) == token
    (other := tmp_path / "other").mkdir()
    assert token_of_file(str(make_token(other)), is_here=True) != token


def test_package_settings_and_commands_use_the_same_token_file() -> None:
    file = DEBIAN / "forewarn.toml"
    settings = load_settings(file=file, environ={}, flags={})
    assert settings.admin.token_file == str(TOKEN_FILE)
    assert str(TOKEN_FILE) in (DEBIAN / "postrm").read_text("utf-8")
    # The other way in, which its comment and the unit's directory offer.
    listen = re.search(r'^# (listen = "unix:.*")$', file.read_text(), re.MULTILINE)
    assert listen is not None
    assert listen[1] == 'listen = "unix:/run/forewarn/api"'
    unit = (ROOT / "deploy" / "systemd" / "forewarn.service").read_text("utf-8")
    assert "\nRuntimeDirectory=forewarn\nRuntimeDirectoryMode=0750\n" in unit


def test_chart_requires_tokens_with_host_network() -> None:
    text = (TEMPLATES / "statefulset.yaml").read_text("utf-8")
    condition = r'if and .Values.hostNetwork (not (include "forewarn.tokens" .))'
    match = re.search(
        r"\{\{- " + re.escape(condition) + r" \}\}\n\{\{- fail \"(.+)\" \}\}", text
    )
    assert match is not None
    assert "admin.tokens or admin.existingSecret" in match[1]
    # Before anything is drawn.
    assert text.index("fail") < text.index("kind: StatefulSet")


def test_chart_restricts_the_operator_api_to_chosen_peers() -> None:
    text = (TEMPLATES / "networkpolicy.yaml").read_text("utf-8")
    metadata, _, admin = text.partition("# Operators and Prometheus")
    assert "port: metadata" in metadata
    assert "from:" not in metadata
    assert "port: admin" in admin
    assert "from:" in admin
