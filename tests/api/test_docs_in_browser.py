"""The page of the API in a real browser: readable, at every width, without a complaint of the policy or of axe."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser
AXE = Path(__file__).resolve().parents[1] / "vendor" / "axe-core" / "axe.min.js"


@pytest.fixture
def page(chromium: Any, live_server: Any) -> Iterator[Any]:
    context = chromium.new_context(bypass_csp=False, base_url=live_server.url)
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("width", [1280, 360])
def test_the_page_is_readable_and_accessible(page: Any, width: int, tmp_path: Path) -> None:
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto("/api/docs")
    assert page.title() == "HTTP API · OpsLedger"
    assert complaints == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    assert not found, json.dumps(
        [(one["id"], [node["html"] for node in one["nodes"][:3]]) for one in found], indent=1
    )
    if keep := os.environ.get("KEEP_SHOTS"):
        page.screenshot(path=f"{keep}/api-docs-{width}.png", full_page=False)
