"""Settings of the machine and the user, from the environment and from files: one typed model.

What one run is asked to do is not here but in the request of that run; a request leaves out what
should come from here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import platformdirs
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from headrace.amounts import LONGEST_S
from headrace.errors import ConfigurationError
from headrace.paths import user_path
from headrace.settings.files import SettingsFile, read_files

if TYPE_CHECKING:
    from headrace.quota.location import Place


def _default_home() -> Path:
    try:
        return Path(platformdirs.user_state_dir("headrace", appauthor=False))
    except RuntimeError as error:  # no HOME, and a user that the system does not know
        raise ConfigurationError(
            "this user has no home folder, so there is no place for state",
            hint="Set HEADRACE_HOME to a folder of your own, and HOME",
        ) from error


Seconds = Annotated[float, Field(gt=0, le=LONGEST_S)]


class Settings(BaseSettings):
    """Everything that is read from `HEADRACE_*` variables, then from `headrace.toml` of the current
    folder, then from that of the user. An empty one is as good as unset.
    """

    model_config = SettingsConfigDict(
        env_prefix="HEADRACE_", frozen=True, extra="ignore", env_ignore_empty=True
    )

    home: Path = Field(
        default_factory=_default_home,
        description="State: the managed Prefect server, quotas, leases. One per user, so that two "
        "project folders share one quota.",
    )
    lake: str = Field("data/lake", description="The lake: a folder, or s3://bucket/prefix.")
    coinbase_url: str = Field(
        "https://api.exchange.coinbase.com", description="Base URL of the exchange."
    )
    rate: str = Field(
        "10/s", description="What the exchange allows: 15/s, or 10/s,100/m; none lifts it."
    )
    quota: SecretStr = Field(
        SecretStr(""),
        description="Where quotas and breakers live: empty for files in the state folder; to share "
        "them between machines, redis://:PASSWORD@HOST:6379/0, rediss://... for TLS, "
        "postgres://USER:PASSWORD@HOST/DATABASE, or block:NAME.",
    )
    leases: str = Field(
        "",
        description="Where leases live: empty for a file in the state folder; to share them, "
        "postgres://USER:PASSWORD@HOST/DATABASE, s3://BUCKET/PREFIX (say, that of the lake) or "
        "dynamodb://TABLE?region=REGION.",
    )
    lease_ttl_s: Seconds = Field(
        60.0, description="Seconds after which a silent holder of a lease is gone."
    )
    breaker_cooldown_s: Seconds = Field(
        300.0, description="First pause of the circuit breaker, in seconds."
    )
    log_format: Literal["human", "json"] = Field(
        "human", description="Log lines for people, or one JSON object a line."
    )
    log_level: Literal["", "debug", "info", "warning", "error"] = Field(
        "",
        description="From which level on lines are written; empty: info in JSON and in Prefect's "
        "UI, warning on a terminal, where bars show the rest.",
    )
    metrics: str = Field(
        "none",
        description="Where metrics go: none, prometheus:FILE.prom, cloudwatch:NAMESPACE or "
        "otlp:URL.",
    )
    metrics_products: Annotated[int, Field(ge=0, le=200)] = Field(
        20, description="Products with series of their own; all others are one."
    )

    s3_server_side_encryption: Literal["", "AES256", "aws:kms", "aws:kms:dsse"] = Field(
        "", description="What every object is stored with, for buckets that demand it."
    )
    s3_kms_key_id: str = Field(
        "", description="Which KMS key encrypts; empty for the bucket's own."
    )
    s3_addressing_style: Literal["auto", "path", "virtual"] = Field(
        "auto", description="Where the bucket's name stands; auto is path where an endpoint is set."
    )
    runner: str = Field(
        "threads", description="Where a transform works: threads, dask, or dask:tcp://HOST:8786."
    )
    report: str = Field(
        "",
        description="Where pulls and transforms write the page of their lake; empty for nowhere.",
    )
    report_url: str = Field("", description="Where that page is served, for the link in the UI.")
    docs_url: str = Field(
        "", description="Where this documentation is served, for links in the UI."
    )
    looker_rate: str = Field(
        "10/s,100/m", description="What the Looker allows: both rates hold at once; none lifts it."
    )
    looker_vault: str = Field(
        "data/looker.sqlite", description="The vault of Looker's content: one SQLite file."
    )
    looker_snapshots: str = Field(
        "data/looker-snapshots",
        description="Where copies of the vault go: a folder, or s3://bucket/prefix.",
    )
    sot: str = Field(
        "data/sot", description="The source-of-truth log: a folder, or cql://HOST/KEYSPACE."
    )

    signing_key: str = Field(
        "",
        description="The key that signs evidence: a file, or block:NAME; empty for a file in the "
        "state folder.",
    )
    anchors: str = Field(
        "",
        description="Where signed heads of the log are kept, joined by commas: a file, git:FOLDER, "
        "s3://bucket/prefix.",
    )
    lake_anchors: str = Field(
        "", description="Where signed heads of the lake are kept, likewise; a file of its own."
    )
    tsa: str = Field("", description="A time-stamp authority (RFC 3161) that stamps signed heads.")
    tsa_ca: str = Field(
        "", description="Certificates (PEM) of time-stamp authorities that are trusted."
    )
    api_keys: SecretStr = Field(
        SecretStr(""),
        description="API keys that `headrace requests send` signs with, joined by commas.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the base class names them
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What is said in code, then the environment, then the files."""
        return init_settings, env_settings, _Files(settings_cls)

    @field_validator("home")
    @classmethod
    def _wherever_we_are(cls, home: Path) -> Path:
        """The same folder for every process: the servers we start have folders of their own."""
        return user_path(home).absolute()

    @property
    def quota_folder(self) -> Path:
        """State of quotas and breakers of this machine."""
        return self.home / "quota"

    @property
    def quota_place(self) -> Place:
        """Where quotas and breakers live, where no block says it (see `blocks.resolve`).

        Raises:
            ConfigurationError: the URL of the server does not read.
        """
        from headrace.quota.location import read_server  # not for help

        return read_server(self.quota) if self.quota.get_secret_value() else self.quota_folder

    def journal_of(self, queue: str) -> Path:
        """The journal of a queue of requests."""
        return self.home / "requests" / f"{queue}.sqlite"

    @property
    def signing_key_location(self) -> str:
        """Where the signing key is."""
        return self.signing_key or str(self.home / "evidence" / "signing-key.pem")

    @property
    def lease_location(self) -> str:
        """Where leases live."""
        return self.leases or str(self.home / "leases")


