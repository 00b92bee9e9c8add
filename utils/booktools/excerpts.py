"""The core of a tested function, in the lines of its source: without docstring and checks of arguments.

A function is one of the library, `attngrad.reference.softmax_vjp`, or one that a cell of a chapter defines,
`02_softmax_jacobian.double_backward`; what a cell prints is compared on each run of the tests.
"""

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from booktools.notebooks import cells_of_text
from booktools.paths import TEXTS, BookError, shown

LIBRARY = "attngrad"
LINES = 10


def of_library(path: str) -> str:
    """Return the source of the function of the library that a dotted path names.

    Raises:
        BookError: the path leads to nothing, or to something that is no function.
    """
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise BookError(f"expected a function of the library; there is no {path}") from error
    function = inspect.unwrap(found)
    if not inspect.isfunction(function):
        raise BookError(f"expected a function of the library; {path} is a {type(found).__name__}")
    return textwrap.dedent(inspect.getsource(function))


def of_chapter(path: str, texts: Path) -> str:
    """Return the source of the function that a cell of a chapter defines.

    Raises:
        BookError: there is no such chapter, or none or several such functions in it.
    """
    chapter, _, name = path.rpartition(".")
    text = texts / f"{chapter}.md"
    if not text.is_file():
        raise BookError(f"expected a path {LIBRARY}.module.function or NN_topic.function; got {path!r}")
    cells = [
        cell.source for cell in cells_of_text(text.read_text(encoding="utf-8")) if cell.cell_type == "code"
    ]
    found = [
        "\n".join(source.splitlines()[node.lineno - 1 : node.end_lineno])
        for source in cells
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    if len(found) != 1:
        raise BookError(f"expected one function {name} in the cells of {shown(text)}; got {len(found)}")
    return found[0]


def excerpt(path: str, names: Sequence[str] = (), texts: Path = TEXTS) -> str:
    """Return the signature of a function and its core, in the words of its source.

    With `names`, of the core only some statements: in order, for each name the next one that assigns it.
    "return" names a return.

    Raises:
        BookError: as `of_library`, `of_chapter` and `named`; more than ten lines.
    """
    source = of_library(path) if path.split(".")[0] == LIBRARY else of_chapter(path, texts)
    lines = source.splitlines()
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    core = [statement for statement in function.body if not is_check(statement)]
    chosen = list(named(core, names, path)) if names else core
    kept = [signature(function), *body(core, chosen, lines)]
    if len(kept) > LINES:
        raise BookError(
            f"expected at most {LINES} lines of {path}, its checks left out; got {len(kept)}: "
            "name the statements to show, or a function that does less"
        )
    return "\n".join(kept)


def named(core: Sequence[ast.stmt], names: Sequence[str], path: str) -> Iterator[ast.stmt]:
    """Yield for each name the next statement that assigns it.

    Raises:
        BookError: there is no further one.
    """
    rest = iter(core)
    for name in names:
        found = next((statement for statement in rest if name in assigned(statement)), None)
        if found is None:
            raise BookError(
                f"expected names in the order in which {path} assigns them; got no further {name}"
            )
        yield found


def body(core: Sequence[ast.stmt], chosen: Sequence[ast.stmt], lines: Sequence[str]) -> Iterator[str]:
    """Yield the source lines of the chosen statements; an ellipsis stands for those between them."""
    gap = False
    for statement in core:
        if statement not in chosen:
            gap = True
            continue
        if gap:
            yield "    ..."
        gap = False
        yield from lines[statement.lineno - 1 : statement.end_lineno]


def signature(function: ast.FunctionDef) -> str:
    """Return the first line of a function, its annotations left out."""
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return f"def {function.name}({ast.unparse(function.args)}):"


def is_check(statement: ast.stmt) -> bool:
    """Tell whether a statement only documents or checks: it computes nothing from good arguments."""
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.Expr(value=ast.Call(func=ast.Name())):
            return True
        case ast.If(body=[ast.Raise()], orelse=[]):
            return True
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return passes_through(name, value)
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            pairs = zip(names, values, strict=False)
            return len(names) == len(values) and all(
                isinstance(name, ast.Name) and passes_through(name.id, value) for name, value in pairs
            )
    return False


def passes_through(name: str, value: ast.expr) -> bool:
    """Tell whether a value is `name` itself behind a check that is told how to call it: f("x", x)."""
    match value:
        case ast.Call(func=ast.Name(), args=[ast.Constant(value=told), ast.Name(id=same), *_]):
            return told == same == name
    return False


def assigned(statement: ast.stmt) -> list[str]:
    """Return the names to which a statement assigns more than None, and "return" for a return."""
    match statement:
        case ast.Return():
            return ["return"]
        case ast.Assign(value=ast.Constant(value=None)):
            return []
    stores = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
    return [node.id for node in stores if isinstance(node.ctx, ast.Store)]
