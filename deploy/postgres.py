"""A PostgreSQL cluster of one's own: the programs, whom to run them as, and its making.

PostgreSQL does not run as root: there it runs as the user `postgres` that its package makes.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path

from headrace.errors import ConfigurationError

OWNER = "postgres"


def programs_folder() -> Path | None:
    """The folder of the newest version that is installed."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    debian = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max((one.parent for one in debian), key=lambda one: float(one.parent.name), default=None)


def unprivileged_user() -> str | None:
    """Whom to run as: None for the user that we are.

    Raises:
        ConfigurationError: we are root, and there is no such user.
    """
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(OWNER).pw_name
    except KeyError:
        raise ConfigurationError(
            f"PostgreSQL does not run as root, and there is no user {OWNER!r}",
            hint="Run it as another user, or install PostgreSQL's package, which makes that one",
        ) from None


def make_cluster(
    programs: Path, folder: Path, *, superuser: str, password: str, user: str | None
) -> Path:
    """Make a cluster in `folder/data` and return that; `folder` becomes the user's.

    Raises:
        ConfigurationError: initdb fails.
    """
    if user:
        shutil.chown(folder, user)
    secret = folder / "password"
    secret.touch(mode=0o600)
    secret.write_text(password)
    if user:
        shutil.chown(secret, user)
    try:
        done = subprocess.run(
            [
                *(programs / "initdb", "-D", folder / "data", "-U", superuser, "--no-sync"),
                *("--auth=scram-sha-256", f"--pwfile={secret}", "--locale=C", "-E", "UTF8"),
            ],
            cwd=folder,
            user=user,
            capture_output=True,
            text=True,
        )
    except PermissionError as error:
        raise ConfigurationError(
            f"the user {user} cannot work in {folder}",
            hint="Choose a folder that others may enter, below /var/lib say",
        ) from error
    finally:
        secret.unlink()
    if done.returncode:
        raise ConfigurationError(f"initdb failed in {folder}: {done.stderr.strip()[-500:]}")
    return folder / "data"
