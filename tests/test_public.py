"""The public surface: what is named is there, and costs nothing until it is asked for."""

import subprocess
import sys

import pytest

import fanbayes


def test_every_public_name_is_there():
    for name in fanbayes.__all__:
        assert getattr(fanbayes, name) is not None
    assert set(fanbayes.__all__) <= set(dir(fanbayes))


def test_modules_can_be_imported_from():
    from fanbayes.datasets import load_suite
    from fanbayes.metrics import expected_calibration_error
    from fanbayes.significance import mcnemar

    assert fanbayes.datasets.load_suite is load_suite
    assert fanbayes.metrics.expected_calibration_error is expected_calibration_error
    assert fanbayes.significance.mcnemar is mcnemar


def test_no_other_name():
    with pytest.raises(AttributeError, match="no attribute 'FunClassifier'"):
        _ = fanbayes.FunClassifier


def test_import_is_light():
    code = "import sys, fanbayes; print(sorted({'numpy', 'sklearn', 'pandas', 'scipy', 'rich'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_version_is_the_packages():
    from importlib.metadata import version

    assert version("fanbayes") == fanbayes.__version__
