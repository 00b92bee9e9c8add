"""An implementation by its name: "path/file.py:name", "path/file.py", "package.module:name"."""

import ast
import difflib
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from .wrapping import Wrapped, wrapped


class CannotRun(Exception):
    """An implementation could not be loaded; the text is the reason."""


def load(target: str) -> tuple[Any, Any]:
    """Return what a target names, and the module in which it was found.

    Raises: CannotRun with the reason.
    """
    place, _, attributes = target.rpartition(":") if _names_attribute(target) else (target, "", "")
    if not place:
        raise CannotRun(f"target: expected file.py:name or module:name, got {target!r}")
    module = _from_file(Path(place)) if place.endswith(".py") else _from_name(place)
    found: Any = module
    for attribute in filter(None, attributes.split(".")):
        if not hasattr(found, attribute):
            raise CannotRun(f"{target}: no {attribute!r} there{_candidates(found, attribute)}")
        found = getattr(found, attribute)
    return found, module


def subject(found: Any, notes: list[str]) -> Any:
    """Return an object with forward and backward: as it is, a class made, or a callable wrapped.

    Raises: CannotRun with the reason.
    """
    if isinstance(found, type) and not _is_function_of_autograd(found):
        try:
            found = found()
        except Exception as error:
            raise CannotRun(f"{found.__qualname__}(): {_told(error)}") from error
    if _has(found, "forward") and _has(found, "backward") and not isinstance(found, type):
        return found
    if callable(found):
        try:
            return wrapped(found, notes)
        except ValueError as error:
            raise CannotRun(str(error)) from error
    expected = "forward(case) and backward(case, saved), or a callable of q, k, v"
    kind = f"the module of {found.__file__}" if isinstance(found, ModuleType) else type(found).__name__
    names = _candidates(found, "") if isinstance(found, ModuleType) else ""
    has = [name for name in ("forward", "backward") if _has(found, name)]
    only = f" with {has[0]} alone" if len(has) == 1 else ""
    raise CannotRun(f"expected {expected}, got {kind}{only}{names}")


def declared(found: Any, made: Any, module: Any) -> Any:
    """Return the specification that an implementation declares, in whatever form, None without one.

    Raises: CannotRun for a number, a text or a list in its place.
    """
    for owner in (made, found, module):
        spec = getattr(owner, "spec", None)
        if hasattr(spec, "to_json") or isinstance(spec, dict):
            return spec
        if isinstance(spec, str | int | float | list | tuple):
            told = f"{type(spec).__name__} {spec!r:.60}"
            raise CannotRun(f"spec: expected a Spec or a dictionary of its fields, got {told}")
    return made.told() if isinstance(made, Wrapped) else None


def _names_attribute(target: str) -> bool:
    """Say whether a target ends in ":name", and not in the drive or the path of a file."""
    return ":" in target and not target.endswith(".py")


def _has(x: Any, name: str) -> bool:
    """Say whether x has a method of that name."""
    return callable(getattr(x, name, None))


def _is_function_of_autograd(kind: type) -> bool:
    """Say whether a class is a torch.autograd.Function, which is called by its apply."""
    return any(base.__module__ == "torch.autograd.function" for base in kind.__mro__)


def _candidates(owner: Any, wanted: str) -> str:
    """Return what an object has instead, the most alike first."""
    names = [name for name in vars(owner) if not name.startswith("_")] if hasattr(owner, "__dict__") else []
    names = [name for name in names if _may_be_meant(getattr(owner, name, None), owner)]
    close = difflib.get_close_matches(wanted, names, n=3, cutoff=0.5)
    listed = [*close, *(name for name in names if name not in close)][:8]
    return f"; it has {', '.join(listed)}" if listed else ""


def _may_be_meant(x: Any, owner: Any) -> bool:
    """Say whether x can be an implementation that its owner holds, and did not import from elsewhere."""
    named = isinstance(owner, ModuleType) and hasattr(x, "__qualname__")
    imported = named and getattr(x, "__module__", None) != owner.__name__
    return (callable(x) or _has(x, "forward")) and not imported


def _told(error: BaseException) -> str:
    """Return an exception as its last line tells it."""
    return traceback.format_exception_only(type(error), error)[-1].strip()


def _from_name(name: str) -> ModuleType:
    """Import a module by its name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise CannotRun(f"{name}: no such module") from error
        raise CannotRun(f"{name}: {_told(error)}") from error
    except (Exception, SystemExit) as error:
        raise CannotRun(f"{name}: {_told(error)}{_where(error, None)}") from error


def _from_file(path: Path) -> ModuleType:
    """Load a file; its folder is searched for what it imports, and relative imports have its package."""
    if not path.is_file():
        near = sorted(other.name for other in path.parent.glob("*.py")) if path.parent.is_dir() else []
        close = ", ".join(difflib.get_close_matches(path.name, near, n=3))
        raise CannotRun(f"{path}: no such file{'; there is ' if close else ''}{close}")
    path = path.resolve()
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    try:
        if _imports_relatively(path):
            return _as_part_of_package(path)
        name = path.stem if path.stem not in sys.modules else f"_subject_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    except CannotRun:
        raise
    except (Exception, SystemExit) as error:
        raise CannotRun(f"{path.name}: {_told(error)}{_where(error, path)}") from error


def _imports_relatively(path: Path) -> bool:
    """Say whether a file has a relative import."""
    nodes = ast.walk(ast.parse(path.read_bytes(), str(path)))
    return any(isinstance(node, ast.ImportFrom) and node.level > 0 for node in nodes)


def _as_part_of_package(path: Path) -> ModuleType:
    """Import a file by its name in the package to which it belongs."""
    names, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    if len(names) == 1:
        raise CannotRun(f"{path.name}: it has relative imports, but its folder has no __init__.py")
    sys.path.insert(0, str(folder))
    return importlib.import_module(".".join(names))


def _where(error: BaseException, path: Path | None) -> str:
    """Return the last line of a file at which an exception passed, or of any file without one.

    A mistake of syntax has a place of its own.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({Path(error.filename).name} line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in frames if path is None or frame.filename == str(path)]
    return f" ({Path(frames[-1].filename).name} line {frames[-1].lineno})" if frames else ""
