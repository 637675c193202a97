"""What the machine can do, what others do with it, and what we do: measured in turn, on one server, in one run.

`make bench` starts a private PostgreSQL and a private broker, runs `python -m bench`, and deletes both.
"""
