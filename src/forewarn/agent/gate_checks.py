"""What must hold between the settings of `[gate]`, and the terms that they make.

A fault is the whole name of a key and a sentence, as in `checks`.
"""

from __future__ import annotations

from collections.abc import Iterator

from forewarn.agent.alerts.selecting import selector
from forewarn.agent.core.policy import GateTerms
from forewarn.agent.settings_model import GateSettings
from forewarn.problems import quoted

_API_PATHS = ("/api/v1/alerts", "/api/v2/alerts", "/api/v1", "/api/v2")
"""What people copy with the URL."""


def gate_terms(settings: GateSettings) -> GateTerms:
    """Return what decisions need to know of the gate."""
    return GateTerms(
        label=settings.label,
        every=settings.every,
        clear_for=settings.clear_for,
        goes_unknown=settings.unknown == "go",
        timeout=settings.timeout,
    )


def gate_faults(settings: GateSettings) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the gate."""
    if not settings.url:
        if settings != GateSettings():
            why = "is missing, and so is alertmanager: without one there is no gate"
            yield "gate.prometheus", why
        return
    if settings.prometheus and settings.alertmanager:
        yield "gate.alertmanager", "write prometheus or alertmanager, not both"
    for key in ("prometheus", "alertmanager"):
        yield from _url_faults(f"gate.{key}", getattr(settings, key))
    for key, texts in (("only", settings.only), ("ignore", settings.ignore)):
        for text in texts:
            try:
                selector(text)
            except ValueError as error:
                yield f"gate.{key}", str(error)
    if settings.pending and not settings.prometheus:
        why = "is for prometheus: Alertmanager gets no alerts that are pending"
        yield "gate.pending", why
    if settings.key_file and not settings.cert_file:
        yield "gate.key_file", "is of no use without cert_file"


def _url_faults(name: str, url: str) -> Iterator[tuple[str, str]]:
    if "?" in url:
        yield name, f"{quoted(url)} must not have a query"
        return
    for path in _API_PATHS:
        if url.rstrip("/").endswith(path):
            base = url.rstrip("/")[: -len(path)]
            yield name, f"{quoted(url)} must be without {path}: {quoted(base)}"
            return
