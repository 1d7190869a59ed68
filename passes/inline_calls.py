"""Calls, inlined: the normal form that every other pass assumes."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Annotated, Any

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.metadata import METADATA, add_hints, hints_of, spelled, unit_of_call
from paropt.passes.ir.types import tensor_of, unsqueezes
from paropt.passes.sharding.meshes import meshes_of
from paropt.passes.sharding.shardings import SHARDING, is_manual, open_sharding
from paropt.passes.support.context import inlined_call
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, RefusedError, Remark, applied, missed, refusal, require
from paropt.passes.support.traversal import defining_op, op_of, ops_of

CALL, FUNCTION = "func.call", "func.func"

# Attributes that JAX writes on arguments and results, and that only have a meaning on those of the program's entry.
# Shardy ignores the sharding of a callee's argument as well: compiled programs are the same without it, on jaxlib 0.10
# and 0.12.
ENTRY_ONLY = frozenset(
    {
        "jax.buffer_donor",
        "jax.const",
        "jax.global_constant",
        "jax.result_info",
        "jax.token",
        "mhlo.layout_mode",
        "mhlo.memory_kind",
        "tf.aliasing_output",
        SHARDING,
    }
)
# The ops that all functions may grow to, together, before calls are inlined: Python visits each op some 100 times after
# that.
MOST_OPS = 2_000_000
_APART = "paropt.process.subprocesses"  # on a constraint that keeps two reshapes apart, while calls are inlined
OF_A_FUNCTION = frozenset({"sym_name", "sym_visibility", "function_type", "arg_attrs", "res_attrs", "no_inline"})


@register
def inline_calls(
    module: ir.Operation,
    *,
    max_ops: Annotated[int, "Keep a call when the function around it would grow past this many ops."] = 1_000_000,
) -> list[Remark]:
    """Replace every call by the body of its function, and erase unused functions.

    JAX outlines scan bodies, nested `jax.jit` and library functions; MLIR's `inline` leaves JAX's calls in place.
    Calls in loops, branches and `sdy.manual_computation` are inlined too, and calls in inlined bodies.

    Before:

        %1 = call @closed_call(%0)
        func.func private @closed_call(%x) {
          %y = sine %x
          return %y
        }

    After:

        %1 = sine %0

    Legal when:

    - the function has a body
    - the function has one block
    - the function does not call itself, directly or through others
    - neither the call nor the function is marked no_inline
    - no metadata binds the call: to a place, to a schedule, or to stay a call
    - the call has no other attributes than metadata
    - the function has no attributes of its own
    - the arguments and results have no other attributes than JAX's annotations of the program's entry

    Worth it when:

    - the function around the call stays within max-ops ops (each level of calls may double a program)

    Where the functions would still grow to more than 2,000,000 ops together, the pass refuses the module.

    An `sdy.sharding` on a result becomes an `sdy.sharding_constraint`. Values do not change.

    Metadata of the call (`mhlo.frontend_attributes`, as `jax.experimental.xla_metadata` writes them) that only hints is
    copied to the ops of the body; an op's own metadata counts. passes/ir/metadata.py lists the keys that bind.

    XLA simplifies functions before it inlines them, and partitions their ops after that. Two reshapes that a call has
    kept apart would become one in between, which may be sharded differently and all-gathered for that: an open
    constraint, of the only mesh, keeps them apart.

    Sources: MLIR `inline` and `symbol-dce`; XLA `CallInliner`.
    """
    functions = _functions(module)
    if not any(map(_is_private, functions.values())) and not ops_of(module, CALL):
        return []
    remarks = _erase_unused(module)  # before as well: no work and no remarks for functions that nothing calls
    graph = _CallGraph(_functions(module), max_ops, _only_mesh(module))
    circles = list(_callees_first(graph.callees))
    for circle in circles:
        graph.note_recursion(circle)
    _require_small(graph, circles)
    for circle in circles:
        remarks += [_inline(call, caller, graph) for caller in circle for call in graph.calls_of(caller)]
    remarks += _erase_unused(module)
    _leave_apart(module)
    return remarks


class _CallGraph:
    """The calls between the functions of a module, and the state of each function while calls are inlined."""

    def __init__(self, functions: dict[str, ir.Operation], max_ops: int, mesh: str | None) -> None:
        self.functions = functions
        self.max_ops = max_ops
        self.mesh = mesh
        known = {name: [c for c in ops_of(f, CALL) if _callee(c) in functions] for name, f in functions.items()}
        self.calls = known
        self.callees = {name: [_callee(call) for call in calls] for name, calls in known.items()}
        self.sizes = {name: _size(function) for name, function in functions.items()}
        self.recursive: set[str] = set()

    def calls_of(self, caller: str) -> list[ir.Operation]:
        """The calls in `caller`, those of empty functions first: after these, inlining never makes it smaller.

        So a call that would make it too large would do so in the result as well: the pass is idempotent.
        """
        return sorted(self.calls[caller], key=lambda call: self.sizes[_callee(call)] > 0)

    def note_recursion(self, circle: list[str]) -> None:
        """Functions that call each other in a circle are recursive, and so is one that calls itself."""
        if len(circle) > 1 or circle[0] in self.callees[circle[0]]:
            self.recursive.update(circle)


def _require_small(graph: _CallGraph, circles: Sequence[Sequence[str]]) -> None:
    """Raises RefusedError where inlining would take too long: before anything is inlined."""
    grown = dict(graph.sizes)
    for name in (name for circle in circles for name in circle if name not in graph.recursive):
        inlined = (_callee(call) for call in graph.calls[name] if _is_legal(call, graph))
        grown[name] = min(grown[name] + sum(grown[callee] for callee in inlined), graph.max_ops)
    total = sum(grown.values())
    if total > max(MOST_OPS, sum(graph.sizes.values())):
        raise RefusedError(
            f"inline-calls: the functions would grow to {total:,} ops together, past {MOST_OPS:,}: give a smaller "
            "max-ops, by which calls stay, or mark functions no_inline"
        )


def _is_legal(call: ir.Operation, graph: _CallGraph) -> bool:
    name = _callee(call)
    return refusal(_require_legal, call, graph.functions[name]) is None and name not in graph.recursive


def _inline(call: ir.Operation, caller: str, graph: _CallGraph) -> Remark:
    """Replaces `call` by the body of the function it calls; the remark says so, or why not."""
    name = _callee(call)
    function = graph.functions[name]
    size = graph.sizes[caller] + graph.sizes[name]
    try:
        _require_legal(call, function)
        require(name not in graph.recursive, "the function calls itself, directly or through others", function)
        require(size <= graph.max_ops, f"the function around it would grow to {size} ops, past max-ops")
    except Declined as declined:
        return missed("inline-calls", call, declined)
    done = applied("inline-calls", call, f"inlined @{name}")
    shardings, arguments = _shardings(function), function.regions[0].blocks[0].arguments
    with ir.InsertionPoint(call):
        operands = [_apart(v, a, call, graph.mesh) for v, a in zip(call.operands, arguments, strict=True)]
        values = inlined_call(_hinted(function, call), operands, call.location)
        values = [_constrained(v, sharding, call) for v, sharding in zip(values, shardings, strict=True)]
        values = [_apart(v, result, call, graph.mesh) for v, result in zip(values, call.results, strict=True)]
    for old, new in zip(call.results, values, strict=True):
        old.replace_all_uses_with(new)
    call.erase()
    graph.sizes[caller] = size - 1 + sum(sharding is not None for sharding in shardings)  # less the call itself
    return done


def _hinted(function: ir.Operation, call: ir.Operation) -> ir.Operation:
    """`function`, or where the metadata of `call` hints at something, a copy of it whose ops say so."""
    hints = hints_of(call)
    if not hints:
        return function
    copy = function.clone(ip=False).operation
    add_hints([view.operation for view in copy.regions[0].blocks[0].operations], hints)
    return copy


def _require_legal(call: ir.Operation, function: ir.Operation) -> None:
    """Declines a call that must stay, wherever it stands: a copy of it in an inlined body must stay as well."""
    blocks = len(function.regions[0].blocks)
    require(blocks > 0, "the function has no body", function)
    require(blocks == 1, "the function has several blocks", function)
    require("no_inline" not in call.attributes, "the call is marked no_inline")
    require("no_inline" not in function.attributes, "the function is marked no_inline", function)
    unit = unit_of_call(call)
    require(not unit, f"the call is a unit by its metadata: {unit}")
    of_call = _others(call.attributes.items(), {"callee", METADATA})
    require(not of_call, f"the call has attributes of its own: {of_call}")
    of_function = _others(function.attributes.items(), OF_A_FUNCTION)
    require(not of_function, f"the function has attributes of its own: {of_function}", function)
    of_values = _others(_attributes_of_values(function), ENTRY_ONLY)
    require(not of_values, f"an argument or result has attributes of its own: {of_values}", function)


def _erase_unused(module: ir.Operation) -> list[Remark]:
    """Erases private symbols that nothing reaches, cycles included; MLIR knows which attributes refer to symbols."""
    manager = PassManager.parse("builtin.module(symbol-dce)", module.context)
    manager.enable_verifier(False)  # the pipeline around this pass verifies
    try:
        manager.run(module)
    except ir.MLIRError:
        return [missed("inline-calls", module, Declined("an unregistered op may use functions: the unused ones stay"))]
    return []


def _callees_first(callees: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """The functions in groups that call each other in circles, a group after those it calls.

    Tarjan's algorithm, with a stack of its own: chains of calls may be longer than Python's recursion limit.
    """
    index: dict[str, int] = {}  # order of discovery
    lowest: dict[str, int] = {}  # the earliest function on the path that is reachable
    path: list[str] = []
    done: set[str] = set()
    for root in callees:
        work = [(root, iter(callees[root]))] if root not in index else []
        while work:
            name, rest = work[-1]
            if name not in index:
                index[name] = lowest[name] = len(index)
                path.append(name)
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[name])
                if lowest[name] == index[name]:
                    circle = path[path.index(name) :]
                    del path[-len(circle) :]
                    done.update(circle)
                    yield circle
            elif following not in index:
                work.append((following, iter(callees[following])))
            elif following not in done:
                lowest[name] = min(lowest[name], index[following])


def _functions(module: ir.Operation) -> dict[str, ir.Operation]:
    """The functions of the module itself (not those of a module nested in it), by name, in their order."""
    ops = (view.operation for view in module.regions[0].blocks[0].operations)
    return {_name(op): op for op in ops if op.name == FUNCTION}


def _size(function: ir.Operation) -> int:
    """How many ops are in the function, in all regions, besides its return."""
    count = -2  # the walk ends with the function itself

    def seen(_op: ir.Operation) -> ir.WalkResult:
        nonlocal count
        count += 1
        return ir.WalkResult.ADVANCE

    function.walk(seen)
    return max(count, 0)  # a declaration has no return


def _name(function: ir.Operation) -> str:
    return str(ir.StringAttr(function.attributes["sym_name"]).value)


def _callee(call: ir.Operation) -> str:
    return str(ir.FlatSymbolRefAttr(call.attributes["callee"]).value)


def _is_private(function: ir.Operation) -> bool:
    visibility = function.attributes.get("sym_visibility")
    return visibility is not None and ir.StringAttr(visibility).value == "private"


def _attributes_of_values(function: ir.Operation) -> list[tuple[str, ir.Attribute]]:
    """The attributes of the function's arguments and results, with their names."""
    lists = [function.attributes.get(key) for key in ("arg_attrs", "res_attrs")]
    entries: list[Any] = [ir.DictAttr(entry) for each in lists if each for entry in ir.ArrayAttr(each)]
    return [(named.name, named.attr) for entry in entries for named in entry]


