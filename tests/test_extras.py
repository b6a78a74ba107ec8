"""What is optional: where a package is missing, one sentence names the extra that has it."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from goldstein.extras import ELSEWHERE, EXTRAS, check_installed, needed

ROOT = Path(__file__).parents[1]
SMALL = "import numpy as np; from goldstein.attack import attack, torch_model, FixedRows; import goldstein as gs; "
IMAGES = "np.full((1, 2, 2), 0.5), None, max_queries=3"


@pytest.mark.parametrize(
    ("package", "program", "user", "install"),
    [
        ("sklearn", "import goldstein.sklearn", "goldstein.sklearn", "'goldstein[sklearn]'"),
        ("torch", "import goldstein.torch", "goldstein.torch", "'goldstein[torch]'"),
        ("torch", SMALL + "torch_model(len)", "torch_model", "'goldstein[torch]'"),
        ("matplotlib", SMALL + "gs.minimize(len, [1.0], max_evals=9).plot()", "A picture", "'goldstein[plot]'"),
        (
            "matplotlib",
            SMALL + f"attack(lambda x: np.zeros((len(x), 2)), {IMAGES}).contact_sheet('x.png')",
            "A contact sheet",
            "'goldstein[plot]'",
        ),
        ("jinja2", SMALL + "gs.minimize(len, [1.0], max_evals=9).report('x.html')", "A report", "'goldstein[report]'"),
        ("rich", SMALL + f"attack(len, {IMAGES}, progress=True)", "A progress bar", "'goldstein[cli]'"),
        ("art", "import goldstein.attack.art", "goldstein.attack.art", "adversarial-robustness-toolbox"),
        ("ray", "import goldstein.oracle.ray", "goldstein.oracle.ray", "'goldstein[ray]'"),
        ("simopt", "import goldstein.simopt", "goldstein.simopt", "'goldstein[simopt]'"),
        (
            "numba",
            "from goldstein.problems import capped_l1_svm; capped_l1_svm([[1.0]], [1]).compiled",
            "The compiled component",
            "'goldstein[compiled]'",
        ),
    ],
)
def test_a_missing_package_is_named_with_its_extra(package, program, user, install, tmp_path):
    program = f"import sys; sys.modules[{package!r}] = None\n{program}"
    process = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    last = process.stderr.strip().splitlines()[-1]
    assert last.lower().startswith(f"importerror: {user} needs ".lower()), process.stderr
    assert last.endswith(f": pip install {install}.")


def test_a_package_that_is_broken_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "halved.py").write_text("import nothing_of_that_name")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'nothing_of_that_name'"):
        needed("halved", "A test")
    with pytest.raises(ImportError, match=r"^A test needs no_such_thing: pip install no_such_thing\.$"):
        needed("no_such_thing.inside", "A test")


def test_several_are_named_together(monkeypatch):
    check_installed(["math"], "A test")
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        ImportError, match=r"^A test needs numba and torch: pip install 'goldstein\[compiled,torch\]'\.$"
    ):
        check_installed(["numba", "torch"], "A test")


def test_every_extra_is_one_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(EXTRAS.values()) == project["optional-dependencies"].keys() - {"all"}
    assert not EXTRAS.keys() & ELSEWHERE.keys()
