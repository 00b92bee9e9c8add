"""Reports of sums and of what stands around them: bias, tails, positions, training loops."""

from attngrad.mistakes.reports.record import Report, on_github

BIAS = (
    on_github(
        "jax-ml/jax/issues/27184 jax-ml/jax/pull/23807 jax-ml/jax/pull/30593",
        "The gradient of a bias with a batch comes back as zeros, without a word.",
        "bias-vjp-zero-for-a-batch", "bias-vjp-zero",
    ),
    on_github(
        "jax-ml/jax/pull/22404 lucidrains/CoLT5-attention/issues/8",
        "Parts of a shared gradient, by batch or device, are never added up.",
        "bias-vjp-broadcast-last-batch",
    ),
    on_github(
        "HKUSTDial/flash-sparse-attention/pull/190 HKUSTDial/flash-sparse-attention/pull/193 "
        "HKUSTDial/flash-sparse-attention/pull/199",
        "Where several tiles give to one entry of a broadcast bias, one overwrites the other.",
        "bias-vjp-broadcast-last-batch", "bias-vjp-broadcast-last-head",
    ),
    on_github(
        "HKUSTDial/flash-sparse-attention/pull/203",
        "dq is scaled twice.",
        "attention-dq-scaled-twice",
    ),
    on_github(
        "catie-aq/flashT5",
        "Each head stores its gradient into the buffer that heads share: the last one stays.",
        "bias-vjp-broadcast-last-head",
    ),
    on_github(
        "Knowledgator/TurboT5",
        "Columns of a last block beyond the last key are added to the table, whose sum has the type of the "
        "weights.",
        "table-vjp-tail-columns", "table-vjp-half-sums",
    ),
    on_github(
        "aqlaboratory/openfold-3/pull/228",
        "A kernel has no stride for the batch of a pair bias.",
        "bias-of-first-batch",
    ),
    on_github(
        "aqlaboratory/openfold-3/pull/258",
        "Under a mean as loss the gradients lie below the tolerance of their test.",
        "training-tolerance-absolute",
    ),
    on_github(
        "pytorch/pytorch/issues/145869",
        "The place of an entry of a large bias does not fit into 32 bits.",
        "bias-index-of-32-bits",
    ),
    on_github(
        "Dao-AILab/flash-attention/pull/2876",
        "Slopes are accepted as input and get no gradient.",
        "alibi-vjp-zero",
    ),
    on_github(
        "microsoft/Swin-Transformer/issues/189",
        "The bias is proposed to be gathered once: it would be stale after the first step.",
        "table-bias-stale",
    ),
    on_github(
        "huggingface/transformers/issues/10221",
        "A table that the first layer makes serves all layers: its gradient is the sum over them.",
        "table-vjp-last-layer",
    ),
    on_github(
        "marin-community/levanter/pull/449",
        "The sum over the query heads of a group is missing.",
        "attention-group-last-head",
    ),
    Report(
        ("https://numpy.org/doc/stable/reference/generated/numpy.ufunc.at.html",),
        "An index that repeats a row adds to it once.",
        ("table-vjp-fancy-index",),
    ),
    on_github(
        "NVIDIA-NeMo/Speech/pull/4440",
        "A model with T5's bias trains to a higher loss, until its parameters are initialised and passed in "
        "another way.",
    ),
)  # fmt: skip

TAILS = (
    on_github(
        "pytorch/pytorch/issues/153799",
        "The backward pass gives NaN for lengths that the block does not divide.",
        "attention-tail-nan",
    ),
    on_github(
        "flagos-ai/FlagGems/pull/898 66RING/tiny-flash-attention/issues/12",
        "The last rows of dv of one head run on into the first of the next.",
        "attention-dv-tail-in-next-head",
    ),
    on_github(
        "pytorch/pytorch/issues/133671",
        "The product of do and o takes do for contiguous.",
        "attention-delta-contiguous",
    ),
    on_github(
        "pytorch/pytorch/pull/137452 MooreThreads/torch_musa/pull/152",
        "Sums by atomic adds differ from run to run.",
        "sum-order-not-fixed",
    ),
)  # fmt: skip

POSITIONS = (
    on_github(
        "huggingface/candle/pull/1312 lucidrains/x-transformers/pull/10",
        "Buckets of far keys run on beyond the last, into the other direction.",
        "t5-bucket-unclamped",
    ),
    on_github(
        "nntrainer/nntrainer/pull/3982 microsoft/DeBERTa/issues/162 microsoft/DeBERTa/issues/47",
        "Printed equation and released code differ in the sign of an offset: the gradient belongs to the "
        "row that was read.",
        "table-rows-sign-flipped", "table-vjp-transposed",
    ),
    on_github(
        "labmlai/annotated_deep_learning_paper_implementations/issues/185",
        "A relative shift cuts off the wrong end of the padded matrix.",
        "position-shift-first-kept",
    ),
    on_github(
        "lucidrains/x-transformers/pull/103 huggingface/transformers/issues/19045 "
        "NVIDIA/TensorRT-LLM/issues/1343",
        "With keys in a cache the positions of queries begin at 0 again.",
        "table-rows-start-ignored",
    ),
    on_github(
        "huggingface/transformers/issues/17026 huggingface/transformers/issues/14010",
        "Offsets are not clipped to the rows that exist.",
        "table-rows-unclipped",
    ),
    on_github(
        "paiml/aprender/pull/2143",
        "The exponent of a slope counts heads from 0.",
        "alibi-slopes-exponent",
    ),
    on_github(
        "flashinfer-ai/flashinfer/pull/5101",
        "A device makes slopes for its own number of heads.",
        "alibi-slopes-local-heads",
    ),
    on_github(
        "meta-pytorch/attention-gym",
        "The slope multiplies a distance with a sign, which prefers later keys where no causal mask hides "
        "them.",
        "alibi-signed-offset",
    ),
    on_github(
        "huggingface/candle/issues/3568",
        "A fused rotation has no backward pass.",
        "rope-vjp-missing",
    ),
    on_github(
        "PaddlePaddle/Paddle/pull/74716",
        "The backward pass of a rotation multiplies by the sine after the halves changed places.",
        "rope-vjp-sine-outside",
    ),
    on_github(
        "unslothai/unsloth/issues/5001",
        "Queries are rotated where they lie.",
        "rope-in-place",
    ),
)  # fmt: skip

TRAINING = (
    on_github(
        "milesial/Pytorch-UNet/issues/468 pytorch/examples/issues/1196 "
        "Lightning-AI/pytorch-lightning/pull/9606 NVIDIA/apex/pull/1512",
        "Gradients are clipped while they are still multiplied by the scale of the loss.",
        "training-clip-before-unscale",
    ),
    on_github(
        "engichang1467/Open-Rig3R/issues/35",
        "float16 without a scale of the loss turns small gradients into zero.",
        "training-half-underflow", "table-vjp-half-sums",
    ),
    on_github(
        "huggingface/transformers/pull/34191 huggingface/transformers/pull/35438 "
        "huggingface/transformers/issues/37766 OpenNMT/OpenNMT-py/pull/526 OpenNMT/OpenNMT-py/issues/2209",
        "Parts of a batch with unequal numbers of tokens are averaged alike.",
        "training-mean-of-means",
    ),
    on_github(
        "modelscope/ms-swift/pull/10084",
        "A last window that is short is divided by the length of a full one.",
        "training-last-window-divided-alike",
    ),
)  # fmt: skip
