"""Modules for the start are unloaded, and are loaded again on demand."""

import subprocess
import sys

STORY = """
import sys
from forewarn.agent import front
from forewarn.agent.core.model import Memory
settings = front.obey(["--poll", "2s"], say=print, environ={})
del front
from forewarn.agent.unload import STARTERS, unload
unload()
assert not STARTERS & set(sys.modules), STARTERS & set(sys.modules)
import forewarn.agent
assert not hasattr(forewarn.agent, "settings")
import forewarn.agent.running
assert not STARTERS & set(sys.modules), STARTERS & set(sys.modules)
# An agent without a lock does not load its modules.
assert not [name for name in sys.modules if name.startswith("forewarn.agent.locks")]
# Other modules are unchanged, and unloaded ones work after they are loaded again.
from forewarn.agent.core import model
assert model.Memory is Memory
from forewarn.agent.settings import load_settings
again = load_settings(environ={}, flags={"poll": "2s"})
assert again == settings
print("poll", again.watch.poll)
"""


def test_startup_modules_are_unloaded_and_can_be_loaded_again() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STORY],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "poll 2000000\n", done.stderr
