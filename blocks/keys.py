"""API keys of one source: what a run signs its requests with."""

from __future__ import annotations

from prefect.blocks.core import Block
from pydantic import Field, SecretStr

from headrace.quota import PoolKey


class ApiKeys(Block):
    """One API key or several, each with a quota of its own at its source."""

    _block_type_name = "Headrace API keys"
    _block_type_slug = "headrace-api-keys"
    _description = "API keys of one source, over which requests are spread."
    _code_example = (
        "```python\nfrom blocks.keys import ApiKeys\n\n"
        'ApiKeys(keys=["...", "..."]).save("mine")\n```\n'
        "then `headrace requests send orders.jsonl --base-url URL --keys block:mine`"
    )

    keys: list[SecretStr] = Field(min_length=1, description="The keys, each once.")

    def pool_keys(self) -> list[PoolKey]:
        """The keys, each labelled by its place."""
        return [PoolKey(str(place), key) for place, key in enumerate(self.keys, 1)]
