"""Prefect blocks: configuration and checkpoints, each with a method that builds the real thing."""

from blocks.checkpoint import BlockCheckpoints, ProductCheckpoint
from blocks.exchange import Exchange
from blocks.lake import Lake
from blocks.looker import BlockTypeCheckpoints, Looker, LookerCheckpoint
from blocks.quota import Quota
from blocks.signing import BlockKey, SigningKeyBlock
from blocks.sot import BlockHeads, SotHeads, SotStoreBlock
from blocks.unified import BlockUnifiedStates, UnifiedState

__all__ = [
    "BlockCheckpoints",
    "BlockHeads",
    "BlockKey",
    "BlockTypeCheckpoints",
    "BlockUnifiedStates",
    "Exchange",
    "Lake",
    "Looker",
    "LookerCheckpoint",
    "ProductCheckpoint",
    "Quota",
    "SigningKeyBlock",
    "SotHeads",
    "SotStoreBlock",
    "UnifiedState",
]
