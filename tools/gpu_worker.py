"""One of the processes of gpu_check.py, with a GPU, which others may share: runs training steps, says what differs.

Prints one JSON object per check. All processes run the same steps together, on a mesh of all of them. What a step
communicates is read from NCCL's own log, where there is one, and compared with what the executable says.
"""

import argparse
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "test")]

import jax  # noqa: E402  after the path is set
import numpy as np  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402
from programs.catalog import MATRIX  # noqa: E402
from programs.compare import difference_from_definition, tolerance_of  # noqa: E402
from programs.program import Program, placed, replicated  # noqa: E402
from programs.transformer import Config, adam, batch, program  # noqa: E402

import paropt  # noqa: E402

STEPS = 8
LOSS_TOLERANCE = 1e-4  # relative, as in the demo
JOIN_SECONDS = 120
TRAINING = "training of the demo"
ALONE, OURS = "jax.jit", "paropt.jit"

# Is asked for when XLA alone is wrong: it moves the sum of a scatter out of a loop that goes on without it (openxla
# issue 49143, of September 2026), and what the condition of the loop reads.
CODE_MOTION = "while-loop-all-reduce-code-motion"

# NCCL's line of a collective, and the numbers by which it names its types (nccl.h).
CALL = re.compile(r"NCCL INFO (\w+): opCount .* count (\d+) datatype (\d+) .*\[nranks=(\d+)\]")
TYPE_BYTES = {0: 1, 1: 1, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 10: 1, 11: 1}
KINDS = {"AllReduce": "all-reduce", "ReduceScatter": "reduce-scatter", "AllGather": "all-gather"}


@dataclass(frozen=True)
class Finding:
    """One thing that was checked, or that could not be."""

    what: str
    said: str
    is_wrong: bool = False  # par-opt's result, or what is sent is not what the executable says
    is_xla_wrong: bool = False  # its result without par-opt
    sent: dict[str, dict[str, int]] = field(default_factory=dict)  # of jax.jit and paropt.jit: bytes per kind and step


class NcclLog:
    """The collectives that this process asked NCCL for, as its log says (NCCL_DEBUG_SUBSYS=COLL)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0

    def since_last(self) -> dict[str, int]:
        """Payload bytes of each kind since the last call, as `paropt.audit` counts them."""
        text = self.path.read_text() if self.path.exists() else ""
        new, self._read = text[self._read :], len(text)
        sent: Counter[str] = Counter()
        for name, count, number, ranks in CALL.findall(new):
            if name in KINDS:
                whole = 1 if name == "AllReduce" else int(ranks)  # NCCL counts a shard of the others
                sent[KINDS[name]] += int(count) * TYPE_BYTES[int(number)] * whole
        return dict(sorted(sent.items()))


def check_program(name: str, devices: Sequence[jax.Device], log: NcclLog | None = None) -> Finding:
    """The program as it is and with par-opt, against its definition; with a log, what is sent against what is said."""
    try:
        made, own = _made(MATRIX[name], devices)
    except ValueError as error:
        return Finding(name, f"not run: {str(error).splitlines()[0]}")
    apart, sent, wrong = {}, {}, []
    for kind, step in _steps(made.step).items():
        compiled = step.lower(*made.args).compile()
        apart[kind] = _apart(made, own, compiled)  # which makes NCCL's communicators, too
        if log:
            log.since_last()
            jax.block_until_ready(compiled(*made.args))
            sent[kind], expected = log.since_last(), _said(compiled)
            wrong += [f"{kind} sent {sent[kind]}, not {expected}"] * (sent[kind] != expected)
    is_right = {kind: value <= tolerance_of(name) for kind, value in apart.items()}  # not so if one is not a number
    said = [f"{kind} differs by {value:.1e}" for kind, value in apart.items()]
    if not is_right[ALONE]:
        without = jax.jit(made.step).lower(*made.args).compile({"xla_disable_hlo_passes": CODE_MOTION})
        said[0] += f" ({_apart(made, own, without):.1e} without {CODE_MOTION})"
    return Finding(name, ", ".join(said + wrong), not is_right[OURS] or bool(wrong), not is_right[ALONE], sent)


def _apart(made: Program, own: Program, compiled: Any) -> float:
    new = whole(compiled(*made.args))
    with _on_cpu():
        return difference_from_definition(own, new)


def check_training(devices: Sequence[jax.Device], steps: int = STEPS) -> Finding:
    """The demo's training with jax.jit and with paropt.jit: the losses of each step."""
    config = Config(is_tied=False)
    made, _ = _made(lambda devices: program(config, optimizer=adam(3e-3), devices=devices), devices)
    losses: dict[str, list[float]] = {}
    for kind, step in _steps(made.step).items():
        state, losses[kind] = placed(whole(made.args[0]), replicated(made.args[0]), made.mesh), []
        for number in range(steps):
            with _on_cpu():
                micro_batches, examples, *_ = made.args[1].shape
                tokens = batch(config, micro_batches, examples, step=number)
            state, loss = step(state, placed(tokens, PartitionSpec(None, "data"), made.mesh))
            losses[kind].append(float(np.mean(whole(loss))))
    apart = float(np.max(np.abs(np.array(losses[OURS]) / np.array(losses[ALONE]) - 1)))
    said = f"losses of {steps} steps differ by {apart:.1e}"
    return Finding(TRAINING, said, is_wrong=not apart <= LOSS_TOLERANCE)


