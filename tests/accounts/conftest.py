import pytest
from people import Cast, make_cast

from opsledger.accounts import tokens


@pytest.fixture
def cast(db: None) -> Cast:
    tokens.forget_all()
    return make_cast()
