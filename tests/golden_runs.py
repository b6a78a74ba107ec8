"""Golden runs: a small run of each method and driver, whose results are recorded in golden.json.

A change of the code that moves a number is seen at once: `python tests/golden_runs.py` names the runs that differ, and
`python tests/golden_runs.py --record NAME ...` records these anew (all of them without a name). An entry is recorded
anew only in a commit that names it and says why.

Results are equal bit for bit only where the libraries and the processor are the same, which the recorded tag tells.
Elsewhere they are equal to six digits: no run is kept in which rounding grows beyond that.
"""

import argparse
import hashlib
import json
import platform
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import goldstein as gs
from goldstein.attack import attack
from goldstein.steps import LinearDecay
from studies import problems

FILE = Path(__file__).with_name("golden.json")
DIGITS = 1e-6
MOST_EVALS = 600
SCALARS = ("fun", "fun_stderr", "nfev", "nfev_diagnostic", "ngev", "nit", "nfail")
ROUNDED = ("x", "fun", "fun_stderr", "pixels", "bound")


RUNS: dict[str, Callable[[], dict[str, Any]]] = {}  # each runs from a function made anew and returns plain data


def add(name: str, play: Callable[[], dict[str, Any]]) -> None:
    if name in RUNS:
        raise ValueError(f"There are two golden runs called {name!r}.")
    RUNS[name] = play


def repeat(name: str) -> dict[str, Any]:
    """Return what a run gives today."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RUNS[name]()


def plain(res: gs.Result) -> dict[str, Any]:
    """Return a result in plain data."""
    outcome: dict[str, Any] = {"x": res.x.tolist()}
    for name in SCALARS:
        value = res[name]
        outcome[name] = value.item() if isinstance(value, np.generic) else value
    outcome["success"] = bool(res.success)
    outcome["status"] = res.status.name
    outcome["history.nfev"] = [int(nfev) for nfev in res.history.nfev]
    certificate = res.get("stationarity")
    if certificate is not None:
        outcome["certificate"] = [certificate.answer, certificate.method]
        outcome["bound"] = float(certificate.bound)
    return outcome


def plain_attack(res: Any) -> dict[str, Any]:
    """Return the result of an attack in plain data: a few pixels, and a hash of all."""
    outcome: dict[str, Any] = {
        "hash": hashlib.sha256(res.x.tobytes()).hexdigest()[:16],
        "pixels": res.x.reshape(len(res.x), -1)[:, :3].astype(float).tolist(),
    }
    for name in ("success", "misclassified", "queries", "queries_estimation", "predicted", "labels"):
        outcome[name] = getattr(res, name).tolist()
    outcome["errors"] = sorted(res.errors)
    return outcome


def differences(recorded: dict[str, Any], seen: dict[str, Any], exact: bool) -> list[str]:
    """Return which parts differ: in any bit, or (not `exact`) in six digits."""
    if recorded.keys() != seen.keys():
        return sorted(recorded.keys() ^ seen.keys())
    return [name for name in recorded if not _agree(name, recorded[name], seen[name], exact)]


def _agree(name: str, recorded: Any, seen: Any, exact: bool) -> bool:
    if exact:
        return json.dumps(recorded) == json.dumps(seen)  # NaN is NaN here, and -0.0 is not 0.0
    if name == "hash":
        return True
    if name in ROUNDED:
        before = np.asarray(recorded, float)
        now = np.asarray(seen, float)
        size = np.max(np.abs(before[np.isfinite(before)]), initial=0.0)
        return before.shape == now.shape and np.allclose(now, before, rtol=0, atol=DIGITS * size, equal_nan=True)
    return bool(recorded == seen)


def tag() -> dict[str, str]:
    """Return what the last bits of a result depend on."""
    config: Any = np.show_config(mode="dicts")  # type: ignore[call-overload]
    blas = config["Build Dependencies"]["blas"]
    simd = config["SIMD Extensions"].get("found", [])
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": _version("numba"),
        "blas": f"{blas['name']} {blas.get('version', '')}",
        "processor": " ".join([platform.machine(), *_processor(), *simd]),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


def _processor() -> Iterator[str]:
    """Yield maker, family and model of the processor, where the system tells them."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    for key in ("vendor_id", "cpu family", "model"):
        found = re.search(rf"^{key}\s*:\s*(\S+)", text, re.MULTILINE)
        if found:
            yield found[1]


TARGET = np.array([1.0, -0.5, 0.25, 2.0])
ROWS = np.random.default_rng(1).normal(size=(40, 4))
OFFSETS = ROWS @ TARGET + 0.1 * np.random.default_rng(2).normal(size=40)


