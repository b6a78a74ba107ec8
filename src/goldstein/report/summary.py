"""What there is to tell of a run, as plain data; `page` and the notebook form of a result show it."""

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

NEIGHBOURS = 4  # records to each side whose scatter gives the band of noisy values
SIGMAS = 2.0
LONGEST = 2000  # letters of one text; more are left out
MOST_CHOICES = 40
MOST_NUMBERS = 60  # entries of x that are written out
SMALL = 200  # height of the pictures after the first
ENDS = {
    "CRITERION": "what was asked for is reached",
    "MAX_EVALS": "the budget is used up, as is usual",
    "MAX_ITER": "all iterations are done, as is usual",
    "FAILING": "too many evaluations failed",
    "CALLBACK": "the callback stopped it",
    "INTERRUPTED": "it was interrupted",
    "FINISHED": "the method is done",
    "RUNNING": "it is still running",
    "MAX_TIME": "the time is over",
    "RAISED": "an exception ended it",
}


@dataclass(frozen=True)
class Fact:
    """A line of a table: what, and what it is."""

    name: str
    text: str


@dataclass
class Summary:
    """What there is to tell of a run.

    Attributes
    ----------
    title : str
        What ran.
    headline : str
        The result in one line.
    facts : list of Fact
        What a person wants to know first.
    message : str
        How it ended, in words.
    charts : list of Chart
        Its pictures.
    choices : list of (str, str)
        What was chosen on the way: after how many evaluations, and why.
    more_choices : int
        How many of them were left out.
    stationarity : list of Fact
        How stationary the answer is, if that was asked for.
    failures : str
        How many evaluations failed.
    x : str
        The answer.
    settings, versions : list of Fact
        What was asked for, and what with.
    next_steps : list of (str, str)
        How to go on: a sentence, and a command.
    """

    title: str
    headline: str
    facts: list[Fact]
    message: str
    charts: list[Chart]
    choices: list[tuple[str, str]] = field(default_factory=list)
    more_choices: int = 0
    stationarity: list[Fact] = field(default_factory=list)
    failures: str = ""
    x: str = ""
    settings: list[Fact] = field(default_factory=list)
    versions: list[Fact] = field(default_factory=list)
    next_steps: list[tuple[str, str]] = field(default_factory=list)


