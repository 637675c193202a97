"""Signs of life."""

from django.db import models


class Canary(models.Model):
    """A task that does nothing but finish; `/readyz/work` asks when it last did."""

    name = models.TextField(primary_key=True)
    finished_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} at {self.finished_at}"
