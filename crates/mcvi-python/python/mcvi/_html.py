"""What a notebook shows of a result: small pages that need nothing from elsewhere."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from mcvi.posterior import Posterior

#: Parameters shown.
SHOWN = 24

COLOURS = {"good": "#1a7f37", "reweight": "#9a6700", "do-not-trust": "#cf222e"}

CELL = "padding: 1px 10px; text-align: right"


def number(value: Optional[float]) -> str:
    """Three or four digits; a dash for what is not reported."""
    if value is None:
        return "–"
    return f"{value:.4g}" if abs(value) >= 1e5 or 0 < abs(value) < 1e-3 else f"{value:.3f}"


def minus(text: str) -> str:
    """With the sign that readers expect."""
    return text.replace("-", "−")


def posterior(post: Posterior) -> str:
    """The verdict, the bound, the parameters."""
    verdict = post.verdict
    colour = COLOURS.get(verdict.kind, "gray")
    reasons = "".join(f"<li>{html.escape(reason)}</li>" for reason in verdict.reasons)
    advice = "".join(f"<li><i>next:</i> {html.escape(text)}</li>" for text in verdict.advice)
    notes = "".join(f"<li>note: {html.escape(note)}</li>" for note in post.notes)
    columns = ["mean", "sd", "q05", "q50", "q95"]
    head = "".join(f'<th style="{CELL}">{column}</th>' for column in columns)
    parameters = list(post.result["parameters"].items())
    rows = "".join(
        f'<tr><th style="{CELL}; text-align: left">{html.escape(name)}</th>'
        + "".join(f'<td style="{CELL}">{minus(number(row[column]))}</td>' for column in columns)
        + "</tr>"
        for name, row in parameters[:SHOWN]
    )
    more = f"<p>… and {len(parameters) - SHOWN} more; see <code>summary()</code></p>" if len(parameters) > SHOWN else ""
    return (
        f'<div style="border-left: 5px solid {colour}; padding: 2px 12px">'
        f'<b>{html.escape(post.model)}</b>: <b style="color: {colour}">{verdict.kind}</b>'
        f'<ul style="margin: 4px 0">{reasons}{advice}{notes}</ul>'
        f"log p(x) ≥ {minus(str(post.bound))}, log p(x) ≈ {minus(str(post.log_evidence))}; "
        f"{post.iterations} iterations, {post.seconds:.1f} s</div>"
        f'<table style="margin-top: 6px"><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>{more}'
    )


def frame(page: str) -> str:
    """A whole page inside another one."""
    style = "width: 100%; height: 800px; border: 1px solid #ddd"
    return f'<iframe srcdoc="{html.escape(page, quote=True)}" style="{style}"></iframe>'
