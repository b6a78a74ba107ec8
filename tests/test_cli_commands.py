"""Every command: its help, a good run, a bad run and Ctrl-C; from a folder outside the repo, and without the extras."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import goldstein as gs

pytest.importorskip("typer")
from typer.testing import CliRunner

from goldstein.cli import app as commands
from goldstein.cli import data, journal
from goldstein.cli.app import COMMANDS, app

MODEL = """
import numpy as np
import goldstein as gs

def absolute(x):
    return float(np.abs(x - 1).sum())

def seeded(x, seed):
    return absolute(x) + np.random.default_rng(seed).normal()

def component(x, i):
    return float(np.abs(x - i % 3).sum())

def rows(X):
    return np.abs(X - 1).sum(axis=1)

def failing(x):
    return float("nan")

def raising(x):
    raise ZeroDivisionError("division by zero")

def waiting(x):
    import time
    time.sleep(0.05)
    return absolute(x)

oracle = gs.Seeded(seeded)
number = 3
"""
PROGRAM = "import sys; from goldstein.cli import main; sys.argv[0] = 'goldstein'; main()"


def run(*arguments):
    answer = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    if answer.exception is not None and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer.exit_code, " ".join(answer.output.split())


def start(*arguments, folder, program=PROGRAM):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder outside the repo with a module in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cli_model.py").write_text(MODEL)
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("cli_model", None)
    yield tmp_path
    sys.modules.pop("cli_model", None)


def answer(*arguments):
    code, said = run("minimize", *arguments, "--json")
    assert code == 0, said
    return json.loads(said)


# Help


@pytest.mark.parametrize("name", [*COMMANDS, "data list", "data fetch", "data verify"])
def test_help_shows_an_example(name):
    code, said = run(*name.split(), "--help")
    assert code == 0
    assert f"Example: goldstein {name}" in said


def test_the_list_of_commands_and_the_version():
    code, said = run("--help")
    assert code == 0
    for name in [*COMMANDS, "data"]:
        assert name in said
    assert "--install-completion" in said
    assert run("--version") == (0, f"goldstein {gs.__version__}")


def test_completion_knows_the_commands(here):
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=here,
        env={**os.environ, "_GOLDSTEIN_COMPLETE": "complete_bash", "COMP_WORDS": "goldstein mini", "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
    )
    assert "minimize" in process.stdout


# minimize


def test_a_function_in_the_current_folder_is_minimised(here):
    process = start("minimize", "cli_model:absolute", "--x0", "0,0", "--max-evals", 500, "--seed", 0, folder=here)
    said, complaints = process.communicate(timeout=120)
    assert process.returncode == 0
    assert complaints == ""  # quiet in a pipe
    assert "\x1b" not in said
    assert "evaluations" in said
    assert "MAX_EVALS" in said


def test_the_answer_is_that_of_the_call(here):
    given = answer("cli_model:absolute", "--x0", "0,0.5", "--max-evals", "400", "--seed", "3")
    res = gs.minimize(lambda x: float(np.abs(x - 1).sum()), [0.0, 0.5], max_evals=400, rng=3)
    assert given["x"] == res.x.tolist()
    assert given["fun"] == res.fun
    assert given["status"] == "MAX_EVALS"


@pytest.mark.parametrize(
    ("function", "words", "same"),
    [
        ("seeded", ["--seeded"], lambda m: gs.Seeded(m.seeded)),
        ("oracle", [], lambda m: gs.Seeded(m.seeded)),
        ("component", ["--n", "9"], lambda m: gs.FiniteSum(m.component, 9)),
        ("rows", ["--vectorized"], lambda m: gs.Deterministic(m.rows, vectorized=True)),
    ],
)
def test_every_kind_of_function_can_be_named(here, function, words, same):
    given = answer(f"cli_model:{function}", "--x0", "0", "--dim", "2", "--max-evals", "300", "--seed", "0", *words)
    import cli_model

    res = gs.minimize(same(cli_model), np.zeros(2), max_evals=300, rng=0)
    assert given["x"] == res.x.tolist()


def test_settings_reach_the_run(here):
    words = ["--method", "gfm", "--option", "delta=0.1", "--option", "step_size=0.05", "--bounds", "-1:0.5,:0.25"]
    given = answer("cli_model:absolute", "--x0", "0,0", "--max-iter", "200", "--seed", "0", *words)
    method = gs.GFM(delta=0.1, step_size=0.05)
    bounds = [(-1, 0.5), (-np.inf, 0.25)]
    res = gs.minimize(lambda x: float(np.abs(x - 1).sum()), [0.0, 0.0], method, max_iter=200, rng=0, bounds=bounds)
    assert given["x"] == res.x.tolist()
    more = ["--target", "0.1", "--stationarity", "0.1,0.5", "--workers", "2", "--catch", "ValueError"]
    given = answer("cli_model:absolute", "--x0", "0,0", "--max-evals", "2000", "--seed", "0", *more)
    assert given["success"]
    assert given["stationarity"]["delta"] == 0.1


def test_a_start_comes_from_a_file(here):
    np.save("start.npy", [0.5, 2.0])
    (here / "start.txt").write_text("0.5\n2.0\n")
    (here / "start.csv").write_text("0.5,2.0\n")
    answers = [
        answer("cli_model:absolute", "--x0", name, "--max-evals", "100", "--seed", "0")["x"]
        for name in ("start.npy", "start.txt", "start.csv", "0.5,2.0")
    ]
    assert all(x == answers[0] for x in answers)


def test_a_run_leaves_a_journal_and_a_report_and_goes_on(here):
    pytest.importorskip("jinja2")
    method = ["--method", "gfm", "--option", "delta=0.1", "--option", "step_size=0.01"]
    words = ["cli_model:absolute", "--x0", "0,0", "--seed", "0", *method, "--journal", "run.journal"]
    code, said = run("minimize", *words, "--max-evals", "200", "--report", "run.html")
    assert code == 0
    assert "Report: run.html" in said
    page = (here / "run.html").read_text(encoding="utf-8")
    assert "goldstein resume run.journal --with cli_model:absolute" in page
    assert run("inspect", "run.journal", "--html", "seen.html")[0] == 0
    assert "The run in run.journal" in (here / "seen.html").read_text(encoding="utf-8")
    code, said = run("resume", "run.journal", "--with", "cli_model:absolute", "--max-evals", "400", "--json")
    assert code == 0
    assert 390 <= json.loads(said)["nfev"] <= 400
    assert answer(*words[:-1], "other.journal", "--max-evals", "400")["x"] == json.loads(said)["x"]


WRONG = [
    (["cli_model", "--x0", "0"], "takes module:function, such as my_model:loss; got 'cli_model'"),
    (["nowhere:f", "--x0", "0"], "There is no module 'nowhere' on the path or in the current folder."),
    (["cli_model:nothing", "--x0", "0"], "The module 'cli_model' has no 'nothing'."),
    (["cli_model:number", "--x0", "0"], "A function or an oracle is needed, got int."),
    (["broken:f", "--x0", "0"], "The module 'broken' cannot be imported: NameError: name 'oops' is not defined"),
    (["needy:f", "--x0", "0"], "needy needs no_such_package, which is not installed."),
    (["cli_model:absolute", "--x0", "a,b"], "--x0 takes numbers with commas between them, such as 0,0.5,-1"),
    (["cli_model:absolute", "--x0", "0,nan"], "x0 must be finite in every coordinate"),
    (["cli_model:absolute", "--x0", "cli_model.py"], "cli_model.py holds no vector of numbers."),
    (["cli_model:absolute", "--x0", "0,0", "--dim", "3"], "--x0 has 2 numbers and --dim is 3."),
    (["cli_model:absolute", "--x0", "0", "--bounds", "1"], "--bounds takes lower:upper, such as 0:1"),
    (["cli_model:absolute", "--x0", "0", "--bounds", "0:1,0:1"], "--bounds has 2 pairs for 1 variables."),
    (["cli_model:absolute", "--x0", "0", "--bounds", "2:1"], "Bounds are crossed"),
    (["cli_model:absolute", "--x0", "0", "--method", "walk"], "Unknown method 'walk'; known are"),
    (["cli_model:absolute", "--x0", "0", "--option", "delta"], "--option takes name=value, such as delta=0.1"),
    (["cli_model:absolute", "--x0", "0", "--method", "gfm", "--option", "a=1"], "gfm has no option 'a'"),
    (["cli_model:absolute", "--x0", "0", "--max-evals", "0"], "max_evals must be a whole number of at least 1"),
    (["cli_model:absolute", "--x0", "0", "--stationarity", "1"], "--stationarity takes two numbers"),
    (["cli_model:absolute", "--x0", "0", "--catch", "Oops"], "--catch takes an exception of Python"),
    (
        ["cli_model:absolute", "--x0", "0", "--report", "no/run.html"],
        "The report cannot be written: no/run.html",
    ),
    (["cli_model:absolute", "--x0", "0", "--report", "."], "The report cannot be written: . is a folder."),
    (["cli_model:oracle", "--x0", "0", "--seeded"], "An oracle says itself what it is"),
    (["cli_model:component", "--x0", "0", "--seeded", "--n", "3"], "--seeded and --n exclude each other"),
    (["cli_model:absolute"], "--x0"),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_a_mistake_is_answered_in_one_sentence(here, words, sentence):
    (here / "broken.py").write_text("oops\n")
    (here / "needy.py").write_text("import no_such_package\n")
    code, said = run("minimize", *words)
    assert code == 2
    assert sentence in said
    assert "Traceback" not in said


def test_what_the_function_raises_is_told_with_its_place(here):
    code, said = run("minimize", "cli_model:raising", "--x0", "0", "--max-evals", "50")
    assert code == 1
    assert said == "The function raised ZeroDivisionError: division by zero (cli_model.py, line 21)."
    code, said = run("minimize", "cli_model:raising", "--x0", "0", "--max-evals", "500", "--catch", "ZeroDivisionError")
    assert code == 3
    assert "FAILING" in said


def test_a_run_that_fails_has_a_code_of_its_own(here):
    code, said = run("minimize", "cli_model:failing", "--x0", "0,0", "--max-evals", "1000", "--json")
    assert code == 3
    assert json.loads(said)["status"] == "FAILING"
    assert json.loads(said)["fun"] is None


def interrupted(*words, folder, ready):
    """Return how a command ends that gets Ctrl-C once a file is there."""
    process = start(*words, folder=folder)
    deadline = time.monotonic() + 120
    while not (ready.exists() and ready.stat().st_size > 0):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said, complaints = process.communicate(timeout=120)
    return process.returncode, said, complaints


def test_ctrl_c_gives_the_run_so_far(here):
    words = ["minimize", "cli_model:waiting", "--x0", "0,0", "--max-evals", 100_000, "--journal", "run.journal"]
    code, said, complaints = interrupted(*words, "--json", folder=here, ready=here / "run.journal")
    assert code == 130
    assert json.loads(said)["status"] == "INTERRUPTED"
    assert complaints == ""


@pytest.mark.parametrize(
    ("words", "where", "name"),
    [
        (["plan", "--d", "5", "--L", "1", "--gap", "1", "--delta", "0.3", "--epsilon", "0.5"], gs.theory, "compare"),
        (["demo"], commands, "check_installed"),
        (["demo-attack"], commands, "check_installed"),
        (["inspect", "some.file"], journal, "inspect"),
        (["data", "list"], data, "_place"),
        (["data", "fetch", "a9a"], data.datasets, "fetch"),
        (["data", "verify", "a9a"], data.datasets, "local_path"),
    ],
)
def test_ctrl_c_ends_every_command_with_the_code_of_the_shell(here, monkeypatch, words, where, name):
    def stop(*_, **__):
        raise KeyboardInterrupt

    (here / "some.file").write_text("x")
    monkeypatch.setattr(where, name, stop)
    assert run(*words) == (130, "Interrupted.")


def test_ctrl_c_while_the_command_line_is_loaded_is_quiet(here):
    program = (
        "import sys, builtins\n"
        "import goldstein.cli\n"
        "real = builtins.__import__\n"
        "def stop(name, *rest):\n"
        "    if name == 'goldstein.cli.app': raise KeyboardInterrupt\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = stop\n"
        "goldstein.cli.main()\n"
    )
    process = start(folder=here, program=program)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 130


# attack


@pytest.fixture
def classifier(here):
    """An ONNX model of 6 × 6 images with three classes, and images of it."""
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    weights = onnx.numpy_helper.from_array(rng.normal(size=(36, 3)).astype(np.float32), "weights")
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Flatten", ["pixels"], ["flat"]),
            onnx.helper.make_node("MatMul", ["flat", "weights"], ["scores"]),
        ],
        "small",
        [onnx.helper.make_tensor_value_info("pixels", kind, ["n", 1, 6, 6])],
        [onnx.helper.make_tensor_value_info("scores", kind, ["n", 3])],
        [weights],
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), here / "model.onnx")
    images = rng.integers(0, 256, size=(5, 1, 6, 6)).astype(np.uint8)
    np.save(here / "images.npy", images)
    np.save(here / "labels.npy", (images.reshape(5, 36) / 255 @ onnx.numpy_helper.to_array(weights)).argmax(axis=1))
    return here


def test_images_in_an_array_are_attacked(classifier):
    words = ["attack", "model.onnx", "images.npy", "--labels", "labels.npy", "--radius", "0.5", "--out", "x.npy"]
    code, said = run(*words, "--json")
    assert code == 0
    told = json.loads(said)
    assert told["attacked"] == 5
    assert told["success"] >= 4
    x = np.load("x.npy")
    assert x.shape == (5, 1, 6, 6)
    assert np.abs(x - np.load("images.npy") / 255).max() <= 0.5 + 1e-6
    code, said = run(*words[:3], "--radius", "0.5", "--target", "1", "--method", "gfm", "--max-queries", "50")
    assert code == 0
    assert "won" in said


def test_pictures_in_folders_are_attacked_and_a_sheet_is_drawn(classifier):
    Image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")
    images = np.load("images.npy")
    for number, (image, label) in enumerate(zip(images, np.load("labels.npy"), strict=True)):
        (classifier / "pictures" / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0]).save(classifier / "pictures" / str(label) / f"{number}.png")
    words = ["attack", "model.onnx", "pictures", "--radius", "0.5", "--sheet", "sheet.png", "--json"]
    code, said = run(*words)
    assert code == 0
    assert json.loads(said)["misclassified"] == 0  # the folders name the classes
    assert json.loads(said)["images"] == 5
    assert (classifier / "sheet.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["cli_model.py", "images.npy"], "cli_model.py is no ONNX model that can be run"),
        (["model.onnx", "cli_model.py"], "cli_model.py is no .npy file of images."),
        (["model.onnx", "empty"], "There are no pictures in empty"),
        (["model.onnx", "nowhere.npy"], "does not exist"),
        (["model.onnx", "images.npy", "--labels", "cli_model.py"], "cli_model.py holds no whole numbers"),
        (["model.onnx", "images.npy", "--norm", "l1"], "norm must be one of linf, l2"),
        (["model.onnx", "images.npy", "--pixels", "0"], "--pixels takes two numbers"),
        (["model.onnx", "images.npy", "--scores", "logits"], "The session has no output 'logits'; it has scores."),
        (["model.onnx", "images.npy", "--method", "walk"], "Unknown method 'walk'"),
        (["model.onnx", "images.npy", "--sheet", "no/sheet.png"], "The contact sheet cannot be written"),
        (["model.onnx", "large.npy"], "The model raised"),
        (["model.onnx", "nothing.npy"], "nothing.npy is no .npy file of images."),
        (["model.onnx", "images.npy", "--labels", "nothing.npy"], "nothing.npy holds no whole numbers"),
        (["model.onnx", "wide.npy"], "wide.npy must hold whole numbers from 0 to 255, got 0 to 1000."),
        (
            ["model.onnx", "images.npy", "--pixels", "0,inf"],
            "--pixels must be finite for the whole numbers",
        ),
        (["model.onnx", "images.npy", "--sheet", "x.xyz"], "A contact sheet cannot be drawn as x.xyz"),
    ],
)
def test_what_cannot_be_attacked_is_answered_in_one_sentence(classifier, words, sentence):
    (classifier / "empty").mkdir()
    (classifier / "nothing.npy").touch()
    np.save("wide.npy", np.full((2, 1, 6, 6), [0, 0, 0, 0, 0, 1000]))
    np.save("large.npy", np.zeros((2, 1, 7, 7)))
    code, said = run("attack", *words)
    assert code == (1 if "raised" in sentence else 2)
    assert sentence in said
    assert "Traceback" not in said


@pytest.mark.parametrize("pixels", ["0,1", "0,255", "-1,1", "-0.1,0.1"])
def test_whole_numbers_are_stretched_to_the_range_of_pixels(classifier, pixels):
    Image = pytest.importorskip("PIL.Image")
    low, high = map(float, pixels.split(","))
    stored = np.load("images.npy")
    (classifier / "eight").mkdir()
    (classifier / "sixteen").mkdir()
    for number, image in enumerate(stored):
        Image.fromarray(image[0]).save(classifier / "eight" / f"{number}.png")
        Image.fromarray(image[0].astype(np.uint16) * 257).save(classifier / "sixteen" / f"{number}.png")
    for where in ("images.npy", "eight", "sixteen"):
        code, said = run("attack", "model.onnx", where, "--pixels", pixels, "--radius", 1e-6 * high, "--out", "x.npy")
        assert code == 0, said
        expected = low + stored / 255 * (high - low)
        np.testing.assert_allclose(np.load("x.npy"), expected, atol=1e-5 * (high - low))


def test_images_at_the_target_are_not_called_wrong_and_nothing_is_no_number(classifier):
    there = int((np.load("labels.npy") == 1).sum())
    code, said = run("attack", "model.onnx", "images.npy", "--target", 1, "--radius", 1e-6)
    assert code == 0
    assert f"5, 0 of them wrong before, {there} at the target" in said
    np.save("wrong.npy", (np.load("labels.npy") + 1) % 3)
    code, said = run("attack", "model.onnx", "images.npy", "--labels", "wrong.npy")
    assert code == 0
    assert "5, 5 of them wrong before" in said
    assert "0 of 0" in said
    assert "nan" not in said


def test_the_radius_is_that_of_the_call(classifier):
    from inspect import signature

    from goldstein.attack import attack
    from goldstein.cli.attack import attack_model

    assert signature(attack_model).parameters["radius"].default == signature(attack).parameters["radius"].default


def test_a_model_that_fails_on_every_image_has_a_code_of_its_own(classifier, monkeypatch):
    from goldstein.cli import attack

    monkeypatch.setattr(attack, "onnx_model", lambda session, **_: lambda x: np.full((len(x), 3), np.nan))
    code, said = run("attack", "model.onnx", "images.npy")
    assert code == 3
    assert "errors 5; the first:" in said


def test_ctrl_c_gives_the_attack_so_far(classifier, monkeypatch):
    from goldstein.cli import attack

    def stop(x):
        raise KeyboardInterrupt

    monkeypatch.setattr(attack, "onnx_model", lambda session, **_: stop)
    code, said = run("attack", "model.onnx", "images.npy", "--json")
    assert code == 130
    assert json.loads(said)["errors"] == 5


# Without the extras


@pytest.mark.parametrize(
    ("blocked", "words", "sentence"),
    [
        ("typer", ["--help"], "The command line needs typer and rich: pip install 'goldstein[cli]'."),
        ("rich", ["--help"], "The command line needs typer and rich: pip install 'goldstein[cli]'."),
        ("numba", ["demo"], "goldstein demo needs numba: pip install 'goldstein[compiled]'."),
        ("torch", ["demo-attack"], "goldstein demo-attack needs torch: pip install 'goldstein[torch]'."),
        (
            "jinja2",
            ["minimize", "cli_model:absolute", "--x0", "0", "--report", "run.html"],
            "A report needs jinja2: pip install 'goldstein[report]'.",
        ),
        ("jinja2", ["inspect", "x", "--html", "run.html"], "A report needs jinja2: pip install 'goldstein[report]'."),
        ("onnxruntime", ["attack", "x", "x"], "An ONNX model needs onnxruntime: pip install 'goldstein[onnx]'."),
    ],
)
def test_without_an_extra_a_command_names_it(here, blocked, words, sentence):
    (here / "x").write_text("")
    process = start(*words, folder=here, program=f"import sys; sys.modules[{blocked!r}] = None; {PROGRAM}")
    said, complaints = process.communicate(timeout=120)
    assert process.returncode == 2
    assert said == ""
    assert complaints == f"{sentence}\n"


def test_minimize_and_plan_need_nothing_but_the_command_line(here):
    others = ("numba", "sklearn", "matplotlib", "torch", "jinja2", "onnxruntime", "PIL", "ray", "distributed")
    block = f"import sys; sys.modules.update(dict.fromkeys({others[1:]}, None))"
    words = ["minimize", "cli_model:absolute", "--x0", "0,0", "--max-evals", "100", "--seed", "0"]
    process = start(*words, folder=here, program=f"{block}; {PROGRAM}")
    said, complaints = process.communicate(timeout=120)
    assert process.returncode == 0, complaints
    assert "f(x)" in said
