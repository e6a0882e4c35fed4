"""What becomes of each field of a body, by the Write models of API 4.0.

Each is sent (`WRITABLE`, references translated by `Ids`), made by a request of its own or with
another field (`BY_OTHERS`), worked out by the server (`READ_ONLY`), or cannot be carried over
(`LEFT_OUT`): then the outcome of the item names it. A field that this version of the text does not
know is sent as well: Looker may have learned to write it. If Looker refuses the whole because of
it, the known fields are sent alone.

Two bodies of which the same is sent, ids of parts left out, are alike and need no writing. When a
dashboard is restored, its tiles are made again and have new ids; compared byte by byte it would be
restored again and again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.looker.elements import objects

Fields = dict[str, Any]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


READ_ONLY_EVERYWHERE = _names(
    "id can url created_at updated_at deleted_at deleter_id content_metadata_id"
    " content_favorite_id favorite_count view_count usage_count last_accessed_at last_viewed_at"
    " last_updater_id last_updater_name user_name readonly edit_uri refresh_interval_to_i"
    " is_owner_disabled deleted slug space space_id"
)
WRITABLE: Mapping[str, frozenset[str]] = {
    "user": _names("first_name home_folder_id is_disabled last_name locale models_dir_validated"
                   " ui_state can_manage_api3_creds"),
    "group": _names("can_add_to_content_metadata name"),
    "permission_set": _names("name permissions"),
    "model_set": _names("models name"),
    "role": _names("name permission_set_id model_set_id"),
    "folder": _names("name parent_id"),
    "lookml_model": _names("allowed_db_connection_names name project_name"
                           " unlimited_db_connections"),
    "look": _names("title user_id description is_run_on_load public query_id folder_id"
                   " certification_metadata"),
    "dashboard": _names(
        "description hidden query_timezone refresh_interval title user_id preferred_viewer"
        " certification_metadata alert_sync_with_dashboard_filter_enabled chat_enabled"
        " background_color crossfilter_enabled enable_viz_full_screen filters_bar_collapsed"
        " filters_location_top load_configuration lookml_link_id show_filters_bar show_title"
        " folder_id text_tile_text_color tile_background_color tile_text_color title_color"
        " appearance preserve_desktop_layout download_settings slug style layout_granularity"
    ),
    "board": _names("description title user_id"),
    "scheduled_plan": _names(
        "name user_id run_as_recipient enabled look_id dashboard_id lookml_dashboard_id"
        " filters_string dashboard_filters require_results require_no_results require_change"
        " send_all_results crontab datagroup timezone scheduled_plan_destination run_once"
        " include_links include_dashboard_summary custom_url_base custom_url_params"
        " custom_url_label show_custom_url pdf_paper_size pdf_landscape embed color_theme"
        " long_tables pdf_page_breaks tab_ids inline_table_width query_id include_filters"
    ),
    "merge_query": _names(
        "column_limit dynamic_fields pivots sorts source_queries total limit vis_config"
    ),
    "user_attribute": _names(
        "name label type default_value value_is_hidden user_can_view user_can_edit"
        " hidden_value_domain_whitelist needed_for_ci_run value_for_ci_run"
    ),
    "alert": _names(
        "applied_dashboard_filters comparison_type cron custom_url_base custom_url_params"
        " custom_url_label show_custom_url custom_title dashboard_element_id description"
        " destinations enhancements field is_disabled disabled_reason is_public"
        " investigative_content_type investigative_content_id lookml_dashboard_id lookml_link_id"
        " owner_id threshold time_series_condition_state"
    ),
    "query": _names(
        "model view fields pivots fill_fields filters filter_expression sorts limit column_limit"
        " total row_total subtotals vis_config filter_config visible_ui_sections dynamic_fields"
        " query_timezone"
    ),
    "dashboard_filter": _names(
        "dashboard_id name title type default_value model explore dimension row"
        " listens_to_filters allow_multiple_values required ui_config"
    ),
    "dashboard_element": _names(
        "body_text dashboard_id look_id merge_result_id note_display note_state note_text query_id"
        " filter_id refresh_interval result_maker subtitle_text title title_hidden title_text type"
        " rich_content_json extension_id aria_description certification_metadata"
    ),
    "board_section": _names("description board_id title"),
    "board_item": _names(
        "custom_description custom_title custom_url dashboard_id board_section_id look_id"
        " lookml_dashboard_id order use_custom_description use_custom_title use_custom_url"
        " custom_image_data_base64 use_custom_image"
    ),
}  # fmt: skip
#: What requests of its own make, or what other fields say as well.
BY_OTHERS: Mapping[str, frozenset[str]] = {
    "user": _names("credentials_email email group_ids role_ids"),
    "role": _names("permission_set model_set"),
    "look": _names("deleted folder query"),
    "dashboard": _names("deleted folder dashboard_elements dashboard_filters dashboard_layouts"),
    "board": _names("board_sections section_order deleted_at"),
    "scheduled_plan": _names("user"),
    "alert": _names("query_id"),  # that of its tile
    "dashboard_element": _names("query look dashboard_layout_id result_maker_id merge_result"),
    "board_section": _names("board_items item_order visible_item_order deleted_at"),
}
#: What only the Looker that it comes from knows, and what it is, in words.
LEFT_OUT: Mapping[str, Mapping[str, str]] = {
    "dashboard_element": {"image_id": "an uploaded image, which is in no body"}
}
#: What the server works out itself.
READ_ONLY: Mapping[str, frozenset[str]] = {
    "user": _names(
        "avatar_url avatar_url_without_sizing credentials_api3 credentials_embed display_name"
        " abilities is_embed_user"
        " embed_group_space_id looker_versions personal_folder_id sessions"
        " presumed_looker_employee verified_looker_employee roles_externally_managed"
        " allow_direct_roles allow_normal_group_membership allow_roles_from_normal_groups"
        " embed_group_folder_id is_iam_admin is_service_account service_account_name"
        " credentials_google credentials_ldap credentials_looker_openid"
        " credentials_oidc credentials_saml credentials_totp credentials_workforce"
        " personal_space_id home_space_id"
    ),
    "group": _names("contains_current_user external_group_id externally_managed include_by_default"
                    " user_count"),
    "permission_set": _names("all_access built_in"),
    "model_set": _names("all_access built_in"),
    "role": _names("internal users_url"),
    "folder": _names(
        "creator_id child_count external_id is_embed is_embed_shared_root is_embed_users_root"
        " is_personal is_personal_descendant is_shared_root is_users_root dashboards looks"
    ),
    "lookml_model": _names("explores has_content label"),
    "look": _names(
        "embed_url excel_file_url google_spreadsheet_formula image_embed_url public_slug public_url"
        " short_url model"
    ),
    "dashboard": _names("model"),
    "board": _names("primary_homepage"),
    "scheduled_plan": _names("title next_run_at last_run_at content_title last_run_status"),
    "merge_query": _names("result_maker_id"),
    "user_attribute": _names("is_system is_permanent"),
    "alert": _names("followed followable investigative_content_title owner_display_name"),
    "query": _names("share_url expanded_share_url has_table_calculations client_id"),
    "dashboard_filter": _names("field"),
    "dashboard_element": _names(
        "body_text_as_html note_text_as_html title_text_as_html subtitle_text_as_html alert_count"
        " lookml_link_id group_id images"
    ),
    "board_section": frozenset(),
    "board_item": _names(
        "content_created_by content_updated_at description image_url location title"
        " custom_image_url"
    ),
}  # fmt: skip


def to_send(kind: str, body: Mapping[str, Any]) -> Fields:
    """What is sent of a body: what can be written, and what this version does not know."""
    others = BY_OTHERS.get(kind, frozenset()) | LEFT_OUT.get(kind, {}).keys()
    kept_back = (READ_ONLY[kind] | READ_ONLY_EVERYWHERE | others) - WRITABLE[kind]
    return {name: value for name, value in body.items() if name not in kept_back}


def known_only(kind: str, fields: Mapping[str, Any]) -> Fields:
    """Only what the OpenAPI text calls writable."""
    return {name: value for name, value in fields.items() if name in WRITABLE[kind]}


_PLACE = ("row", "column", "width", "height")
_FINE_PLACE = ("granular_row", "granular_column", "granular_width", "granular_height")
_OF_PART = frozenset({"dashboard_id", "query_id", "board_id", "board_section_id", "result_maker"})
_OF_DESTINATION = frozenset({"id", "scheduled_plan_id", "looker_recipient"})


def alike(type_: str, there: Fields, wanted: Fields) -> bool:
    """Whether a restore of `wanted` over `there` would change nothing that it can change."""
    found, asked = essence(type_, there), essence(type_, wanted)
    # A restore takes out of the trash what was in it.
    asked["deleted"] = False
    if not asked["fields"].get("slug"):
        # Looker gives one to a dashboard that has none.
        for fields in (found["fields"], asked["fields"]):
            fields.pop("slug", None)
    if not any(asked.get("places") or ()):
        # The vault does not know where the tiles stood; wherever they are will do.
        found.pop("places", None)
        asked.pop("places", None)
    return found == asked


def essence(type_: str, body: Fields) -> Fields:
    """What makes the item what it is."""
    deleted = bool(body.get("deleted") or body.get("deleted_at"))
    kept: Fields = {"fields": to_send(type_, body), "deleted": deleted}
    match type_:
        case "dashboard":
            kept["filters"] = [
                _part("dashboard_filter", each) for each in objects(body.get("dashboard_filters"))
            ]
            kept["tiles"] = [_tile(each) for each in objects(body.get("dashboard_elements"))]
            tiles = [str(e.get("id")) for e in objects(body.get("dashboard_elements"))]
            where = places(body)
            kept["places"] = [where.get(tile) for tile in tiles]
        case "board":
            kept["sections"] = [
                {
                    "fields": _part("board_section", section),
                    "items": [
                        _part("board_item", item)
                        for item in ordered(section.get("board_items"), section.get("item_order"))
                    ],
                }
                for section in ordered(body.get("board_sections"), body.get("section_order"))
            ]
        case "look":
            kept["query"] = to_send("query", body.get("query") or {})
            kept["fields"].pop("query_id", None)
        case "merge_query":
            kept["fields"]["source_queries"] = sources(body)
        case "scheduled_plan":
            kept["fields"]["scheduled_plan_destination"] = [
                {k: v for k, v in each.items() if k not in _OF_DESTINATION}
                for each in objects(body.get("scheduled_plan_destination"))
            ]
        case "user":
            kept["email"] = body.get("email")
            for name in ("group_ids", "role_ids"):
                kept[name] = sorted(str(each) for each in body.get(name) or ())
    return kept


def sources(merge_query: Fields) -> list[Fields]:
    """The queries that a merged query merges; their slugs are the server's own."""
    return [
        {name: value for name, value in each.items() if name != "query_slug"}
        for each in objects(merge_query.get("source_queries"))
    ]


