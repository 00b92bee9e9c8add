"""Proofs of the printed formulas: what the page shows is read, proved for every size, and attacked.

The modules, in the order in which a formula passes through them:

``table``      the notation of a chapter
``read``       LaTeX to SymPy objects
``page``       the labelled displays of a chapter's text
``claim``      what the ledger says about a label
``prove``      definitions unfolded, derivatives taken, normal forms compared
``witness``    exact counterexamples on rational numbers
``mutants``    small errors planted in each formula
``ledger``     the claims, one module a chapter
``gate``       the built site against the proofs
"""
