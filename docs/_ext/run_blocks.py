"""Code that runs when the pages are built: the blocks of a page marked `{run}`, in order, in one namespace.

Below a block stand what it prints, the value of its last line, and the figures that it leaves open. A block that fails
stops the build. A page works in a folder of its own, which is gone afterwards, and runs again when the library changes.
"""

import ast
import contextlib
import io
import os
import tempfile
import traceback
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

import sivi

_PAGE = "run_blocks"  # where a page's namespace is kept while it is read


class Page:
    """What the blocks of one page share."""

    def __init__(self) -> None:
        self.namespace: dict[str, Any] = {"__name__": "__page__"}
        self.folder = tempfile.TemporaryDirectory()
        self.figures = 0

    def run(self, code: str, name: str) -> str:
        """Run a block in the page's folder; return what it printed, and its last value."""
        *statements, last = ast.parse(code).body
        value = None
        printed = io.StringIO()
        with contextlib.chdir(self.folder.name), contextlib.redirect_stdout(printed):
            if not isinstance(last, ast.Expr):
                statements.append(last)
            exec(compile(ast.Module(statements, []), name, "exec"), self.namespace)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), name, "eval"), self.namespace)
        if value is not None and not type(value).__module__.startswith("matplotlib"):
            printed.write(f"{value!r}\n")
        return printed.getvalue().rstrip()


class Run(SphinxDirective):
    """A block of Python, and what comes of it."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        page = self.env.temp_data.setdefault(_PAGE, Page())
        for path in Path(sivi.__file__).parent.rglob("*.py"):
            self.env.note_dependency(str(path))
        code = "\n".join(self.content)
        try:
            output = page.run(code, self.env.docname)
        except BaseException as error:
            place = f"{self.env.doc2path(self.env.docname)}:{self.lineno}"
            raise ExtensionError(f"{place}: a block of code fails:\n{traceback.format_exc()}") from error
        result: list[nodes.Node] = [nodes.literal_block(code, code, language="python")]
        if output:
            result.append(nodes.literal_block(output, output, language="text"))
        return [*result, *(self._image(page, number) for number in plt.get_fignums())]

    def _image(self, page: Page, number: int) -> nodes.Node:
        folder = Path(self.env.doctreedir) / _PAGE
        folder.mkdir(parents=True, exist_ok=True)
        page.figures += 1
        file = folder / f"{self.env.docname.replace('/', '-')}-{page.figures}.png"
        figure = plt.figure(number)
        figure.savefig(file, dpi=100)
        plt.close(figure)
        source = Path(self.env.doc2path(self.env.docname)).parent
        return nodes.image(uri=Path(os.path.relpath(file, source)).as_posix(), alt="what the code above draws")


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directive."""
    app.add_directive("run", Run)
    return {"version": "1", "parallel_read_safe": True}
