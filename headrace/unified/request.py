"""What one transform is asked to do."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from headrace.products.choice import StoredChoice
from headrace.pull.request import PagedLake
from headrace.run.parameters import Form, about

_MB = 1 << 20
_RUNNER = r"^(threads|dask|dask:(tcp|tls|ucx|ws|wss)://[^/?#@\s]+)$"


class TransformRequest(StoredChoice, PagedLake):
    """A transform of some products of a lake, or of all that it holds."""

    rebuild: Annotated[
        bool,
        about(
            "Make the table again", "Make the table again from the raw layer, in one commit.", False
        ),
    ] = False
    compact_only: Annotated[
        bool,
        about(
            "Only compact",
            "Take nothing; only merge files, the newest month's too, and remove old ones.",
            False,
        ),
    ] = False
    workers: Annotated[
        int, Field(ge=1, le=50), about("Products at once", "Products at once.", 2, 4)
    ] = 2
    runner: Annotated[
        str,
        about(
            "Where products are transformed",
            "threads of this process; dask for a cluster of as many processes here; "
            "or an existing one, as in dask:tcp://HOST:8786.",
            "threads",
            "dask",
            "dask:tcp://10.0.0.5:8786",
        ),
        Form(Annotated[str, Field(pattern=rf"^$|{_RUNNER}")], empty="", setting="runner"),
    ]
    file_mb: Annotated[
        int, Field(ge=1, le=2048), about("File size in MB", "How large files may grow, in MB.", 128)
    ] = 128
    grace_hours: Annotated[
        int,
        Field(ge=1, le=8760),
        about(
            "Grace time in hours",
            "Files that no newer version of the table names are removed after so many "
            "hours; longer than any query or transform runs.",
            24,
            168,
        ),
    ] = 24

    @field_validator("runner")
    @classmethod
    def _known(cls, runner: str) -> str:
        if not re.fullmatch(_RUNNER, runner):
            raise ValueError("write threads, dask, or dask:tcp://HOST:PORT")
        return runner

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.rebuild and self.compact_only:
            raise ValueError("rebuild and compact_only exclude each other; leave one of them out")
        if self.rebuild and (self.products or self.way):
            raise ValueError(
                "rebuild makes the whole table again, so it takes no products; leave them out"
            )
        return self

    @property
    def file_bytes(self) -> int:
        """How large files may grow."""
        return self.file_mb * _MB
