"""The schedules by name: one row each."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from paropt.schedules.asynchronous import ampnet, pipedream
from paropt.schedules.both_ways import chimera, dualpipe, dualpipe_v
from paropt.schedules.one_direction import gpipe, interleaved, one_f_one_b
from paropt.schedules.table import Schedule, ScheduleError
from paropt.schedules.token_slices import terapipe
from paropt.schedules.zero_bubble import zb_h1, zb_h2, zb_v


@dataclass(frozen=True)
class Restriction:
    """A condition on the numbers of stages and micro-batches."""

    text: str
    holds: Callable[[int, int], bool]


@dataclass(frozen=True)
class Row:
    """A schedule that has a name."""

    name: str
    make: Callable[..., Schedule]  # of stages, micro-batches, and the argument `varies`
    published: str
    semantics: Literal["synchronous", "asynchronous"] = "synchronous"
    chunks: int = 1  # per device and copy of the model; the default where these vary
    varies: Literal["", "chunks", "token_slices"] = ""
    restrictions: tuple[Restriction, ...] = ()


_WHOLE_GROUPS = Restriction("micro-batches must be a multiple of the stages", lambda s, m: m % s == 0)
_EVEN = Restriction("stages and micro-batches must be even", lambda s, m: s % 2 == m % 2 == 0)
_TWICE = Restriction("micro-batches must be at least twice the stages", lambda s, m: m >= 2 * s)

SCHEDULES = {
    row.name: row
    for row in (
        Row("gpipe", gpipe, "Huang et al. 2019, arXiv:1811.06965"),
        Row("1f1b", one_f_one_b, "Fan et al. 2021 (DAPPLE), arXiv:2007.01045"),
        Row(
            "interleaved",
            interleaved,
            "Narayanan et al. 2021 (Megatron-LM), arXiv:2104.04473",
            chunks=2,
            varies="chunks",
            restrictions=(_WHOLE_GROUPS,),
        ),
        Row("zb-h1", zb_h1, "Qi et al. 2023, arXiv:2401.10241"),
        Row("zb-h2", zb_h2, "Qi et al. 2023, arXiv:2401.10241"),
        Row("zb-v", zb_v, "Qi et al. 2023, arXiv:2401.10241", chunks=2),
        Row("chimera", chimera, "Li and Hoefler 2021, arXiv:2107.06925", restrictions=(_EVEN,)),
        Row("dualpipe", dualpipe, "DeepSeek-AI 2024 (V3), arXiv:2412.19437", restrictions=(_EVEN, _TWICE)),
        Row("dualpipev", dualpipe_v, "Sea AI Lab 2025, in DeepSeek-AI's DualPipe", chunks=2, restrictions=(_TWICE,)),
        Row("terapipe", terapipe, "Li et al. 2021, arXiv:2102.07988", varies="token_slices"),
        Row("pipedream", pipedream, "Harlap et al. 2018, arXiv:1806.03377", "asynchronous"),
        Row("ampnet", ampnet, "Gaunt et al. 2017, arXiv:1705.09786", "asynchronous"),
    )
}


def schedule(
    name: str, *, stages: int, microbatches: int, chunks: int | None = None, token_slices: int | None = None
) -> Schedule:
    """The schedule `name` for `stages` devices in a row.

    `chunks` is how many chunks of the model each device has, where that may be chosen; `token_slices`, into how many
    parts sequences are cut. Raises ScheduleError, with the remedy.
    """
    row = _row(name)
    for what, number in (("stages", stages), ("microbatches", microbatches)):
        _require_count(name, what, number)
    for restriction in row.restrictions:
        if not restriction.holds(stages, microbatches):
            raise ScheduleError(f"{name}: {restriction.text}: got {stages} stages, {microbatches} micro-batches")
    return row.make(stages, microbatches, **_varied(row, chunks, token_slices))


def _row(name: str) -> Row:
    if name in SCHEDULES:
        return SCHEDULES[name]
    close = difflib.get_close_matches(str(name).lower(), SCHEDULES, n=1)
    meant = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(SCHEDULES)}"
    raise ScheduleError(f"no schedule '{name}': {meant}")


def _varied(row: Row, chunks: int | None, token_slices: int | None) -> dict[str, int]:
    """The argument that only some schedules have."""
    if chunks is not None and row.varies != "chunks" and chunks != row.chunks:
        raise ScheduleError(f"{row.name}: chunks is {row.chunks} in this schedule, not {chunks}")
    if token_slices is not None and row.varies != "token_slices" and token_slices != 1:
        raise ScheduleError(f"{row.name}: it cuts no sequences: leave token_slices out")
    match row.varies:
        case "chunks":
            return {"chunks": _require_count(row.name, "chunks", row.chunks if chunks is None else chunks)}
        case "token_slices":
            return {
                "token_slices": _require_count(row.name, "token_slices", 4 if token_slices is None else token_slices)
            }
    return {}


def _require_count(name: str, what: str, number: int) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ScheduleError(f"{name}: {what} must be a whole number from 1 up, not {number}")
    return number
