"""Write the figures of a run into docs/explanation/performance.md.

The text between the two marks is replaced. The text around them stays, such as the
reason why a target is missed.
"""

from pathlib import Path

from bench import loads
from bench.report import Report

FILE = Path("docs/explanation/performance.md")
BEGIN = "<!-- begin: written by make bench RECORD=1 -->"
END = "<!-- end -->"


def write(report: Report, *, quick: bool) -> None:
    """Write the results into the page."""
    head, found, rest = FILE.read_text(encoding="utf-8").partition(BEGIN)
    assert found, f"{FILE} has no mark"
    _, found, tail = rest.partition(END)
    assert found, f"{FILE} has no closing mark"
    FILE.write_text(f"{head}{BEGIN}\n{text(report, quick=quick)}\n{END}{tail}", "utf-8")
    print(f"\nwritten: {FILE}")


def text(report: Report, *, quick: bool) -> str:
    """Return the figures as Markdown."""
    extent = "A quick run" if quick else "A full run"
    parts = [
        "## Machine",
        f"{report.machine}. Load by {loads.name()}. {extent}.",
        "## Bars",
        report.bars_table().text(),
        "## Figures",
    ]
    for table in report.tables:
        parts += [f"### {table.title}", table.text()]
    if report.notes:
        parts += ["## Notes", "\n".join(f"- {note}." for note in report.notes)]
    return "\n" + "\n\n".join(parts) + "\n"