def distance(x):
    """A function of one point, |x − target| in the ℓ1 norm with weights."""
    return float(np.sum(np.arange(1, x.size + 1) * np.abs(x - TARGET)))


def distances(X):
    return (np.arange(1, X.shape[1] + 1) * np.abs(X - TARGET)).sum(axis=1)


def deviation(x, i):
    return abs(float(np.sum(ROWS[i] * x)) - OFFSETS[i])


def deviations(X, i):
    return np.abs((ROWS[i] * X).sum(axis=1) - OFFSETS[i])


def deviation_grads(X, i):
    return ROWS[i] * np.sign((ROWS[i] * X).sum(axis=1) - OFFSETS[i])[:, None]


def seeded_distance(x, seed):
    return float(np.sum(np.abs(x - TARGET - 0.1 * np.random.default_rng(seed).normal(size=x.size))))


def shifts(rng, k):
    return rng.normal(0.0, 0.1, size=(k, TARGET.size))


def start():
    return np.zeros(TARGET.size)


def deterministic_rows():
    return gs.Deterministic(distances, vectorized=True), start()


def finite_sum():
    return gs.FiniteSum(deviation, len(ROWS)), start()


def finite_sum_rows():
    return gs.FiniteSum(deviations, len(ROWS), vectorized=True, grad=deviation_grads), start()


def expectation():
    return gs.Expectation(lambda x, xi: float(np.sum(np.abs(x - TARGET - xi))), shifts), start()


def expectation_rows():
    return gs.Expectation(lambda X, xi: np.abs(X - TARGET - xi).sum(axis=1), shifts, vectorized=True), start()


def seeded():
    return gs.Seeded(seeded_distance), start()


def seeded_rows():
    def simulate(X, seeds):
        return np.array([seeded_distance(x, seed) for x, seed in zip(X, seeds, strict=True)])

    return gs.Seeded(simulate, vectorized=True), start()


def unreplayable():
    noise = np.random.default_rng(4)
    return gs.Unreplayable(lambda x: distance(x) + 0.02 * noise.normal()), start()


def of(make: Callable[..., problems.Problem], **settings: Any) -> Callable[[], tuple[gs.Oracle, Any]]:
    """Return a test problem in the form that the runs take."""

    def function_and_start():
        problem = make(**settings)
        return problem.oracle, problem.x0

    return function_and_start


crescent = of(problems.chained_crescent1, d=5)
maxq = of(problems.maxq, d=6)
rosenbrock = of(problems.chebyshev_rosenbrock, d=3)
shell = of(problems.shell, d=4)
chained_lq = of(problems.chained_lq, d=4)
quadratics = of(problems.max_of_quadratics, n=20, d=4, pieces=3)


def failing_points():
    """NaN where a fine pattern of stripes says so, about one point in five."""

    def value(X):
        return np.where(np.floor(1000 * X[:, 0]) % 5 == 0, np.nan, distances(X))

    return gs.Deterministic(value, vectorized=True), np.full(TARGET.size, 0.0125)


def failing_seeds():
    """A simulator that breaks for one seed in four."""

    def simulate(x, seed):
        return np.inf if seed % 4 == 0 else seeded_distance(x, seed)

    return gs.Seeded(simulate), start()


def run(name: str, make: Callable[[], tuple[Any, Any]], method: Any, **settings: Any) -> None:
    """Add a run of `minimize`."""
    if not {"max_evals", "max_iter"} & settings.keys():
        settings["max_evals"] = MOST_EVALS
    settings.setdefault("rng", 7)
    add(name, lambda: plain(gs.minimize(*make(), method, **settings)))


def resumed(name: str, make: Callable[[], tuple[Any, Any]], method: Any, **settings: Any) -> None:
    """Add a run that the callback stops at half of its budget, and that then goes on from its file."""
    settings = {"max_evals": MOST_EVALS, "rng": 7, **settings}

    def stop_halfway(intermediate_result):
        if intermediate_result.nfev + intermediate_result.ngev >= settings["max_evals"] // 2:
            raise StopIteration

    def play():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.npz"
            half = gs.minimize(*make(), method, callback=stop_halfway, journal=path, **settings)
            whole = gs.minimize(*make(), method, journal=path, **settings)
        return {"half": [half.status.name, half.nit], **plain(whole)}

    add(name, play)


