"""An answer offers no step to keep where another operation does what it would do."""

from __future__ import annotations

import pytest
from django.urls import reverse
from people import client_of
from scenes import Scenes

from opsledger.lib.ids import public
from opsledger.local.postgres import Urls
from tests.by_hand import replaced_by_hand


@pytest.mark.parametrize("replaced", [False, True])
def test_a_step_is_kept_by_a_tick_only_where_nothing_replaces_it(
    scenes: Scenes, database_urls: Urls, replaced: bool
) -> None:
    opened, other = scenes.expired(), scenes.open()
    if replaced:
        replaced_by_hand(database_urls, other.id, opened.id)

    page = client_of(scenes.owner).get(reverse("operation", args=[public("op", opened.id)]))

    assert page.status_code == 200
    assert ('name="keep"' in page.content.decode()) is not replaced
