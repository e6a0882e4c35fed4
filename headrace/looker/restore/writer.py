"""How an item of each type is made, changed, and found under its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.looker.content_types import content_of
from headrace.looker.exceptions import NotRestorable
from headrace.looker.restore.api import Api, id_from_answer
from headrace.looker.restore.fields import Fields, sources, to_send
from headrace.looker.restore.parts import Parts
from headrace.looker.restore.state import TILE, Ids
from headrace.looker.vault import id_text
from headrace.wire.exceptions import RequestRefused

_PATHS: Mapping[str, str] = {
    "user": "/users",
    "group": "/groups",
    "permission_set": "/permission_sets",
    "model_set": "/model_sets",
    "role": "/roles",
    "folder": "/folders",
    "lookml_model": "/lookml_models",
    "query": "/queries",
    "merge_query": "/merge_queries",
    "look": "/looks",
    "dashboard": "/dashboards",
    "board": "/boards",
    "scheduled_plan": "/scheduled_plans",
    "user_attribute": "/user_attributes",
    "alert": "/alerts",
}
#: What a person would know it by, within which Looker keeps it unique, or we look for it.
_NATURAL: Mapping[str, tuple[str, ...]] = {
    "group": ("name",),
    "permission_set": ("name",),
    "model_set": ("name",),
    "role": ("name",),
    "folder": ("name", "parent_id"),
    "look": ("title", "folder_id"),
    "dashboard": ("title", "folder_id"),
    "board": ("title",),
    "scheduled_plan": ("name", "dashboard_id", "look_id"),
    "user_attribute": ("name",),
    "alert": ("custom_title", "dashboard_element_id", "cron"),
}
#: What has no search for a name, and where all of it is listed.
_LISTED: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "scheduled_plan": ("/scheduled_plans", {"all_users": "true"}),
    "user_attribute": ("/user_attributes", {}),
    "alert": ("/alerts/search", {"all_owners": "true"}),
}
_FOUND_AT_MOST = "100"
#: How Looker refuses a value.
_INVALID = (400, 409, 422)
_ROOTS = ("is_shared_root", "is_users_root", "is_embed_shared_root", "is_embed_users_root")


class Writer:
    """Makes and changes items at the target.

    Args:
        api: of the target.
        ids: which id is which there.
        enable_schedules: send schedules and alerts into another Looker as enabled as they are in
            the vault.

    Attributes:
        left_out: what could not be carried over since `begin`, in words.
    """

    def __init__(self, api: Api, ids: Ids, *, enable_schedules: bool) -> None:
        self._api = api
        self._ids = ids
        self._enable_schedules = enable_schedules
        self.left_out: list[str] = []
        self._parts = Parts(api, ids, self.leave_out)
        self._roots: list[Fields] | None = None

    def begin(self) -> None:
        """Begin with another item."""
        self.left_out.clear()

    def leave_out(self, what: str) -> None:
        """Name a part of the item that cannot be carried over."""
        if what not in self.left_out:
            self.left_out.append(what)

    def fields(self, type_: str, body: Fields) -> Fields:
        """What is sent of a body, every reference as it is at the target.

        Raises:
            NeedsAnother: something that it refers to is not there.
            NotRestorable: what it depends on is not in any body.
        """
        self._parts.check(body)
        fields = to_send(type_, body)
        if type_ == "alert":
            return self._of_alert(fields)
        if type_ == "user_attribute":
            self._check_hidden(body)
        if not fields.get("slug"):
            fields.pop("slug", None)
        if type_ in ("look", "scheduled_plan"):
            fields = self._with_query(type_, fields, body)
        if type_ == "scheduled_plan":
            fields["scheduled_plan_destination"] = [
                {k: v for k, v in each.items() if k not in _OF_DESTINATION}
                for each in body.get("scheduled_plan_destination") or ()
            ]
        if type_ == "merge_query":
            fields["source_queries"] = [
                self._ids.translated(each, self.leave_out) for each in sources(body)
            ]
        if type_ in ("look", "dashboard") and fields.get("folder_id") is None:
            folder = body.get("folder") or body.get("space") or {}
            fields["folder_id"] = id_text(folder.get("id"))
        return self._ids.translated(fields, self.leave_out)

    def _with_query(self, type_: str, fields: Fields, body: Fields) -> Fields:
        if type_ == "look":
            fields.pop("query_id", None)
            if not body.get("query"):
                raise NotRestorable("its body has no query: it came from a listing")
        elif (named := fields.get("query_id")) is not None and not self._ids.known("query", named):
            raise NotRestorable("it sends a query, which is in no body")
        return fields

    def _of_alert(self, fields: Fields) -> Fields:
        tile = fields.get("dashboard_element_id")
        if tile is not None and self._ids.known(TILE, str(tile)) is None:
            raise NotRestorable(
                f"the tile {tile} that it watches is not there",
                hint="Restore its dashboard first, with --force if that is there already",
            )
        fields = self._ids.translated(fields, self.leave_out)
        if "owner_id" not in fields:
            fields["owner_id"] = id_from_answer(self._api.get("/user"), "the caller")
        if "investigative_content_id" not in fields:
            fields.pop("investigative_content_type", None)
        return fields

    def _check_hidden(self, body: Fields) -> None:
        """A default value that was taken out as a secret (`headrace.looker.vault.secrets`)."""
        if not self._ids.same and body.get("value_is_hidden") and "default_value" not in body:
            self.leave_out("its default value, which is hidden and in no vault")

    def create(self, type_: str, fields: Fields, body: Fields) -> str:
        """Make it, without its parts; its id there.

        Raises:
            RequestRefused: the server refuses it, for example since the name is taken.
        """
        if type_ == "scheduled_plan" and not self._ids.same and not self._enable_schedules:
            fields = {**fields, "enabled": False}
        elif type_ == "alert" and not self._ids.same and not self._enable_schedules:
            fields = {**fields, "is_disabled": True}
        answer = self._write("POST", _PATHS[type_], type_, self._complete(type_, fields, body))
        name = "name" if type_ == "lookml_model" else "id"
        return id_from_answer(answer, f"the new {type_}", name=name)

    def update(self, type_: str, new_id: str, fields: Fields, body: Fields) -> None:
        """Give it the fields of the vault, and take it out of the trash if it lies there."""
        if type_ in ("look", "dashboard"):
            fields = {**fields, "deleted": False}
        elif type_ == "board":
            fields = {**fields, "deleted_at": None}
        elif type_ == "scheduled_plan" and not self._ids.same and not self._enable_schedules:
            # Switched off when it came, and switched on, if at all, by its users there.
            fields = {name: value for name, value in fields.items() if name != "enabled"}
        path = content_of(type_).item_path(new_id)
        if type_ == "alert" and not self._ids.same and not self._enable_schedules:
            fields = {**fields, "is_disabled": self._api.get(path).get("is_disabled")}
        sent = self._complete(type_, fields, body)
        if sent:
            # PATCH changes only some fields of an alert.
            self._write("PUT" if type_ == "alert" else "PATCH", path, type_, sent)

    def _write(self, method: str, path: str, type_: str, fields: Fields) -> Fields:
        """Send it; without its slug if Looker takes it only so."""
        try:
            return self._api.write(method, path, type_, fields)
        except RequestRefused as refusal:
            slug = fields.get("slug")
            if type_ != "dashboard" or not slug or refusal.status not in _INVALID:
                raise
            rest = {name: value for name, value in fields.items() if name != "slug"}
        answer = self._api.write(method, path, type_, rest)
        self.leave_out(f"the slug {slug!r}, which is taken there or refused")
        return answer

    def fill(self, type_: str, new_id: str, body: Fields, *, fresh: bool) -> None:
        """Make its parts; those that an old one had are removed first."""
        if type_ == "dashboard":
            self._parts.of_dashboard(new_id, body, fresh=fresh)
        elif type_ == "board":
            self._parts.of_board(new_id, body, fresh=fresh)
        elif type_ == "user":
            self._credentials(new_id, body, fresh=fresh)

    def named(self, type_: str, fields: Fields, body: Fields) -> str | None:
        """The id of the item that has the same name at the same place there, if there is one."""
        if type_ == "lookml_model":
            return str(body["name"]) if self._api.item(type_, str(body["name"])) else None
        if type_ == "user":
            return self._user(body)
        if content_of(type_).named_by:
            return None  # made once more, an identical one is the one that is there
        wanted = {name: fields.get(name) for name in _NATURAL[type_]}
        query = {name: str(v) for name, v in wanted.items() if v is not None}
        if type_ in _LISTED:
            found = self._api.get(*_LISTED[type_])
        else:
            found = self._search(f"{_PATHS[type_]}/search", query)
        for each in found:
            # The search folds case and knows wildcards; a name is a name.
            if all(_text(each.get(name)) == _text(value) for name, value in wanted.items()):
                return id_text(each.get("id"))
        return None

    def _user(self, body: Fields) -> str | None:
        """By email; else one without any email who has the same names: it was made by a run that
        was killed before it gave the email."""
        email = _email(body).casefold()
        names = ("first_name", "last_name")
        if email:
            for user in self._search("/users/search", {"email": email}):
                if _email(user).casefold() == email:
                    return id_text(user.get("id"))
        query = {name: str(body[name]) for name in names if body.get(name)}
        for user in self._search("/users/search", query) if query else ():
            if not _email(user) and all(user.get(name) == body.get(name) for name in names):
                return id_text(user.get("id"))
        return None

    def built_in(self, type_: str, body: Fields) -> str | None:
        """The id there of what Looker makes itself; None if this is nothing of the kind.

        Raises:
            NotRestorable: it is, and is not there.
        """
        if type_ == "folder":
            return self.root(body)
        if type_ != "user_attribute" or not body.get("is_system"):
            return None
        found = self.named(type_, body, body)
        if found is None:
            name = body.get("name")
            raise NotRestorable(f"Looker makes the user attribute {name!r}, and it is not there")
        return found

    def root(self, body: Fields) -> str | None:
        """The folder there that is what this one is, if it is one that Looker makes itself."""
        if body.get("is_personal"):
            # Looker makes it with its user.
            owner = self._ids.new("user", body.get("creator_id"))
            return id_text(self._api.get(f"/users/{owner}").get("personal_folder_id"))
        if body.get("parent_id") is not None:
            return None
        if self._roots is None:
            folders = self._api.get("/folders")
            self._roots = [folder for folder in folders if folder.get("parent_id") is None]
        flags = [flag for flag in _ROOTS if body.get(flag)]
        for root in self._roots:
            if any(root.get(flag) for flag in flags):
                return id_text(root.get("id"))
        for root in self._roots:
            if root.get("name") == body.get("name"):
                return id_text(root.get("id"))
        name = body.get("name")
        raise NotRestorable(f"it is a root folder, and there is no root called {name!r} there")

    def _complete(self, type_: str, fields: Fields, body: Fields) -> Fields:
        if type_ == "look":
            return {**fields, "query_id": self._parts.query(body["query"])}
        return fields

    def _credentials(self, new_id: str, body: Fields, *, fresh: bool) -> None:
        """An email to log in with; Looker sends no mail by itself for it."""
        email = _email(body)
        if email and isinstance(body.get("credentials_email"), dict):
            sent = {"email": email}
            method = "POST" if fresh else "PATCH"
            self._api.put(method, f"/users/{new_id}/credentials_email", sent)

    def _search(self, path: str, query: Mapping[str, str]) -> list[Any]:
        found = self._api.get(path, {**query, "limit": _FOUND_AT_MOST})
        return found if isinstance(found, list) else []


_OF_DESTINATION = ("id", "scheduled_plan_id", "looker_recipient")


def _email(body: Mapping[str, Any]) -> str:
    credentials = body.get("credentials_email")
    inner = credentials.get("email") if isinstance(credentials, dict) else None
    return str(inner or body.get("email") or "")


def _text(value: object) -> str | None:
    return None if value is None else str(value)
