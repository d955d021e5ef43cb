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

# Bars of norms and absolute values: delimiters, without the space that MathML puts around an operator.
_BAR = re.compile(r"<mo[^>]*>(&#x02016;|&#x0007C;)</mo>")
# A formula on its own line has what is maximised over below the word.
_BOUND = re.compile(r"<msub><mo>(max|min)</mo>((?:(?!</?msub>).)*)</msub>")


def to_mathml(latex: str, display: str) -> str:
    """A `<math>` element, or an error that names the formula."""
    try:
        element = convert(latex.replace("\n", " ").strip(), display=display)
    except Exception as error:
        raise ExtensionError(f"a formula cannot be converted to MathML: {latex}") from error
    unknown = re.findall(r"\\[A-Za-z]+", element)
    if unknown:
        raise ExtensionError(f"a formula has {', '.join(sorted(set(unknown)))}, which has no MathML here: {latex}")
    if display == "block":
        element = _BOUND.sub(r"<munder><mo>\1</mo>\2</munder>", element)
    return _BAR.sub(r'<mo lspace="0" rspace="0" stretchy="false">\1</mo>', element)


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
