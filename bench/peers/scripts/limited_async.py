"""Coroutines with a limiter of their process. Arguments: as limited.py; LIMITER: quarter, whole."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import aiohttp
from aiolimiter import AsyncLimiter


async def main(url: str, done: Path, wanted: int, tasks: int, limiter: AsyncLimiter) -> None:
    """Ask until so many requests were answered."""
    left = wanted - (len(done.read_text().splitlines()) if done.exists() else 0)
    async with aiohttp.ClientSession() as session:
        with done.open("a") as out:

            async def work() -> None:
                nonlocal left
                while left > 0:
                    left -= 1
                    while True:
                        async with limiter, session.get(url) as answer:
                            await answer.read()
                        if answer.status != 429:
                            break
                    answer.raise_for_status()
                    out.write("200\n")
                    out.flush()

            await asyncio.gather(*(work() for _ in range(tasks)))


if __name__ == "__main__":
    url, done, wanted, tasks, limiter, rate, _folder, processes = sys.argv[1:]
    share = int(rate) / (int(processes) if limiter == "quarter" else 1)
    asyncio.run(main(url, Path(done), int(wanted), int(tasks), AsyncLimiter(share, 1)))
