"""Settings from the environment."""

from pathlib import Path

import pytest

from headrace.errors import ConfigurationError
from headrace.settings import Settings, load_settings


def test_an_empty_variable_is_as_good_as_unset(monkeypatch):
    for name in Settings.model_fields:
        monkeypatch.delenv(f"HEADRACE_{name.upper()}", raising=False)
    unset = load_settings()
    for name in Settings.model_fields:
        monkeypatch.setenv(f"HEADRACE_{name.upper()}", "")
    assert load_settings() == unset
    assert unset.home.is_absolute()


def test_the_state_folder_is_one_folder_wherever_a_process_works(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HEADRACE_HOME", "~/state")
    assert load_settings().home == tmp_path / "state"
    monkeypatch.setenv("HEADRACE_HOME", "state")
    assert load_settings().home == Path.cwd() / "state"


@pytest.mark.parametrize("name", ["HEADRACE_LEASE_TTL_S", "HEADRACE_BREAKER_COOLDOWN_S"])
@pytest.mark.parametrize("value", ["inf", "nan", "0", "-1", "1e300", "soon"])
def test_a_length_of_time_is_a_length_that_can_pass(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=name):
        load_settings()
