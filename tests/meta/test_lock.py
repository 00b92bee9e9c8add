"""The lock can be installed by anybody, and pins every dependency within its range."""

import itertools
import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement

from booktools.paths import LOCK, ROOT

PIN = re.compile(r"[a-z0-9-]+(\[[a-z,]+\])?==[0-9][^\s+]*( ; .+)?")
FORBIDDEN = re.compile(r"\+|nvidia|cuda|triton|file:|://|@", re.IGNORECASE)
ENVIRONMENTS = [
    {
        "python_version": f"3.{minor}",
        "python_full_version": f"3.{minor}.9",
        "sys_platform": system,
        "platform_system": {"linux": "Linux", "darwin": "Darwin"}[system],
        "platform_machine": {"linux": "x86_64", "darwin": "arm64"}[system],
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
        "os_name": "posix",
        "extra": "",
    }
    for minor, system in itertools.product(range(11, 15), ("linux", "darwin"))
]


def line_faults(lock: str) -> Iterator[str]:
    """Say which lines of a lock only some machines could install, and what is missing at its end."""
    *pins, last = lock.splitlines()
    if last != "-e .":
        yield f"expected the last line '-e .', got {last!r}"
    for line in pins:
        if FORBIDDEN.search(line) or PIN.fullmatch(line) is None:
            yield f"expected name==release with an optional condition, for every machine, got {line!r}"


def requirements(project: dict) -> Iterator[Requirement]:
    """Yield every requirement of the project but its own extras, and Triton, which goes with torch."""
    extras = project["project"]["optional-dependencies"]
    for line in itertools.chain(project["project"]["dependencies"], *extras.values()):
        requirement = Requirement(line)
        if requirement.name not in (project["project"]["name"], "triton"):
            yield requirement


def range_faults(lock: str, project: dict) -> Iterator[str]:
    """Say which requirement has no single pin within its range, on which kind of machine."""
    pins = [Requirement(line) for line in lock.splitlines() if "==" in line]
    for requirement, environment in itertools.product(requirements(project), ENVIRONMENTS):
        name = requirement.name.lower().replace("_", "-")
        mine = [
            next(iter(pin.specifier)).version
            for pin in pins
            if pin.name == name and (pin.marker is None or pin.marker.evaluate(environment))
        ]
        if len(mine) != 1 or not requirement.specifier.contains(mine[0], prereleases=True):
            where = f"Python {environment['python_version']}, {environment['sys_platform']}"
            yield f"{requirement} ({where}): expected one pin in range, got {mine}"


@pytest.fixture
def lock() -> str:
    return LOCK.read_text()


@pytest.fixture
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_lock_is_for_every_machine(lock: str) -> None:
    assert list(line_faults(lock)) == []


def test_the_lock_pins_every_dependency_in_its_range(lock: str, project: dict) -> None:
    assert list(range_faults(lock, project)) == []


@pytest.mark.parametrize(
    "line",
    [
        "torch==2.13.0+cpu",
        "nvidia-cublas==13.1 ; sys_platform == 'linux'",
        "cuda-toolkit==13.0",
        "triton==3.7.1",
        "--find-links file:///wheels",
        "numpy @ https://example.org/numpy.whl",
        "numpy>=2.0",
    ],
)
def test_a_line_for_some_machines_is_refused(lock: str, line: str) -> None:
    assert list(line_faults(f"{line}\n{lock}"))


def test_a_lock_without_the_library_is_refused(lock: str) -> None:
    assert list(line_faults(lock.removesuffix("-e .\n")))


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"^sympy==.*\n", ""),
        (r"^sympy==.*", "sympy==1.0"),
        (r"^sphinx==.*", "sphinx==8.0"),
        (r"^numpy==.*>=.*\n", ""),
        (r"^lark==.*", "lark==1.3.1 ; sys_platform == 'linux'"),
    ],
)
def test_a_missing_or_wrong_pin_is_seen(lock: str, project: dict, pattern: str, replacement: str) -> None:
    damaged = re.sub(pattern, replacement, lock, flags=re.MULTILINE)
    assert damaged != lock
    assert list(range_faults(damaged, project))
