"""Steps of a computation that are computed once, and that a subclass replaces one by one."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any


class stage:
    """A step: a method without arguments that is read like an attribute and computed at most once.

    What a step read while it was computed is remembered, so that another pipeline can take over each step
    that nothing different feeds.

    >>> class Twice(Stages):
    ...     @stage
    ...     def x(self):
    ...         return 2
    ...     @stage
    ...     def y(self):
    ...         return 2 * self.x
    >>> Twice().y
    4
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        """Keep the method."""
        self.function, self.name, self.__doc__ = function, function.__name__, function.__doc__

    def __get__(self, it: Any, owner: type | None = None) -> Any:
        """Return the value of the step; of the class, the step itself."""
        if it is None:
            return self
        if it.opened:
            it.needs.setdefault(it.opened[-1], set()).add(self)
        if self not in it.done:
            it.opened.append(self)
            try:
                it.done[self] = self.function(it)
            finally:
                it.opened.pop()
        return it.done[self]

    def __set__(self, it: Any, value: Any) -> None:
        """Refuse to overwrite a step."""
        raise AttributeError(f"{self.name}: a step is replaced in a subclass, not in an instance")


class Stages:
    """A computation in steps, each a `stage`."""

    def __init__(self) -> None:
        """Start with no step done."""
        self.done: dict[stage, Any] = {}
        self.needs: dict[stage, set[stage]] = {}
        self.opened: list[stage] = []

    def take_over(self, other: "Stages") -> None:
        """Take each step that ``other`` has done, and that does not depend on one that differs here."""
        dirty = set(_replaced(type(self), type(other)))
        growing = True
        while growing:
            more = {step for step, read in other.needs.items() if step not in dirty and read & dirty}
            dirty |= more
            growing = bool(more)
        for step, value in other.done.items():
            if step not in dirty:
                self.done[step] = value
                self.needs[step] = other.needs.get(step, set())


@lru_cache(maxsize=4096)
def _replaced(mine: type[Stages], others: type[Stages]) -> frozenset[stage]:
    """Return the steps of one class that another has otherwise."""
    steps = (getattr(others, name) for name in dir(others))
    return frozenset(
        step for step in steps if isinstance(step, stage) and getattr(mine, step.name, None) is not step
    )
