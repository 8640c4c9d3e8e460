"""The recipes for the jobs of forges."""

from pathlib import Path
from typing import Any

import yaml


def read(file: Path) -> Any:
    """Return what a recipe says."""
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def simulation(file: Path) -> str:
    """Return the script that plays a scenario to the program."""
    recipe = read(file)
    if "jobs" in recipe:
        [job] = recipe["jobs"].values()
        scripts = [step.get("run", "") for step in job["steps"]]
    else:
        scripts = recipe["maintenance"]["script"]
    [text] = [script for script in scripts if "forewarn simulate" in script]
    return text.strip()