def summary_of(result: Any) -> Summary:
    """Return what there is to tell of a `goldstein.Result`.

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
    told = [(f"{choice.nfev:,}", cut(choice.sentence)) for choice in choices[:MOST_CHOICES]]
    function = settings.get("function", "")
    of = f" on {function}" if function else ""
    return Summary(
        title=cut(f"{result.method.name}{of}", 200),
        headline=f"f(x) = {value_in_words(result)}",
        facts=facts_of(result),
        message=cut(result.message),
        charts=charts_of(result),
        choices=told,
        more_choices=len(choices) - len(told),
        stationarity=_stationarity(result.get("stationarity")),
        failures=_failures(result),
        x=exactly(result.x),
        settings=[Fact("method", cut(repr(result.method))), *in_lines(settings)],
        versions=in_lines(result.get("versions", {})),
        next_steps=_next_steps(settings, result.method.needs.horizon),
    )


def facts_of(result: Any) -> list[Fact]:
    """Return what a person wants to know first of a result."""
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
        Fact("ended", f"{result.status.name}, {ENDS[result.status.name]}"),
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
        return "not known, since every evaluation failed"
    if error == 0:
        sure = result.get("settings", {}).get("oracle") in (None, "Deterministic", "FiniteSum")
        return f"{result.fun:.10g} {'(exact)' if sure else '± 0, since all values agree'}"
    if not math.isfinite(error) or not math.isfinite(result.fun):
        return f"about {result.fun:.6g}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    if digits > 12 or abs(result.fun) > 1e6:
        return f"{result.fun:.6g} ± {error:.2g} (standard error)"
    return f"{result.fun:.{digits}f} ± {error:.{digits}f} (standard error)"


def numbers(x: Array, most: int) -> str:
    """Return the entries of a vector, `most` of them at most."""
    entries = " ".join(f"{entry:.6g}" for entry in x[:most])
    more = f" … ({x.size:,} entries)" if x.size > most else ""
    return f"[{entries}{more}]"


def exactly(x: Array) -> str:
    """Return a vector as Python reads it; of a long one, its first entries."""
    entries = ", ".join(repr(float(entry)) for entry in x[:MOST_NUMBERS])
    more = f", …]  # {x.size:,} entries" if x.size > MOST_NUMBERS else "]"
    return f"[{entries}{more}"


def cut(text: str, longest: int = LONGEST) -> str:
    """Return a text that is not too long."""
    return text if len(text) <= longest else text[:longest] + " …"


def in_lines(about: Mapping[str, Any]) -> list[Fact]:
    """Return a mapping as lines of a table."""
    return [Fact(str(name), cut(str(value), LONGEST // 2)) for name, value in about.items()]


def charts_of(result: Any) -> list[Chart]:
    """Return the pictures of a result: its values and, where known, gradient norm, step and failures."""
    history = result.history
    made = history.nfev + history.ngev
    charts = [_values(result, made)] if np.isfinite(history.fun).any() or np.isfinite(result.fun) else []
    for name, column in (("norm of the gradient estimate", history.gradient_norm), ("step size", history.step)):
        if np.isfinite(column).any():
            charts.append(_small(name, made, column))
    if result.nfail:
        charts.append(_small("failed evaluations so far", made, history.nfail.astype(float)))
    if np.isfinite(history.monitor).any():
        charts.insert(0, _small("your monitor", made, history.monitor, 300))
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
    said = f"<p>{html.escape(chart.title)}. {legend}.</p>"
    return f'<div class="gs" style="max-width:600px"><style>{look}</style>{chart.svg("run")}{said}</div>'


def is_noisy(result: Any) -> bool:
    """Whether the values of a run have noise."""
    oracle = result.get("settings", {}).get("oracle")
    return bool(result.fun_stderr != 0 if oracle is None else oracle != "Deterministic")


def smoothed(fun: Array, made: Array) -> tuple[Array, Array]:
    """Return the mean of each record and its neighbours, and its standard error from their scatter.

    A record counts by the evaluations that were made since the one before.

    Examples
    --------
    >>> import numpy as np
    >>> mean, error = smoothed(np.array([1.0, 3.0] * 50), np.arange(100))
    >>> bool(abs(mean[50] - 2) < 0.2), bool(0.2 < error[50] < 0.5)
    (True, True)
    """
    mean = np.full(len(fun), np.nan)
    error = np.full(len(fun), np.nan)
    counts = np.maximum(np.diff(made, prepend=0.0), 1e-9)
    for place in range(len(fun)):
        nearby = slice(max(0, place - NEIGHBOURS), place + NEIGHBOURS + 1)
        fine = np.isfinite(fun[nearby])
        near = fun[nearby][fine]
        if near.size > 2:
            weights = counts[nearby][fine] / counts[nearby][fine].sum()
            with np.errstate(over="ignore", invalid="ignore"):  # values near the largest float
                mean[place] = weights @ near
                scatter = (weights**2) @ (near - mean[place]) ** 2
                error[place] = math.sqrt(scatter * near.size / (near.size - 1))
    return mean, error


def _values(result: Any, made: Array) -> Chart:
    fun = result.history.fun
    marks = tuple(choice.nfev for choice in result.history.choices[:MOST_CHOICES])
    error = SIGMAS * result.fun_stderr
    answer = Point(float(made[-1]) if len(made) else 0.0, result.fun, error, "the answer")
    if is_noisy(result):
        mean, stderr = smoothed(fun, made)
        lines = [Line(made, fun, "mean of the values since the record before", "dots")]
        lines.append(Line(made, mean, f"mean of {2 * NEIGHBOURS + 1} records around"))
        band = Band(made, mean - SIGMAS * stderr, mean + SIGMAS * stderr, "± 2 standard errors, from their scatter")
        if error > 0:
            answer = Point(answer.x, answer.y, error, "the answer, ± 2 standard errors, on fresh noise")
        return Chart("values", _in_words("values", fun), lines, band, answer, marks)
    lowest = np.fmin.accumulate(fun) if len(fun) else fun
    lines = [Line(made, fun, "mean of the values since the record before", "faint")]
    lines.append(Line(made, lowest, "lowest of these so far"))
    return Chart("values", _in_words("values", fun), lines, None, answer, marks)


def _small(name: str, made: Array, column: Array, height: int = SMALL) -> Chart:
    return Chart(name, _in_words(name, column), [Line(made, column, name)], height=height)


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
    made = result.nfev + result.ngev
    if not result.nfail:
        return "No evaluation failed."
    return f"{result.nfail:,} of {made:,} evaluations failed ({result.nfail / max(made, 1):.1%})."


def _next_steps(settings: Mapping[str, Any], horizon: bool) -> list[tuple[str, str]]:
    function = str(settings.get("function", ""))
    importable = ":" in function and "<" not in function and not function.startswith("__main__:")
    name = shlex.quote(function) if importable else "my_module:my_function"
    more = settings.get("max_evals")
    budget = f" --max-evals {2 * more}" if isinstance(more, int) else ""
    journal = settings.get("journal")
    if journal:
        extend = " --extend" if budget and horizon else ""
        file = shlex.quote(str(journal))
        again = f"goldstein resume {file} --with {name}"
        return [
            ("If it was stopped, go on where it was; no value in the journal is asked for again:", again),
            ("With a larger budget:", f"{again}{budget}{extend}"),
            ("See how far it is, also while it runs:", f"goldstein inspect {file}"),
        ]
    return [
        ("Go on from the answer:", "res = gs.minimize(fun, res.x, ...)"),
        ("To go on exactly where a run was, give it a journal:", 'gs.minimize(fun, x0, ..., journal="run.journal")'),
    ]
