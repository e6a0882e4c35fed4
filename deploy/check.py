"""`make compose-check`: compose.yaml is what Docker Compose takes, and its settings fill it in.

With Docker's compose plugin it is asked; without, the schema of the Compose Specification, as
check-jsonschema carries it, is what the file is held against. Either way local.py has to read it.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

from deploy.topology import COMPOSE, EXAMPLE, read_settings, read_topology
from headrace.errors import HeadraceError


def example_with_passwords(folder: Path) -> Path:
    """The example of the settings, filled in."""
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    filled = folder / "env"
    filled.write_text(
        "".join(f"{line}{secrets.token_hex(8) if line.endswith('=') else ''}\n" for line in lines)
    )
    return filled


def has_docker() -> bool:
    """Whether Docker's compose plugin can be asked; it needs no running Docker."""
    try:
        return subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0
    except OSError:
        return False


def main() -> int:
    """Check, and say by what; the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        settings = example_with_passwords(Path(folder))
        if has_docker():
            how = "docker compose config"
            files = ["-f", str(COMPOSE), "--env-file", str(settings)]
            command = ["docker", "compose", *files, "config", "--quiet"]
        else:
            how = "the schema of the Compose Specification (no `docker compose` here)"
            check = [sys.executable, "-m", "check_jsonschema"]
            command = [*check, "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"{COMPOSE}: {done.stdout}{done.stderr}", file=sys.stderr)
            return 1
        try:
            services = read_topology(read_settings(settings))
        except HeadraceError as error:
            print(error, file=sys.stderr)
            return 1
    print(f"{COMPOSE.name}: {len(services)} services, checked by {how}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
