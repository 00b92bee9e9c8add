"""Builds the site strictly, or leaves it alone when nothing that it is made from has changed.

Every build starts from nothing: a page that Sphinx does not read again cannot warn again, so a second,
incremental build would pass where the first one failed.
"""

import argparse
import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from booktools.paths import BUILD, ROOT, SITE, BookError, shown

SOURCES = (
    "_config.yml",
    "_toc.yml",
    "requirements.txt",
    "book/*.md",
    "book/*.bib",
    "book/_static/**/*",
    "chapters/*.ipynb",
    "utils/**/*.py",
)
PROGRESS = re.compile(r"^(reading sources|writing output|copying images)\.*\s*\[ *\d+%\].*")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ARCHIVE = "where-the-gradient-goes"


def source_files(root: Path) -> Iterator[Path]:
    """Yield the files that the site under `root` is made from, in a fixed order."""
    for pattern in SOURCES:
        yield from (path for path in sorted(root.glob(pattern)) if path.is_file())


def fingerprint(root: Path) -> str:
    """Return one hash of all that the site is made from, names and contents."""
    digest = hashlib.sha256(sys.version.encode())
    for path in source_files(root):
        digest.update(f"\0{path.relative_to(root)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def is_fresh(root: Path) -> bool:
    """Tell whether the site was built, without a warning, from the sources as they are now."""
    stamp = root / "_build" / "fingerprint"
    return stamp.is_file() and stamp.read_text() == fingerprint(root)


def build(root: Path) -> None:
    """Build the site of the book under `root`; any warning is an error.

    Raises:
        BookError: the build failed; the text names the warnings.
    """
    output = root / "_build"
    for stale in ("html", ".doctrees", "jupyter_execute", "fingerprint"):
        path = output / stale
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    output.mkdir(exist_ok=True)
    before = fingerprint(root)
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    command += ["build", str(root), "--all", "-n", "-W", "--keep-going"]
    lines: list[str] = []
    with subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for raw in process.stdout:
            line = COLOUR.sub("", raw).rstrip()
            lines.append(line)
            if PROGRESS.match(line):
                print(f"  {line}", flush=True)
    (output / "build.log").write_text("\n".join(lines) + "\n")
    if process.returncode != 0:
        raise BookError(failure(lines, output / "build.log"))
    (output / "fingerprint").write_text(before)


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """Let one process at a time build the site under `root`."""
    output = root / "_build"
    output.mkdir(exist_ok=True)
    with (output / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def build_if_stale(root: Path) -> bool:
    """Build the site unless it is fresh; tell whether it was built.

    Raises:
        BookError: the build failed.
    """
    with alone(root):
        if is_fresh(root):
            return False
        print("building the site", flush=True)
        build(root)
        return True


def failure(lines: Sequence[str], log: Path) -> str:
    """Return the warnings of a failed build, or the end of its log when there are none."""
    faults = [line for line in lines if re.search(r"\b(WARNING|ERROR|CRITICAL)\b", line)]
    told = list(dict.fromkeys(faults)) or list(lines[-20:])
    return "\n".join(["the strict build of the site failed:", *told, f"(whole log: {shown(log)})"])


def archive(site: Path, target: Path) -> None:
    """Write the built site as one zip file; equal sites give equal files."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        for path in sorted(site.rglob("*")):
            if path.is_file():
                name = f"{ARCHIVE}/{path.relative_to(site).as_posix()}"
                entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                bundle.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build what is out of date and print the address of the first page."""
    parser = argparse.ArgumentParser(prog="python -m booktools.build", description=__doc__)
    parser.add_argument("--zip", action="store_true", help="also write the site as one archive")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    try:
        built = build_if_stale(ROOT)
    except BookError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"built in {time.monotonic() - start:.0f} s" if built else "the site is up to date")
    if options.zip:
        archive(SITE, BUILD / f"{ARCHIVE}.zip")
        print(f"archive: {BUILD / ARCHIVE}.zip")
    print(f"first page: {(SITE / 'index.html').as_uri()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
