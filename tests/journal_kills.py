"""Runs that are killed at random moments, again and again, until they get through: `python -m tests.journal_kills`.

Each life of a run is a process of its own. Every call of the function is logged before it is made, so that what a life
asked for can be compared with what its journal holds. The end must be that of a run that nobody disturbed.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import goldstein as gs
from goldstein.run.journal import read_stages
from goldstein.run.records import CHUNK, scan

X0 = np.array([1.0, -0.5, 0.25, 2.0])
N = 200
LOG = "GOLDSTEIN_CALLS"  # environment variable: where calls are logged
PAUSE = 2e-4


@dataclass(frozen=True)
class Case:
    """A run: its method, the kind of its oracle, its workers, and how many rows may be in flight when it is killed."""

    method: object
    oracle: str = "sum"
    workers: int | None = None
    in_flight: int = 200  # rows of a part of about 20 ms, and then some
    max_evals: int = 1500

    def minimize(self, journal=None):
        settings = {"max_evals": self.max_evals, "rng": 5, "workers": self.workers, "journal": journal}
        if journal is not None:
            settings["journal"] = gs.Journal(journal, snapshots=0.02)
        if self.oracle == "compiled":
            settings["compiled"] = True
        with warnings.catch_warnings(action="ignore"):
            return gs.minimize(ORACLES[self.oracle](), X0, self.method, **settings)


def note() -> None:
    """Log a call, and take a little time."""
    path = os.environ.get(LOG)
    if path:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, b".")
        os.close(file)
        time.sleep(PAUSE)


def component(x, i) -> float:
    note()
    return float(np.abs(x - 0.1 * np.sin(i + np.arange(x.size))).sum() + np.sin(7 * i))


def seeded(x, seed) -> float:
    return component(x, seed % N)


def plain(x) -> float:
    note()
    return float(np.abs(x - 0.3).sum() + 0.1 * np.sin(3 * x).sum())


def fresh(x) -> float:
    """Noise that depends on how often it was called, which a replay must not ask for again."""
    note()
    path = os.environ.get(LOG)
    calls = os.path.getsize(path) if path else 0
    return float(np.abs(x - 0.3).sum() + 0.01 * np.sin(1e3 * calls))


def compiled():
    from numba import njit

    @njit
    def jitted(x, i):
        total = 0.0
        for j in range(x.size):
            total += abs(x[j] - 0.1 * np.sin(i + j))
        return total

    return gs.FiniteSum(jitted, N)


def gradient(x, i):
    note()
    return np.sign(x - 0.1 * np.sin(i + np.arange(x.size)))


ORACLES = {
    "sum": lambda: gs.FiniteSum(component, N, grad=gradient),
    "seeded": lambda: gs.Seeded(seeded),
    "bare": lambda: plain,
    "fresh": lambda: gs.Unreplayable(fresh),
    "compiled": compiled,
}
CASES = {
    "auto, bare": Case("auto", "bare"),
    "auto, sum": Case("auto"),
    "auto, seeded, workers": Case("auto", "seeded", 2),
    "sift": Case("sift"),
    "gfm": Case("gfm", "seeded"),
    "gfm+, workers": Case(gs.GFMPlus(0.1, 0.01, 4, 5), "sum", 2),
    "gfm+, compiled": Case(gs.GFMPlus(0.1, 0.0001, 4, 5), "compiled", max_evals=4_000_000),
    "auto, compiled": Case("auto", "compiled", max_evals=4_000_000),
    "ws-gfm": Case("ws-gfm", "bare"),
    "cma, workers": Case("cma", "seeded", 2),
    "bfgs": Case("bfgs", "bare"),
    "zo-o2nc": Case(gs.ZOO2NC(0.5, 7, batch_size=2)),
    "o2nc": Case(gs.O2NC(0.5, 7)),
    "two-point": Case("two-point"),
}


def summary(res) -> dict[str, str]:
    """Return everything in a result, to the last bit."""
    parts = {name: repr(res[name]) for name in ("fun", "fun_stderr", "nfev", "nfev_diagnostic", "ngev", "nit", "nfail")}
    parts |= {"x": res.x.tobytes().hex(), "status": res.status.name, "message": res.message}
    return parts | {f"history.{name}": column.tobytes().hex() for name, column in res.history.items()}


def told(path: Path) -> int:
    """Return how many rows the journal holds."""
    if not path.exists() or not path.stat().st_size:
        return 0
    with path.open("rb", buffering=CHUNK) as file:
        return sum(stage.answered for stage in read_stages(scan(file, path), path))


@dataclass
class Life:
    """What became of a run under fire."""

    kills: int
    calls: int
    summary: dict
    nrepeat: int
    phases: list


def live(name: str, folder: Path, dice: random.Random, kills: int, longest: float) -> Life:
    """Kill a run so many times, at moments up to `longest` seconds after its process began to work; then let it end."""
    case = CASES[name]
    journal = folder / "run.journal"
    log = folder / "calls"
    log.touch()
    before_calls = 0
    phases = []
    for life in range(kills + 1):
        before = told(journal)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.journal_kills", "--one", name, str(journal)],
            env=os.environ | {LOG: str(log)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        ready = process.stdout.readline()
        if life < kills and ready == "begins\n":
            time.sleep(dice.random() * longest)
            process.send_signal(signal.SIGKILL)
        out, err = process.communicate(timeout=300)
        _all_gone(process.pid)
        calls = log.stat().st_size
        now = told(journal)
        if case.oracle != "compiled":
            assert calls - before_calls - (now - before) <= case.in_flight, (name, "asked again for what it had")
        before_calls = calls
        if process.returncode == 0:
            answer = json.loads(out)
            left = {path.name for path in folder.iterdir()} - {"run.journal", "calls", "run.journal.snapshot"}
            assert not left, f"{name} left {left}"
            return Life(life, calls, answer["summary"], answer["nrepeat"], phases)
        assert process.returncode == -signal.SIGKILL, err
        phases.append(_phase(journal))
    raise AssertionError(f"{name} did not end: {err}")


def _phase(journal: Path) -> str:
    """Return in which phase a run was killed, as far as its journal tells."""
    if not journal.exists() or not journal.stat().st_size:
        return "start"
    with journal.open("rb") as file:
        stages = read_stages(scan(file, journal), journal)
    if not stages:
        return "start"
    if stages[-1].outcome is not None:
        return "after the end"
    if stages[-1].ending is not None:
        return "closing"
    if journal.with_name(journal.name + ".snapshot.new").exists():
        return "snapshotting"
    return "evaluating" if stages[-1].started > stages[-1].answered else "asking or writing"


def _all_gone(session: int) -> None:
    """Wait until no process of a session is left, for as long as workers may need to notice."""
    for _ in range(100):
        alive = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(fields[3]) == session and fields[0] != "Z":
                    alive.append(entry.name)
        if not alive:
            return
        time.sleep(0.05)
    raise AssertionError(f"processes {alive} are left behind")


def undisturbed(name: str) -> dict[str, str]:
    """Return the end of a run that nobody disturbs."""
    return summary(CASES[name].minimize())


def fresh_noise_differs(name: str) -> bool:
    return CASES[name].oracle == "fresh"


def check(name: str, seed: int, kills: int, longest: float) -> Life:
    """Kill a run and compare its end with that of an undisturbed one."""
    dice = random.Random(hashlib.sha256(f"{name} {seed}".encode()).digest())
    with tempfile.TemporaryDirectory() as folder:
        life = live(name, Path(folder), dice, kills, longest)
    expected = undisturbed(name)
    assert life.summary == expected, {key: (life.summary[key], expected[key]) for key in expected}
    if CASES[name].oracle != "compiled":
        counted = int(life.summary["nfev"]) + int(life.summary["ngev"])
        assert counted <= life.calls <= counted + life.nrepeat, (counted, life.calls, life.nrepeat)
    return life


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=2, metavar=("CASE", "JOURNAL"))
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.one:
        name, journal = given.one
        print("begins", flush=True)
        res = CASES[name].minimize(journal)
        print(json.dumps({"summary": summary(res), "nrepeat": res.nrepeat}))
        return
    done = 0
    phases: dict[str, int] = {}
    seed = given.seed
    while done < given.kills:
        for name in CASES:
            life = check(name, seed, 6, 0.7)
            done += life.kills
            for phase in life.phases:
                phases[phase] = phases.get(phase, 0) + 1
            print(f"{name}: {life.kills} kills, {life.nrepeat} rows again; {done} in all, {phases}", flush=True)
        seed += 1


if __name__ == "__main__":
    main()
