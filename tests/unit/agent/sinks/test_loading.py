"""A kind of receiver is loaded where the settings use it, and brings nothing heavy."""

import subprocess
import sys
from pathlib import Path

import pytest

from forewarn.agent.integrations import registry

KEYS = {
    "slack": 'url_file = "/x"',
    "teams": 'url_file = "/x"',
    "email": 'server = "h:587"\nfrom = "a@b.example"\nto = "c@d.example"',
    "syslog": "",
    "journald": "",
    "eventhubs": 'namespace = "n"\nhub = "h"\nkey_name = "k"\nkey_file = "/x"',
    "eventlog": "",
}

ROOT = Path(__file__).resolve().parents[4]

STORY = """
import sys
sys.path.insert(0, sys.argv[2])
from forewarn.agent.settings import load_settings
from forewarn.agent.observability.notify import make_notifier
from forewarn.clock import SystemClock
settings = load_settings(file=sys.argv[1], environ={}, flags={})
make_notifier(settings.notify, clock=SystemClock())
print(*sys.modules)
"""

HEAVY = {
    *("ssl", "_ssl", "hmac", "hashlib", "_hashlib", "base64", "email", "smtplib"),
    *("logging.handlers", "urllib.parse", "http", "asyncio", "random", "uuid"),
}


@pytest.mark.slow
@pytest.mark.parametrize("word", ["", *registry.SINKS])
def test_only_the_modules_in_use_are_loaded(word: str, tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    table = f'[[notify]]\nkind = "{word}"\n{KEYS[word]}\n' if word else ""
    file.write_text(table)
    done = subprocess.run(
        # Alone: what measures the tests brings much of its own.
        [sys.executable, "-I", "-S", "-c", STORY, str(file), str(ROOT / "src")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert not loaded & HEAVY
    modules = {
        f"forewarn.agent.sinks.{registry.SHARED.get(sink, sink)}"
        for sink in registry.SINKS
    }
    used = (
        {f"forewarn.agent.sinks.{registry.SHARED.get(word, word)}"} if word else set()
    )
    assert modules & loaded == used
