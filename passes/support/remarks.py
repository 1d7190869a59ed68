"""Remarks, the decisions of passes with their reasons, and `require`, which declines a rewrite."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from paropt.passes.support.certificate import Certificate
from paropt.passes.support.sources import Source, nearest_source, source_of


class Declined(Exception):  # noqa: N818  an answer, not an error
    """A pass found its shape but will not rewrite it."""

    def __init__(self, reason: str, op: ir.Operation | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.op = op  # the op to blame, when it is not the one being rewritten


class RefusedError(ValueError):
    """A pass will not run on this module; the message says why, and gives the right form, in one line."""


def require(holds: bool, why_not: str, op: ir.Operation | ir.OpView | None = None) -> None:
    """Declines the rewrite with `why_not` unless `holds`; `op` is the op to blame."""
    if not holds:
        raise Declined(why_not, op.operation if op is not None else None)


def refusal(check: Callable[..., object], *arguments: Any) -> Declined | None:
    """Why `check`, called with `arguments`, declines; None when it does not."""
    try:
        check(*arguments)
    except Declined as declined:
        return declined
    return None


class Saved(NamedTuple):
    """The savings of a rewrite: reduced arrays, and bytes per device, those of a trip where they were in a loop."""

    arrays: int
    bytes: int
    trips: int | None  # how often each was reduced; 1 outside of loops, None when not known
    arrays_after: int
    bytes_after: int
    is_guess: bool = False  # whether XLA alone may send less: it moves other arrays in place of these


class Choice(NamedTuple):
    """Bytes per device and step of one parameter: gathered where it is read, or once."""

    name: str  # as the program calls it, or where it is made
    in_loops: int
    once: int  # which every device holds meanwhile


@dataclass(frozen=True, repr=False)
class Remark:
    """One decision of one pass, at one op, as `--remarks` prints it."""

    pass_name: str
    op: str  # the kind of op, as in `stablehlo.add`
    source: Source
    applied: bool
    text: str  # the rewrite; for a missed one, the reason
    certificate: Certificate | None = None  # of a reduction that moved: why it may
    saved: Saved | None = None
    held: int = 0  # bytes per device that are held more for it
    choices: tuple[Choice, ...] = ()  # of the parameters that it is about
    count: int = field(default=1, compare=False)  # of equal decisions that this one stands for

    def __str__(self) -> str:
        return f"{self.source}: remark: {self.message}{f' ({self.count} times)' if self.count > 1 else ''}"

    def __repr__(self) -> str:
        """One line, without the certificate: a notebook shows a tuple of them."""
        return f"<{self}>"

    @property
    def told(self) -> str:
        """The text for a message, with its place where that is known."""
        return f"{self.text} ({self.source})" if self.source.file else self.text

    @property
    def message(self) -> str:
        """The remark without its position: the text that `expected-remark` matches."""
        verdict = "applied" if self.applied else "missed"
        return f"[{self.pass_name}] {self.op} {verdict}: {self.text}"


def applied(
    pass_name: str,
    op: ir.Operation,
    text: str,
    certificate: Certificate | None = None,
    saved: Saved | None = None,
    held: int = 0,
) -> Remark:
    return Remark(pass_name, op.name, nearest_source(op), True, text, certificate, saved, held)


def merged(remarks: Iterable[Remark]) -> list[Remark]:
    """Equal ones once, in their order, with how many there were."""
    counts: dict[Remark, int] = {}
    for remark in remarks:
        counts[remark] = counts.get(remark, 0) + remark.count
    return [replace(remark, count=count) for remark, count in counts.items()]


def missed(pass_name: str, op: ir.Operation, declined: Declined) -> Remark:
    """The remark for `declined`: it names the op to blame and its position when that is not `op` itself."""
    text = declined.reason
    if declined.op is not None and declined.op != op:
        text += f" ({declined.op.name} at {source_of(declined.op.location)})"
    return Remark(pass_name, op.name, nearest_source(op), applied=False, text=text)
