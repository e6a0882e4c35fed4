"""What became of the manifests that an audit was to sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.amounts import counted
from headrace.manifests.anchored import AnchorReport
from headrace.run.report import error_lines


@dataclass(frozen=True, slots=True)
class SignReceipt:
    """What became of one product's manifest: its number, or why there is none."""

    product: str
    sequence: int = 0
    parts: int = 0
    rows: int = 0
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return {
            "product": self.product,
            "manifest": self.sequence or None,
            "parts": self.parts,
            "rows": self.rows,
            "error": self.error or None,
        }


@dataclass(frozen=True, slots=True)
class Signed:
    """What became of the manifests.

    Args:
        receipts: one per product.
        head: the number of the lake's head that names them; 0 if none was signed.
        error: why there is none.
        kept: what became of the head in each anchor.
    """

    receipts: tuple[SignReceipt, ...]
    head: int = 0
    error: str = ""
    kept: tuple[AnchorReport, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every product has its manifest, and the lake its head."""
        return not (
            self.error
            or any(each.error for each in self.receipts)
            or any(each.problem for each in self.kept)
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return {
            "products": [each.as_json() for each in self.receipts],
            "head": self.head or None,
            "error": self.error or None,
            "anchors": {each.where: each.problem or "kept" for each in self.kept},
        }

    def lines(self) -> list[str]:
        """Each failure, and how much was signed."""
        lines = error_lines((each.product, each.error) for each in self.receipts)
        if self.error:
            lines.append(f"the lake's head was not signed: {self.error}")
        for each in self.kept:
            outcome = f"not anchored: {each.problem}" if each.problem else f"is in {each.where}"
            lines.append(f"head {self.head} of the lake {outcome}")
        done = [each for each in self.receipts if not each.error]
        if done:
            parts = sum(each.parts for each in done)
            what = f"manifest {done[0].sequence} of {done[0].product}" if len(done) == 1 else ""
            what = what or f"manifests of {counted(len(done), 'product')}"
            head = f", and head {self.head} of the lake" if self.head else ""
            lines.append(f"signed: {what}, {counted(parts, 'part')}{head}")
        return lines
