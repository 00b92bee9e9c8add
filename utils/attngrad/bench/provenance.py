"""Where a row comes from: date, device, releases and settings; no names of hosts, people or folders."""

import platform
import subprocess
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

KEYS = ("date", "device", "system", "threads", "python", "numpy", "torch", "rounds", "sample_s", "flush")


def provenance(device: str, rounds: int, sample_s: float, flush: bool) -> dict[str, Any]:
    """Return what has to be known of this process to judge its times."""
    import torch

    return {
        "date": date.today().isoformat(),
        "device": device_name(device),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "torch": torch.__version__,
        "rounds": rounds,
        "sample_s": sample_s,
        "flush": flush,
    }


def device_name(device: str) -> str:
    """Return the model of the processor or of the CUDA device."""
    if device == "cuda":
        import torch

        return torch.cuda.get_device_name()
    return processor_name() or platform.machine()


def processor_name() -> str:
    """Return the model of the processor as its system names it, empty where it does not."""
    if platform.system() == "Darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text(encoding="utf-8", errors="replace").splitlines() if facts.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return " ".join(names[0].split()) if names else ""
