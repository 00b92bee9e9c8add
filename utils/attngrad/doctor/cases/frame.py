"""What a specification leaves free: the sizes, the scale, the bias and the causal flag of its cases."""

import math
from dataclasses import dataclass
from typing import Any

from attngrad.doctor.spec import Spec
from attngrad.offsets import AlibiMap, BeitMap, OffsetMap, WindowMap

FEATURES = (32, 64)  # where the specification takes any: of most cases, and of the basic ones
SCALE = 1.27  # times 1/sqrt(D): a scale that no other factor can be taken for
DROPOUT = 0.15


@dataclass(frozen=True)
class Frame:
    """A specification, and the type in which its cases are drawn."""

    spec: Spec
    dtype: str

    @property
    def bias_dtype(self) -> str:
        """Return the type of a bias or table."""
        return self.dtype if self.spec.bias_dtype == "same" else self.spec.bias_dtype

    @property
    def narrow(self) -> bool:
        """Say whether the type has 16 bits."""
        return self.dtype in ("float16", "bfloat16")

    @property
    def tokens(self) -> int | None:
        """Return N = M of a map of whole windows, None for others."""
        if isinstance(self.spec.map, WindowMap):
            return math.prod(self.spec.map.sizes)
        if isinstance(self.spec.map, BeitMap):
            return 1 + int(self.spec.map.height) * int(self.spec.map.width)
        return None

    @property
    def heads(self) -> int | None:
        """Return the heads that the slopes of ALiBi fix, None where any number will do."""
        return int(self.spec.map.heads) if isinstance(self.spec.map, AlibiMap) else None

    @property
    def bias(self) -> str:
        """Return the kind of bias that most cases have."""
        if isinstance(self.spec.map, AlibiMap):
            return "slopes"
        if self.spec.map is not None:
            return "table"
        return self.spec.bias[0] if self.spec.bias else ""

    @property
    def causal(self) -> bool:
        """Say whether every case is causal."""
        return self.spec.causal == "always"

    def scale(self, D: int) -> float:
        """Return the scale of a case."""
        if isinstance(self.spec.scale, str):
            return round(SCALE / math.sqrt(D), 4) if self.spec.scale == "argument" else 1.0 / math.sqrt(D)
        return float(self.spec.scale)

    def features(self, wanted: int) -> int:
        """Return the D nearest to a wanted one, of those that are allowed."""
        allowed = self.spec.head_dims
        return wanted if allowed is None else min(allowed, key=lambda D: (abs(D - wanted), D))

    def start(self) -> int | None:
        """Return the position of query 0 that the declared alignment gives, None for M - N."""
        return 0 if self.spec.alignment == "top-left" else None

    def lengths(self, N: int, M: int, causal: bool = False) -> tuple[int, int]:
        """Return the N and M that are allowed and nearest to wanted ones."""
        if self.tokens is not None:
            return self.tokens, self.tokens
        step = self.spec.length_multiple
        N, M = (-(-n // step) * step for n in (N, M))
        if isinstance(self.spec.map, OffsetMap):
            longest = max(int(self.spec.map.max_len) // step, 1) * step
            fewer = max(longest * 2 // 3 // step * step, step)
            if min(N, M) >= longest and N != M:
                N, M = (fewer, longest) if N < M else (longest, fewer)
            N, M = min(N, longest), min(M, longest)
        if not self.spec.has("cross"):
            N = M = max(N, M)
        if self.no_key(N, M, causal) and not self.spec.has("empty-rows"):
            N, M = M, N
        return N, M

    def side(self) -> int | None:
        """Return an M = D of cases whose values are square, None where the specification allows none."""
        allowed = self.spec.head_dims
        if self.tokens is not None:
            return self.tokens if (allowed is None or self.tokens in allowed) and self.tokens <= 256 else None
        longest = int(self.spec.map.max_len) if isinstance(self.spec.map, OffsetMap) else 256
        step = self.spec.length_multiple
        sizes = allowed or [D for D in (32, 64, 128, 256) if D % step == 0 and D <= longest]
        usable = sorted(D for D in sizes or (longest,) if D % step == 0 and D <= longest)
        return usable[0] if usable else None

    def no_key(self, N: int, M: int, causal: bool) -> bool:
        """Say whether causal masking leaves the first queries without a key."""
        return (causal or self.causal) and N > M and self.spec.alignment == "bottom-right"

    def allows(self, N: int, M: int, causal: bool = False) -> bool:
        """Say whether these very lengths are allowed."""
        return self.lengths(N, M, causal) == (N, M)

    def of(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a recipe with sizes, scale, bias and flags as the specification has them."""
        fields = {"bias": self.bias, "causal": self.causal, "start": self.start(), "D": FEATURES[0], **wanted}
        fields["N"], fields["M"] = self.lengths(fields["N"], fields["M"], fields["causal"])
        fields["D"] = self.features(fields["D"])
        fields.setdefault("scale", self.scale(fields["D"]))
        if self.heads is not None:
            fields["H"] = self.heads
        return fields
