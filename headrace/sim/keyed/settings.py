"""All that makes a simulated keyed exchange, as one frozen value that fits into a JSON file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field, SecretStr, ValidationError, field_serializer, field_validator

from headrace.sim.actions import Cut, Drip, Hang, Html, Refuse, Reset, Respond, Slow, kinds_of
from headrace.sim.catalogue import first_problem, or_text
from headrace.sim.exceptions import SpecError
from headrace.sim.faults import ScriptedFault
from headrace.sim.latency import Latency, Uniform, parse_latency

KeyedAction = Annotated[
    Respond | Html | Cut | Reset | Hang | Drip | Slow | Refuse, Field(discriminator="kind")
]


@dataclass(frozen=True, slots=True)
class KeyedSubject:
    """What a request is about, as far as faults and statistics look at it.

    Attributes:
        key: the place of its key in the settings, from 1; None if it has none that is known.
    """

    key: int | None = None

    @property
    def product(self) -> str | None:
        """What the log counts requests by: the key's place."""
        return None if self.key is None else f"key {self.key}"


class KeyedFault(ScriptedFault):
    """An action, and the requests it meets. All conditions must hold.

    Args:
        action: what happens.
        key: only requests with the key at this place, from 1.
    """

    kinds = kinds_of(KeyedAction)

    action: KeyedAction
    key: int | None = Field(None, ge=1)

    def concerns(self, subject: KeyedSubject) -> bool:
        """Whether a request is meant."""
        return self.key in (None, subject.key)


parse_keyed_fault = KeyedFault.parse
_UP_TO_50_MS = Uniform(low=0.0, high=0.05)


def make_keys(count: int) -> tuple[SecretStr, ...]:
    """So many keys: `simulated-key-1` and so on."""
    return tuple(SecretStr(f"simulated-key-{place}") for place in range(1, count + 1))


class KeyedSettings(BaseModel, frozen=True, extra="forbid"):
    """Which keys there are, what each may do, and how long requests and answers take.

    Args:
        keys: the known keys, by place from 1.
        limit: requests of one key that are accepted in any `per_s` seconds, by arrival.
        per_s: the length of that window, in seconds.
        block_after: so many answers 429 block a key for good.
        inbound: how long a request is on its way to the server.
        outbound: how long an answer is on its way back.
        clock_step_s: its clock, by which it dates answers, steps so far ahead after ten seconds,
            back after ten more, and so on.
        faults: in force from the start.
        seed: of delays and chances.
        port: on 127.0.0.1; 0 for any that is free.
    """

    keys: Annotated[tuple[SecretStr, ...], Field(min_length=1)] = make_keys(5)
    limit: int = Field(20, ge=1)
    per_s: float = Field(1.0, gt=0)
    block_after: int = Field(10, ge=1)
    inbound: Annotated[Latency, or_text(parse_latency)] = _UP_TO_50_MS
    outbound: Annotated[Latency, or_text(parse_latency)] = _UP_TO_50_MS
    clock_step_s: float = Field(0.0, allow_inf_nan=False)
    faults: tuple[Annotated[KeyedFault, or_text(parse_keyed_fault)], ...] = ()
    seed: int = 0
    port: int = Field(0, ge=0, le=65_535)

    @field_validator("keys")
    @classmethod
    def _differ(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if len(set(keys)) < len(keys):
            raise ValueError("two of the keys are the same")
        return keys

    @field_serializer("keys", when_used="json")
    def _reveal(self, keys: tuple[SecretStr, ...]) -> list[str]:
        # JSON is how a launcher hands the keys to the server's own process, over a pipe.
        return [key.get_secret_value() for key in keys]

    @classmethod
    def of(cls, **fields: Any) -> KeyedSettings:
        """Settings from what a caller writes.

        Raises:
            SpecError: naming the field that cannot be used.
        """
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise SpecError("simulated keyed exchange", "settings", first_problem(error)) from error

    # What `SimulatedService` asks for: the whole delay here is that of request and answer.
    @property
    def latency(self) -> Latency:
        """How long answers are on their way back."""
        return self.outbound

    @property
    def limits(self) -> tuple[()]:
        """None for all keys together."""
        return ()
