from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from brackets import bracketed  # noqa: F401  a fixture
from people import Cast, client_of, make_cast
from scenes import desk, sandbox, scenes  # noqa: F401  fixtures

from opsledger.accounts import tokens
from opsledger.accounts.models import Person

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


# A real browser


@pytest.fixture
def open_page(chromium: Any, live_server: Any, transactional_db: None) -> Iterator[Callable[..., Any]]:
    """`open_page(person, path)`: a tab of a browser in which the person is signed in. Errors in it fail the test."""
    contexts, wrong = [], []

    def open_(person: Person | None, path: str, **options: Any) -> Any:
        context = chromium.new_context(base_url=live_server.url, **options)
        context.set_default_timeout(10_000)
        contexts.append(context)
        if person is not None:
            sign_in(context, person)
        tab = context.new_page()
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("console", lambda said: wrong.append(said.text) if "Content Security" in said.text else None)
        tab.goto(path)
        return tab

    def sign_in(context: Any, person: Person) -> None:
        session = client_of(person).cookies["sessionid"].value
        context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])

    open_.sign_in = sign_in  # type: ignore[attr-defined]
    yield open_
    for context in contexts:
        context.close()
    assert wrong == []
