"""The parameters of a pipeline, declared once: a frozen model.

Everything that shows or takes a parameter is made from the model's field: the flow's signature and
its form in the Prefect UI (`tasks.pipeline`), the option of the command line
(`headrace.cli.options`), the check of a deployment's parameters, and the request that acts. A field
looks like this:

    dry_run: Annotated[
        bool,
        about("Plan only", "Plan only: pages, requests.", True),
    ] = False

Bounds stand in a `Field` of their own beside it.

Where the form takes something simpler than the request holds (a text for a moment in time, 0 for
"no limit"), `Form` beside it says what.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from headrace.errors import ConfigurationError
from headrace.settings import load_settings
from headrace.settings.files import read_files


def about(title: str, description: str, *examples: Any) -> Any:
    """What explains a parameter, in forms and in the help."""
    return Field(title=title, description=description, examples=list(examples))


@dataclass(frozen=True, slots=True)
class Form:
    """How a parameter stands in forms and on the command line, where its field does not say it.

    Args:
        kind: the type that a form holds; None: that of the field.
        empty: what a form holds when nothing was chosen. It counts as "not given".
        setting: the field of `headrace.settings.Settings` that completes an empty value.
        environment: the variable that completes it, for the help; of `setting` unless given.
        argument: it is an argument of the command, not an option.
        joined: the option may be repeated; its values reach the flow joined by commas.
        flags: other spellings of the option.
    """

    kind: Any = None
    empty: Any = None
    setting: str = ""
    environment: str = ""
    argument: bool = False
    joined: bool = False
    flags: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The environment variable that completes an empty value; empty if there is none."""
        return self.environment or (f"HEADRACE_{self.setting.upper()}" if self.setting else "")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter, as a form and a command line take it.

    Attributes:
        name: of the flow's parameter; the option is spelled alike.
        kind: the type that is taken, with its constraints as metadata.
        default: what it holds unless given; `...` if it must be given.
        title, description, examples: what explains it.
        form: what is special about it.
    """

    name: str
    kind: Any
    default: Any
    title: str
    description: str
    examples: tuple[Any, ...]
    form: Form

    @property
    def annotation(self) -> Any:
        """The type for a flow's signature; Prefect makes the field of a form from it."""
        # Prefect overwrites a plain title by the parameter's name.
        extra: Any = {"title": self.title}
        field: Any = Field(examples=list(self.examples), json_schema_extra=extra)
        return Annotated[self.kind, field]


class Parameters(BaseModel, frozen=True, extra="forbid"):
    """The base of every pipeline's request."""

    #: Fields that no form shows and no option sets.
    internal: ClassVar[frozenset[str]] = frozenset()
    #: Whether the fields of this class stand before those of all others.
    leading: ClassVar[bool] = False

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        """Without what a form left empty, and completed from the settings of this machine."""
        if not isinstance(given, dict):
            return given
        fields = dict(given)
        for name, field in cls.model_fields.items():
            form = _form_of(field)
            if name in fields and form.empty is not None and fields[name] == form.empty:
                del fields[name]
            if name not in fields and form.setting:
                fields[name] = getattr(load_settings(), form.setting)
        return fields

    @classmethod
    def checked(cls, **given: Any) -> Self:
        """The request that these values mean: of a form, of options, or of the fields themselves.

        Raises:
            ConfigurationError: naming the first parameter that cannot be used, and why; in its
                place the variable, or the line of the file, that its value came from.
        """
        try:
            return cls(**given)
        except ValidationError as error:
            problem = first_problem(error)
            raise ConfigurationError(
                cls._located(given, problem) or problem, hint=cls._example_for(error)
            ) from error
        except ConfigurationError as error:
            located = cls._located(given, error.message)
            if located is None:
                raise
            raise ConfigurationError(located, hint=error.hint) from error

    @classmethod
    def _example_for(cls, error: ValidationError) -> str:
        """How to write what a pattern refused."""
        first = error.errors()[0]
        if first["type"] != _REFUSED_BY_PATTERN:
            return ""
        field = cls.model_fields.get(str(first["loc"][0]))
        return f"Write for example {field.examples[0]}" if field and field.examples else ""

    @classmethod
    def _located(cls, given: Mapping[str, Any], problem: str) -> str | None:
        """A problem with the place of its setting where it begins with the parameter's name; None
        for a value that was given, or a default.
        """
        name = re.split(r"\W", problem, maxsplit=1)[0]
        form = _form_of(cls.model_fields[name]) if name in cls.model_fields else Form()
        if not form.setting or given.get(name, form.empty) != form.empty:
            return None
        from headrace.settings.model import Settings, origin_of  # not for help

        origin = origin_of(form.setting, read_files(Settings.model_fields))
        called = {"environment": origin.place, "file": f"{origin.place}: {form.setting}"}
        return called[origin.kind] + problem[len(name) :] if origin.kind in called else None

    def as_form(self) -> dict[str, Any]:
        """What a form would hold to mean this request."""
        values = self.model_dump(mode="json")
        return {
            each.name: each.form.empty if values[each.name] is None else values[each.name]
            for each in self.parameters()
        }

    @classmethod
    def parameters(cls) -> Iterator[Parameter]:
        """Every parameter, those of the pipeline itself before those that it shares with others."""
        kinds = sorted(cls.__mro__, key=lambda kind: not vars(kind).get("leading", False))
        names = (name for kind in kinds for name in vars(kind).get("__annotations__", ()))
        for name in dict.fromkeys(names):
            if name in cls.model_fields and name not in cls.internal:
                yield _parameter(name, cls.model_fields[name])


_REFUSED_BY_PATTERN = "string_pattern_mismatch"


def first_problem(error: ValidationError) -> str:
    """The first field that cannot be used, the reason, and what was given."""
    first = error.errors()[0]
    cause = (first.get("ctx") or {}).get("error")
    reason = str(cause) if cause is not None else first["msg"]
    if first["type"] == _REFUSED_BY_PATTERN:
        reason = "it is not written as it has to be"
    name = ".".join(str(part) for part in first["loc"])
    if not name:
        return reason
    given = repr(first.get("input"))
    if given in reason:
        return f"{name}: {reason}"
    return f"{name}: {reason} (given: {given if len(given) <= 80 else given[:77] + '...'})"


def _form_of(field: FieldInfo) -> Form:
    return next((each for each in field.metadata if isinstance(each, Form)), Form())


def _parameter(name: str, field: FieldInfo) -> Parameter:
    form = _form_of(field)
    constraints = tuple(each for each in field.metadata if not isinstance(each, Form))
    kind = form.kind
    if kind is None:
        kind = Annotated[field.annotation, *constraints] if constraints else field.annotation
    default = ... if field.is_required() else field.get_default(call_default_factory=True)
    if form.empty is not None:
        default = form.empty
    return Parameter(
        name=name,
        kind=kind,
        default=default,
        title=field.title or "",
        description=field.description or "",
        examples=tuple(field.examples or ()),
        form=form,
    )
