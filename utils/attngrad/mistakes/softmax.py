"""Wrong versions of softmax, of its derivatives and of the losses behind it."""

import numpy as np

from attngrad import reference
from attngrad.mistakes.record import Mistake


def softmax_naive_exp(s: np.ndarray) -> np.ndarray:
    """Exponentiate without the shift: infinity over infinity for large logits."""
    with np.errstate(over="ignore", invalid="ignore"):
        weights = np.exp(s)
        return weights / weights.sum(axis=-1, keepdims=True)


def softmax_large_negative(s: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Put -1e9 in place of what the mask forbids: a row without a key attends to all keys equally."""
    return reference.softmax(np.where(mask, s, -1e9))


def jacobian_from_inputs(s: np.ndarray) -> np.ndarray:
    """Build the Jacobian from the inputs of softmax instead of its outputs."""
    return s[..., :, None] * (np.eye(s.shape[-1]) - s[..., None, :])


def _right_jacobian(s: np.ndarray) -> np.ndarray:
    """Return the Jacobian of softmax at the logits s."""
    return reference.softmax_jacobian(reference.softmax(s))


def vjp_diagonal_only(p: np.ndarray, dp: np.ndarray) -> np.ndarray:
    """Keep the diagonal of the Jacobian and lose how each weight takes from the others."""
    return p * (1.0 - p) * dp


def vjp_elementwise(p: np.ndarray, dp: np.ndarray) -> np.ndarray:
    """Multiply by the weights and forget the mean of the row."""
    return p * dp


def vjp_flattened_batch(p: np.ndarray, dp: np.ndarray) -> np.ndarray:
    """Use one Jacobian for the whole batch, as if all rows were one softmax."""
    return p * (dp - (p * dp).sum())


def vjp_sign_flipped(p: np.ndarray, dp: np.ndarray) -> np.ndarray:
    """Subtract the cotangent from the mean instead of the mean from the cotangent."""
    return p * ((p * dp).sum(axis=-1, keepdims=True) - dp)


def masked_vjp_unmasked_mean(s: np.ndarray, mask: np.ndarray, dp: np.ndarray) -> np.ndarray:
    """Take the mean of the row with the weights of an unmasked softmax."""
    mean = (reference.softmax(s) * dp).sum(axis=-1, keepdims=True)
    return reference.softmax(s, mask) * (dp - mean)


def _right_masked_vjp(s: np.ndarray, mask: np.ndarray, dp: np.ndarray) -> np.ndarray:
    """Return the cotangent of the logits of a masked softmax."""
    return reference.softmax_vjp(reference.softmax(s, mask), dp)


def temperature_vjp_factor_dropped(p: np.ndarray, s: np.ndarray, tau: float, dp: np.ndarray) -> np.ndarray:
    """Forget the factor 1 / tau of the chain rule."""
    return reference.softmax_vjp(p, dp)


def _right_temperature_vjp(p: np.ndarray, s: np.ndarray, tau: float, dp: np.ndarray) -> np.ndarray:
    """Return the cotangent of the logits of a softmax at a temperature."""
    return reference.softmax_temperature_vjp(p, s, tau, dp)[0]


def log_softmax_vjp_without_sum(p: np.ndarray, dlogp: np.ndarray) -> np.ndarray:
    """Subtract the weights once, which is right only for a cotangent that sums to one."""
    return dlogp - p


def cross_entropy_softmax_twice(s: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Hand probabilities to a loss that applies softmax itself."""
    return reference.cross_entropy(reference.softmax(s), y)


def cross_entropy_vjp_unit_targets(p: np.ndarray, y: np.ndarray, dloss: np.ndarray) -> np.ndarray:
    """Use p - y for targets that do not sum to one."""
    return dloss[..., None] * (p - y)


SOFTMAX = (
    Mistake(
        id="softmax-naive-exp",
        formula=r"p_i = \frac{e^{s_i}}{\sum_j e^{s_j}} \text{ in floating point}",
        seen="textbook formula typed as it stands; overflows above 709.8 in float64, 11.1 in float16",
        check="large-logits",
        function=softmax_naive_exp,
        right=reference.softmax,
        stands_for="softmax(s)",
        missed_by=("moderate-logits",),
    ),
    Mistake(
        id="softmax-mask-large-negative",
        formula=r"p = \operatorname{softmax}(s'), \quad s'_j = s_j \text{ where allowed, else } -10^9",
        seen="The Annotated Transformer (harvardnlp/annotated-transformer), masked_fill with -1e9",
        check="empty-row",
        function=softmax_large_negative,
        right=reference.softmax,
        stands_for="softmax(s, mask)",
        missed_by=("no-empty-row",),
    ),
    Mistake(
        id="softmax-jacobian-from-inputs",
        formula=r"J_{ij} = s_i (\delta_{ij} - s_j)",
        seen="https://newbe.dev/numpy-calculate-the-derivative-of-the-softmax-function",
        check="jacobian-difference",
        function=jacobian_from_inputs,
        right=_right_jacobian,
        stands_for="softmax_jacobian(softmax(s))",
    ),
    Mistake(
        id="softmax-vjp-diagonal-only",
        formula=r"\mathrm{d}s_i = p_i (1 - p_i)\, \mathrm{d}p_i",
        seen="https://blog.csdn.net/pzccool/article/details/147657740, section 3.3",
        check="vjp-difference",
        function=vjp_diagonal_only,
        right=reference.softmax_vjp,
        stands_for="softmax_vjp(p, dp)",
        missed_by=("one-key",),
    ),
    Mistake(
        id="softmax-vjp-elementwise",
        formula=r"\mathrm{d}s_i = p_i\, \mathrm{d}p_i",
        seen="https://datascience.stackexchange.com/questions/64746/"
        "problem-with-chain-rule-in-softmax-layer-when-differentiated-separately",
        check="vjp-difference",
        function=vjp_elementwise,
        right=reference.softmax_vjp,
        stands_for="softmax_vjp(p, dp)",
    ),
    Mistake(
        id="softmax-vjp-flattened-batch",
        formula=r"\mathrm{d}s_{bi} = p_{bi} \Bigl(\mathrm{d}p_{bi}"
        r" - \sum_{c,j} p_{cj}\, \mathrm{d}p_{cj}\Bigr)",
        seen="https://discuss.pytorch.org/t/"
        "trying-to-understand-the-gradient-for-softmax-without-crossentropyloss/200189",
        check="vjp-difference",
        function=vjp_flattened_batch,
        right=reference.softmax_vjp,
        stands_for="softmax_vjp(p, dp)",
        missed_by=("one-row",),
    ),
    Mistake(
        id="softmax-vjp-sign-flipped",
        formula=r"\mathrm{d}s_i = p_i \Bigl(\sum_j p_j\, \mathrm{d}p_j - \mathrm{d}p_i\Bigr)",
        seen="a slip when the two cases of the Jacobian are merged; no public source",
        check="vjp-difference",
        function=vjp_sign_flipped,
        right=reference.softmax_vjp,
        stands_for="softmax_vjp(p, dp)",
        missed_by=("sum-loss", "one-key"),
    ),
    Mistake(
        id="softmax-masked-vjp-unmasked-mean",
        formula=r"\mathrm{d}s_i = p_i \Bigl(\mathrm{d}p_i - \sum_j q_j\, \mathrm{d}p_j\Bigr),"
        r"\quad q = \operatorname{softmax}(s) \text{ without the mask}",
        seen="a slip when the backward pass forms p again without the mask; no public source",
        check="masked-vjp-difference",
        function=masked_vjp_unmasked_mean,
        right=_right_masked_vjp,
        stands_for="softmax_vjp(softmax(s, mask), dp)",
        missed_by=("sum-loss", "one-key"),
    ),
    Mistake(
        id="softmax-temperature-vjp-factor-dropped",
        formula=r"\mathrm{d}s_i = p_i \Bigl(\mathrm{d}p_i - \sum_j p_j\, \mathrm{d}p_j\Bigr)"
        r" \text{ for } p = \operatorname{softmax}(s / \tau)",
        seen="https://blog.csdn.net/pzccool/article/details/147657740, section 3.3: the factor 1/sqrt(d_k)",
        check="temperature-vjp-difference",
        function=temperature_vjp_factor_dropped,
        right=_right_temperature_vjp,
        stands_for="softmax_temperature_vjp(p, s, tau, dp)[0]",
        missed_by=("sum-loss", "one-key", "unit-temperature"),
    ),
    Mistake(
        id="log-softmax-vjp-without-sum",
        formula=r"\mathrm{d}s_i = g_i - p_i, \quad g = \mathrm{d}\log p",
        seen="the gradient of cross-entropy, p - y, copied to a general cotangent; no public source",
        check="log-softmax-vjp-difference",
        function=log_softmax_vjp_without_sum,
        right=reference.log_softmax_vjp,
        stands_for="log_softmax_vjp(p, dlogp)",
        missed_by=("one-hot",),
    ),
    Mistake(
        id="cross-entropy-softmax-twice",
        formula=r"\ell = -\sum_j y_j \log \operatorname{softmax}(\operatorname{softmax}(s))_j",
        seen="https://www.codegenes.net/blog/last-softmax-layer-zero-gradients-pytorch",
        check="confident-loss",
        function=cross_entropy_softmax_twice,
        right=reference.cross_entropy,
        stands_for="cross_entropy(s, y)",
        missed_by=("equal-logits",),
    ),
    Mistake(
        id="cross-entropy-vjp-unit-targets",
        formula=r"\mathrm{d}s = \mathrm{d}\ell\, (p - y) \text{ where } \sum_j y_j \neq 1",
        seen="label weights or soft targets passed to a formula for probabilities; no public source",
        check="cross-entropy-vjp-difference",
        function=cross_entropy_vjp_unit_targets,
        right=reference.cross_entropy_vjp,
        stands_for="cross_entropy_vjp(p, y, dloss)",
        missed_by=("one-hot",),
    ),
)
