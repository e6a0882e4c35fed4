"""From a flow's flat parameters to the checked request: empty and zero mean "not given"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.pull.request import PullRequest, build_request
from headrace.settings import load_settings

#: Parameters whose empty form leaves the choice open.
_OPTIONAL = ("from_id", "to_id", "since", "until", "last")


def pull_request(planner: str, parameters: Mapping[str, Any]) -> PullRequest:
    """The request that the parameters mean, completed from the settings of this machine.

    Raises:
        ConfigurationError: naming the first parameter that cannot be used, and why.
    """
    settings = load_settings()
    fields = dict(parameters)
    for name in _OPTIONAL:
        fields[name] = fields.get(name) or None
    fields["lake"] = fields.get("lake") or settings.lake
    fields["base_url"] = fields.get("base_url") or settings.coinbase_url
    fields["rate"] = fields.get("rate") or settings.rate
    return build_request(planner=planner, **fields)