def add_names() -> None:
    """Every method by its name alone."""
    for method in ("gfm", "ws-gfm", "zo-o2nc"):
        run(f"{method} by name, Seeded", seeded, method)
    for method in ("two-point", "gfm+", "ws-gfm+", "one-phase"):
        run(f"{method} by name, FiniteSum in rows", finite_sum_rows, method)
    for method in ("singd", "o2nc"):
        run(f"{method} by name, FiniteSum in rows", quadratics, method)
    for method in ("psingd", "pingd", "cutting-plane"):
        run(f"{method} by name, Deterministic", maxq, method)
    run("ingd by name, chained LQ", chained_lq, "ingd")


def add_oracles() -> None:
    """The default on every kind of function with noise."""
    run("auto, FiniteSum", finite_sum, "auto")
    run("auto, Expectation in rows", expectation_rows, "auto")
    run("auto, Seeded in rows", seeded_rows, "auto")
    run("auto, Unreplayable", unreplayable, "auto")


def add_settings() -> None:
    """Every method as an object, with its settings and step rules."""
    run("GFM orthogonal", crescent, gs.GFM(0.1, 0.01, 5, directions="orthogonal"))
    run("GFM loo, FiniteSum", finite_sum_rows, gs.GFM(0.1, 0.01, 8, estimator="loo"))
    run("GFM linear decay", finite_sum, gs.GFM(0.1, LinearDecay(0.02)))
    run("GFMPlus coin", finite_sum_rows, gs.GFMPlus(0.1, 0.02, 6, 2, 15, restart="coin"))
    run("WarmStart GFM SINGD", maxq, gs.WarmStart(gs.GFM(0.05, 0.01), gs.SINGD(0.1, 1.0, 1.0)))
    run("ZOO2NC radii given", crescent, gs.ZOO2NC(0.5, 8, rho=0.1, displacement=0.02, directions="orthogonal"))
    run("O2NC sifted", finite_sum_rows, gs.O2NC(0.2, 10, gradients="sift"))
    run("PINGD sifted", rosenbrock, gs.PINGD(0.05, 0.1, gradients="sift"))


def add_places() -> None:
    """Workers, sets, scales."""
    run("workers, GFM", finite_sum, gs.GFM(0.1, 0.01, 8), workers=2, max_evals=300)
    box = [(-0.5, 0.8), (-0.2, None), (None, None), (0.0, 1.5)]
    run("bounds, auto", deterministic_rows, "auto", bounds=box)
    ball = gs.projection.L2Ball(np.zeros(4), 1.0)
    run("L2 ball, GFM", finite_sum_rows, gs.GFM(0.1, 0.02, 2), projection=ball)
    run("x_scale and bounds", finite_sum_rows, gs.GFM(0.05, 0.01), x_scale=[0.5, 1.0, 2.0, 1.0], bounds=box)


def add_failures() -> None:
    """Values that fail, and what the library warns of."""
    run("failing points, GFMPlus", failing_points, gs.GFMPlus(0.1, 0.01, 5, 4, 20))
    run("failing seeds, WarmStart", failing_seeds, gs.WarmStart(gs.GFM(0.05, 0.02, 2), gs.GFMPlus(0.1, 0.01, 5, 3)))


def add_ends() -> None:
    """Criteria, limits, output rules and certificates."""
    run("target, GFM", finite_sum_rows, gs.GFM(0.1, 0.02), stop=gs.stop.Target(0.8, samples=50), max_evals=3000)
    stationary = gs.stop.Stationary(0.5, 0.7, max_evals=600)
    run("stationary, GFMPlus", finite_sum_rows, gs.GFMPlus(0.2, 0.02, 5, 4), stop=stationary, max_evals=6000)
    run("stationarity, GFM", finite_sum_rows, gs.GFM(0.1, 0.02), stationarity=(0.5, 1.0), max_evals=3000)


def add_resumed() -> None:
    """Runs that are stopped at half of their budget and go on from a file."""
    resumed("resume, auto on a sum", finite_sum_rows, "auto")
    resumed("resume, two-point", deterministic_rows, "two-point")
    resumed("resume, WarmStart", expectation, gs.WarmStart(gs.GFM(0.1, 0.02), gs.GFMPlus(0.1, 0.01, 5, 2)))


def add_many() -> None:
    """Several seeds at once."""

    def play():
        res = gs.minimize_many(*finite_sum_rows(), gs.GFM(0.1, 0.02), seeds=3, workers=1, max_evals=MOST_EVALS)
        return {"x": res.x.tolist(), "fun": res.fun.tolist(), "nfev": res.nfev.tolist()}

    add("minimize_many", play)


def jitted_sum():
    return gs.FiniteSum(jitted_component(), len(ROWS), args=(ROWS, OFFSETS)), start()


@cache
def jitted_component():
    """A component of the finite sum in machine code; the loops around it are compiled once."""
    from numba import njit

    @njit
    def component(x, i, rows, offsets):
        total = -offsets[i]
        for j in range(x.size):
            total += rows[i, j] * x[j]
        return abs(total)

    return component


