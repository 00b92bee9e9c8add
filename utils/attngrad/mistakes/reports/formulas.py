"""Reports of formulas: softmax, the two posts that the book corrects, scores and masks."""

from attngrad.mistakes.reports.record import POST, Report, on_github

SOFTMAX = (
    Report(
        ("https://discuss.pytorch.org/t/trying-to-understand-the-gradient-for-softmax-without-crossentropyloss/"
         "200189",),
        "One Jacobian for a flattened batch is compared with autograd, whose rows do not mix.",
        ("softmax-vjp-flattened-batch",),
    ),
    Report(
        ("https://newbe.dev/numpy-calculate-the-derivative-of-the-softmax-function",),
        "The Jacobian of softmax is built from the logits where it needs the weights.",
        ("softmax-jacobian-from-inputs",),
    ),
    Report(
        ("https://datascience.stackexchange.com/questions/64746/"
         "problem-with-chain-rule-in-softmax-layer-when-differentiated-separately",),
        "The cotangent is multiplied entry by entry where the Jacobian belongs.",
        ("softmax-vjp-elementwise",),
    ),
    Report(
        ("https://www.codegenes.net/blog/last-softmax-layer-zero-gradients-pytorch",),
        "Probabilities are handed to a loss that applies softmax itself.",
        ("cross-entropy-softmax-twice",),
    ),
    on_github(
        "sympy/sympy/issues/21891",
        "The derivative of a sum by one of its terms comes out as their number.",
        "sum-vjp-index-clash",
    ),
    on_github(
        "huggingface/picotron/issues/37",
        "A mean over a block of keys is asked for in the place of the one over the whole row, which the "
        "code had right.",
        "attention-delta-of-block",
    ),
    on_github(
        "ooples/AiDotNet.Tensors/issues/49",
        "Gradients of q, k and v are off by most of their size, and are replaced by explicit formulas.",
    ),
)  # fmt: skip

POSTS = (
    Report(
        (POST,),
        "The gradient of a bias keeps the diagonal of the Jacobian, loses the factor of the scale and sums "
        "over the indices that name the entry.",
        ("softmax-vjp-diagonal-only", "bias-inside-vjp-factor-dropped", "bias-inside-vjp-entrywise",
         "bias-inside-vjp-literal", "entrywise-vjp-literal-sum", "softmax-temperature-vjp-factor-dropped"),
    ),
    Report(
        (POST,),
        "The formula has the bias inside the scale, and the code outside.",
        ("bias-outside-scale-instead",),
    ),
    Report(
        (POST, "https://runebook.dev/zh/docs/pytorch/generated/torch.nn.parameter.parameter"),
        "The table is made in the forward pass, so that it is new at each call and never trained.",
        ("table-made-in-forward",),
    ),
    Report(
        ("the second post, section 3.2",),
        "dq and dk lack the scale; the gradient of the scale fits one reading of four; the cotangent of the "
        "output stands for that of the weights.",
        ("attention-dq-unscaled", "attention-dk-unscaled", "attention-dscale-of-scores",
         "attention-dscale-of-logarithm", "attention-do-as-dp"),
    ),
    Report(
        ("the second post, section 4.2",),
        "A kernel that takes (B, N, H, D) is given (B, H, N, D), without an error: it attends across heads.",
        ("attention-across-heads",),
    ),
    Report(
        ("the second post, section 6.1",),
        "A loop with mixed precision never empties the gradients, and would clip them before they are "
        "unscaled.",
        ("training-zero-grad-missing", "training-clip-before-unscale"),
    ),
    Report(
        ("the second post, section 6.2",),
        "Accumulated losses are divided by the number of steps, whatever their tokens, and in a short last "
        "window too.",
        ("training-mean-of-means", "training-last-window-divided-alike"),
    ),
)  # fmt: skip

SCORES = (
    on_github(
        "tenstorrent/tt-metal/issues/55337 NVIDIA/OpenSeq2Seq/pull/76",
        "The scale multiplies the bias too; masks of 0 and -inf do not show it.",
        "bias-inside-scale-instead",
    ),
    on_github(
        "esceptico/perceiver-io/issues/9",
        "Scores are divided by a scale that is already a reciprocal, so that the softmax saturates.",
        "attention-scale-inverted",
    ),
    on_github(
        "FrancescoSaverioZuppichini/ViT/issues/2",
        "The scale comes after the softmax: rows no longer sum to one.",
        "attention-scale-after-softmax",
    ),
    on_github(
        "duoan/TorchCode/issues/17",
        "A grader of exercises accepts division by D for that by sqrt(D).",
        "attention-scale-by-d", "training-tolerance-absolute",
    ),
    on_github(
        "meta-pytorch/segment-anything-fast/pull/71",
        "Powers of two stand for exponentials, with log2(e) on the products alone.",
        "bias-exp2-unscaled",
    ),
    on_github(
        "huggingface/transformers/issues/14621",
        "A kind of bias is computed and then used nowhere.",
        "bias-ignored",
    ),
    on_github(
        "huggingface/transformers/pull/4499",
        "The weights of a layer are handed on where its bias belongs.",
        "bias-replaced-by-weights",
    ),
    on_github(
        "huggingface/transformers/pull/8518",
        "Cross-attention gets a relative bias that the model never had.",
        "bias-on-cross-attention",
    ),
    on_github(
        "triton-lang/triton/issues/5660 triton-lang/triton/issues/7216",
        "Forward and backward pass of an example disagree on causal masking; the threads leave the cause "
        "open.",
        "attention-backward-causal", "attention-backward-not-causal",
    ),
    on_github(
        "pytorch/pytorch/issues/41508 lucidrains/nGPT-pytorch/issues/11",
        "One query without a key turns all gradients into NaN.",
        "attention-empty-row-nan",
    ),
    on_github(
        "ohdearquant/lattice/pull/374 flashinfer-ai/flashinfer/pull/4401",
        "A finite number stands for -inf in a mask: an empty row takes the mean of the values, and real "
        "scores can lie below.",
        "softmax-mask-large-negative",
    ),
    on_github(
        "pytorch/pytorch/pull/191612",
        "A mask of float32 is read as float16, entry by entry.",
        "bias-read-in-another-dtype",
    ),
    on_github(
        "Dao-AILab/flash-attention",
        "Before version 2.1 causal masking aligned the first query with the first key.",
        "attention-causal-top-left",
    ),
    on_github(
        "NVIDIA/TransformerEngine/issues/3333 NVIDIA/TransformerEngine/issues/3216",
        "With the activations of a real model dq is wrong on one kind of device, and with Gaussian noise "
        "not.",
    ),
)  # fmt: skip