def whole(tree: Any) -> Any:
    """The values of arrays that may lie in several processes."""
    return jax.tree.map(_whole, tree)


def _whole(leaf: jax.Array) -> np.ndarray:
    if leaf.is_fully_addressable:
        return np.asarray(leaf)
    sharding: Any = leaf.sharding
    everywhere = NamedSharding(sharding.mesh, PartitionSpec())
    return np.asarray(jax.jit(lambda x: x, out_shardings=everywhere)(leaf).addressable_data(0))


def _steps(step: Callable[..., Any]) -> dict[str, Any]:
    return {ALONE: jax.jit(step), OURS: paropt.jit(step, strict=True)}


def _made(build: Callable[..., Program], devices: Sequence[jax.Device]) -> tuple[Program, Program]:
    """The program on these devices, and the same on devices of this process, which can read its arguments."""
    with _on_cpu():
        made = build(devices=devices)
        return made, made if jax.process_count() == 1 else build(devices=jax.local_devices(backend="cpu"))


@contextmanager
def _on_cpu() -> Iterator[None]:
    """Data and definitions are computed on the CPU: the same in each process, and without compiling each op for GPU."""
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        yield


def _said(compiled: Any) -> dict[str, int]:
    """What the executable says that it sends, in the kinds that NCCL's log tells apart."""
    sent: Counter[str] = Counter()
    for collective in paropt.audit(compiled).collectives:
        if collective.kind in KINDS.values():
            sent[collective.kind] += collective.payload * (collective.executions or 0)
    return dict(sorted(sent.items()))


def main() -> None:
    options = _options()
    jax.config.update("jax_default_matmul_precision", "highest")  # else f32 products are rounded to TF32
    jax.distributed.initialize(
        options.coordinator, options.processes, options.rank, initialization_timeout=JOIN_SECONDS
    )
    devices = jax.devices(options.platform)
    logged = os.environ.get("NCCL_DEBUG_FILE")
    log = NcclLog(Path(logged)) if logged else None
    for name in options.programs:
        found = check_training(devices) if name == TRAINING else check_program(name, devices, log)
        print(json.dumps(asdict(found)), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", help=f"names of test/programs/catalog.py, or `{TRAINING}`")
    parser.add_argument("--rank", type=int, required=True, help="of this process")
    parser.add_argument("--processes", type=int, required=True, help="how many there are")
    parser.add_argument("--coordinator", required=True, help="address:port where the process of rank 0 listens")
    parser.add_argument("--platform", default="cuda", help="whose devices are used (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