def _tile(part: Fields) -> Any:
    maker = part.get("result_maker") or {}
    return {
        "fields": _part("dashboard_element", part),
        "query": to_send("query", part.get("query") or maker.get("query") or {}),
        "listening": maker.get("filterables") or [],
    }


def _part(kind: str, part: Fields) -> Fields:
    return {k: v for k, v in to_send(kind, part).items() if k not in _OF_PART}


def places(dashboard: Fields) -> dict[str, Fields]:
    """Where tiles stand, by their ids."""
    return {
        str(component.get("dashboard_element_id")): {
            name: component[name]
            for name in (*_PLACE, *_FINE_PLACE)
            if component.get(name) is not None
        }
        for component in components(dashboard)
        if not component.get("deleted")
    }


def components(dashboard: Fields) -> list[Fields]:
    """The places of a dashboard's tiles, in its active layouts."""
    layouts = objects(dashboard.get("dashboard_layouts"))
    active = [layout for layout in layouts if layout.get("active")] or layouts[:1]
    return [c for layout in active for c in objects(layout.get("dashboard_layout_components"))]


def ordered(parts: Any, order: Any) -> list[Fields]:
    """The parts that are not deleted, in the order of their ids in `order`."""
    found = [part for part in objects(parts) if not part.get("deleted_at")]
    rank = {str(part_id): at for at, part_id in enumerate(order or ())}
    return sorted(found, key=lambda part: rank.get(str(part.get("id")), len(rank)))
