"""TLS as the environment wants it: which authorities are trusted."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from headrace.errors import ConfigurationError

#: Variables that name a file or a folder of certificates. OpenSSL reads the first by itself.
TRUST_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
_HINT = "Give a file of certificates in PEM form, or unset it"


def trusted_files(*more: str) -> dict[str, Path]:
    """The files and folders of certificates that the environment names, by variable.

    Args:
        more: variables beside the usual ones.

    Raises:
        ConfigurationError: there is no such file.
    """
    found = {
        name: Path(text) for name in (*TRUST_VARIABLES, *more) if (text := os.environ.get(name))
    }
    for name, path in found.items():
        if not path.exists():
            raise ConfigurationError(f"{name} names {path}, which does not exist", hint=_HINT)
    return found


def tls_context(*more: str, verify: bool = True) -> ssl.SSLContext:
    """A context that trusts the system's authorities and those that the environment names.

    Args:
        more: variables beside `SSL_CERT_FILE` (which takes the place of the system's own) and
            `REQUESTS_CA_BUNDLE`.
        verify: whether a certificate must be good and its host right.

    Raises:
        ConfigurationError: a file of certificates cannot be read.
    """
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    for name, path in trusted_files(*more).items():
        try:
            if path.is_dir():
                context.load_verify_locations(capath=path)
            else:
                context.load_verify_locations(cafile=path)
        except (ssl.SSLError, OSError) as error:
            raise ConfigurationError(
                f"{name} names {path}, which holds no certificates ({error})", hint=_HINT
            ) from error
    return context
