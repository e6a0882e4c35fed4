"""What one extraction is asked to do: a frozen model, checked before anything is started."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from headrace.lake.names import location_digest
from headrace.looker.common_parameters import InFolders, split_names
from headrace.looker.content_types import TYPES, content_of
from headrace.paths import real_path
from headrace.run.parameters import Form, about

#: What is narrowed by folders, and what a narrowed run extracts unless types are named.
IN_FOLDERS = ("folder", "look", "dashboard", "merge_query", "query")


class ExtractRequest(InFolders):
    """An extraction.

    `types` are content types, each once, in the order of `headrace.looker.content_types.TYPES`.
    """

    types: Annotated[
        tuple[str, ...],
        about(
            "Content types",
            "Content types; empty for all of them.",
            ["dashboard", "look"],
            list(TYPES),
        ),
        Form(list[str], empty=[], flags=("--type", "-t")),
    ] = ()
    incremental: Annotated[
        bool,
        about(
            "Only what has changed",
            "Fetch only bodies that have changed, as far as listings show.",
            True,
        ),
    ] = False
    full: Annotated[
        bool,
        about("From the beginning", "Begin again, whatever an earlier run left unfinished.", False),
    ] = False
    resume: Annotated[
        bool,
        about(
            "Go on where one broke off",
            "Go on with an unfinished run that was asked for the same.",
            True,
        ),
    ] = True
    batch_size: Annotated[
        int, Field(ge=1, le=5000), about("Items on a page", "Items on a page.", 100)
    ] = 100
    vault: Annotated[
        str,
        Field(min_length=1),
        about(
            "Vault", "The vault, a SQLite file; empty for the configured one.", "data/looker.sqlite"
        ),
        Form(str, empty="", setting="looker_vault"),
    ]

    @field_validator("types", mode="before")
    @classmethod
    def _split(cls, value: Any) -> tuple[str, ...]:
        return split_names(value)

    @field_validator("types")
    @classmethod
    def _known(cls, types: tuple[str, ...]) -> tuple[str, ...]:
        singular = [_singular(name) for name in types]
        wanted = {content_of(name).type for name in singular}
        return tuple(name for name in TYPES if name in wanted)

    @model_validator(mode="after")
    def _consistent(self) -> ExtractRequest:
        if self.full and self.incremental:
            raise ValueError("full and incremental exclude each other")
        return self

    @property
    def chosen(self) -> tuple[str, ...]:
        """The types to extract; without any named, all of them, or what lies in folders."""
        return self.types or (IN_FOLDERS if self.folder_ids else TYPES)

    @property
    def scope(self) -> Mapping[str, Any]:
        """What a session of the same kind has in common with this one, so that it can go on."""
        return {
            "types": list(self.chosen),
            "folder_ids": list(self.folder_ids),
            "recursive": self.recursive,
            "batch_size": self.batch_size,
            "incremental": self.incremental,
        }


def _singular(name: str) -> str:
    """`dashboards` is what people write."""
    plural = name.removesuffix("s")
    return plural if name not in TYPES and plural in TYPES else name


def vault_lease(path: str | Path) -> str:
    """Name of the lease of the process that writes to the vault at `path`.

    One vault has one, however its path is spelled.
    """
    return f"looker/extract@{location_digest(str(real_path(path)))}"
