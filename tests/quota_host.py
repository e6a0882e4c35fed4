"""A host that asks an exchange as often as a shared quota lets it, in four threads.

python tests/quota_host.py QUOTA_URL RATE EXCHANGE_URL PRODUCT SECONDS
"""

from __future__ import annotations

import os
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryFile
from urllib.parse import urlsplit

from pydantic import SecretStr

sys.path.insert(0, str(Path(__file__).parents[1]))

from headrace.quota import Gate, PermitTimeout, QuotaConfig, open_gate
from headrace.quota.location import read_server

THREADS = 4


def ask(gate: Gate, base_url: str, product: str, end: float) -> None:
    """Ask until the end."""
    connection = HTTPConnection(urlsplit(base_url).netloc)
    while (left := end - time.monotonic()) > 0:
        try:
            with gate.admit(timeout_s=left) as admission:
                admission.sending()
                connection.request("GET", f"/products/{product}/trades?limit=1")
                answer = connection.getresponse()
                answer.read()
                admission.answered(answer.status)
        except PermitTimeout:
            return


def main(quota: str, rate: str, base_url: str, product: str, seconds: str) -> None:
    """Say `ready`, wait for a line, ask for so many seconds, and say how wrong the clock is."""
    with open_gate(read_server(SecretStr(quota)), QuotaConfig(name="exchange", rates=rate)) as gate:
        print("ready", flush=True)
        sys.stdin.readline()
        end = time.monotonic() + float(seconds)
        threads = [
            threading.Thread(target=ask, args=(gate, base_url, product, end))
            for _ in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with TemporaryFile() as now:
        # The times of files are the kernel's.
        print(round(time.time() - os.fstat(now.fileno()).st_mtime), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
