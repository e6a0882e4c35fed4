"""The content types: where each is listed, where one item is, what its id is.

The paths are those of Looker's API 4.0 (its OpenAPI text), below `/api/4.0`. Ids are text in 4.0
and were numbers in 3.1; here they are text everywhere, so that 5 and "5" are one item.

Where a restorable body comes from, which is what a full extraction costs:

==============  ==========================================  ============================
type            listing                                     body
==============  ==========================================  ============================
user            /users                            pages     list
group           /groups                           pages     list
permission_set  /permission_sets                  one       list
model_set       /model_sets                       one       list
role            /roles/search                     pages     list
group_hierarchy /groups/search/with_hierarchy     pages     list
user_attribute  /user_attributes                  one       list
group_attribute_value
                /user_attributes (their ids)      one       two requests per attribute
user_attribute_value
                /users (their ids)                pages     one request per user
folder          /folders                          one       list
folder_access   /folders (ids of their metadata)  one       one request per folder, two for one
                                                            that does not inherit
connection      /connections (what is no secret)  one       list
lookml_model    /lookml_models                    pages     list
explore         /lookml_models (their explores)   pages     one request per explore
look            /looks/search                     pages     one request per look (the query)
dashboard       /dashboards/search                pages     list
                /dashboards/lookml/search         pages     list (the LookML text)
alert           /alerts/search?all_owners=true    pages     list
board           /boards                           one       list
scheduled_plan  /scheduled_plans?all_users=true   one       list
merge_query     named by tiles of dashboards      none      one request per merged query
query           named by merged queries           none      one request per query
==============  ==========================================  ============================

Queries and merged queries cannot be listed and never change: Looker gives a changed one a new id,
and an identical one the id of the one that is there. So each is fetched once.

What stands in answers of its own (values of attributes, access to folders) is put together as one
body; see `headrace.looker.combined_bodies`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import quote

from headrace.looker.exceptions import UnknownType

_NOTHING: Mapping[str, str] = MappingProxyType({})
#: Between the model and the rest of the ids of explores and LookML dashboards.
SEPARATOR = "::"


@dataclass(frozen=True, slots=True)
class Listing:
    """One request, or one sequence of pages, that names items of a type.

    Attributes:
        name: unique within the type; completeness is recorded under it.
        path: below /api/4.0.
        paged: whether it takes `limit` and `offset`; otherwise one answer holds everything.
        sorts: the order to ask for, so that edits between two pages do not shift them.
        restorable: whether an element is a whole body; if not, each item costs a request.
        params: other query parameters.
        within: the elements are parents, and the items stand in this array of theirs.
        id_field: the field of an element that is the item's id, if it is none of the type's own;
            an element without it has no such item.
    """

    name: str
    path: str
    paged: bool = True
    sorts: str | None = None
    restorable: bool = True
    params: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    within: str = ""
    id_field: str = ""


@dataclass(frozen=True, slots=True)
class Content:
    """One content type.

    Attributes:
        type: its name everywhere: in the vault, in options, in file names.
        listings: together they name every item of the type.
        one: path of a single item, with `{id}`; for an explore `{model}` and `{name}`.
        params: query of that request.
        parts: a single item is put together from several answers, see
            `headrace.looker.combined_bodies`.
        id_fields: the fields of a body that make the id, in the order of trial; several names
            joined by `::` are all needed.
        name_fields: the field that a person would call it by, in the order of trial.
        owner_fields, folder_fields: likewise, for the owner's and the folder's id.
        restore_rank: lower is restored earlier; None is never restored by the API.
        named_by: the type whose bodies name the items, where there is no listing of them. Such
            items are immutable.
    """

    type: str
    listings: tuple[Listing, ...]
    one: str
    params: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    parts: bool = False
    id_fields: tuple[str, ...] = ("id",)
    name_fields: tuple[str, ...] = ("name",)
    owner_fields: tuple[str, ...] = ()
    folder_fields: tuple[str, ...] = ()
    restore_rank: int | None = None
    named_by: str = ""

    @property
    def plain_id(self) -> bool:
        """Whether a body's `id` is the item's."""
        return self.id_fields[0] == "id"

    def item_path(self, item_id: str) -> str:
        """Path of one item below /api/4.0, the id escaped: it may hold anything."""
        model, _, name = item_id.partition(SEPARATOR)
        one = self.one
        if self.type == "dashboard" and name:
            one = "/dashboards/lookml/{id}"
        return one.format(id=escaped(item_id), model=escaped(model), name=escaped(name))


def escaped(text: str) -> str:
    """An id as a segment of a path: it may hold anything."""
    # Dots too: a client or a proxy would resolve a segment of dots.
    escaped = quote(text, safe="", errors="surrogatepass")
    return escaped.replace(".", "%2E") if set(text) == {"."} else escaped


#: What a connection is known by. User names, parameters of drivers and statements are not asked
#: for: people write passwords into them.
CONNECTION_FIELDS = (
    "name", "dialect_name", "host", "port", "database", "schema", "tmp_db_name", "tmp_db_host",
    "db_timezone", "query_timezone", "max_connections", "max_queries", "max_queries_per_user",
    "max_billing_gigabytes", "pool_timeout", "ssl", "verify_ssl", "uses_oauth",
    "uses_key_pair_auth", "user_db_credentials", "user_attribute_fields", "pdts_enabled",
    "pdt_concurrency", "maintenance_cron", "cost_estimate_enabled", "connection_pooling",
    "sql_runner_precache_tables", "sql_writing_with_info_schema", "always_retry_failed_builds",
    "disable_context_comment", "tunnel_id", "managed", "example", "project_id",
    "named_driver_version_requested", "has_password", "created_at", "user_id",
)  # fmt: skip
_OF_CONNECTION = MappingProxyType({"fields": ",".join(CONNECTION_FIELDS)})

_ALL = (
    Content(
        "user",
        (Listing("users", "/users", sorts="id"),),
        "/users/{id}",
        name_fields=("display_name", "email", "last_name"),
        folder_fields=("personal_folder_id",),
        restore_rank=1,
    ),
    Content("group", (Listing("groups", "/groups", sorts="id"),), "/groups/{id}", restore_rank=2),
    Content(
        "permission_set",
        (Listing("permission_sets", "/permission_sets", paged=False),),
        "/permission_sets/{id}",
        restore_rank=3,
    ),
    Content(
        "model_set",
        (Listing("model_sets", "/model_sets", paged=False),),
        "/model_sets/{id}",
        restore_rank=4,
    ),
    Content(
        "role", (Listing("roles", "/roles/search", sorts="id"),), "/roles/{id}", restore_rank=5
    ),
    Content(
        "group_hierarchy",
        (Listing("group_hierarchies", "/groups/search/with_hierarchy", sorts="id"),),
        "/groups/{id}",
        parts=True,
        restore_rank=6,
    ),
    Content(
        "user_attribute",
        (Listing("user_attributes", "/user_attributes", paged=False),),
        "/user_attributes/{id}",
        restore_rank=7,
    ),
    Content(
        "group_attribute_value",
        (Listing("attributes_of_groups", "/user_attributes", paged=False, restorable=False),),
        "/user_attributes/{id}/group_values",
        parts=True,
        name_fields=("user_attribute.name",),
        restore_rank=8,
    ),
    Content(
        "user_attribute_value",
        (Listing("users_with_attributes", "/users", sorts="id", restorable=False),),
        "/users/{id}/attribute_values",
        parts=True,
        restore_rank=9,
    ),
    Content(
        "folder",
        (Listing("folders", "/folders", paged=False),),
        "/folders/{id}",
        owner_fields=("creator_id",),
        folder_fields=("parent_id",),
        restore_rank=10,
    ),
    Content(
        "folder_access",
        (
            Listing(
                "folders_with_access",
                "/folders",
                paged=False,
                restorable=False,
                id_field="content_metadata_id",
            ),
        ),
        "/content_metadata/{id}",
        parts=True,
        name_fields=("content_metadata.name",),
        folder_fields=("content_metadata.folder_id",),
        restore_rank=11,
    ),
    Content(
        "connection",
        (Listing("connections", "/connections", paged=False, params=_OF_CONNECTION),),
        "/connections/{id}",
        params=_OF_CONNECTION,
        id_fields=("name",),
        restore_rank=12,
    ),
    Content(
        "lookml_model",
        (Listing("lookml_models", "/lookml_models"),),
        "/lookml_models/{id}",
        id_fields=("name",),
        restore_rank=13,
    ),
    Content(
        "explore",
        (Listing("explores", "/lookml_models", restorable=False, within="explores"),),
        "/lookml_models/{model}/explores/{name}",
        id_fields=("model_name::name", "id"),
    ),
    Content("query", (), "/queries/{id}", restore_rank=14, named_by="merge_query"),
    Content("merge_query", (), "/merge_queries/{id}", restore_rank=15, named_by="dashboard"),
    Content(
        "look",
        (Listing("looks", "/looks/search", sorts="id", restorable=False),),
        "/looks/{id}",
        name_fields=("title",),
        owner_fields=("user_id",),
        folder_fields=("folder_id", "folder.id", "space.id"),
        restore_rank=16,
    ),
    Content(
        "dashboard",
        (
            Listing("dashboards", "/dashboards/search", sorts="id"),
            Listing("lookml_dashboards", "/dashboards/lookml/search", sorts="dashboard_id"),
        ),
        "/dashboards/{id}",
        id_fields=("id", "dashboard_id"),
        name_fields=("title",),
        owner_fields=("user_id",),
        folder_fields=("folder_id", "folder.id", "space.id"),
        restore_rank=17,
    ),
    Content(
        "alert",
        (Listing("alerts", "/alerts/search", params=MappingProxyType({"all_owners": "true"})),),
        "/alerts/{id}",
        name_fields=("custom_title",),
        owner_fields=("owner_id",),
        restore_rank=18,
    ),
    Content(
        "board",
        (Listing("boards", "/boards", paged=False),),
        "/boards/{id}",
        name_fields=("title",),
        owner_fields=("user_id",),
        restore_rank=19,
    ),
    Content(
        "scheduled_plan",
        (
            Listing(
                "scheduled_plans",
                "/scheduled_plans",
                paged=False,
                params=MappingProxyType({"all_users": "true"}),
            ),
        ),
        "/scheduled_plans/{id}",
        name_fields=("name", "title"),
        owner_fields=("user_id", "user.id"),
        restore_rank=20,
    ),
)

#: Every content type by its name.
CONTENT: Mapping[str, Content] = MappingProxyType({content.type: content for content in _ALL})
#: The names, in the order in which they are restored; explores, which are not, beside their models.
TYPES: tuple[str, ...] = tuple(CONTENT)
#: The types that the API can make again, in the order of their dependencies.
RESTORE_ORDER: tuple[str, ...] = tuple(
    content.type
    for content in sorted(_ALL, key=lambda content: content.restore_rank or 0)
    if content.restore_rank is not None
)


def content_of(name: str) -> Content:
    """The content type called `name`.

    Raises:
        UnknownType: naming those that there are.
    """
    found = CONTENT.get(name)
    if found is None:
        raise UnknownType(name, TYPES)
    return found


def in_stages(types: Iterable[str]) -> list[list[str]]:
    """Types in groups, each type after the one whose bodies name its items."""
    stages: dict[int, list[str]] = {}
    for type_ in types:
        depth, above = 0, CONTENT[type_].named_by
        while above:
            depth, above = depth + 1, CONTENT[above].named_by
        stages.setdefault(depth, []).append(type_)
    return [stages[depth] for depth in sorted(stages)]
