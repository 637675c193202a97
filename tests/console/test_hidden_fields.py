"""A value that is hidden in a form stays when its field is left empty, and is taken away by a tick where it may be."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import QueryDict
from django.template.loader import render_to_string

from opsledger.console.fields import form_field, read_field
from opsledger.rules.definition_types import ParamDefinition

ACCOUNT = "ACC-4417"


def param(*, required: bool = False, sensitive: bool = True) -> ParamDefinition:
    return ParamDefinition("account", "Account", sensitive=sensitive, required=required)


CASES: dict[str, tuple[ParamDefinition, str, Any]] = {
    "left empty": (param(), "params.account=", ACCOUNT),
    "ticked": (param(), "params.account=&params.account.empty=on", None),
    "ticked and typed over": (param(), "params.account=ACC-9&params.account.empty=on", "ACC-9"),
    "ticked although it is required": (
        param(required=True),
        "params.account=&params.account.empty=on",
        ACCOUNT,
    ),
    "not hidden": (param(sensitive=False), "params.account=", None),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_hidden_value_is_taken_away_by_its_tick_only(case: tuple[ParamDefinition, str, Any]) -> None:
    one, posted, meant = case
    assert read_field(one, ACCOUNT, prefix="params", post=QueryDict(posted)) == meant


@pytest.mark.parametrize("template", ["operation/_param.html", "approvals/_field.html"])
def test_the_tick_is_offered_for_an_optional_hidden_value_only(template: str) -> None:
    def shown(one: ParamDefinition, value: Any = ACCOUNT, **typed: str) -> str:
        field = form_field(one, value, prefix="params", typed=typed)
        return render_to_string(template, {"field": field, "at": "revise"})

    assert 'name="params.account.empty">' in shown(param())
    assert 'name="params.account.empty" checked>' in shown(param(), **{"params.account.empty": "on"})
    for other in (shown(param(required=True)), shown(param(sensitive=False)), shown(param(), None)):
        assert ".empty" not in other
