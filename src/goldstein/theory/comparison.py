"""All methods side by side: what each costs by its theorem, what it needs, and which is cheapest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from goldstein import arguments
from goldstein.methods.cutting_plane import MOST_VARIABLES
from goldstein.theory.first_order import REGRET
from goldstein.theory.planning import CHOICES, CONVEX, PLANS, plan
from goldstein.theory.plans import Plan, written


@dataclass(frozen=True)
class Row:
    """One method of a `Comparison`.

    Attributes
    ----------
    method : str
        Its name, with the learner if it has a choice of them.
    plan : Plan
        Its plan, with all parameters.
    mark : str
        "cheapest", "cheapest from values", both or nothing.
    """

    method: str
    plan: Plan
    mark: str = ""

    @property
    def needs(self) -> str:
        """What it asks the oracle for, and of f."""
        return self.plan.oracle + (", convex f" if self.plan.name in CONVEX else "")

    @property
    def gradients(self) -> bool:
        """Whether it needs gradients."""
        return "gradients" in self.plan.oracle

    @property
    def guarantee(self) -> str:
        """The quantity that its theorem bounds, and in what sense."""
        return self.plan.claim

    @property
    def cost(self) -> str:
        """The evaluations as they are shown: exact, or the worst case."""
        return ("" if self.plan.exact else "≤ ") + written(self.plan.evaluations)


@dataclass(frozen=True)
class Comparison:
    """Every method's plan for one goal, cheapest first; made by `compare`.

    Iterating gives the rows, `str` the table. A gradient counts as one evaluation, like a value.

    Attributes
    ----------
    rows : tuple of Row
        By rising number of evaluations.
    left_out : tuple of str
        Which methods are not there, and why.
    """

    rows: tuple[Row, ...]
    left_out: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def cheapest(self) -> Plan:
        """The plan with the fewest evaluations."""
        return self.rows[0].plan

    @property
    def cheapest_from_values(self) -> Plan:
        """The plan with the fewest evaluations among those that need no gradients."""
        return next(row.plan for row in self.rows if not row.gradients)

    def __str__(self) -> str:
        lines = [("method", "needs", "evaluations", "expected", "guarantee", "")]
        for row in self.rows:
            mean = row.plan.expected_evaluations
            expected = "" if mean is None else written(float(round(mean)))
            lines.append((row.method, row.needs, row.cost, expected, row.guarantee, row.mark and f"◀ {row.mark}"))
        sides, widths = "<<>><<", [max(len(line[k]) for line in lines) for k in range(6)]
        table = ["  ".join(f"{text:{sides[k]}{widths[k]}}" for k, text in enumerate(line)).rstrip() for line in lines]
        return "\n".join([*table, *self.left_out])


def compare(
    *,
    d: int,
    L: float,
    gap: float | None = None,
    delta: float,
    epsilon: float,
    radius: float | None = None,
    constants: str = "sharp",
    sparsity: int | None = None,
) -> Comparison:
    """Return what every method costs by its theorem for one and the same goal.

    Parameters
    ----------
    d, L, gap, delta, epsilon, constants
        As in `plan`.
    radius : float, optional
        R = dist(x0, argmin f) or an upper bound, and with it the promise that f is convex: the methods for convex f
        are listed only then.
    sparsity : int, optional
        As in `plan`, for the gradients that "o2nc" sifts from values.

    Returns
    -------
    Comparison

    Notes
    -----
    The number of evaluations is that of all iterations of a plan, exact where nothing else is said; "≤" marks the worst
    case of a method that ends by itself, often much earlier. "expected" is the mean when the answer is drawn at random
    and the run stopped there. Rows are sorted and marked by the former.

    Examples
    --------
    >>> from goldstein import theory
    >>> table = theory.compare(d=10, L=1, gap=1, delta=0.5, epsilon=0.3)
    >>> table.cheapest_from_values.name, table.cheapest.name
    ('o2nc', 'o2nc')
    >>> for row in list(table)[:3]:
    ...     print(f"{row.method:16}  {row.needs:15}  {row.plan.evaluations:6,}  {row.mark}".rstrip())
    o2nc (ogd)        gradients         2,000  cheapest
    o2nc (adagrad)    gradients         7,340
    o2nc (ogd, sift)  replayed values  25,553  cheapest from values
    """
    d = arguments.count("d", d)
    goal: dict[str, Any] = {"d": d, "L": L, "gap": gap, "delta": delta, "epsilon": epsilon}
    goal |= {"radius": radius, "constants": constants}
    left_out = []
    names = list(PLANS)
    if radius is None:
        left_out.append(f"Left out: {', '.join(m for m in PLANS if m in CONVEX)}, for convex f, which need radius.")
        names = [name for name in names if name not in CONVEX]
    if d > MOST_VARIABLES:
        left_out.append(f"Left out: cutting-plane, for at most {MOST_VARIABLES} variables.")
        names.remove("cutting-plane")
    rows = [
        Row(f"{name} ({label})" if label else name, plan(name, **goal, **choice))
        for name in names
        for label, choice in _choices(name, sparsity).items()
    ]
    rows.sort(key=lambda row: row.plan.evaluations)
    first = rows[0]
    from_values = next(row for row in rows if not row.gradients)
    marks = {id(from_values): "cheapest from values"}
    marks[id(first)] = "cheapest, from values too" if first is from_values else "cheapest"
    return Comparison(tuple(replace(row, mark=marks.get(id(row), "")) for row in rows), tuple(left_out))


def _choices(name: str, sparsity: int | None) -> dict[str, dict[str, Any]]:
    """Return every way in which a method is planned, by what it is called."""
    if name not in CHOICES["learner"]:
        return {"": {}}
    choices: dict[str, dict[str, Any]] = {learner: {"learner": learner} for learner in REGRET}
    if name == "o2nc":
        for learner in REGRET:
            choices[f"{learner}, sift"] = {"learner": learner, "gradients": "sift", "sparsity": sparsity}
    return choices
