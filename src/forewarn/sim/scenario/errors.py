"""What is wrong with a scenario file."""

from forewarn.settings.tables import FileError


class ScenarioError(FileError):
    """The scenario file cannot be used; nothing was run."""

    advice = "mend the scenario file; nothing was run"
