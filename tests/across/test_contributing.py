"""What the pages for contributors say is so."""

import re
from pathlib import Path

import pytest

import goldstein as gs

REPOSITORY = Path(__file__).parents[2]
ROOT = Path(gs.__file__).parent
ROOMS = sorted(
    f"{path.name}/" if path.is_dir() else path.name
    for path in ROOT.iterdir()
    if (path / "__init__.py").exists() or (path.suffix == ".py" and path.name != "__init__.py")
)


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_in_the_table_of_rooms(room):
    page = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`[^|]+) \|", page, re.MULTILINE)
    listed = [name for cell in cells for name in re.findall("`(.+?)`", cell)]
    assert listed.count(room) == 1


def test_the_settings_that_the_method_of_the_page_guesses_are_plain_numbers():
    page = (REPOSITORY / "docs" / "add-a-method.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {"__name__": __name__}
    try:
        exec(program.partition("runs = ")[0], names)  # many runs are for a program in a file of its own
    finally:
        gs.methods.METHODS.pop("heavy-ball", None)
    assert re.search(
        r"probe evaluations: HeavyBall\(delta=[\d.e-]+, step_size=[\d.e-]+, beta=0.9\)", names["res"].message
    )