def compiled(name: str, make: Callable[[], tuple[Any, Any]], method: Any, **settings: Any) -> None:
    """Add a run in machine code."""
    run(f"compiled, {name}", make, method, compiled=True, **settings)


def add_compiled() -> None:
    """Whole loops in machine code."""
    compiled("GFM", jitted_sum, gs.GFM(0.1, 0.02))
    compiled("GFMPlus random", jitted_sum, gs.GFMPlus(0.1, LinearDecay(0.03), 5, 2, 20), output="random")
    compiled("auto", jitted_sum, "auto")
    compiled("ZOO2NC", jitted_sum, gs.ZOO2NC(0.3, 12, batch_size=2))
    resumed("compiled, resume WarmStart", jitted_sum, gs.WarmStart(gs.GFM(0.1, 0.02), gs.GFM(0.1, 0.01)), compiled=True)


class Network:
    """A fixed random network of two layers on 6×6 images in four classes; batches do not matter."""

    def __init__(self, kind: type = np.float64, outputs: str = "logits") -> None:
        rng = np.random.default_rng(8)
        self.first = rng.normal(size=(10, 36)) / 3
        self.second = rng.normal(size=(4, 10))
        self.kind = kind
        self.outputs = outputs

    def __call__(self, x):
        pixels = np.asarray(x, np.float64).reshape(len(x), -1) - 0.5
        hidden = np.maximum(np.einsum("kd,hd->kh", pixels, self.first), 0.0)
        scores = np.einsum("kh,ch->kc", hidden, self.second).astype(self.kind)
        if self.outputs == "logits":
            return scores
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)


IMAGES = np.random.default_rng(9).random((8, 6, 6)).astype(np.float32)
LABELS = Network()(IMAGES).argmax(axis=1)
LABELS[-1] = (LABELS[-1] + 1) % 4  # misclassified from the start


def attacked(name: str, model: Network | None = None, labels: Any = LABELS, **settings: Any) -> None:
    """Add an attack."""
    settings = {"radius": 0.06, "max_queries": 300, "seed": 3, **settings}
    add(f"attack, {name}", lambda: plain_attack(attack(model or Network(), IMAGES, labels, **settings)))


def add_attacks() -> None:
    """Attacks on a small network."""
    attacked("default")
    attacked("GFM, l2, free", method=gs.GFM(0.02, 0.003, 4), norm="l2", radius=0.4, queries="free")
    attacked("WarmStart", method=gs.WarmStart(gs.GFM(0.02, 0.005), gs.GFMPlus(0.02, 0.003, 5, 2)))


for group in (
    add_names,
    add_oracles,
    add_settings,
    add_places,
    add_failures,
    add_ends,
    add_resumed,
    add_many,
    add_compiled,
    add_attacks,
):
    group()


def load(file: Path = FILE) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Return the recorded tag and the recorded runs."""
    recorded = json.loads(file.read_text(encoding="utf-8"))
    return recorded["tag"], recorded["runs"]


def save(file: Path, runs: dict[str, dict[str, Any]]) -> None:
    """Write the runs with this machine's tag, one a line and in the order of their definitions."""
    lines = [f"{json.dumps(name)}: {json.dumps(runs[name], ensure_ascii=False)}" for name in RUNS if name in runs]
    text = ",\n".join(lines)
    file.write_text(f'{{"tag": {json.dumps(tag())},\n"runs": {{\n{text}\n}}}}\n', encoding="utf-8")


def main() -> int:
    """Record runs, or name those that differ from the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="the runs; all of them if none is named")
    parser.add_argument("--record", action="store_true", help="write their results into the record")
    parser.add_argument("--file", type=Path, default=FILE, help="another record, such as one made on this machine")
    given = parser.parse_args()
    for name in given.names:
        if name not in RUNS:
            parser.error(f"There is no golden run called {name!r}.")
    names = given.names or list(RUNS)
    recorded_tag, recorded = load(given.file) if given.file.exists() else (tag(), {})
    same_machine = recorded_tag == tag()
    if given.record:
        if given.names and not same_machine:
            parser.error("The record is from other libraries or another processor: record all runs, or none.")
        save(given.file, (recorded if given.names else {}) | {name: repeat(name) for name in names})
        return 0
    differing = 0
    for name in names:
        parts = differences(recorded.get(name, {}), repeat(name), same_machine)
        if parts:
            differing += 1
            print(f"{name}: {', '.join(parts)}")
    print(f"{differing} of {len(names)} runs differ.")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
