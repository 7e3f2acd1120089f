"""What is handed out: the source archive, one version, files for the services that build and release."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

import fanbayes

ROOT = Path(__file__).parent.parent
TRACKED = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
FILES = [ROOT / name for name in TRACKED.split("\0") if name]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The source archive as the build backend makes it, file by file."""
    folder = tmp_path_factory.mktemp("dist")
    build = f"import scikit_build_core.build as backend; backend.build_sdist({os.fspath(folder)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.tar.gz")
    with tarfile.open(path) as tar:
        return {
            member.name.partition("/")[2]: tar.extractfile(member).read()
            for member in tar.getmembers()
            if member.isfile()
        }


def test_the_source_archive_has_what_builds_and_no_results(archive):
    built_from = [path.relative_to(ROOT).as_posix() for path in FILES if path.is_relative_to(ROOT / "src")]
    assert {*built_from, "CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE"} <= archive.keys()
    left_out = ("benchmarks/", "docs/results/", "fuzz/", "tests/", ".")
    assert [name for name in archive if name.startswith(left_out)] == []
    assert [name for name in archive if name.endswith((".so", ".whl", ".pyc"))] == []


def test_the_version_is_written_once(archive):
    assert f"\nVersion: {fanbayes.__version__}\n" in archive["PKG-INFO"].decode()
    assert "version" not in PYPROJECT["project"]
    written = re.compile(rf"""^\W*(__version__|version)\W*[:=]\W*{re.escape(fanbayes.__version__)}\b""", re.M)
    places = [
        path for path in FILES if path.suffix in {".py", ".toml", ".txt", ".yml", ".yaml"} or path.name == "Makefile"
    ]
    found = [path.relative_to(ROOT).as_posix() for path in places if written.search(path.read_text("utf-8"))]
    assert found == ["src/fanbayes/__init__.py"]


def test_the_conda_recipe_asks_for_what_the_library_asks_for():
    recipe = yaml.safe_load((ROOT / "release" / "recipe.yaml").read_text("utf-8"))
    wanted = [*PYPROJECT["project"]["dependencies"], f"python{PYPROJECT['project']['requires-python']}"]
    assert sorted(line.replace(" ", "") for line in recipe["requirements"]["run"]) == sorted(wanted)
    host = {line.replace(" ", "") for line in recipe["requirements"]["host"]}
    assert set(PYPROJECT["build-system"]["requires"]) <= host


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.suffix in {".yml", ".yaml"}],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_yaml_can_be_read(path):
    content = yaml.safe_load(path.read_text("utf-8"))
    assert isinstance(content, dict)
    for job in content.get("jobs", {}).values():  # of a workflow
        assert ("uses" in job) != ("steps" in job)
        assert all(("uses" in step) != ("run" in step) for step in job.get("steps", []))


def test_workflows_run_what_the_project_has():
    """Commands of the Makefile and paths that workflows name."""
    text = "".join(path.read_text("utf-8") for path in FILES if path.is_relative_to(ROOT / ".github" / "workflows"))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    named = set(re.findall(r"\bmake ([a-z-]+)", text))
    assert named
    assert named <= targets
    assert "run: .ci/run" in text
    smoke = PYPROJECT["tool"]["cibuildwheel"]["test-command"]
    for place in re.findall(r"\{project\}/(\S+)", smoke):
        assert (ROOT / place).exists()


def test_no_registry_is_named():
    """Where packages come from is a matter of the machine that installs them."""
    hosts = ("pypi" + ".org", "python" + "hosted.org", "anaconda" + ".org", "npm" + "js.org", "npm" + "js.com")
    found = [f"{path.name}: {host}" for path in FILES for host in hosts if host.encode() in path.read_bytes()]
    assert found == []
