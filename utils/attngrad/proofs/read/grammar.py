"""The grammar of a formula: LALR(1) without conflicts, so that no formula has two parse trees."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from lark import Lark, Token, Tree
from lark.lexer import Lexer

_TERMINALS = """
    TEXT EQUALS RELATION NOT_EQUAL DOT HADAMARD PARTIAL FUNCTION OPERATOR TOP NAME LETTER NUMBER
    KRONECKER IDENTITY ONE EXPONENTIAL _SEPARATOR _PLUS _MINUS _SLASH _SUM _SUB _SUP _COMMA
    _LB _RB _LP _RP _LS _RS _LCURLY _RCURLY _BAR_OPEN _BAR_CLOSE _NORM_OPEN _NORM_CLOSE _LANGLE _RANGLE
    _FRAC _SQRT _BOX _BRACE _INDICATOR _MATRIX_BEGIN _MATRIX_END _CELL _ROW
"""

GRAMMAR = r"""
start: chain (_SEPARATOR chain)*
chain: expression ((EQUALS | RELATION) expression TEXT*)*

?expression: term | _MINUS term -> negative | expression _PLUS term -> plus | expression _MINUS term -> minus
?term: run | run _SLASH factor -> quotient | run big -> run | run DOT big -> run | big
?run: factor | run factor | run DOT factor | run HADAMARD factor
big: _SUM _SUB _LB limits _RB (_SUP _LB expression _RB)? term
limits: items | expression EQUALS expression | expression NOT_EQUAL expression
items: expression (_COMMA expression)*

?factor: base
    | base _SUB _LB items _RB                       -> entry
    | base _SUP script                              -> power
    | base _SUB _LB items _RB _SUP script           -> entry_power
    | base _SUP script _SUB _LB items _RB           -> power_entry
    | EXPONENTIAL _SUP _LB expression _RB           -> exponential
    | PARTIAL _SUB _LB factor _RB operand           -> operator_derivative
    | FUNCTION argument                             -> bare_function
    | _NORM_OPEN expression _NORM_CLOSE _SUP script _SUB _LB expression _RB -> norm_power
?operand: base | base _SUB _LB items _RB -> entry
?argument: name | name _SUB _LB items _RB -> entry | NUMBER -> number
name: NAME
script: _LB expression _RB | _LB TOP _RB | _LB _MINUS TOP _RB -> inverse_transpose

?base: name | LETTER -> letter | NUMBER -> number | KRONECKER -> kronecker | ONE -> ones
    | IDENTITY -> identity
    | _LP expression _RP -> parenthesis | _LS expression _RS -> parenthesis
    | _LCURLY expression _RCURLY -> parenthesis
    | _LS expression EQUALS expression _RS -> iverson
    | _INDICATOR _LS expression EQUALS expression _RS -> iverson
    | _BAR_OPEN expression _BAR_CLOSE -> absolute
    | _NORM_OPEN expression _NORM_CLOSE _SUB _LB expression _RB -> norm
    | _FRAC _LB expression _RB _LB expression _RB -> fraction
    | _FRAC _LB PARTIAL run _RB _LB variables _RB -> derivative
    | _FRAC _LB PARTIAL _SUP script run _RB _LB variables _RB -> higher_derivative
    | _SQRT _LB expression _RB -> root
    | FUNCTION _LP expression _RP -> function | FUNCTION _LS expression _RS -> function
    | FUNCTION _LCURLY expression _RCURLY -> function
    | OPERATOR _LP expression _RP -> operator
    | _LANGLE expression _COMMA expression _RANGLE -> pairing
    | _BOX _LB expression _RB -> box
    | _BRACE _LB expression _RB _SUB _LB (TEXT | expression) _RB -> box
    | _MATRIX_BEGIN row (_ROW row)* _MATRIX_END -> literal
row: expression (_CELL expression)*
variables: (PARTIAL factor)+
%declare """ + " ".join(_TERMINALS.split())


class TokenStream(Lexer):
    """Hands the tokens of :func:`attngrad.proofs.read.lexer.tokens` to the parser."""

    def __init__(self, configuration: object):
        pass

    def lex(self, stream: list[Token]) -> Iterator[Token]:
        yield from stream


def build(debug: bool = False) -> Lark:
    """Return a new parser; with ``debug``, conflicts go to lark's log."""
    return Lark(GRAMMAR, parser="lalr", lexer=TokenStream, propagate_positions=True, debug=debug)


@cache
def parser() -> Lark:
    """Return the parser, built at its first use."""
    return build()


def parse(stream: list[Token]) -> Tree:
    """Return the one parse tree of these tokens.

    Raises
    ------
    lark.exceptions.UnexpectedInput
        When there is none.
    """
    return parser().parse(stream)
