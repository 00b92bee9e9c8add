"""What all tests share: fixed threads, and property tests that draw the same examples on every run."""

import os

# Before torch or numpy is imported: later settings are not read.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

from hypothesis import HealthCheck, settings

settings.register_profile(
    "book",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("book")
