"""Every example of the guide and the README runs, in the order in which it is read."""

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DATA = ROOT / "docs" / "data"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAM = shutil.which("fanbayes", path=sysconfig.get_path("scripts")) or "fanbayes"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page, tmp_path, monkeypatch):
    """One folder and one namespace for each page; the README is read from the root of the project."""
    data = tmp_path / "docs" / "data" if page.parent == ROOT else tmp_path
    shutil.copytree(DATA, data, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    namespace: dict[str, object] = {"__name__": page.stem}
    for language, text in BLOCK.findall(page.read_text("utf-8")):
        if language == "python":
            exec(compile(text, f"{page.name}", "exec"), namespace)
        elif language == "console":
            check_console(text)


def check_console(text):
    """Run the commands of a block; what is shown below each must be what it prints, but for numbers."""
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
        program, *arguments = shlex.split(command)
        assert program == "fanbayes"
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, encoding="utf-8", env=os.environ, timeout=120)
        assert done.returncode == 0, (command, done.stderr)
        parts = re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)
        pattern = r"(?:.*\n)*?".join(re.escape(skeleton(part)) for part in parts)
        if shown.strip():
            assert re.match(pattern, skeleton(done.stdout)), (command, done.stdout)


def skeleton(text):
    """Text without what differs between machines: digits, lengths of bars and runs of spaces."""
    return re.sub(r" +", " ", re.sub(r"[\d.]+", "0", re.sub(r"█+", "█", text)))


def test_the_reference_covers_every_command_and_public_name():
    import fanbayes

    api = (ROOT / "docs" / "api.md").read_text("utf-8")
    for name in fanbayes.__all__:
        assert f"fanbayes.{name}" in api, name


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), (page.name, target)
