"""What tests of attention in tiles share: sizes of tiles, and calls with a shared bias and their results."""

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from attngrad import layers, reference
from attngrad.checks import check_close
from attngrad.layers import AlibiMap, ClipMap, OffsetMap, RelativeBias, T5Map
from attngrad.offsets import relative_offset
from attngrad.tiled import geometry, overflow

# Rows, columns, and entries of the rows of all heads of a block.
SMALL = {"one pair": (1, 1, 1), "small": (3, 4, 24), "several heads": (2, 5, 70), "all": (256, 2048, 2**19)}
TILES = SMALL | {"middle": (64, 128, 2**13)}
# With these, small scores are shifted as well as large ones.
SHIFTED = ("one pair", "several heads")


@contextmanager
def tiles_of(name: str):
    """Compute with tiles of other sizes."""
    rows, columns, entries = TILES[name]
    small = -1.0 if name in SHIFTED else overflow.SMALL
    with (
        patch.multiple(geometry, ROWS=rows, COLUMNS=columns, ENTRIES=entries),
        patch.object(overflow, "SMALL", small),
    ):
        yield


RIGHT_TILE = geometry.SkewMemory.tile


def padding_cleared_once(self: geometry.SkewMemory, heads: int, tile: geometry.Tile) -> torch.Tensor:
    """Return memory for a tile as if all tiles were as wide as the first one: a planted mistake."""
    first = self.written == self.all.shape[-1]
    return RIGHT_TILE(self, heads, tile) if first else geometry.Memory.tile(self, heads, tile)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return a random float64 tensor."""
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape))


@dataclass(frozen=True)
class Shared:
    """A call of attention with a `RelativeBias`; sizes are B, H, H_kv, N, M, D, D_v."""

    sizes: tuple[int, ...] = (2, 4, 2, 11, 13, 3, 5)
    map: Any = field(default_factory=lambda: T5Map(8, 6))
    heads: int | None = None
    query_start: int | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def module(self) -> RelativeBias:
        """Return the bias, its table or slopes random."""
        heads = self.heads or self.sizes[1]
        bias = RelativeBias(heads, self.map, dtype=torch.float64)
        with torch.no_grad():
            (parameter,) = bias.parameters()
            parameter.copy_(random(*parameter.shape, seed=7))
        return bias

    def inputs(self) -> dict[str, torch.Tensor]:
        """Return q, k and v."""
        B, H, H_kv, N, M, D, D_v = self.sizes
        shapes = {"q": (B, H, N, D), "k": (B, H_kv, M, D), "v": (B, H_kv, M, D_v)}
        return {name: random(*shape, seed=n) for n, (name, shape) in enumerate(shapes.items())}

    def cotangents(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the cotangents of o and of lse."""
        B, H, _, N, _, _, D_v = self.sizes
        return random(B, H, N, D_v, seed=3), random(B, H, N, seed=4)

    def tiled(self) -> dict[str, torch.Tensor]:
        """Return o, lse and all cotangents in tiles."""
        inputs = {name: x.requires_grad_() for name, x in self.inputs().items()}
        bias = self.module()
        options = {"query_start": self.query_start, **self.options}
        o, lse = layers.attention(**inputs, bias=bias, **options, return_lse=True, impl="tiled")
        wanted = [*inputs.values(), *bias.parameters()]
        found = torch.autograd.grad((o, lse), wanted, self.cotangents())
        named = dict(zip(("dq", "dk", "dv", "dtable"), found, strict=True))
        return {"o": o.detach(), "lse": lse.detach(), **named}

    def exact(self) -> dict[str, np.ndarray]:
        """Return the same of the reference."""
        N, M = self.sizes[3:5]
        parameter = next(self.module().parameters()).detach().numpy()
        named = {name: x.numpy() for name, x in self.inputs().items()}
        offset = relative_offset(N, M, self.query_start)
        if isinstance(self.map, AlibiMap):
            bias = reference.alibi_bias(parameter, offset)
        else:
            row = self.map(N, M, self.query_start)
            bias = reference.table_bias(parameter, row)
        options = {name: x.numpy() if hasattr(x, "numpy") else x for name, x in self.options.items()}
        if options.get("causal"):
            options["query_start"] = self.query_start
        saved = reference.attention(**named, bias=bias, **options)
        do, dlse = (x.numpy() for x in self.cotangents())
        found = reference.attention_vjp(saved, do, np.where(np.isfinite(saved.lse), dlse, 0.0))
        if isinstance(self.map, AlibiMap):
            dtable = -(found.dbias * np.abs(offset)).sum(axis=(1, 2))
        else:
            dtable = reference.table_bias_vjp(row, found.dbias, self.map.R)
        gradients = {"dq": found.dq, "dk": found.dk, "dv": found.dv, "dtable": dtable}
        return {"o": saved.o, "lse": saved.lse, **gradients}

    def check(self, tiles: str) -> None:
        """Require that tiles of a size give what the reference gives."""
        with tiles_of(tiles):
            got = self.tiled()
        for name, want in self.exact().items():
            check_close(f"{tiles}, {name}", got[name], want, terms=20.0 * max(self.sizes))


MAPS = {
    "offset": OffsetMap(90),
    "clipped": ClipMap(3),
    "T5": T5Map(8, 6),
    "T5, one direction": T5Map(5, 6, False),
    "ALiBi": AlibiMap(4, learned=True),
}
CAUSAL = {"causal": True}
CASES = {
    **{name: Shared(map=map) for name, map in MAPS.items()},
    "one for all heads": Shared(heads=1),
    "one batch": Shared((1, 2, 2, 19, 17, 3, 5)),
    "more queries than keys": Shared((1, 3, 1, 23, 7, 2, 2)),
    "one query": Shared((3, 2, 2, 1, 13, 3, 5)),
    "one key": Shared((3, 2, 1, 13, 1, 3, 5)),
    "one of each": Shared((1, 1, 1, 1, 1, 1, 1)),
    "elsewhere": Shared(query_start=-5),
    "causal": Shared(options=CAUSAL),
    "causal, more queries than keys": Shared((2, 2, 1, 17, 11, 3, 5), options=CAUSAL),
    "causal, from the first key": Shared(query_start=0, options=CAUSAL),
    "causal, empty rows": Shared(query_start=-4, options=CAUSAL),
    "causal, no pair": Shared(query_start=-40, options=CAUSAL),
    "inside the scale": Shared(options={"bias_inside_scale": True, "scale": -0.4}),
    "cap": Shared(options={"softcap": 1.5} | CAUSAL),
    "cap on the product": Shared(options={"softcap": 1.5, "softcap_on": "product"} | CAUSAL),
    "padding": Shared(options={"mask": torch.arange(13) < torch.tensor([[[[9]]], [[[0]]]])}),
    "dropout": Shared(options={"keep": random(2, 4, 11, 13) < 0.6, "dropout": 0.3}),
}
