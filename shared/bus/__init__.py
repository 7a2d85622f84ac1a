"""The one door to NATS: see `Bus`."""

from shared.bus.bus import Bus

__all__ = ["Bus"]
