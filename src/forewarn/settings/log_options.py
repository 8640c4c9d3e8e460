"""The settings of the table `[log]` of the service and of the relay."""

from __future__ import annotations

from collections.abc import Mapping

from forewarn.settings.forms import Forms, Option

LOG_OPTIONS: Mapping[str, Option] = {
    "log.format": Option(
        form=Forms.WORD,
        words=("auto", "text", "json"),
        text="`text`: lines for people. `json`: one JSON object per line, for programs. "
        "`auto`: text on a terminal, JSON otherwise.",
    ),
    "log.level": Option(
        form=Forms.WORD,
        words=("debug", "info", "warning", "error"),
        text="Minimum level of logged lines: `debug`, `info`, `warning` or `error`.",
    ),
}
