"""Settings from the environment and from files."""

from pathlib import Path

import pytest

from headrace.errors import ConfigurationError
from headrace.settings import Settings, load_settings
from headrace.settings.files import FILE, peek, read_files
from headrace.settings.model import Origin, origin_of, variable_of


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


@pytest.fixture
def files(monkeypatch, tmp_path):
    """The folder of a project, and that of the user's settings; nothing is set."""
    for name in Settings.model_fields:
        monkeypatch.delenv(variable_of(name), raising=False)
    for name in ("project", "config/headrace"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project" / FILE, tmp_path / "config/headrace" / FILE


def test_the_environment_goes_before_the_folder_that_before_the_user(monkeypatch, files):
    of_folder, of_user = files
    of_user.write_text('lake = "users"\nrate = "3/s"\nsot = "theirs"\nlease_ttl_s = 5\n')
    of_folder.write_text('# ours\nlake = "folders"\nrate = "2/s"\nsot = ""\n')
    monkeypatch.setenv("HEADRACE_RATE", "1/s")
    found = load_settings()
    assert (found.rate, found.lake, found.sot) == ("1/s", "folders", "theirs")
    assert (found.lease_ttl_s, found.looker_rate) == (5, "10/s,100/m")
    read = read_files(Settings.model_fields)
    assert [origin_of(name, read) for name in ("rate", "lake", "sot", "looker_rate")] == [
        Origin("environment", "HEADRACE_RATE"),
        Origin("file", f"{of_folder}:2"),
        Origin("file", f"{of_user}:3"),
        Origin("default"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'rate = "1/s"\n\nlak = "x"\n', "'lak' in line 3 (meant: lake?)"),
        (b"[s3]\nkms = 1\n", "'s3' in line 1"),
        (b'lake = "x"\nHEADRACE_RATE = "1/s"\n', "'HEADRACE_RATE' in line 2 (meant: rate?)"),
        (b"lake = \n", "is not TOML: Invalid value (at line 1, column 8)"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        (b"\nlease_ttl_s = -1\n", ":2: lease_ttl_s = -1 cannot be used"),
        (b'log_format = "xml"\n', ":1: log_format = 'xml' cannot be used"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_line(files, text, said):
    files[0].write_bytes(text)
    with pytest.raises(ConfigurationError) as error:
        load_settings()
    assert str(files[0]) in str(error.value)
    assert said in str(error.value)
    assert peek("log_level") is None


def test_a_secret_that_cannot_be_used_is_not_shown(files):
    files[0].write_text("api_keys = 12345678\n")
    with pytest.raises(ConfigurationError) as error:
        load_settings()
    assert "12345678" not in str(error.value)
