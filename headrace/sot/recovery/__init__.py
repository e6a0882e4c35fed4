"""Replaying the log: every symbol, verified on the way, merged in one order that never changes."""

from headrace.sot.recovery.recover import RecoverOptions, RecoverReport, SymbolReplay, recover

__all__ = ["RecoverOptions", "RecoverReport", "SymbolReplay", "recover"]
