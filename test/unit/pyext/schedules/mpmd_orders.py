"""The order in which Shardy's MPMD partitioner, which comes with jaxlib, runs a pipeline; printed as JSON.

It is run as a program of its own, since it puts modules of jaxlib under other names: some jaxlibs import their
partitioner as `jax.jaxlib`. All private names of jaxlib that the schedules' tests use are here. Where jaxlib has no
partitioner, or another one than this file knows, the exit status is 3 and the output says why.
"""

import importlib
import json
import sys
from typing import Any

TENSOR = "tensor<8x8xf32>"
NOT_HERE = 3


class NotHereError(Exception):
    """This jaxlib has no partitioner that can be called."""


def partitioner() -> Any:
    import jaxlib

    try:
        return importlib.import_module("jaxlib._sdy_mpmd")
    except ImportError:
        import jaxlib._jax

        aliases = {f"jax.{name}": module for name, module in sys.modules.items() if name.startswith("jaxlib.")}
        sys.modules.update({"jax.jaxlib": jaxlib} | aliases)
    try:
        return importlib.import_module("jaxlib._sdy_mpmd")
    except ImportError as error:
        raise NotHereError(f"jaxlib {jaxlib.__version__} has no MPMD partitioner: {error}") from error


def module_text(stages: int, microbatches: int) -> str:
    """A step of `stages` layers `tanh(h w)`: a call of `@micro` for each micro-batch, whose gradients are added up."""
    weights, batches = [f"%w{s}" for s in range(stages)], [f"%x{m}" for m in range(microbatches)]
    results = ", ".join([TENSOR] * stages)
    return f"""module @m {{
  sdy.mesh @mesh = <["data"=1]>
  func.func public @main({_arguments([*weights, *batches])}) -> ({results}) {{
{_calls(weights, batches, results)}
  }}
  func.func private @micro({_arguments([*weights, "%h0"])}) -> ({results}) {{
{"".join(_forward(s) for s in range(stages))}{"".join(_backward(s, stages) for s in reversed(range(stages)))}
    return {", ".join(f"%g{s}" for s in range(stages))} : {results}
  }}
}}"""


def _arguments(names: list[str]) -> str:
    return ", ".join(f"{name}: {TENSOR}" for name in names)


def _calls(weights: list[str], batches: list[str], results: str) -> str:
    stages = len(weights)
    lines, sums = [], [f"%c0#{s}" for s in range(stages)]
    for m, batch in enumerate(batches):
        called = f"mpmd.call @micro({', '.join([*weights, batch])}) {{call_counter = {m} : ui32}}"
        lines.append(f"%c{m}:{stages} = {called} : ({results}, {TENSOR}) -> ({results})")
        for s in range(stages if m else 0):
            lines.append(f"%sum{m}_{s} = stablehlo.add {sums[s]}, %c{m}#{s} : {TENSOR}")
            sums[s] = f"%sum{m}_{s}"
    return "\n".join([*lines, f"return {', '.join(sums)} : {results}"])


def _forward(stage: int) -> str:
    return f"""
    %h{stage + 1} = mpmd.named_computation<"s{stage}"> (%w{stage}, %h{stage}) ({_arguments(["%w", "%h"])}) {{
      %p = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : ({TENSOR}, {TENSOR}) -> {TENSOR}
      %n = stablehlo.tanh %p : {TENSOR}
      mpmd.return %n : {TENSOR}
    }} : ({TENSOR}, {TENSOR}) -> {TENSOR}"""


def _backward(stage: int, stages: int) -> str:
    """A product for each gradient; the first stage has no gradient of its input."""
    cotangent = f"%d{stage + 1}" if stage + 1 < stages else f"%h{stages}"
    down = f"%e = stablehlo.dot_general %d, %w, contracting_dims = [1] x [1] : ({TENSOR}, {TENSOR}) -> {TENSOR}"
    returned, types = ("%g, %e", f"{TENSOR}, {TENSOR}") if stage else ("%g", TENSOR)
    results = f"%g{stage}, %d{stage}" if stage else f"%g{stage}"
    operands = f"(%w{stage}, %h{stage}, {cotangent}) ({_arguments(['%w', '%h', '%d'])})"
    return f"""
    {results} = mpmd.named_computation<"s{stage}"(1)> {operands} {{
      %g = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] : ({TENSOR}, {TENSOR}) -> {TENSOR}
      {down if stage else ""}
      mpmd.return {returned} : {types}
    }} : ({TENSOR}, {TENSOR}, {TENSOR}) -> ({types})"""


def orders(found: Any, name: str, stages: int, microbatches: int, split: bool) -> list[list[list[Any]]]:
    """For each mesh, the kind and the micro-batch of what it runs, in order."""
    from jax.extend.mlir import ir
    from jax.interpreters.mlir import make_ir_context
    from jaxlib.mlir.dialects import mpmd

    options = {"mpmd_pipeline_schedule": name, "mpmd_infer_transfers": True, "mpmd_split_bwd_fragments": split}
    context = make_ir_context()
    mpmd.register_dialect(context)
    with context, ir.Location.unknown(context):
        partitioned = found.apply_mpmd_partitioning(
            ir.Module.parse(module_text(stages, microbatches)),
            "main",
            [(f"m{s}", [("data", 1)]) for s in range(stages)],
            {f"s{s}": (f"m{s}", s) for s in range(stages)},
            [None] * (stages + microbatches),
            [None] * stages,
            [],
            partitioning_options=options,
            fragment_merge_rules=[],
            fragment_schedule_rules=[],
            phases=found.PartitioningPhase.IMPORT | found.PartitioningPhase.OPTIMIZE,
        )
        fragments = found.get_fragment_info(partitioned.mpmd_module)
    rows: dict[str, list[list[Any]]] = {f"m{s}": [] for s in range(stages)}
    for fragment in fragments:
        rows[fragment.mesh_name].append([kind(found, fragment), fragment.call_counter])
    return list(rows.values())


def kind(found: Any, fragment: Any) -> str:
    if not any(origin.transpose_count for origin in fragment.origins):
        return "F"
    return "W" if fragment.split_type == found.SplitFragmentType.DROP_TRANSFERRED else "B"


def main(cases: str) -> int:
    try:
        found = partitioner()
        print(json.dumps([orders(found, *case) for case in json.loads(cases)]))
    except (NotHereError, ImportError, AttributeError, TypeError) as error:
        print(f"{type(error).__name__}: {error}")
        return NOT_HERE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
