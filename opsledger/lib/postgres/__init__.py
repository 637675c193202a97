"""Django's PostgreSQL, whose connections leave the turn while they wait (`lib/turns.py`)."""
