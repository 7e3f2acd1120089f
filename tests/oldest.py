"""Prints the oldest version that pyproject.toml allows of everything that it names, as constraints for pip."""

import re
import tomllib
from pathlib import Path


def constraints(text: str) -> list[str]:
    """From "name[extra]>=1.2" to "name==1.2", of all requirements of a pyproject.toml."""
    content = tomllib.loads(text)
    project = content["project"]
    groups = [content["build-system"]["requires"], project["dependencies"], *project["optional-dependencies"].values()]
    found = []
    for requirement in (requirement for group in groups for requirement in group):
        name, oldest = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?(?:>=([\d.]+))?", requirement).groups()
        if name != project["name"]:
            if oldest is None:
                raise ValueError(f"pyproject.toml does not say which {name} is the oldest that works")
            found.append(f"{name}=={oldest}")
    return sorted(found)


if __name__ == "__main__":
    print(*constraints((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8")), sep="\n")
