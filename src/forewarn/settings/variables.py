"""Variables of the environment that nearly name a setting."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from forewarn.problems import did_you_mean, quoted

NEAR = 0.9
"""How like a setting's a variable must be to be a slip: a letter or two. Others may
have any name, since container platforms make variables of ours."""


def slips(
    environ: Mapping[str, str], prefix: str, known: Collection[str]
) -> Iterator[str]:
    """Yield a sentence for each variable that is not known, and nearly is."""
    for variable in environ:
        if not variable.startswith(prefix) or variable in known:
            continue
        near = did_you_mean(variable, known, likeness=NEAR)
        if near:
            yield f"the variable {quoted(variable)} is not used{near}"
