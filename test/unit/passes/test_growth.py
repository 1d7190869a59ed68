"""What a rewrite costs grows with the program, not with its square: counted in calls, so that no clock decides."""

import cProfile
import pstats

import pytest
from programs.line_search import lowered_fit
from unit.passes.nested_sums import KIND, REDUCE, nested_sums

import paropt


def sums_of_one_value(count: int) -> str:
    """A loop that adds the all_reduce of one value to `count` accumulators."""
    kind, numbers = KIND, range(count)
    carried = ", ".join(f"%q{k} = %a" for k in numbers)
    kinds = ", ".join([kind] * count)
    body = "\n".join(
        f'%g{k} = "stablehlo.all_reduce"(%a) {REDUCE} : ({KIND}) -> {KIND}\n%s{k} = stablehlo.add %q{k}, %g{k} : {kind}'
        for k in numbers
    )
    sums = ", ".join(f"%s{k}" for k in numbers)
    return f"""module attributes {{mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32}} {{
      func.func public @main(%a: {kind}) -> {kind} {{
        %c = stablehlo.constant dense<0> : tensor<i32>
        %w:{count + 1} = stablehlo.while(%i = %c, {carried}) : tensor<i32>, {kinds}
        cond {{
          %n = stablehlo.constant dense<4> : tensor<i32>
          %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %t : tensor<i1>
        }} do {{
          %o = stablehlo.constant dense<1> : tensor<i32>
          %j = stablehlo.add %i, %o : tensor<i32>
          {body}
          stablehlo.return %j, {sums} : tensor<i32>, {kinds}
        }}
        return %w#1 : {kind}
      }}
    }}"""


def sum_doubled_for_nobody(count: int) -> str:
    """The same with one accumulator, and `count` ops that double the reduced value, which nobody reads."""
    doubled = "\n".join(f"%u{k + 1} = stablehlo.add %u{k}, %u{k} : {KIND}" for k in range(count))
    return sums_of_one_value(1).replace("%s0 = ", f"{doubled}\n%s0 = ".replace("%u0", "%g0"), 1)


def sharded_sums_and_one_that_is_declined(count: int) -> str:
    return sharded_sums(count, last="stablehlo.slice %n{0} [0:3, 0:4]", kind="tensor<3x4xf32>")


def sharded_sums(
    count: int, last: str = "stablehlo.slice %n{0} [0:4, 0:4]", kind: str = "tensor<4x4xf32>", of: int | None = None
) -> str:
    """A plain program of `count` sums that are split over "model", and one of which `last` makes something: the last
    one, or that with the number `of`.
    """
    of = count if of is None else of
    lies = '#sdy.sharding<@mesh, [{"model"}, {}]>'
    split = '#sdy.sharding<@mesh, [{"data"}, {?}]>'
    left = '<@mesh, [{?}, {?}], unreduced={"data"}>'
    x, whole = "tensor<16x4xf32>", "tensor<4x4xf32>"
    lines = []
    for k in range(count + 1):
        lines += [
            f"%p{k} = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : ({x}, {x}) -> {whole}",
            f"%u{k} = sdy.sharding_constraint %p{k} {left} {{paropt.operands = [{split}, {split}]}} : {whole}",
            f"%n{k} = stablehlo.negate %u{k} {{paropt.shardings = [{lies}]}} : {whole}",
        ]
    lines.append(f"%t = {last.format(of)} {{paropt.shardings = [{lies}]}} : ({whole}) -> {kind}")
    kinds = [kind if k == of else whole for k in range(count + 1)]
    values = ["%t" if k == of else f"%n{k}" for k in range(count + 1)]
    lines += [
        f'%v{k} = sdy.all_reduce {{"data"}} {value} out_sharding=<@mesh, [{{?}}, {{?}}]> : {kind}'
        for k, (value, kind) in enumerate(zip(values, kinds, strict=True))
    ]
    results = ", ".join(f"%v{k}" for k in range(count + 1))
    body = "\n".join(lines)
    return f"""sdy.mesh @mesh = <["data"=4, "model"=2]>
      func.func public @main(%x: {x} {{sdy.sharding = #sdy.sharding<@mesh, [{{"data"}}, {{}}]>}}) -> ({", ".join(kinds)}) {{
        {body}
        return {results} : {", ".join(kinds)}
      }}"""


def calls(text: str, passes: str) -> int:
    """How many calls of Python functions and of MLIR's bindings the passes make."""
    profile = cProfile.Profile()
    profile.runcall(paropt.optimize, text, passes=passes)
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]  # typeshed lacks it


@pytest.mark.parametrize(
    "module, passes",
    [
        (sums_of_one_value, "grad-sync"),
        (sum_doubled_for_nobody, "grad-sync"),
        (sharded_sums_and_one_that_is_declined, "annotate-unreduced"),
    ],
)
def test_cost_grows_with_the_program(module, passes):
    calls(module(5), passes)  # what is read once and memoized
    few, many = (calls(module(count), passes) for count in (40, 160))
    assert many < 5 * few


@pytest.mark.parametrize("shape", [{"arrays": 4}, {"depth": 2}, {"loops": 2}])
def test_cost_grows_with_the_nest(shape: dict[str, int]) -> None:
    """Four times the arrays, twice the depth, twice the loops: walks are not repeated for each of the others."""
    few = {"arrays": 20, "depth": 2, "loops": 4}
    many = few | {name: few[name] * times for name, times in shape.items()}
    calls(nested_sums(5, 2), "defer-sync")  # what is read once and memoized
    before, after = (calls(nested_sums(**each), "defer-sync") for each in (few, many))
    (times,) = shape.values()
    assert after < 1.5 * times * before


def test_a_line_search_costs_no_more_per_op_than_other_programs() -> None:
    """Its loops are in loops, in branches: none is walked again for each array, nor for each loop around it."""
    text = lowered_fit(4).as_text()
    calls(nested_sums(5, 2), "grad-sync")  # what is read once and memoized
    assert calls(text, "grad-sync") < 2000 * text.count(" = ")


def test_what_is_declined_costs_no_more_than_what_is_accepted():
    """A part that is declined is no reason to look at the others once more."""
    calls(sharded_sums(5), "annotate-unreduced")  # what is read once and memoized
    accepted, declined = sharded_sums(160), sharded_sums_and_one_that_is_declined(160)
    remarks = [paropt.optimize(text, passes="annotate-unreduced").remarks for text in (accepted, declined)]
    assert [sum(not remark.applied for remark in each) for each in remarks] == [0, 1]
    assert calls(declined, "annotate-unreduced") < 1.5 * calls(accepted, "annotate-unreduced")
