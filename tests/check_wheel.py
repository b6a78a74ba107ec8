"""Build the wheel, install it where there is nothing else, and see that it works without the repo: `make wheel`.

First the core alone: it minimises, and says in a sentence what is missing for the rest. Then each extra in turn, with
what it is for. `python tests/check_wheel.py EXTRA ...` tries these; all light ones if none is named.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}  # nothing of the repo
LIGHT = ("report", "cli", "plot", "sklearn", "compiled")
START = "import numpy as np, goldstein as gs\nf = lambda x: abs(x - 1).sum()\n"
CORE = START + (
    "res = gs.minimize(f, np.zeros(3), max_evals=500, rng=0)\n"
    "assert res.fun < 1e-3 and res.nfev <= 500, res\n"
    "print(res)\n"
    "gs.minimize(f, np.zeros(3), max_evals=100, rng=0, journal='run.journal', workers=2)\n"
    "gs.minimize_many(f, np.zeros(3), seeds=2, max_evals=100)\n"
    "gs.theory.plan('gfm+', d=5, L=1.0, gap=1.0, delta=0.3, epsilon=0.5)\n"
    "import goldstein.attack, goldstein.problems, goldstein.testing\n"
)
USES = {
    "report": START + "gs.minimize(f, np.zeros(3), max_evals=100, rng=0).report('run.html')",
    "plot": START + "gs.minimize(f, np.zeros(3), max_evals=100, rng=0).plot('run.svg')",
    "cli": "from goldstein.cli import main; import sys; sys.argv = ['goldstein', '--version']; main()",
    "sklearn": (
        "import numpy as np\n"
        "from goldstein.sklearn import CappedL1SVC, RobustRegressor\n"
        "X = np.random.default_rng(0).normal(size=(60, 3))\n"
        "assert CappedL1SVC(random_state=0).fit(X, X[:, 0] > 0).score(X, X[:, 0] > 0) > 0.9\n"
        "RobustRegressor(random_state=0).fit(X, X[:, 0])\n"
    ),
    "compiled": START
    + (
        "from numba import njit\n"
        "@njit\n"
        "def F(x, i): return abs(x[i % 3] - 1)\n"
        "gs.minimize(gs.FiniteSum(F, 9), np.zeros(3), gs.GFM(0.1, 0.01), max_evals=500, rng=0, compiled=True)\n"
    ),
    "torch": "from goldstein.torch import torch_oracle; torch_oracle(lambda x: x.abs().sum())",
    "onnx": "import onnxruntime, PIL.Image, goldstein.attack",
    "ray": "import goldstein.oracle.ray",
    "dask": START
    + (
        "from distributed import Client\n"
        "if __name__ == '__main__':\n"
        "    with Client(n_workers=1, threads_per_worker=1, dashboard_address=None) as client:\n"
        "        gs.minimize(f, np.zeros(3), max_evals=20, rng=0, workers=client)\n"
    ),
    "simopt": "import goldstein.simopt",
}
MISSING = {  # what is said without the extra
    "report": (USES["report"], "A report needs jinja2: pip install 'goldstein[report]'."),
    "plot": (USES["plot"], "A picture needs matplotlib: pip install 'goldstein[plot]'."),
    "cli": (USES["cli"], "The command line needs typer and rich: pip install 'goldstein[cli]'."),
    "sklearn": (USES["sklearn"], "goldstein.sklearn needs sklearn: pip install 'goldstein[sklearn]'."),
}
COMMAND = ["minimize", "my_model:loss", "--x0", "0,0", "--max-evals", "300", "--seed", "0", "--report", "run.html"]


def run(*words: object, folder: Path, code: int = 0) -> str:
    """Run a program outside the repo; return what it said."""
    process = subprocess.run([str(word) for word in words], cwd=folder, env=CLEAN, capture_output=True, text=True)
    if process.returncode != code:
        raise SystemExit(f"{' '.join(map(str, words))[:300]} ended with {process.returncode}:\n{process.stderr}")
    return process.stdout + process.stderr


def build(folder: Path) -> Path:
    """Build a source archive, and the wheel from that."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, folder=folder)
    (wheel,) = folder.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    rooms = {name.split("/")[0] for name in names}
    assert all(room.startswith("goldstein") for room in rooms), rooms
    for file in ("py.typed", "report/page.html", "cli/app.py"):
        assert f"goldstein/{file}" in names, f"{file} is not in the wheel"
    return wheel


def main(extras: list[str]) -> None:
    """Try the wheel alone, and then with each extra."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        wheel = build(folder)
        print(f"built {wheel.name}, {wheel.stat().st_size / 1000:.0f} kB", flush=True)
        home = folder / "fresh"
        venv.create(home, with_pip=True)
        python = home / "bin" / "python"
        outside = folder / "outside"
        outside.mkdir()
        install = [python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt"]
        run(*install, wheel, folder=outside)
        run(python, "-c", CORE, folder=outside)
        for program, sentence in MISSING.values():
            process = subprocess.run([python, "-c", program], cwd=outside, env=CLEAN, capture_output=True, text=True)
            assert process.returncode, sentence
            assert process.stderr.strip().endswith(sentence), process.stderr
        print("core alone: works, and names what is missing", flush=True)
        for extra in extras:
            run(*install, f"{wheel}[{extra}]", folder=outside)
            (outside / "use.py").write_text(USES[extra])
            run(python, "use.py", folder=outside)
            print(f"{extra}: works", flush=True)
        if {"cli", "report"} <= set(extras):
            (outside / "my_model.py").write_text("def loss(x):\n    return abs(x - 1).sum()\n")
            assert "Report: run.html" in run(home / "bin" / "goldstein", *COMMAND, folder=outside)
            assert (outside / "run.html").stat().st_size > 1000
            print("goldstein minimize: works", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(LIGHT))
