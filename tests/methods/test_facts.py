"""Facts are kept once: methods read the precision, the incumbent and the noise of the run, and keep none of them."""

import itertools

import numpy as np
import pytest

import goldstein as gs
from goldstein import report
from goldstein.facts import Facts
from goldstein.methods.auto import Auto
from goldstein.methods.method import Context
from goldstein.methods.portfolio import Portfolio


class RefusedError(Exception):
    """A fact that must not be read was read."""


class Refusing(Facts):
    """Facts of which one refuses to be read while a method asks or tells."""

    refused = ""
    on = False

    def __getattribute__(self, name):
        if name != "on" and name != "refused" and self.on and name == self.refused:
            raise RefusedError(name)
        return super().__getattribute__(name)


def kinky(X):
    return np.abs(X - 1).sum(axis=1)


def play(method, refused, stochastic=False, evals=400):
    """Run a method by hand; `refused` is a name in `Facts` that it must not read."""
    oracle = gs.FiniteSum(lambda X, i: kinky(X - i[:, None]), 5, vectorized=True)
    if not stochastic:
        oracle = gs.Deterministic(kinky, vectorized=True)
    facts = Refusing(noisy=stochastic)
    facts.refused = refused
    context = Context(np.random.default_rng(0), oracle.sample, max_evals=evals, n=oracle.n, facts=facts)
    state = method.init(np.zeros(3), context)
    while context.nfev < evals:
        facts.on = True
        query = method.ask(state, context, evals - context.nfev)
        facts.on = False
        if query is None:
            break
        answer = oracle.evaluate(query)
        facts.update(query, answer)
        facts.on = True
        method.tell(state, context, query, answer.values)
        facts.on = False
        context.nfev += len(query)
    return context.nfev


PRECISION, INCUMBENT, NOISE, SAME_POINT = "roundoff", "incumbent", "noisy", "differ"
RACE = Portfolio(gs.BFGS(1.0), gs.BlockCMA())
SIFTED = {"gradients": "sift", "delta": 0.1}
KEPT_BEFORE = [  # method, the fact that it kept, whether there is noise
    (Auto(), PRECISION, False),  # by the survey
    (Auto(), SAME_POINT, False),
    (Auto(), NOISE, False),
    (RACE, PRECISION, False),
    (RACE, INCUMBENT, False),
    (RACE, SAME_POINT, False),
    (gs.BFGS(1.0), PRECISION, False),
    (gs.BFGS(1.0), INCUMBENT, False),
    (gs.BlockCMA(), INCUMBENT, False),
    (gs.BlockCMA(), NOISE, True),
    (gs.Sift(1.0), PRECISION, True),
    (gs.SINGD(p=10.0, q=10.0, **SIFTED), PRECISION, True),
    (gs.INGD(epsilon=1e-3, **SIFTED), PRECISION, False),
]


@pytest.mark.parametrize(("method", "fact", "stochastic"), KEPT_BEFORE, ids=lambda part: getattr(part, "name", part))
def test_a_method_reads_the_fact_that_it_used_to_keep(method, fact, stochastic):
    assert play(method, "", stochastic) > 50
    with pytest.raises(RefusedError, match=fact):
        play(method, fact, stochastic)


RNG = np.random.default_rng(0)
CALLS = itertools.count()


def in_single(x):
    return np.float32(np.abs(x - 1).sum() + 0.1)


def with_noise(x):
    return float(np.abs(x - 1).sum() + 0.1 * RNG.normal())


def in_another_order(x):
    """A sum whose last bit depends on the call."""
    return float(np.abs(x - 1).sum() + 0.3) * (1 + 2.0**-52 * (next(CALLS) % 2))


@pytest.mark.parametrize(("fun", "noisy"), [(in_single, False), (with_noise, True), (in_another_order, False)])
def test_result_and_report_agree_on_whether_there_is_noise(fun, noisy):
    """As `inspect` does, see `tests/cli/test_journal.py`."""
    res = gs.minimize(fun, np.zeros(3), max_evals=600, rng=0)
    value = {fact.name: fact.text for fact in report.facts_of(res)}["f(x)"]
    assert (res.fun_stderr > 0) == noisy
    assert ("±" in value) == noisy
    assert ("noise" in res.message) == noisy


def test_values_of_single_precision_are_so_for_every_part_of_a_run():
    """Two calls at x0 that differ in the last bit of float32 are rounding, for the run as for the survey."""

    def fun(x):
        return np.float32(np.abs(x - 1).sum() + 1) * np.float32(1 + 2.0**-22 * (next(CALLS) % 2))

    res = gs.minimize(fun, np.zeros(3), max_evals=600, rng=0)
    assert res.fun_stderr == 0
    assert "noise" not in res.message
