"""The progress of a fit: a line in a terminal, a bar in a notebook, nothing elsewhere."""

from __future__ import annotations

import html
import shutil
import sys
from typing import Any, Callable, Optional, Protocol

WIDTH = 20


class Progress(Protocol):
    """Something that shows how far a fit has come."""

    def __call__(self, done: float, how: str) -> None: ...

    def close(self) -> None: ...


class Line:
    """A line on standard error that is written over."""

    def __call__(self, done: float, how: str) -> None:
        bar = "█" * round(done * WIDTH)
        text = f"{bar:░<{WIDTH}} {done:4.0%}  {how}"
        sys.stderr.write("\r\x1b[K" + text[: shutil.get_terminal_size().columns - 1])
        sys.stderr.flush()

    def close(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class Notebook:
    """A bar below the cell."""

    def __init__(self, display: Callable[..., Any], make: Callable[[str], Any]) -> None:
        self.make = make
        self.handle = display(make(""), display_id=True)

    def __call__(self, done: float, how: str) -> None:
        bar = f'<progress value="{done:.3f}" style="width: 16em"></progress> {html.escape(how)}'
        self.handle.update(self.make(bar))

    def close(self) -> None:
        self.handle.update(self.make(""))


def choose(wanted: Optional[bool]) -> Optional[Progress]:
    """What fits the place: nothing if none is wanted, or if nobody would see it."""
    if wanted is False:
        return None
    if "IPython" in sys.modules:
        from IPython.core.getipython import get_ipython

        shell = get_ipython()
        if shell is not None and shell.__class__.__name__ == "ZMQInteractiveShell":
            from IPython.display import HTML, display

            return Notebook(display, HTML)
    if wanted or (sys.stderr is not None and sys.stderr.isatty()):
        return Line()
    return None
