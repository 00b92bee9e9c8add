"""Started as a script in a child process: it loads its own folder as a package under a private name."""

import importlib.util
import sys
from pathlib import Path

NAME = "_attention_doctor_inside"


def main(library: str) -> None:
    """Serve an implementation."""
    folder = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    sys.modules[NAME] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[NAME])
    importlib.import_module(f"{NAME}.serving").serve(library)


if __name__ == "__main__":
    main(sys.argv[1])
