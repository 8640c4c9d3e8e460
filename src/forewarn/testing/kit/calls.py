"""Argument checks and error texts of all public methods of the kit.

An error names the wrong argument. `str()` of an error has its hint too, so reports of
pytest and unittest show it.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

from forewarn.problems import did_you_mean, quoted
from forewarn.protocol.errors import ForewarnError, RefusedError
from forewarn.testing.kit.forms import Form, form_of
from forewarn.wording import operators

__tracebackhide__ = True
"""pytest shows the line of the test that failed, and no line of this module."""

P = ParamSpec("P")
R = TypeVar("R")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Make a public method check its arguments and add hints to its errors.

    A wrong call raises RefusedError: a value of a wrong form, an unknown name, too many
    values or too few.
    """
    call = _Call(function)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
            try:
                call.check(args, kwargs)
                return await cast("Any", function)(*args, **kwargs)
            except ForewarnError as error:
                add_hint(error)
                raise

        return cast("Callable[P, R]", awaited)

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            call.check(args, kwargs)
            return function(*args, **kwargs)
        except ForewarnError as error:
            add_hint(error)
            raise

    return called


def add_hint(error: ForewarnError) -> None:
    """Add the hint to `str()` of an error; `message` and `hint` do not change."""
    if error.args == (error.message,):
        hint = f"\nhint: {error.hint}" if error.hint else ""
        error.args = (f"{operators.refusal(error)}{hint}",)


class _Call:
    """The signature of a function, and the form of each parameter."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    @functools.cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self._function)

    @functools.cached_property
    def _parameters(self) -> list[inspect.Parameter]:
        """All parameters except `self`."""
        return list(self._signature.parameters.values())[1:]

    @functools.cached_property
    def _forms(self) -> Mapping[str, Form]:
        return {
            parameter.name: form_of(parameter.name, parameter.annotation)
            for parameter in self._parameters
        }

    @functools.cached_property
    def _listed(self) -> frozenset[str]:
        """Name of the parameter for any number of values, if there is one."""
        return frozenset(
            parameter.name
            for parameter in self._parameters
            if parameter.kind is parameter.VAR_POSITIONAL
        )

    def check(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """Raise RefusedError for the first error in a call."""
        if len(args) == 1 and not kwargs and not self._needed:
            return
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:
            self._refuse(type(args[0]), args[1:], kwargs)
        forms, listed = self._forms, self._listed
        for name, value in bound.arguments.items():
            form = forms.get(name)
            if form is None:
                continue
            for item in cast("Sequence[object]", value) if name in listed else [value]:
                form.check(name, item)

    @functools.cached_property
    def _needed(self) -> tuple[str, ...]:
        return tuple(
            parameter.name
            for parameter in self._parameters
            if parameter.default is parameter.empty
            and parameter.kind is not parameter.VAR_POSITIONAL
        )

    def _refuse(
        self, kind: type, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> NoReturn:
        """Raise RefusedError for a call that does not match the signature."""
        name = f"{kind.__name__}.{self._function.__name__}".removesuffix(".__init__")
        parameters = self._parameters
        hint = f"Use {name}({', '.join(_shown(parameters))})."
        known = [
            parameter.name
            for parameter in parameters
            if parameter.kind is not parameter.VAR_POSITIONAL
        ]
        placed = [
            parameter.name
            for parameter in parameters
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]
        for key in kwargs:
            if key not in known:
                meant = did_you_mean(key, known)
                raise RefusedError(f"{name} has no {quoted(key)}{meant}", hint=hint)
        if len(args) > len(placed) and not self._listed:
            sentence = f"{name} takes at most {len(placed)} values without names"
            raise RefusedError(f"{sentence}, not {len(args)}", hint=hint)
        for key in placed[: len(args)]:
            if key in kwargs:
                raise RefusedError(f"{name} got {key} twice", hint=hint)
        there = {*placed[: len(args)], *kwargs}
        missing = " and ".join(name for name in self._needed if name not in there)
        raise RefusedError(f"{name} needs {missing}", hint=hint)


def _shown(parameters: Sequence[inspect.Parameter]) -> list[str]:
    """Return parameters as in source code, without types."""
    parts: list[str] = []
    for parameter in parameters:
        is_named = parameter.kind is parameter.KEYWORD_ONLY
        if is_named and not any(word.startswith("*") for word in parts):
            parts.append("*")
        word = (
            f"*{parameter.name}"
            if parameter.kind is parameter.VAR_POSITIONAL
            else parameter.name
        )
        default = parameter.default
        if isinstance(default, MappingProxyType):
            # A reader writes a dictionary; the default only cannot be changed.
            default = dict(cast("MappingProxyType[str, object]", default))
        parts.append(word if default is parameter.empty else f"{word}={default!r}")
    return parts


def shown_signature(function: Callable[..., object]) -> str:
    """Return the signature of a method without types: `(count=1, *, vm='')`."""
    _itself, *parameters = inspect.signature(function).parameters.values()
    return f"({', '.join(_shown(parameters))})"
