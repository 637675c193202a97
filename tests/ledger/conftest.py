from tests.console.scenes import scenes  # noqa: F401
from tests.desk import desk, sandbox  # noqa: F401
