"""The results: targets, figures and notes, for the terminal and in Markdown."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field


def percentile(values: Sequence[float], share: float) -> float:
    """Return the quantile `share` of the values; NaN if there are none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def rounded(value: float) -> str:
    """Format a number for a table with its significant digits."""
    if math.isnan(value):
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A target and its measured value."""

    what: str
    wanted: float
    measured: float
    unit: str = ""
    at_most: bool = True
    """Whether smaller is better."""

    @property
    def verdict(self) -> str:
        """Return `met`, `missed`, or why it is unknown."""
        if math.isnan(self.measured):
            return "not measured"
        good = (
            self.measured <= self.wanted
            if self.at_most
            else self.measured >= self.wanted
        )
        return "met" if good else "missed"

    def cells(self) -> list[str]:
        """Return its row of the table."""
        sign = "≤" if self.at_most else "≥"
        return [
            self.what,
            f"{sign} {rounded(self.wanted)} {self.unit}".rstrip(),
            f"{rounded(self.measured)} {self.unit}".rstrip(),
            self.verdict,
        ]


@dataclass(slots=True)
class Table:
    """Figures without a target."""

    title: str
    heads: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list[Sequence[str]])

    def text(self) -> str:
        """Return it as Markdown, with columns that are aligned on a terminal too."""
        grid = [list(self.heads), *map(list, self.rows)]
        widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
        lines = [_line(row, widths) for row in grid]
        marks = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        return "\n".join([lines[0], _line(marks, widths), *lines[1:]])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    padded = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
    return f"| {' | '.join(padded)} |"


@dataclass(slots=True)
class Report:
    """All results of a run so far."""

    machine: str
    bars: list[Bar] = field(default_factory=list[Bar])
    tables: list[Table] = field(default_factory=list[Table])
    notes: list[str] = field(default_factory=list[str])

    def judge(
        self,
        what: str,
        measured: float,
        wanted: float,
        unit: str = "",
        *,
        at_most: bool = True,
    ) -> None:
        """Add a target and print its result."""
        bar = Bar(
            what=what, wanted=wanted, measured=measured, unit=unit, at_most=at_most
        )
        self.bars.append(bar)
        _, want, got, verdict = bar.cells()
        print(f"  {verdict:>8}  {what}: {got} (wanted {want})", flush=True)

    def show(self, table: Table) -> None:
        """Add figures, and print them."""
        self.tables.append(table)
        print(f"\n{table.title}\n{table.text()}\n", flush=True)

    def note(self, sentence: str) -> None:
        """Add a note for readers."""
        if sentence not in self.notes:
            self.notes.append(sentence)
            print(f"  note: {sentence}", flush=True)

    def bars_table(self) -> Table:
        """Return all targets as one table."""
        table = Table("Bars", ("what", "wanted", "measured", "verdict"))
        table.rows += [bar.cells() for bar in self.bars]
        return table
