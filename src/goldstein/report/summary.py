"""A run in words and numbers, as plain data; `page` and the notebook form of a result show it."""

from __future__ import annotations

import html
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from goldstein.oracle import Array
from goldstein.report.chart import Band, Chart, Line, Point
from goldstein.report.curves import NEIGHBOURS, curves_of

LONGEST = 2000  # letters of one text; more are left out
MOST_CHOICES = 40
MOST_NUMBERS = 60  # entries of x that are written out
SMALL = 200  # height of the pictures after the first


@dataclass(frozen=True)
class Fact:
    """A line of a table: what, and what it is."""

    name: str
    text: str


@dataclass
class Summary:
    """A run in words and numbers: what stands on its page, from top to bottom."""

    title: str
    headline: str  # the result in one line
    facts: list[Fact]
    message: str
    charts: list[Chart]
    choices: list[tuple[str, str]] = field(default_factory=list)  # after how many evaluations, and why
    more_choices: int = 0  # that were left out
    stationarity: list[Fact] = field(default_factory=list)
    failures: str = ""
    x: str = ""
    settings: list[Fact] = field(default_factory=list)
    versions: list[Fact] = field(default_factory=list)
    next_steps: list[tuple[str, str]] = field(default_factory=list)  # a sentence and a command each


def summary_of(result: Any) -> Summary:
    """Return the summary of a `goldstein.Result`.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> from goldstein.report import summary_of
    >>> res = gs.minimize(lambda x: abs(x).sum(), np.ones(3), max_evals=500, rng=0)
    >>> summary_of(res).facts[1].name
    'evaluations'
    """
    settings: Mapping[str, Any] = result.get("settings", {})
    choices = result.history.choices
    sentences = [(f"{choice.nfev:,}", cut(choice.sentence)) for choice in choices[:MOST_CHOICES]]
    function = settings.get("function", "")
    of = f" on {function}" if function else ""
    return Summary(
        title=cut(f"{result.method.name}{of}", 200),
        headline=f"f(x) = {value_in_words(result)}",
        facts=facts_of(result),
        message=cut(result.message),
        charts=charts_of(result),
        choices=sentences,
        more_choices=len(choices) - len(sentences),
        stationarity=_stationarity(result.get("stationarity")),
        failures=_failures(result),
        x=exactly(result.x),
        settings=[Fact("method", cut(repr(result.method))), *in_lines(settings)],
        versions=in_lines(result.get("versions", {})),
        next_steps=_next_steps(settings, result.method.needs.horizon),
    )


def facts_of(result: Any) -> list[Fact]:
    """Return the first lines about a result."""
    spent = f"{result.nfev:,}"
    if result.ngev:
        spent += f" values and {result.ngev:,} gradients"
    if result.nfail:
        spent += f", {result.nfail:,} of them failed"
    if result.nrepeat:
        spent += f", {result.nrepeat:,} done again"
    facts = [
        Fact("f(x)", value_in_words(result)),
        Fact("evaluations", spent),
        Fact("iterations", f"{result.nit:,}"),
        Fact("ended", f"{result.status.name}, {result.status.words}"),
        Fact("x", numbers(result.x, 6)),
    ]
    certificate = result.get("stationarity")
    if certificate is not None:
        bound = f": dist(0, ∂_δ f(x)) ≤ {certificate.bound:.4g}" if math.isfinite(certificate.bound) else ""
        facts.append(Fact("stationary", f"{certificate.answer}{bound}"))
    return facts


def value_in_words(result: Any) -> str:
    """Return f at the answer with its standard error.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> res = gs.minimize(lambda x: 2.0, np.zeros(2), max_evals=10, rng=0)
    >>> value_in_words(res)
    '2 (exact)'
    >>> res.update(fun=0.123456789, fun_stderr=0.0123)
    >>> value_in_words(res)
    '0.123 ± 0.012 (standard error)'
    """
    error = result.fun_stderr
    if result.nfail and result.nfail == result.nfev + result.ngev:
        return "unknown: every evaluation failed"
    if error == 0:
        sure = result.get("settings", {}).get("oracle") in (None, "Deterministic", "FiniteSum")
        return f"{result.fun:.10g} {'(exact)' if sure else '± 0: all values agree'}"
    if not math.isfinite(error) or not math.isfinite(result.fun):
        return f"about {result.fun:.6g}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    if digits > 12 or abs(result.fun) > 1e6:
        return f"{result.fun:.6g} ± {error:.2g} (standard error)"
    return f"{result.fun:.{digits}f} ± {error:.{digits}f} (standard error)"


def numbers(x: Array, most: int) -> str:
    """Return the entries of a vector, `most` of them at most."""
    entries = " ".join(f"{entry:.6g}" for entry in x[:most])
    return f"[{entries} … ({x.size:,} entries)]" if x.size > most else f"[{entries}]"


def exactly(x: Array) -> str:
    """Return a vector as Python reads it; of a long one, its first entries."""
    entries = ", ".join(repr(float(entry)) for entry in x[:MOST_NUMBERS])
    return f"[{entries}, …]  # {x.size:,} entries" if x.size > MOST_NUMBERS else f"[{entries}]"


def cut(text: str, longest: int = LONGEST) -> str:
    """Return a text that is not too long."""
    return text if len(text) <= longest else text[:longest] + " …"


