"""The command line: what it prints and with which code it ends."""

import json
import sys

import pytest

import goldstein as gs

pytest.importorskip("typer")

from typer.testing import CliRunner

from goldstein import cli
from goldstein.cli.app import app


def run(*arguments, columns=200):
    answer = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": str(columns)})
    if answer.exception is not None and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer.exit_code, " ".join(answer.output.split())


def test_plan_without_a_method_compares_them_all():
    goal = {"d": 10, "L": 1, "gap": 1, "delta": 0.5, "epsilon": 0.3}
    code, said = run("plan", *(word for name, value in goal.items() for word in (f"--{name}", value)))
    assert code == 0
    assert said.split() == str(gs.theory.compare(**goal)).split()
    assert "cheapest from values" in said


GOAL = ["--d", "10", "--L", "1", "--gap", "1", "--delta", "0.5", "--epsilon", "0.3"]


def test_plans_fit_a_narrow_terminal():
    answer = CliRunner().invoke(app, ["plan", *GOAL], env={"COLUMNS": "80"})
    assert answer.exit_code == 0
    lines = answer.output.splitlines()
    assert max(map(len, lines)) <= 80
    comparison = gs.theory.compare(d=10, L=1, gap=1, delta=0.5, epsilon=0.3)
    for row in comparison:
        (line,) = [line for line in lines if line.startswith(f"{row.method} ") and row.cost in line]
        assert f"{line[-1]}: {row.guarantee}" in lines
    assert f"cheapest: {comparison.rows[0].method}" in lines
    printed = ["plan", "gfm+", *GOAL, "--parameters", "printed"]
    assert max(map(len, CliRunner().invoke(app, printed, env={"COLUMNS": "200"}).output.splitlines())) > 80
    answer = CliRunner().invoke(app, printed, env={"COLUMNS": "80"})
    assert answer.exit_code == 0
    assert max(map(len, answer.output.splitlines())) <= 80


def test_plans_are_printed_as_json():
    told = json.loads(run("plan", *GOAL, "--json")[1])
    rows = list(gs.theory.compare(d=10, L=1, gap=1, delta=0.5, epsilon=0.3))
    assert [row["method"] for row in told["rows"]] == [row.method for row in rows]
    assert [row["evaluations"] for row in told["rows"]] == [row.plan.evaluations for row in rows]
    told = json.loads(run("plan", "gfm", *GOAL, "--json")[1])
    plan = gs.theory.plan("gfm", d=10, L=1, gap=1, delta=0.5, epsilon=0.3)
    assert (told["iterations"], told["parameters"]["step_size"]) == (plan.iterations, plan.parameters["step_size"])


def test_h_is_help():
    for words in ([], ["minimize"]):
        assert run(*words, "-h") == run(*words, "--help")


def test_printed_parameters_need_a_method():
    code, said = run(
        "plan", "--d", 5, "--L", 1, "--gap", 1, "--delta", 0.3, "--epsilon", 0.5, "--parameters", "printed"
    )
    assert code == 2
    assert "--parameters printed is for one method" in " ".join(said.split())


def test_plan_prints_what_the_theorem_gives():
    code, said = run("plan", "gfm", "--d", 5, "--L", 1, "--gap", 1, "--delta", 0.3, "--epsilon", 0.5)
    assert code == 0
    assert "gfm" in said
    code, said = run("plan", "gfm", "--d", 5, "--L", 1, "--delta", 0.3, "--epsilon", 0.5)
    assert code == 2
    assert "gap" in said


def test_the_demo_leaves_numbers_and_a_figure(tmp_path):
    for needed in ("numba", "sklearn", "matplotlib"):
        pytest.importorskip(needed)
    code, said = run("demo", "--out", tmp_path, "--max-evals", 2000, "--seeds", 2)
    assert code == 0
    assert "GFM+" in said
    assert (tmp_path / "demo.png").stat().st_size > 1000
    assert len(json.loads((tmp_path / "demo.json").read_text())["rows"]) == 5


def test_the_tables_of_the_demo_fit_eighty_columns(capsys):
    from rich.console import Console

    from goldstein import demo

    pair = [0.1234, 0.0123]
    row = {"loss": dict.fromkeys(map("{:g}".format, demo.SHARES), pair), "final": pair, "accuracy": 0.98}
    rows = [
        {"method": name, "squared_norm": 0.01, "squared_norm_interval": [0.0, 0.02], **row} for name in demo.METHODS
    ]
    for columns, wide in ((80, False), (demo.WIDE, True)):
        for table in demo.svm_tables(rows, 200_000, wide=wide):
            Console(width=columns).print(table)
        said = capsys.readouterr().out
        assert "…" not in said
        assert max(map(len, said.splitlines())) <= columns
        assert said.count("WS-GFM+") == (1 if wide else 2)
        for words in ("0.1234 ± 0.0123", "98.0%", "0.100 [0.000, 0.141]", "answer after", "200,000"):
            assert words in said


@pytest.mark.parametrize("name", ["demo", "demo-attack"])
def test_a_demo_looks_for_room_before_it_runs(name, tmp_path, monkeypatch):
    monkeypatch.setattr("goldstein.cli.app.check_installed", lambda *_: None)
    for function in ("run_svm", "run_attack"):
        monkeypatch.setattr(f"goldstein.demo.{function}", lambda *_, **__: pytest.fail("it runs"))
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "deeper"):
        code, said = run(name, "--out", out)
        assert code == 2
        assert said == f"Cannot create {out}: {tmp_path / 'file'} is a file."


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_the_command_says_which(missing, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "The command line needs typer and rich: pip install 'goldstein[cli]'.\n"


def test_a_demo_prescribes_only_what_it_needs_and_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    said = "goldstein demo needs sklearn: pip install 'goldstein[sklearn]'."
    assert run("demo", "--out", tmp_path) == (2, said)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = "goldstein demo-attack needs sklearn and matplotlib: pip install 'goldstein[sklearn,plot]'."
    assert run("demo-attack", "--out", tmp_path) == (2, said)
