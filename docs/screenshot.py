"""Takes the picture of a model's page that the guide shows, by day and by night; needs Chromium.

    python docs/screenshot.py

A browser draws that page, so this picture is no part of what `make docs-output` writes anew.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from PIL import Image

import fanbayes

DOCS = Path(__file__).parent
SIZE = (820, 1000)
QUIET = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")


def main() -> None:
    """Write docs/assets/page-light.png and page-dark.png."""
    patients = pd.read_csv(DOCS / "data" / "patients.csv", index_col="id")
    train, test = patients[::2], patients[1::2]
    clf = fanbayes.FANClassifier(n_components=2, random_state=0).fit(train.drop(columns="outcome"), train["outcome"])
    for scheme, name in enumerate(("dark", "light")):  # as Chromium counts them
        with TemporaryDirectory() as folder:
            page, picture = Path(folder, "page.html"), Path(folder, "page.png")
            fanbayes.report(clf, test.drop(columns="outcome"), test["outcome"], title="Patients").save(page)
            where = (f"--user-data-dir={folder}/profile", f"--screenshot={picture}", f"file://{page}")
            looks = (f"--blink-settings=preferredColorScheme={scheme}", f"--window-size={SIZE[0]},{SIZE[1]}")
            browser = ("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--hide-scrollbars")
            subprocess.run([*browser, *QUIET, *looks, *where], check=True, capture_output=True, timeout=60)
            Image.open(picture).convert("P", palette=Image.Palette.ADAPTIVE, colors=64).save(
                DOCS / "assets" / f"page-{name}.png", optimize=True
            )


if __name__ == "__main__":
    main()