def _shardings(function: ir.Operation) -> list[ir.Attribute | None]:
    """Of each result, its sharding."""
    of_results = function.attributes.get("res_attrs")
    if of_results is None:
        return [None] * len(ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results)
    entries = map(ir.DictAttr, ir.ArrayAttr(of_results))
    return [entry[SHARDING] if SHARDING in entry else None for entry in entries]  # noqa: SIM401  it has no such `get`


def _constrained(value: ir.Value, sharding: ir.Attribute | None, call: ir.Operation) -> ir.Value:
    if sharding is None:
        return value
    attributes = {"sharding": sharding}
    constraint = ir.Operation.create(CONSTRAINT, [value.type], [value], attributes, loc=call.location)
    return constraint.results[0]


def _only_mesh(module: ir.Operation) -> str | None:
    """The name of the module's mesh; None when it has none, or several."""
    names = list(meshes_of(module))
    return names[0] if len(names) == 1 else None


def _apart(value: ir.Value, read_as: ir.Value, call: ir.Operation, mesh: str | None) -> ir.Value:
    """`value`, which crosses the border that `call` was: constrained if a reshape makes it and one reads it there."""
    op = defining_op(value)
    if mesh is None or op is None or not _is_reshape(op):
        return value
    if not any(_is_reshape(use.owner.operation) for use in read_as.uses):
        return value
    tensor = tensor_of(value)
    if tensor is None or prod(tensor.shape) == 1:  # nothing to split
        return value
    constrained = _constrained(value, open_sharding(f"@{mesh}", [()] * len(tensor.shape)), call)
    op_of(constrained).attributes[_APART] = ir.UnitAttr.get()
    return constrained


def _is_reshape(op: ir.Operation) -> bool:
    return op.name == "stablehlo.reshape" or (op.name == "stablehlo.broadcast_in_dim" and unsqueezes(op))


def _leave_apart(module: ir.Operation) -> None:
    """Takes the mark off the constraints that keep reshapes apart; where no partitioner works, they go as well."""
    for op in ops_of(module, CONSTRAINT):
        if _APART not in op.attributes:
            continue
        del op.attributes[_APART]
        if is_manual(op):
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()


def _others(given: Iterable[tuple[str, ir.Attribute]], known: Collection[str]) -> str:
    """The attributes that are not known, for a message; "" when there are none."""
    return spelled({name: value for name, value in given if name not in known})
