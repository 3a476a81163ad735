"""Samples as people read them: percentiles, spread, and the ratio to the peer."""

from collections.abc import Iterable, Sequence
from statistics import median, quantiles

import msgspec
from rich.table import Table

from tests.benchmarks.peer import NONE, Peer


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the results. `low` and `high` are the spread over the repetitions; without a target it is there to compare."""

    scenario: str
    what: str
    unit: str
    value: float
    low: float
    high: float
    peer: Peer
    target: float | None
    lower_is_better: bool

    @property
    def met(self) -> bool:
        """True also without a target."""
        if self.target is None:
            return True
        return self.value <= self.target if self.lower_is_better else self.value >= self.target

    def ratio(self, peer: float | None) -> float | None:
        """How many times better than the peer."""
        if peer is None or not self.value:
            return None
        return peer / self.value if self.lower_is_better else self.value / peer


def percentile(samples: Sequence[float], percent: int) -> float:
    """By linear interpolation over at least two samples."""
    return quantiles(samples, n=100, method="inclusive")[percent - 1]


def rate(scenario: str, what: str, unit: str, rates: list[float], beside: Peer, target: float | None) -> Figure:
    """The figure of a rate, measured some times."""
    return Figure(
        scenario=scenario,
        what=what,
        unit=unit,
        value=median(rates),
        low=min(rates),
        high=max(rates),
        peer=beside,
        target=target,
        lower_is_better=False,
    )


def duration(scenario: str, what: str, times: list[float], beside: Peer, target: float | None) -> Figure:
    """The figure of a time in s, measured some times."""
    return msgspec.structs.replace(rate(scenario, what, "s", times, beside, target), lower_is_better=True)


def peak(scenario: str, what: str, sizes: list[float]) -> Figure:
    """The figure of a size in MiB, measured some times."""
    return msgspec.structs.replace(rate(scenario, what, "MiB", sizes, NONE, None), lower_is_better=True)


def size(scenario: str, what: str, sizes: list[float]) -> Figure:
    """The figure of a size in KiB, measured some times."""
    return msgspec.structs.replace(peak(scenario, what, sizes), unit="KiB")


def percentiles(
    scenario: str, what: str, rounds: Sequence[Sequence[float]], wanted: Iterable[tuple[int, Peer, float | None]]
) -> list[Figure]:
    """Of times in ms, measured in some rounds: a figure for each percentile with its peer and target."""
    everything = [sample for samples in rounds for sample in samples]
    figures = []
    for percent, beside, target in wanted:
        each = [percentile(samples, percent) for samples in rounds]
        figures.append(
            Figure(
                scenario=scenario,
                what=f"{what}, p{percent}",
                unit="ms",
                value=percentile(everything, percent),
                low=min(each),
                high=max(each),
                peer=beside,
                target=target,
                lower_is_better=True,
            )
        )
    return figures


def table(figures: Sequence[Figure]) -> Table:
    """All figures with the peer's beside them."""
    shown = Table("", "what", "Tidegate", "spread", "target", "Airflow default / tuned", "times better")
    for figure in figures:
        peers = " / ".join("-" if peer is None else f"{peer:g}" for peer in figure.peer)
        ratios = " / ".join("-" if (ratio := figure.ratio(peer)) is None else f"{ratio:,.0f}" for peer in figure.peer)
        mark = "[green]met[/]" if figure.met else "[red]missed[/]"
        shown.add_row(
            figure.scenario,
            figure.what,
            f"{figure.value:,.4g} {figure.unit}",
            f"{figure.low:,.4g} to {figure.high:,.4g}",
            "-" if figure.target is None else f"{'≤' if figure.lower_is_better else '≥'} {figure.target:,g} {mark}",
            peers,
            ratios,
        )
    return shown
