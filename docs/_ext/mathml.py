"""Formulas as MathML, made when the pages are built: a browser shows them without a script and without a network.

A formula that the converter does not know in full stops the build.
"""

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.writers.html5 import HTML5Translator

# Where the converter's choices differ from TeX's.
_THIN = '<mspace width="0.167em"/>'
_BEFORE = [(re.compile(r"\\[bB]ig\\\|"), r"\\|")]  # it knows no large double bar
_AFTER = [
    (re.compile(r"<mi>&#x0007E;</mi>"), "<mo>&#x0223C;</mo>"),  # ∼ is a relation
    # Bars of norms and absolute values are delimiters: MathML would put the space of an operator around them.
    (re.compile(r"<mo[^>]*>(&#x02016;|&#x0007C;)</mo>"), r'<mo lspace="0" rspace="0" stretchy="false">\1</mo>'),
    # A thin space between a function and its argument, and between a letter, or ∇, and a function.
    (re.compile(r"(<mi>(?:log|exp)</mi>)(?=<m(?!o|space))"), rf"\1{_THIN}"),
    (re.compile(r"(</mi>|</mn>|</msub>|</msup>|<mo>&#x02207;</mo>)(?=<mi>(?:log|exp)</mi>)"), rf"\1{_THIN}"),
]
_AFTER_BLOCK = [  # on a line of its own, what is maximised over stands below
    (re.compile(r"<msub><mo>(max|min)</mo>((?:(?!</?msub>).)*)</msub>"), r"<munder><mo>\1</mo>\2</munder>"),
]


def to_mathml(latex: str, display: str) -> str:
    """A `<math>` element, or an error that names the formula."""
    text = _replaced(latex.replace("\n", " ").strip(), _BEFORE)
    try:
        element = convert(text, display=display)
    except Exception as error:
        raise ExtensionError(f"a formula cannot be converted to MathML: {latex}") from error
    if "\\" in element:
        raise ExtensionError(f"a formula has a command that cannot be converted to MathML: {latex}\n{element}")
    return _replaced(element, _AFTER + (_AFTER_BLOCK if display == "block" else []))


def _replaced(text: str, rules: list[tuple[re.Pattern[str], str]]) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


def _inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(to_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def _display(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(f'<div class="formula">{to_mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Offer the renderer; `html_math_renderer` chooses it."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
