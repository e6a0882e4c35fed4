#!/usr/bin/env python3
"""Check a lake of raw trades without any signed statement: `verify_evidence.py lake --unsigned`.

    python verify_lake.py data/lake [--product BTC-USD] [--quick] [--json]

The former name of that check; it needs `verify_evidence.py` beside it, and pyarrow.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from verify_evidence import main

if __name__ == "__main__":
    sys.exit(main(["lake", "--unsigned", *sys.argv[1:]]))
