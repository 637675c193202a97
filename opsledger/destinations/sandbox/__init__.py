"""The sandbox peer: a CRM and a mail provider that misbehave on demand and remember everything.

It ships with the product, runs as its own process or in a thread, and uses the standard library only.
Every destination profile is tested against it. See docs/sandbox.md.
"""

from .client import SandboxControl, SandboxRefused
from .peer import SandboxPeer

__all__ = ["SandboxControl", "SandboxPeer", "SandboxRefused"]
