"""What one validation of content is asked to do."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from headrace.looker.common_parameters import InFolders, split_names
from headrace.run.parameters import Form, about


class ValidateRequest(InFolders):
    """A validation of the content of a Looker, or of what lies in some folders."""

    projects: Annotated[
        tuple[str, ...],
        about(
            "Projects",
            "Only what asks models of these LookML projects; empty for all.",
            ["ecommerce"],
        ),
        Form(list[str], empty=[], flags=("--project",)),
    ] = ()
    run_queries: Annotated[
        bool,
        about(
            "Run the queries",
            "Run each query of looks and dashboards too, which asks the database.",
            True,
        ),
    ] = False
    row_limit: Annotated[
        int, Field(ge=1, le=5000), about("Rows of a query", "Rows that each query may give.", 1)
    ] = 1

    @field_validator("projects", mode="before")
    @classmethod
    def _split(cls, value: Any) -> tuple[str, ...]:
        return split_names(value)

    @model_validator(mode="after")
    def _consistent(self) -> ValidateRequest:
        if self.run_queries and self.projects:
            raise ValueError("queries are run by folder_ids, not by projects: leave one of them")
        return self