class _Files(PydanticBaseSettingsSource):
    """The settings files as a source of pydantic's."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Never asked: `__call__` has all values at once."""
        raise NotImplementedError(f"{field_name}: {field}")

    def __call__(self) -> dict[str, Any]:
        """The values by name; those of the current folder go before the user's."""
        return {
            name: value
            for file in reversed(read_files(self.settings_cls.model_fields))
            for name, value in file.values.items()
        }


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the value of a setting comes from.

    Attributes:
        kind: where.
        place: the variable, or `PATH:LINE`; empty for a default.
    """

    kind: Literal["environment", "file", "default"]
    place: str = ""


def origin_of(name: str, files: list[SettingsFile]) -> Origin:
    """Where the value of a setting comes from, with these files."""
    variable = variable_of(name)
    for given, text in os.environ.items():
        if text and given.upper() == variable:
            return Origin("environment", given)
    for file in files:
        if name in file.values:
            return Origin("file", file.place_of(name))
    return Origin("default")


def variable_of(name: str) -> str:
    """The variable of a setting: HEADRACE_LAKE."""
    return f"HEADRACE_{name.upper()}"


def read_settings() -> Settings:
    """The settings of this process's environment and of the files.

    Raises:
        ConfigurationError: naming the variable, or the line of a file, that cannot be used.
    """
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = "_".join(str(part) for part in first["loc"])
        origin = origin_of(name, read_files(Settings.model_fields))
        value = "" if Settings.model_fields[name].annotation is SecretStr else first.get("input")
        if origin.kind == "file":
            said = f"{origin.place}: {name} = {value!r}"
        else:
            said = f"{variable_of(name)}={value!r}"
        raise ConfigurationError(f"{said} cannot be used: {first['msg']}") from error
