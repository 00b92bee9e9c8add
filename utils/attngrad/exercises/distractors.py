"""Wrong answers that readers give and that no page shows: the label, the mistake, its formula in LaTeX.

A key that is an id of `attngrad.mistakes` brings what is on record about it. A chapter's own wrong formulas
stand in its ledger, as ``bad-`` claims or as ``mistakes`` of a claim; both are known to the graders as well.
"""

from collections.abc import Mapping

DISTRACTORS: Mapping[str, Mapping[str, str]] = {
    "eq-vjp": {
        "the mean of a row taken without the weights": r"ds_j = p_j \Bigl( dp_j - \frac1n \sum_i dp_i \Bigr)",
        "the weighted mean divided by the number of keys": r"ds_j"
        r" = p_j \Bigl( dp_j - \frac1n \sum_i p_i\, dp_i \Bigr)",
    },
    "eq-double-backward": {
        "the product of two advantages, and no advantage of it": r"\sum_j u_j"
        r" \frac{\partial\, ds_j}{\partial s_l} = p_l (u_l - \bar u)(dp_l - \bar d)",
    },
    "eq-bias-value-form": {
        "the difference turned around": r"\frac{\partial L}{\partial b_{ij}}"
        r" = P_{ij} \sum_f dO_{if} (O_{if} - V_{jf})",
    },
    "eq-bias-inside": {
        "bias-inside-vjp-factor-dropped": r"\frac{\partial L}{\partial \beta_{ij}}"
        r" = A_{ij} \Bigl( G_{ij} - \sum_l A_{il}\, G_{il} \Bigr)",
        "the factor taken twice": r"\frac{\partial L}{\partial \beta_{ij}}"
        r" = \frac{1}{d_k} A_{ij} \Bigl( G_{ij} - \sum_l A_{il}\, G_{il} \Bigr)",
    },
    "eq-bias-dk": {
        "the scale lost": r"\frac{\partial L}{\partial K_{jc}} = \sum_i dS_{ij}\, Q_{ic}",
    },
}
