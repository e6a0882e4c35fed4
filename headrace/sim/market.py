"""What is on the tape now: which ids of each product are out, and rows a test put there itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headrace.sim.catalogue import ProductSpec
from headrace.sim.exceptions import SpecError
from headrace.sim.history import History

#: A row handed over literally: a dict, JSON text (kept byte for byte), or `None` for a hole.
LiteralRow = Mapping[str, Any] | str | None


class Tape:
    """One product as it is served: its history up to a newest id that grows, with replaced rows.

    Args:
        spec: the product.
        history: its truth.
        clock: seconds since some moment; growth per second counts from construction.
    """

    def __init__(self, spec: ProductSpec, history: History, clock: Callable[[], float]) -> None:
        self.spec = spec
        self.history = history
        self._clock = clock
        self._started = clock()
        self._grown = 0
        self._replaced: dict[int, str | None] = {}
        self._generated = True
        self._lock = threading.Lock()

    def newest_id(self) -> int:
        """The highest id that is out; `first_id - 1` while there is none."""
        return max([self._newest_generated(), *self._replaced])

    def grow(self, trades: int) -> None:
        """Put `trades` new ids on the tape."""
        with self._lock:
            self._grown += trades

    def answered(self) -> None:
        """Note that a request for trades was answered (products can grow by it)."""
        self.grow(self.spec.growth_per_request)

    def replace_rows(self, rows: Mapping[int, LiteralRow]) -> None:
        """Serve these rows under these ids, whatever the history has there; `None` makes a hole."""
        literal = {
            int(at): row if row is None or isinstance(row, str) else _json(row)
            for at, row in rows.items()
        }
        self._replaced = {**self._replaced, **literal}

    def serve_rows(self, rows: Mapping[int, LiteralRow]) -> None:
        """Serve these rows and nothing else."""
        self._generated = False
        self._replaced = {}
        self.replace_rows(rows)

    def page(self, top: int, limit: int) -> tuple[list[int], list[str]]:
        """The newest `limit` trades up to id `top`: ids and JSON rows, newest first."""
        if not self._replaced:
            return self.history.rows_below(min(top, self._newest_generated()), limit)
        return self._patched_page(top, limit)

    def _newest_generated(self) -> int:
        if not self._generated:
            return self.spec.first_id - 1
        growth = int((self._clock() - self._started) * self.spec.growth_per_s)
        return self.spec.last_id + self._grown + growth

    def _patched_page(self, top: int, limit: int) -> tuple[list[int], list[str]]:
        replaced = self._replaced
        newest = min(top, self._newest_generated())
        ids, rows = self.history.rows_below(newest, limit + len(replaced))
        merged: dict[int, str | None] = dict(zip(ids, rows, strict=True))
        merged.update((at, row) for at, row in replaced.items() if at <= top)
        page = [(at, row) for at, row in sorted(merged.items(), reverse=True) if row is not None]
        return [at for at, _ in page[:limit]], [row for _, row in page[:limit]]


class Market:
    """All tapes of a simulated exchange.

    Args:
        products: what it lists.
        seed: of every history.
        now_s: Unix seconds that the newest trades carry at the start.
        clock: seconds, for growth.
    """

    def __init__(
        self, products: Iterable[ProductSpec], *, seed: int, now_s: int, clock: Callable[[], float]
    ) -> None:
        self._seed, self._now_s, self._clock = seed, now_s, clock
        self._tapes: dict[str, Tape] = {}
        for spec in products:
            if spec.id in self._tapes:
                raise SpecError("product", spec.id, "listed twice")
            self.put(spec)

    def put(self, spec: ProductSpec) -> None:
        """List a product, or change how a listed one is answered for (a delisting, say).

        A new listing of a product whose other fields stay the same keeps its tape.
        """
        old = self._tapes.get(spec.id)
        if old and old.spec.model_copy(update={"listing": spec.listing}) == spec:
            old.spec = spec
            return
        history = History(spec, seed=self._seed, now_s=self._now_s)
        self._tapes[spec.id] = Tape(spec, history, self._clock)

    def get(self, product: str) -> Tape | None:
        """The tape of a product; `None` when it was never listed."""
        return self._tapes.get(product)

    def __getitem__(self, product: str) -> Tape:
        tape = self._tapes.get(product)
        if tape is None:
            raise SpecError("product", product, "not listed by this simulated exchange")
        return tape

    def specs(self) -> list[ProductSpec]:
        """Every product, in the order of listing."""
        return [tape.spec for tape in self._tapes.values()]


def _json(row: Mapping[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False)
