"""Bars for a replica's score, from what readers of it reach: the rule behind `replicas` in requests.json."""

from dataclasses import dataclass

CLEAR = 0.1


@dataclass(frozen=True)
class Bars:
    floor: float
    """The task counts as completed."""
    target: float
    alarm: float | None
    """Above it a leak or a fault in scoring is likelier than skill; None where an ideal reader reaches the top."""


def bars(no_image: float, greys: float, network: float | None, ideal: float | None) -> Bars:
    """All of one metric. Without a known ideal the top of the scale stands for it.

    Floor: a tenth of the way from the better of the blind readers to the ideal, and 85 % of what the small network
    reaches by patient, whichever is more. Target: halfway from the floor, or the network where it is better, to the
    ideal. Alarm: clearly above the ideal.
    """
    top = 1.0 if ideal is None else ideal
    blind = max(no_image, greys)
    floor = max(blind + CLEAR * (top - blind), 0.85 * (network or 0.0))
    target = (max(floor, min(network or 0.0, top)) + top) / 2
    alarm = top + CLEAR
    return Bars(round(floor, 3), round(target, 3), round(alarm, 3) if alarm < 1 else None)
