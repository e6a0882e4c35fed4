"""Packages whose names are imported when they are first used."""

import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

PACKAGES = ["lake", "logs", "quota", "settings", "wire"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_found_and_none_is_hidden_by_a_module_of_its_name(package):
    """A module of the package that is imported becomes an attribute, before the names are asked."""
    code = f"""
import importlib, pkgutil, types
package = importlib.import_module("headrace.{package}")
for found in pkgutil.iter_modules(package.__path__):
    importlib.import_module(package.__name__ + "." + found.name)
for name in package.__all__:
    assert not isinstance(getattr(package, name), types.ModuleType), name
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("package", PACKAGES)
def test_another_name_is_no_attribute(package):
    module = import_module(f"headrace.{package}")
    assert isinstance(module, ModuleType)
    with pytest.raises(AttributeError, match=r"headrace\..* has no attribute 'nothing'"):
        module.nothing  # noqa: B018 - that it raises is the test
