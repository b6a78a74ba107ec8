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
from goldstein.cli import journal
from goldstein.cli.app import COMMANDS, app
from goldstein.methods.registry import METHODS

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
calls = []

class CustomError(Exception):
    pass

def chatty(x):
    print("chatter")
    return absolute(x)

def late(x):
    calls.append(1)
    if len(calls) > 60:
        raise ZeroDivisionError("too late")
    return absolute(x)

def custom(x):
    calls.append(1)
    if len(calls) % 5 == 0:
        raise CustomError
    return absolute(x)

def leaving(x):
    import sys
    sys.exit(0)

def dying(x):
    import os
    os._exit(1)

def warning(x):
    import warnings
    warnings.warn("of the user's")
    return absolute(x)
"""
PROGRAM = "import sys; from goldstein.cli import main; sys.argv[0] = 'goldstein'; main()"


def run(*arguments):
    answer = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    if answer.exception is not None and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer.exit_code, " ".join(answer.output.split())


def start(*arguments, folder, program=PROGRAM, **settings):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **settings)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder outside the repo with a module in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cli_model.py").write_text(MODEL)
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("cli_model", None)
    yield tmp_path
    sys.modules.pop("cli_model", None)


def whole(*arguments, folder, **settings):
    """Return how a command ends, and what it said on stdout and on stderr."""
    command = [sys.executable, "-m", "goldstein", *map(str, arguments)]
    settings = {"stdout": subprocess.PIPE, **settings}
    done = subprocess.run(command, cwd=folder, stderr=subprocess.PIPE, timeout=120, **settings)
    return done.returncode, (done.stdout or b"").decode(), done.stderr.decode()


def answer(*arguments):
    code, said = run("minimize", *arguments, "--json")
    assert code == 0, said
    return json.loads(said)


# Help


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_an_example(name):
    code, said = run(*name.split(), "--help")
    assert code == 0
    assert f"Example: goldstein {name}" in said


def test_the_list_of_commands_and_the_version():
    code, said = run("--help")
    assert code == 0
    for name in COMMANDS:
        assert name in said
    assert "--install-completion" in said
    assert run("--version") == (0, f"goldstein {gs.__version__}")


@pytest.mark.parametrize(
    ("words", "count", "offered"),
    [
        ("goldstein mini", 1, ["minimize"]),
        ("goldstein minimize --method ws", 3, ["ws-gfm", "ws-gfm+"]),
    ],
)
def test_completion_knows_the_commands_and_the_names(here, words, count, offered):
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=here,
        env={**os.environ, "_GOLDSTEIN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(count)},
        capture_output=True,
        text=True,
    )
    assert process.stdout.split() == offered


def test_help_names_the_methods():
    said = run("minimize", "--help")[1]
    assert all(name in said for name in METHODS)


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
    (["cli_model:number", "--x0", "0"], "The first argument must be a function or an oracle, got int."),
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
    (
        ["cli_model:absolute", "--x0", "0", "--max-evals", "0"],
        "--max-evals must be a whole number of at least 1, got 0.",
    ),
    (["cli_model:absolute", "--x0", "0", "--stationarity", "1"], "--stationarity takes two numbers"),
    (["cli_model:absolute", "--x0", "0", "--catch", "Oops"], "--catch takes an exception of Python"),
    (
        ["cli_model:absolute", "--x0", "0", "--report", "no/run.html"],
        "The report cannot be written: no/run.html",
    ),
    (["cli_model:absolute", "--x0", "0", "--report", "."], "The report cannot be written: . is a folder."),
    (["cli_model:oracle", "--x0", "0", "--seeded"], "An oracle needs no options"),
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


@pytest.mark.parametrize("words", [["failing"], ["dying", "--workers", "2"], ["custom", "--catch", "Exception"]])
def test_no_success_is_told_of_a_run_without_any_value(here, words, monkeypatch):
    name, *more = words
    (here / "cli_model.py").write_text(MODEL.replace("% 5 == 0", "> 0"))
    code, said = run("minimize", f"cli_model:{name}", "--x0", "0,0", "--max-evals", "12", *more)
    assert code == 3
    assert "Every evaluation failed" in said or "FAILING" in said


def test_an_answer_without_a_value_is_no_success(here):
    (here / "cli_model.py").write_text(
        "calls = []\ndef f(x):\n    calls.append(1)\n    return sum(abs(x)) if len(calls) < 31 else float('nan')\n"
    )
    code, said = run("minimize", "cli_model:f", "--x0", "1,1", "--max-evals", "40", "--method", "gfm", "--seed", "0")
    assert code == 3
    assert said.endswith("The evaluations at the answer failed, so its value is not known.")


@pytest.mark.parametrize("option", ["--report", "--out"])
def test_nothing_else_is_written_over(here, option):
    pytest.importorskip("jinja2")
    name = {"--report": "run.html", "--out": "run.txt"}[option]
    words = ["minimize", "cli_model:absolute", "--x0", "0,0", "--max-evals", "50", "--seed", "0"]
    code, said = run(*words, option, name, "--journal", name)
    assert code == 2
    assert f"{name} is the journal; choose another name." in said
    assert not (here / name).exists()
    assert run(*words, "--journal", name)[0] == 0
    before = (here / name).read_bytes()
    (here / "link").symlink_to(name)
    code, said = run("resume", name, "--with", "cli_model:absolute", option, name)
    assert (code, "is the journal" in said) == (2, True)
    assert run("inspect", "link", "--html", name)[0] == 2
    assert (here / name).read_bytes() == before
    (here / name).write_text("notes of mine")
    code, said = run(*words, option, name)
    assert code == 2
    assert f"would replace {name}, which is something else" in said
    assert (here / name).read_text() == "notes of mine"
    (here / name).write_text("")
    assert run(*words, option, name)[0] == 0
    assert run(*words, option, name)[0] == 0  # one of ours may be replaced
    assert run(*words, "--report", "cli_model.py")[0] == 2
    assert (here / "cli_model.py").read_text() == MODEL


def test_the_answer_goes_to_a_file_as_it_is(here):
    words = ["cli_model:absolute", "--x0", "0", "--dim", "9", "--max-evals", "200", "--seed", "0"]
    for name in ("x.npy", "x.txt"):
        x = answer(*words, "--out", name)["x"]
        assert (np.load(name) if name == "x.npy" else np.loadtxt(name)).tolist() == x
        assert answer("cli_model:absolute", "--x0", name, "--max-evals", "20")["x"]
    said = run("minimize", *words)[1]
    assert "[" + " ".join(f"{entry:.6g}" for entry in x) + "]" in said
    assert "(80 entries)" in run("minimize", *words[:4], "80", "--max-evals", "50")[1]
    code, said = run("minimize", *words, "--out", "x.csv")
    assert (code, said) == (2, "--out takes a file that ends in .npy or .txt; got x.csv.")


def test_sys_exit_is_no_success(here):
    words = ["--x0", "0,0", "--max-evals", "50"]
    assert run("minimize", "cli_model:leaving", *words) == (1, "The function called sys.exit(0).")
    said = run("minimize", "cli_model:leaving", *words, "--journal", "run.journal")[1]
    assert said.endswith("To continue: goldstein resume run.journal --with cli_model:leaving")
    (here / "script.py").write_text("import sys\nsys.exit()\n")
    code, said = run("minimize", "script:f", *words)
    assert (code, said) == (1, "The module 'script' called sys.exit() when it was imported.")


def test_the_report_is_there_whatever_becomes_of_stdout(here):
    pytest.importorskip("jinja2")
    words = ["minimize", "cli_model:absolute", "--x0", "0,0", "--max-evals", "100", "--report", "run.html"]
    reader, writer = os.pipe()
    os.close(reader)
    assert whole(*words, folder=here, stdout=writer) == (141, "", "")
    os.close(writer)
    assert (here / "run.html").stat().st_size > 1000
    (here / "run.html").unlink()
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            code, _, complaints = whole(*words, folder=here, stdout=full)
        assert code == 2
        assert "No space left" in complaints
        assert "Traceback" not in complaints
        assert (here / "run.html").stat().st_size > 1000


def test_a_report_that_cannot_be_written_does_not_cost_the_result(here, monkeypatch):
    def fail(*_):
        raise OSError("The disk is full.")

    pytest.importorskip("jinja2")
    monkeypatch.setattr(gs.Result, "report", fail)
    code, said = run("minimize", "cli_model:absolute", "--x0", "0,0", "--max-evals", "100", "--report", "run.html")
    assert code == 2
    assert "MAX_EVALS" in said
    assert said.endswith("The disk is full.")


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_letters_that_stdout_has_not_got_do_not_cost_the_result(here, more):
    words = ["minimize", "cli_model:seeded", "--seeded", "--x0", "0,0", "--max-evals", "200", *more]
    code, said, complaints = whole(*words, folder=here, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (code, complaints) == (0, "")
    assert said.isascii()
    if more:
        assert "·" in json.loads(said)["message"] or "?" not in json.loads(said)["message"]


def test_what_was_found_before_the_function_raised_is_shown(here):
    pytest.importorskip("jinja2")
    words = ["minimize", "cli_model:late", "--x0", "0,0", "--max-evals", "500", "--seed", "0"]
    code, said = run(*words, "--report", "run.html", "--out", "x.npy", "--journal", "run.journal")
    assert code == 1
    assert "f(x)" in said
    assert "ended RAISED, an exception ended the run; this is the result so far" in said
    assert "To continue: goldstein resume run.journal --with cli_model:late" in said
    line = MODEL[: MODEL.index('raise ZeroDivisionError("too late")')].count("\n") + 1
    assert said.endswith(f"The function raised ZeroDivisionError: too late (cli_model.py, line {line}).")
    assert "This is the run so far." in (here / "run.html").read_text(encoding="utf-8")
    assert np.load("x.npy").shape == (2,)
    sys.modules.pop("cli_model")
    code, said, complaints = whole(*words, "--json", folder=here)
    assert code == 1
    assert json.loads(said)["status"] == "RAISED"
    assert json.loads(said)["x"] == np.load("x.npy").tolist()
    assert complaints.startswith("The function raised")


def test_json_is_all_that_is_on_stdout(here):
    (here / "cli_model.py").write_text(MODEL + 'print("hello")\nimport os\nos.system("echo shell")\n')
    words = ["minimize", "cli_model:chatty", "--x0", "0,0", "--max-evals", "50", "--journal", "run.journal", "--json"]
    for more in ([], ["--workers", "2", "--journal", "other.journal"]):
        code, said, complaints = whole(*words, *more, folder=here)
        assert code == 0
        assert json.loads(said)["nfev"] <= 50
        assert {"hello", "shell", "chatter"} <= set(complaints.split())
    code, said, _ = whole("resume", "run.journal", "--with", "cli_model:chatty", "--json", folder=here)
    assert json.loads(said)["nfev"] <= 50
    assert "chatter" in whole(*words[:-3], folder=here)[1]


def test_exceptions_of_ones_own_can_be_caught(here):
    given = answer("cli_model:custom", "--x0", "0,0", "--max-evals", "50", "--catch", "cli_model:CustomError")
    assert given["nfail"] > 5
    code, said = run("minimize", "cli_model:custom", "--x0", "0", "--catch", "cli_model:absolute")
    assert code == 2
    assert "--catch takes an exception of Python, such as ValueError, or module:name" in said


def test_a_function_is_found_in_a_file(here):
    (here / "folder").mkdir()
    (here / "folder" / "beside.py").write_text("SHIFT = 1\n")
    (here / "folder" / "inner_model.py").write_text(
        "import beside\ndef f(x): return float(abs(x - beside.SHIFT).sum())\n"
    )
    (here / "random.py").write_text("def f(x): return float(abs(x - 1).sum())\n")
    words = ["--x0", "0,0", "--max-evals", "100", "--seed", "0"]
    same = answer("cli_model:absolute", *words)["x"]
    for name in ("cli_model.py:absolute", "./cli_model:absolute", f"{here}/cli_model.py:absolute", "./random.py:f"):
        assert answer(name, *words)["x"] == same
    assert answer("folder/inner_model.py:f", *words, "--workers", "2")["x"] == same
    import random

    assert hasattr(random, "Random")
    code, said = run("minimize", "random:f", *words)
    assert code == 2
    assert f"The module 'random' has no 'f'. It is {random.__file__}, and not the file in this folder" in said
    assert "name that as random.py:…" in said
    code, said = run("minimize", "folder/none.py:f", *words)
    assert (code, f"There is no file {here}/folder/none.py." in said) == (2, True)


def test_a_place_is_named_once_and_only_if_it_is_the_users(here):
    (here / "syn.py").write_text("def f(x:\n")
    said = run("minimize", "syn:f", "--x0", "0")[1]
    assert said.count("line 1") == 1
    assert "frozen" not in said
    code, said = run("minimize", "cli_model:seeded", "--x0", "0")
    assert code == 2
    assert said == "seeded(x, seed) takes more than the point: use --seeded for F(x, seed), or --n for F(x, i)."
    words = ["--x0", "0", "--max-evals", "20"]
    assert (
        "UserWarning: of the user's (cli_model.py, line"
        in whole("minimize", "cli_model:warning", *words, folder=here)[2]
    )
    (here / "cli_model.py").write_text("def f(x): return 1e6 + 1e-12 * float(x[0])\n")
    words = ["cli_model:f", "--x0", "1e9", "--max-evals", "200", "--method", "gfm", "--option", "delta=1e-9"]
    complaints = whole("minimize", *words, folder=here)[2]
    assert "Warning: " in complaints
    assert "typer" not in complaints


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--seed", "-1"], "'--seed'"),
        (["--target", "nan"], "--target takes a number, got nan."),
        (["--max-time", "-1"], "--max-time must be"),
        (["--dim", "100000000000000"], "There is not enough memory"),
    ],
)
def test_options_are_named_as_they_are_written(here, words, sentence):
    code, said = run("minimize", "cli_model:absolute", "--x0", "0", *words)
    assert code == (1 if "memory" in sentence else 2)
    assert sentence in said


def test_a_damaged_journal_has_one_code(here):
    (here / "run.journal").write_text("something else altogether")
    code, said = run("minimize", "cli_model:absolute", "--x0", "0", "--journal", "run.journal")
    assert (code, said) == (1, "run.journal is not a goldstein journal: choose another file.")
    assert run("inspect", "run.journal")[0] == run("resume", "run.journal", "--with", "cli_model:absolute")[0] == 1


def interrupted(*words, folder, ready, number=signal.SIGINT, least=1, **settings):
    """Return how a command ends that gets Ctrl-C, or another signal, once a file is there."""
    process = start(*words, folder=folder, **settings)
    deadline = time.monotonic() + 120
    while not (ready.exists() and ready.stat().st_size >= least):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    said, complaints = process.communicate(timeout=120)
    return process.returncode, said, complaints


def test_ctrl_c_gives_the_run_so_far(here):
    words = ["minimize", "cli_model:waiting", "--x0", "0,0", "--max-evals", 100_000, "--journal", "run.journal"]
    code, said, complaints = interrupted(*words, "--json", folder=here, ready=here / "run.journal", least=4000)
    assert code == 130
    assert json.loads(said)["status"] == "INTERRUPTED"
    assert complaints == ""


def ignoring_ctrl_c():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a script does for what runs in its background


@pytest.mark.parametrize("settings", [{}, {"preexec_fn": ignoring_ctrl_c}], ids=["alone", "in a script"])
@pytest.mark.parametrize("more", [[], ["--workers", "2"]], ids=["", "workers"])
def test_a_run_that_is_terminated_leaves_what_it_has(here, settings, more):
    pytest.importorskip("jinja2")
    words = ["minimize", "cli_model:waiting", "--x0", "0,0", "--max-evals", 100_000, "--journal", "a run", *more]
    words += ["--report", "run.html"]
    settings |= {"ready": here / "a run", "number": signal.SIGTERM, "least": 4000}
    code, said, complaints = interrupted(*words, folder=here, **settings)
    assert (code, complaints) == (143, "")
    assert "INTERRUPTED" in said
    assert "To continue: goldstein resume 'a run' --with cli_model:waiting" in " ".join(said.split())
    assert (here / "run.html").exists()
    assert run("resume", "a run", "--with", "cli_model:absolute", "--max-evals", "100000", "--max-time", "0.5")[0] == 0


def test_a_run_whose_time_is_over_says_how_it_goes_on(here):
    words = ["minimize", "cli_model:waiting", "--x0", "0,0", "--max-time", "0.3"]
    assert "goes on" not in run(*words)[1]
    assert run(*words, "--journal", "run.journal")[1].endswith(
        "To continue: goldstein resume run.journal --with cli_model:waiting"
    )


@pytest.mark.parametrize(
    ("words", "where", "name"),
    [
        (["plan", "--d", "5", "--L", "1", "--gap", "1", "--delta", "0.3", "--epsilon", "0.5"], gs.theory, "compare"),
        (["demo"], commands, "check_installed"),
        (["demo-attack"], commands, "check_installed"),
        (["inspect", "some.file"], journal, "inspect"),
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
        (["cli_model.py", "images.npy"], "cli_model.py cannot be run as an ONNX model"),
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
