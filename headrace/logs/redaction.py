"""What must not stand in a line: secrets, line breaks, and more text than a line takes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

#: Longer texts are cut: an answer's body that found its way into an error must not fill the log.
MOST_CHARACTERS = 2_000

#: What stands in the place of a secret.
HIDDEN = "[hidden]"
_SECRET_NAMES = re.compile(r"SECRET|PASSWORD|PASSPHRASE|TOKEN|API_?KEY|AUTH_STRING", re.IGNORECASE)
_SHORTEST = 6

_USERINFO = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_ASSIGNED = re.compile(
    r"""(?ix)
    ( \b (?: authorization | cb-access-(?:key|sign|passphrase) | x-amz-security-token
           | (?:\w+[_-])? (?:secret|password|passphrase|token|api_?key) (?:_\w+)? )
      ["']? \s* [=:] \s* ["']? )
    (?: (?:bearer|basic|token) \s+ )?
    (?! \d+ \b | \[hidden\] )   # a fencing token is a number, and no secret
    [^\s"',;&)}\]]+
    """
)
#: Also bytes of a path that are no UTF-8, which Python has as lone surrogates and JSON cannot hold.
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")

_known: set[str] = set()


def hide(*secrets: str | None) -> None:
    """Never let these stand in a line of this process."""
    _known.update(secret for secret in secrets if secret and len(secret) >= _SHORTEST)


def hide_environment(environ: Mapping[str, str] = os.environ) -> None:
    """Hide the values of variables whose names say that they are secret."""
    hide(*(value for name, value in environ.items() if _SECRET_NAMES.search(name)))


def safe_text(text: str) -> str:
    """The text as part of one line: without secrets, line breaks and excess."""
    more = len(text) - MOST_CHARACTERS
    if more > 0:
        text = f"{text[:MOST_CHARACTERS]}... ({more} more characters)"
    for secret in _known:
        text = text.replace(secret, HIDDEN)
    text = _USERINFO.sub(HIDDEN, text)
    text = _ASSIGNED.sub(rf"\1{HIDDEN}", text)
    return _CONTROL.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
