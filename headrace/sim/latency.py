"""How long answers take: models of latency, drawn from a seed and the number of the request.

The delay of request n is the same in every run, whatever else goes on, so that an ideal schedule
can be computed beside a measured one.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from statistics import NormalDist
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator

from headrace.sim.catalogue import first_problem
from headrace.sim.exceptions import SpecError
from headrace.sim.randomness import key_of, unit

_NORMAL = NormalDist()
_Z95 = _NORMAL.inv_cdf(0.95)


class _Latency(BaseModel, frozen=True, extra="forbid"):
    """Common to all models.

    Args:
        inbound: the share of each delay that passes before the request counts for the rate limit
            (the way there); the rest passes after it.
    """

    inbound: float = Field(0.0, ge=0.0, le=1.0)

    @abstractmethod
    def quantile_s(self, share: float) -> float:
        """The delay that `share` of all requests stay below, in seconds."""


class Constant(_Latency):
    """Always the same."""

    kind: Literal["constant"] = "constant"
    s: float = Field(0.0, ge=0.0)

    def quantile_s(self, share: float) -> float:  # noqa: ARG002
        """The one delay there is."""
        return self.s


class Uniform(_Latency):
    """Evenly between two bounds."""

    kind: Literal["uniform"] = "uniform"
    low: float = Field(ge=0.0)
    high: float = Field(ge=0.0)

    @model_validator(mode="after")
    def _check(self) -> Uniform:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self

    def quantile_s(self, share: float) -> float:
        """Linear between the bounds."""
        return self.low + share * (self.high - self.low)


class LogNormal(_Latency):
    """Log-normal, given by its median and its 95th percentile: the shape of real services."""

    kind: Literal["lognormal"] = "lognormal"
    p50: float = Field(gt=0.0)
    p95: float = Field(gt=0.0)

    @model_validator(mode="after")
    def _check(self) -> LogNormal:
        if self.p95 < self.p50:
            raise ValueError("p95 is below p50")
        return self

    def quantile_s(self, share: float) -> float:
        """The inverse of its distribution function."""
        return self.p50 * math.exp(_NORMAL.inv_cdf(share) * math.log(self.p95 / self.p50) / _Z95)


Latency = Annotated[Constant | Uniform | LogNormal, Field(discriminator="kind")]


class LatencySource:
    """Delays of one model under one seed; sources of different names are independent."""

    def __init__(self, model: Latency, seed: int, name: str = "latency") -> None:
        self.model = model
        self._key = key_of(seed, name)

    def delay_s(self, number: int) -> float:
        """The whole delay of the request with this number (from 1), in seconds."""
        return self.model.quantile_s(unit(self._key, number))


_LATENCY: TypeAdapter[Latency] = TypeAdapter(Latency)
_KINDS = [cls.model_fields["kind"].default for cls in get_args(get_args(Latency)[0])]


def parse_latency(text: str) -> Latency:
    """Read a latency as written on the command line.

    Args:
        text: `constant:s=0.2`, `uniform:low=0.1,high=0.3` or `lognormal:p50=0.2,p95=0.8`, each
            with `,inbound=SHARE` if wanted. Seconds throughout.

    Raises:
        SpecError: naming what cannot be read.
    """
    kind, _, rest = text.partition(":")
    fields = {"kind": kind.strip()}
    for setting in filter(None, rest.split(",")):
        name, equals, value = setting.partition("=")
        if not equals:
            raise SpecError("latency", text, f"{setting!r} is not field=value")
        fields[name.strip()] = value.strip()
    try:
        return _LATENCY.validate_python(fields)
    except ValidationError as error:
        raise SpecError(
            "latency", text, first_problem(error), hint=f"Kinds: {', '.join(_KINDS)}"
        ) from error