def in_lines(about: Mapping[str, Any]) -> list[Fact]:
    """Return a mapping as lines of a table."""
    return [Fact(str(name), cut(str(value), LONGEST // 2)) for name, value in about.items()]


def charts_of(result: Any) -> list[Chart]:
    """Return the pictures of a result: its values and, where known, gradient norm, step and failures."""
    history = result.history
    evals = history.nfev + history.ngev
    charts = [_values(result)] if np.isfinite(history.fun).any() or np.isfinite(result.fun) else []
    for name, column in (("norm of the gradient estimate", history.gradient_norm), ("step size", history.step)):
        if np.isfinite(column).any():
            charts.append(_small(name, evals, column))
    if result.nfail:
        charts.append(_small("failed evaluations so far", evals, history.nfail.astype(float)))
    if np.isfinite(history.monitor).any():
        charts.insert(0, _small("your monitor", evals, history.monitor, 300))
    return charts


def picture(result: Any) -> str:
    """Return the first picture of a result as SVG that brings its own colours, for notebooks."""
    charts = charts_of(result)
    if not charts:
        return ""
    chart = charts[0]
    look = (
        ".gs path{fill:none}.gs text{font-size:13px;fill:currentColor}.gs .grid{stroke:currentColor;opacity:.2}"
        ".gs .main{stroke:#0072b2;stroke-width:2}.gs .faint,.gs .dots{stroke:currentColor;opacity:.5}"
        ".gs .dots{stroke-width:3;stroke-linecap:round}.gs .band{fill:#0072b2;opacity:.25}"
        ".gs .mark{stroke:currentColor;stroke-dasharray:3 4}.gs .point{fill:#d55e00}"
    )
    words = {"dots": "dots", "faint": "thin line", "main": "line", "band": "band", "point": "point"}
    legend = "; ".join(f"{words[look]}: {html.escape(name)}" for look, name in chart.legend())
    caption = f"<p>{html.escape(chart.title)}. {legend}.</p>"
    return f'<div class="gs" style="max-width:600px"><style>{look}</style>{chart.svg("run")}{caption}</div>'


def _values(result: Any) -> Chart:
    curves = curves_of(result)
    evals = curves.evals
    marks = tuple(choice.nfev for choice in result.history.choices[:MOST_CHOICES])
    look = "faint"
    line = "lowest of these so far"
    band = None
    answer = "the answer"
    if curves.noisy:
        look = "dots"
        line = f"mean of {2 * NEIGHBOURS + 1} records around"
        band = Band(evals, curves.low, curves.high, "± 2 standard errors, from their scatter")
        if curves.answer_error > 0:
            answer = "the answer, ± 2 standard errors, on fresh noise"
    values = Line(evals, curves.values, "mean of the values since the record before", look)
    point = Point(curves.end, result.fun, curves.answer_error, answer)
    lines = [values, Line(evals, curves.line, line)]
    return Chart("values", _in_words("values", curves.values), lines, band, point, marks)


def _small(name: str, evals: Array, column: Array, height: int = SMALL) -> Chart:
    return Chart(name, _in_words(name, column), [Line(evals, column, name)], height=height)


def _in_words(name: str, column: Array) -> str:
    finite = column[np.isfinite(column)]
    if not finite.size:
        return f"No {name} are known."
    return f"{name}: {finite[0]:.4g} at first, {finite[-1]:.4g} at last, {finite.min():.4g} at the lowest."


def _stationarity(certificate: Any) -> list[Fact]:
    if certificate is None:
        return []
    certain = "for certain" if certificate.answer == "certified" else f"with confidence {certificate.confidence:g}"
    facts = [
        Fact("answer", certificate.answer),
        Fact("asked", f"δ = {certificate.delta:g}, ε = {certificate.epsilon:g}"),
    ]
    if math.isfinite(certificate.bound):
        facts.append(Fact("dist(0, ∂_δ f(x)) lies in", f"[0, {certificate.bound:.6g}] {certain}"))
    facts.append(Fact("in words", cut(certificate.message)))
    return facts


def _failures(result: Any) -> str:
    if not result.nfail:
        return "No evaluation failed."
    evals = result.nfev + result.ngev
    return f"{result.nfail:,} of {evals:,} evaluations failed ({result.nfail / max(evals, 1):.1%})."


def _next_steps(settings: Mapping[str, Any], horizon: bool) -> list[tuple[str, str]]:
    function = str(settings.get("function", ""))
    importable = ":" in function and "<" not in function and not function.startswith("__main__:")
    name = shlex.quote(function) if importable else "my_module:my_function"
    more = settings.get("max_evals")
    budget = f" --max-evals {2 * more}" if isinstance(more, int) else ""
    extend = " --extend" if budget and horizon else ""
    journal = settings.get("journal")
    if not journal:
        with_journal = 'gs.minimize(fun, x0, ..., journal="run.journal")'
        return [
            ("To continue from the answer:", "res = gs.minimize(fun, res.x, ...)"),
            ("To continue exactly where a run stopped, give it a journal:", with_journal),
        ]
    file = shlex.quote(str(journal))
    again = f"goldstein resume {file} --with {name}"
    return [
        ("To continue after a stop; no value in the journal is evaluated again:", again),
        ("With a larger budget:", f"{again}{budget}{extend}"),
        ("To see its progress, also while it runs:", f"goldstein inspect {file}"),
    ]
