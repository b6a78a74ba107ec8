"""From a method's name and what is known about the problem to its plan."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from goldstein import arguments
from goldstein.estimate.constants import constants as constants_of
from goldstein.theory import first_order, zeroth_order
from goldstein.theory.plans import Goal, Plan

PLANS: dict[str, Callable[[Goal], Plan]] = {
    "gfm": zeroth_order.gfm,
    "gfm+": zeroth_order.gfm_plus,
    "ws-gfm": zeroth_order.ws_gfm,
    "ws-gfm+": zeroth_order.ws_gfm_plus,
    "one-phase": zeroth_order.one_phase,
    "zo-o2nc": zeroth_order.zo_o2nc,
    "singd": first_order.singd,
    "psingd": first_order.psingd,
    "o2nc": first_order.o2nc,
    "ingd": first_order.ingd,
    "pingd": first_order.pingd,
    "cutting-plane": first_order.cutting_plane,
}
CONVEX = {"ws-gfm", "ws-gfm+", "one-phase"}
PRINTED = {"gfm+", *CONVEX}
CHOICES = {  # of `plan`: the methods that have them
    "batch_size": ("gfm",),
    "restart": ("gfm+",),
    "learner": ("zo-o2nc", "o2nc"),
    "noise": ("singd", "psingd", "o2nc"),
    "gradients": ("o2nc",),
    "sparsity": ("o2nc",),
    "failure_probability": ("ingd", "pingd", "cutting-plane"),
}
DEFAULTS = {"batch_size": 1, "restart": "clock", "gradients": "oracle"}  # None for the others


def plan(
    method: str,
    *,
    d: int,
    L: float,
    gap: float | None = None,
    delta: float,
    epsilon: float,
    radius: float | None = None,
    constants: str = "sharp",
    parameters: str = "repaired",
    batch_size: int = 1,
    noise: float | None = None,
    learner: str | None = None,
    restart: str = "clock",
    failure_probability: float | None = None,
    gradients: str = "oracle",
    sparsity: int | None = None,
) -> Plan:
    """Return the parameters and the cost with which a method reaches (δ, ε)-Goldstein stationarity.

    Parameters
    ----------
    method : str
        From values: "gfm", "gfm+", "zo-o2nc"; for convex f, and with `radius`, also "ws-gfm", "ws-gfm+", "one-phase".
        From gradients: "singd", "psingd", "o2nc". From exact values and gradients: "ingd", "pingd", "cutting-plane".
    d, L, constants
        As in `constants`, which calls the last one `kind`.
    gap : float, optional
        Δ = f(x0) − inf f or an upper bound; L·radius when not given, and never more than that.
    delta, epsilon : float
        The goal: E dist(0, ∂_δ f(x_out)) ≤ ε.
    radius : float, optional
        R = dist(x0, argmin f) or an upper bound.
    parameters : {"repaired", "printed"}, optional
        "printed": as the paper prints them, with a warning that says what is wrong. Where it prints none (ζ,
        and GFM as a second phase) ours are used.
    batch_size : int, optional
        Pairs in each step of "gfm": more of them mean fewer, longer steps.
    noise : float, optional
        s with E‖∇F(x; ξ) − ∇f(x)‖² ≤ s², for "singd", "psingd" and "o2nc"; 0 for exact gradients. At most L, which is
        also what is assumed when it is not given. The sharp constants of "singd" and "psingd" do not depend on it.
    learner : {"ogd", "adagrad"}, optional
        Of "zo-o2nc" and "o2nc"; "ogd" unless given. "adagrad" costs 3.7 times as much and takes no step from L.
    restart : {"clock", "coin"}, optional
        Of "gfm+": "coin" (PAGE) restarts at each step with probability 1/m.
    failure_probability : float, optional
        γ: "ingd", "pingd" and "cutting-plane" end within their evaluations with probability 1 − γ; 0.05 unless given.
    gradients : {"oracle", "sift"}, optional
        Of "o2nc": the oracle's own gradients, or gradients sifted from values, at most d + 1 of them for each.
    sparsity : int, optional
        With gradients="sift": how many coordinates matter to one component F(·; ξ) at one place, at most. Fewer values
        do then for a gradient; the run itself does not need to know. None: any number.

    Returns
    -------
    Plan

    Examples
    --------
    >>> from goldstein import theory
    >>> plan = theory.plan("gfm+", d=10, L=1, gap=1, delta=0.5, epsilon=0.3)
    >>> plan.iterations, plan.parameters["epoch_length"], plan.evaluations
    (764, 9, 191370)
    >>> theory.plan("zo-o2nc", d=10, L=1, gap=1, delta=0.5, epsilon=0.3).evaluations
    48928
    >>> theory.plan("o2nc", d=10, L=1, gap=1, delta=0.5, epsilon=0.3, gradients="sift").evaluations
    25553
    """
    if method not in PLANS:
        raise ValueError(f"There is no plan for {method!r}; there is one for {', '.join(PLANS)}.")
    arguments.one_of("parameters", parameters, ("repaired", "printed"))
    arguments.one_of("constants", constants, ("sharp", "paper"))
    choices: dict[str, Any] = {
        "batch_size": arguments.count("batch_size", batch_size),
        "restart": arguments.one_of("restart", restart, ("clock", "coin")),
        "learner": arguments.optional_one_of("learner", learner, first_order.REGRET),
        "noise": None if noise is None else arguments.not_negative("noise", noise),
        "gradients": arguments.one_of("gradients", gradients, ("oracle", "sift")),
        "sparsity": arguments.optional_count("sparsity", sparsity),
        "failure_probability": None,
    }
    if failure_probability is not None:
        choices["failure_probability"] = arguments.share("failure_probability", failure_probability)
    _check_choices(method, parameters, choices)
    c = constants_of(d, L, delta, constants)
    epsilon = arguments.positive("epsilon", epsilon)
    gap, radius = _distances(method, float(L), gap, radius)
    if noise is not None and noise > L:
        raise ValueError(f"noise is at most L, since L² bounds the mean square of all gradients; got {noise}.")
    chosen = {name: choice for name, choice in choices.items() if choice is not None}
    goal = Goal(int(d), float(L), float(delta), epsilon, gap, radius, c, printed=parameters == "printed", **chosen)
    try:
        result = PLANS[method](goal)
        float(result.evaluations)
    except (OverflowError, ZeroDivisionError):
        raise ValueError(
            f"With L = {L:g}, delta = {delta:g}, epsilon = {epsilon:g} the plan leaves the range of floating point: "
            "take a larger epsilon or delta, or rescale."
        ) from None
    notes = [result.note]
    if noise is not None and method != "o2nc" and constants == "sharp":
        notes.append("noise changes nothing here: the sharp constants need no more than E‖∇F(x; ξ)‖² ≤ L²")
    if epsilon >= L:
        notes.append("epsilon is not below L, which bounds every gradient of f: any point will do, x0 too")
    for sentence in result.defects:
        warnings.warn(sentence, UserWarning, stacklevel=2)
    return replace(result, note="; ".join(filter(None, notes)))


def _check_choices(method: str, parameters: str, choices: dict[str, Any]) -> None:
    """Refuse a choice that a method does not have, and choices that exclude each other."""
    for name, methods in CHOICES.items():
        if choices[name] != DEFAULTS.get(name) and method not in methods:
            raise ValueError(f'{name} can be chosen for {", ".join(methods)} only, not for "{method}".')
    if parameters == "printed" and method not in PRINTED:
        raise ValueError(f'The paper prints no parameters for "{method}": use parameters="repaired".')
    if parameters == "printed" and choices["restart"] == "coin":
        raise ValueError('restart="coin" has a plan with parameters="repaired" only.')
    sifting = choices["gradients"] == "sift"
    if sifting and choices["noise"] is not None:
        raise ValueError('noise is about the oracle\'s own gradients; leave it out with gradients="sift".')
    if not sifting and choices["sparsity"] is not None:
        raise ValueError('sparsity is for gradients="sift" only: it says how many values a gradient takes.')


def _distances(method: str, L: float, gap: float | None, radius: float | None) -> tuple[float, float]:
    """Return Δ, which is at most L·R, and R."""
    if radius is None and method in CONVEX:
        raise ValueError(f'"{method}" needs radius = dist(x0, argmin f).')
    if radius is None and gap is None:
        raise ValueError(f'"{method}" needs gap = f(x0) − inf f, or radius = dist(x0, argmin f).')
    R = math.inf if radius is None else arguments.positive("radius", radius)
    return (L * R if gap is None else min(arguments.positive("gap", gap), L * R)), R
