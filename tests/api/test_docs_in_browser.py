"""The page of the API in a real browser: readable, at every width, without a complaint of the policy or of axe."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser
AXE = Path(__file__).resolve().parents[1] / "vendor" / "axe-core" / "axe.min.js"


@pytest.fixture
def page(live_server: Any) -> Iterator[Any]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium found: install chromium, or name one in CHROMIUM")
    from playwright.sync_api import sync_playwright

    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser.new_page(bypass_csp=False, base_url=live_server.url)
        browser.close()


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
