"""What a plan leaves out, and why, in sentences for the report."""

from attngrad.doctor.cases.frame import Frame
from attngrad.doctor.cases.planning import main_dtype
from attngrad.doctor.cases.shapes import far, values
from attngrad.doctor.spec import DTYPES, OPTIONS, Spec
from attngrad.offsets import ClipMap, T5Map


def not_tried(spec: Spec) -> tuple[str, ...]:
    """Return a sentence for each thing that the cases of a specification do not try.

    >>> not_tried(Spec())[-1]
    'bias: neither a bias nor a table; not claimed'
    """
    frame = Frame(spec, main_dtype(spec))
    said = [f"{option}: {text}; not claimed" for option, text in OPTIONS.items() if not spec.has(option)]
    missing = [dtype for dtype in DTYPES if dtype not in spec.dtypes]
    if missing:
        said.append(f"types: {', '.join(missing)}; not claimed")
    return tuple(said + _sizes(frame) + _biases(frame))


def _sizes(frame: Frame) -> list[str]:
    """Return what the sizes that are allowed leave out."""
    spec, said = frame.spec, []
    if frame.tokens is not None:
        said.append(f"lengths: only N = M = {frame.tokens}, the tokens of the window; no tails of blocks")
        lost = [option for option in ("cross", "query-start", "packed") if spec.has(option)]
        said += [f"{', '.join(lost)}: N = M = {frame.tokens}, the tokens of the window"] if lost else []
    elif spec.length_multiple > 1:
        said.append(f"lengths: only multiples of {spec.length_multiple}; no tails of blocks")
    if spec.head_dims is not None:
        said.append(f"features: only D of {', '.join(map(str, spec.head_dims))}")
    if spec.causal != "both":
        said.append("causal: on in every case" if frame.causal else "causal: no masking; not claimed")
    if spec.causal != "never" and frame.no_key(2, 1, True) and not spec.has("empty-rows"):
        said.append("causal masking with more queries than keys: the first queries have no key; not claimed")
    if spec.scale != "argument":
        said.append(f"scale: only {'1/sqrt(D)' if spec.scale == 'default' else spec.scale}")
    if spec.has("values") and not values(frame):
        said.append("values: D_v != D; one number of features is all that is claimed")
    if isinstance(spec.map, T5Map | ClipMap) and not far(frame):
        said.append("offsets beyond the last bucket or distance: no length that is allowed has them")
    if frame.side() is None:
        said.append("probes: no number of features is a length as well; what the forward does is not told")
    return said


def _biases(frame: Frame) -> list[str]:
    """Return what the bias that is claimed leaves out."""
    spec = frame.spec
    if not frame.bias:
        return ["bias: neither a bias nor a table; not claimed"]
    said = [f"no bias at all: a bias is claimed and always given; ask again with {_without(spec)}"]
    if frame.bias == "slopes" and not spec.map.learned:
        said.append("slopes: their gradient; they are not learned")
    for word in ("hidden", "lowest"):
        if spec.has(word) and not spec.bias:
            said.append(f"{word}: {OPTIONS[word]}; a table hides no key")
    return said


def _without(spec: Spec) -> str:
    """Return the field that says that there is no bias."""
    return "map=None" if spec.map is not None else "bias=()"
