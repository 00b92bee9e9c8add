"""Fingerprints of code: whether a recorded row was measured with the code that is here now.

A fingerprint covers a function and all that it uses by name, as far as that belongs to the same module or to
attngrad. It is made from the syntax, so comments, docstrings, layout, annotations and the messages of errors
do not count. Nothing is imported for it, and it is the same for every release of Python.
"""

import ast
import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from attngrad.notation import RangeError

PACKAGES = Path(__file__).resolve().parents[2]
# What differs between releases of Python or has no effect on a run.
IGNORED = {"ctx", "kind", "type_comment", "type_ignores", "type_params", "annotation", "returns"}
DIGITS = 12

Place = tuple[str, str]  # a module, and a name on its top level


def fingerprint(functions: Sequence[Callable[..., Any]], packages: Path = PACKAGES) -> str:
    """Return the fingerprint of some functions, with the attngrad that lies in the folder ``packages``.

    Raises: RangeError for a function that is not on the top level of a module, or a use that cannot be
    followed in the source.
    """
    todo: list[Place] = [_place(function) for function in functions]
    parts: dict[Place, str] = {}
    while todo:
        place = todo.pop()
        if place not in parts:
            module = _module(place[0], packages)
            parts[place] = module.text(place[1])
            todo += module.uses(place[1])
    text = "\n".join(f"{module}:{name} {parts[module, name]}" for module, name in sorted(parts))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _place(function: Callable[..., Any]) -> Place:
    """Return where a function is defined."""
    name = getattr(function, "__qualname__", repr(function))
    if not name.isidentifier():
        raise RangeError(f"function: expected one on the top level of its module, got {name}")
    return function.__module__, name


def _inside(module: str) -> bool:
    """Return whether a module belongs to attngrad."""
    return module.split(".")[0] == "attngrad"


def _file(module: str, packages: Path) -> Path:
    """Return the file of a module; one of attngrad is not imported, which could load torch."""
    if not _inside(module):
        return Path(str(sys.modules[module].__file__))
    path = packages.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _submodule(place: Place, packages: Path) -> str | None:
    """Return the module of attngrad that an imported name means, None where it means something else.

    As in Python, a name that the package itself defines or imports goes before a module of that name.
    """
    name = ".".join(place)
    if not _inside(name) or not _file(name, packages).is_file():
        return None
    package = _module(place[0], packages)
    taken = place[1] in package.definitions or package.imports.get(place[1], place) != place
    return None if taken else name


@lru_cache(maxsize=64)
def _module(name: str, packages: Path) -> "Module":
    """Return a module, read once."""
    return Module(name, packages)


class Module:
    """The definitions and imports on the top level of one module."""

    def __init__(self, name: str, packages: Path) -> None:
        path = _file(name, packages)
        tree = _Bare().visit(ast.parse(path.read_text(encoding="utf-8")))
        self.name, self.packages = name, packages
        self.package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        self.imports = dict(self._imported(tree.body))
        self.definitions = {key: outer for outer in tree.body for key in _defined(outer)}

    def text(self, name: str) -> str:
        """Return the definition of a name as text; that of an imported name is where it comes from."""
        if name in self.definitions:
            return repr(_shape(self.definitions[name]))
        if name in self.imports:
            return repr(self.imports[name])
        raise RangeError(f"{self.name}: expected {name!r} to be defined or imported on its top level")

    def uses(self, name: str) -> list[Place]:
        """Return what a definition uses of its own module and of other modules of attngrad.

        Raises: RangeError for a module that is used other than by ``module.name``.
        """
        if name not in self.definitions:
            return [self.imports[name]] if _inside(self.imports[name][0]) else []
        nodes = list(ast.walk(self.definitions[name]))
        known = self.imports | dict(self._imported(nodes))
        found, followed = [], set()
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                module = _submodule(known.get(node.value.id, ("", "")), self.packages)
                if module is not None:
                    found.append((module, node.attr))
                    followed.add(node.value)
        for node in nodes:
            if isinstance(node, ast.Name) and node not in followed:
                found += self._named(node.id, known)
        return found

    def _named(self, name: str, known: dict[str, Place]) -> list[Place]:
        """Return where a name comes from: nothing for one of another package, or of a variable."""
        if name in known and _submodule(known[name], self.packages) is not None:
            raise RangeError(f"{self.name}: expected the module {name} as in `{name}.function`, got it alone")
        if name in known:
            return [known[name]] if _inside(known[name][0]) else []
        return [(self.name, name)] if name in self.definitions else []

    def _imported(self, nodes: Sequence[ast.AST]) -> Iterator[tuple[str, Place]]:
        """Yield the names that import statements bind, and where each comes from."""
        for node in nodes:
            if isinstance(node, ast.Import) and any(_inside(alias.name) for alias in node.names):
                raise RangeError(f"{self.name}: expected `from attngrad import`, got `{ast.unparse(node)}`")
            if not isinstance(node, ast.ImportFrom):
                continue
            base = node.module or ""
            if node.level:
                parents = self.package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
            for alias in node.names:
                yield alias.asname or alias.name, (base, alias.name)


def _defined(node: ast.stmt) -> set[str]:
    """Return the names that a statement on the top level binds, imports left out."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Expr):
        return set()
    inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.excepthandler)]
    if inner:
        return set().union(*(_defined(child) for child in inner))
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    walked = (one for target in targets if target is not None for one in ast.walk(target))
    return {one.id for one in walked if isinstance(one, ast.Name)}


class _Bare(ast.NodeTransformer):
    """Drops what has no effect on a run that succeeds: annotations, docstrings, and what is raised."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Drop the fields that do not count, and strings that stand alone."""
        for name in IGNORED & set(node._fields):
            setattr(node, name, None)
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [one for one in body if not _is_text(one)]
        return super().generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        """Keep that something is raised, not what."""
        return ast.Raise(exc=None, cause=None)


def _is_text(node: ast.AST) -> bool:
    """Return whether a statement is a string that nothing uses."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _shape(node: Any) -> Any:
    """Return syntax as nested lists, without what is empty."""
    if isinstance(node, ast.Constant):
        return ["Constant", type(node.value).__name__, repr(node.value)]
    if isinstance(node, ast.AST):
        fields = [(name, _shape(value)) for name, value in ast.iter_fields(node) if value not in (None, [])]
        return [type(node).__name__, *fields]
    return [_shape(one) for one in node] if isinstance(node, list) else node
