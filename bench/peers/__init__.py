"""The peers' programs. They run in `.venv-bench`, with nothing of ours but the address of a database."""
