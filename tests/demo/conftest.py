from tests.desk import desk, sandbox  # noqa: F401
