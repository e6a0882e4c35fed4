"""What a server gets beside deployments: the project's blocks and its alarms.

`python -m headrace.cli.deployments.blocks_and_alarms` does so in a process of its own.
"""

from __future__ import annotations

import asyncio

from prefect.client.orchestration import PrefectClient, get_client

from headrace.cli.alarms.installing import install_missing
from headrace.project import put_project_first


async def furnish(client: PrefectClient) -> None:
    """Register every kind of block, and install the alarms that are missing."""
    from blocks.registering import register_blocks

    await register_blocks(client)
    await install_missing(client)


async def _main() -> None:
    async with get_client() as client:
        await furnish(client)


if __name__ == "__main__":
    put_project_first()
    asyncio.run(_main())
