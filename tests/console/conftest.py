from pathlib import Path
from typing import Any

import pytest
from people import Cast, make_cast

from opsledger.accounts import tokens

HERE = Path(__file__).parent


@pytest.fixture
def cast(db: None) -> Cast:
    tokens.forget_all()
    return make_cast()


@pytest.fixture
def pages(settings: Any) -> list[dict[str, Any]]:
    """The console with the test's own pages beside it; what their POSTs really did."""
    import pages as test_pages

    settings.ROOT_URLCONF = "pages"
    settings.TEMPLATES = [
        settings.TEMPLATES[0] | {"DIRS": [*settings.TEMPLATES[0]["DIRS"], HERE / "templates"]}
    ]
    test_pages.done.clear()
    return test_pages.done
