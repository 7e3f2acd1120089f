"""Inference in JavaScript: the files beside this one, as one script."""

from __future__ import annotations

from importlib.resources import files

# In their order: what a file needs stands before it.
_FILES = (
    "arrays.js",
    "views.js",
    "normals.js",
    "network.js",
    "forest.js",
    "contributions.js",
    "average.js",
    "information.js",
    "model.js",
)


def model_javascript() -> str:
    """The text of a script that defines `fanbayes`; what it offers is told at the top of `model.js`."""
    parts = [(files(__package__) / name).read_text(encoding="utf-8") for name in _FILES]
    return '"use strict";\nconst fanbayes = (() => {\n' + "\n".join(parts) + "\nreturn { load };\n})();\n"
