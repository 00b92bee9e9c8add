"""Forward functions and their derivatives in plain NumPy, as the book writes them.

Every function takes floats of any width up to 64 bits, computes in float64 and returns float64.
A softmax row is the last axis. A mask is boolean, True where a key may be attended to, and broadcasts
to the logits; what a masked key holds is not read. A row without a key has p = 0, lse = -inf and
gradient 0. A logit of -inf acts as a masked key; NaN and +inf raise an error that names their position.
Saved values come first, then the cotangent or the tangent, and cotangents are never broadcast.
"""

from attngrad.reference.attention import Attention, AttentionGradients, attention, attention_vjp
from attngrad.reference.blocks import (
    attention_block,
    attention_in_blocks,
    attention_in_blocks_vjp,
    merge_states,
    merge_states_vjp,
)
from attngrad.reference.heads import expand_kv_heads, reduce_kv_heads
from attngrad.reference.losses import (
    cross_entropy,
    cross_entropy_vjp,
    log_softmax,
    log_softmax_jvp,
    log_softmax_vjp,
)
from attngrad.reference.softmax import (
    lse,
    softmax,
    softmax_hessian,
    softmax_jacobian,
    softmax_jvp,
    softmax_vjp,
)
from attngrad.reference.tables import (
    alibi_bias,
    alibi_bias_vjp,
    decomposed_bias,
    decomposed_bias_vjp,
    offset_sums,
    table_bias,
    table_bias_vjp,
)
from attngrad.reference.temperature import (
    softmax_temperature,
    softmax_temperature_jvp,
    softmax_temperature_vjp,
)

__all__ = [
    "Attention",
    "AttentionGradients",
    "alibi_bias",
    "alibi_bias_vjp",
    "attention",
    "attention_block",
    "attention_in_blocks",
    "attention_in_blocks_vjp",
    "attention_vjp",
    "cross_entropy",
    "cross_entropy_vjp",
    "decomposed_bias",
    "decomposed_bias_vjp",
    "expand_kv_heads",
    "log_softmax",
    "log_softmax_jvp",
    "log_softmax_vjp",
    "lse",
    "merge_states",
    "merge_states_vjp",
    "offset_sums",
    "reduce_kv_heads",
    "softmax",
    "softmax_hessian",
    "softmax_jacobian",
    "softmax_jvp",
    "softmax_temperature",
    "softmax_temperature_jvp",
    "softmax_temperature_vjp",
    "softmax_vjp",
    "table_bias",
    "table_bias_vjp",
]
