"""What an executable should reduce is predicted from its module, and compared with collectives as XLA might make them."""

from dataclasses import replace

import pytest
from jaxlib.mlir import ir
from modules import parsed

from paropt.hlo.census import Collective, Loop
from paropt.hlo.parser import Array
from paropt.hook.fallback import Fallback
from paropt.passes.inline_calls import inline_calls
from paropt.passes.sharding.propagation import Propagated
from paropt.verify import predictions
from paropt.verify.tags import gaps, tags_of
from paropt.verify.verification import Key, Prediction, Reduced, differences, mismatches, prediction

LOOP = Loop("while", 4)
DATA, MODEL = frozenset({"data"}), frozenset({"model"})

# Four times: adds a product of 8x8, which is not reduced over `data`, to a sum that is not either.
STEP = """
sdy.mesh @mesh = <["data"=4, "model"=2]>
func.func public @main(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %z1 = sdy.sharding_constraint %z <@mesh, [{}, {}]> : tensor<8x8xf32>
  %z2 = sdy.sharding_constraint %z1 <@mesh, [{}, {}], unreduced={"data"}> : tensor<8x8xf32>
  %l:2 = stablehlo.while(%i = %c0, %sum = %z2) : tensor<i32>, tensor<8x8xf32>
  cond {
    %c4 = stablehlo.constant dense<4> : tensor<i32>
    %p = stablehlo.compare LT, %i, %c4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %c1 = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.add %i, %c1 : tensor<i32>
    %d = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %d1 = sdy.sharding_constraint %d <@mesh, [{}, {}], unreduced={"data"}> : tensor<8x8xf32>
    %t = stablehlo.transpose %d1, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %t1 = sdy.sharding_constraint %t <@mesh, [{}, {}], unreduced={"data"}> : tensor<8x8xf32>
    %a = stablehlo.add %sum, %t1 : tensor<8x8xf32>
    %a1 = sdy.sharding_constraint %a <@mesh, [{}, {}], unreduced={"data"}> : tensor<8x8xf32>
    stablehlo.return %n, %a1 : tensor<i32>, tensor<8x8xf32>
  }
  %r = sdy.sharding_constraint %l#1 <@mesh, [{}, {}], unreduced={"data"}> : tensor<8x8xf32>
  %s = sdy.sharding_constraint %r <@mesh, [{}, {}]> : tensor<8x8xf32>
  return %s : tensor<8x8xf32>
}
"""
DOT = "stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>"
TAGGED = '<@mesh, [{}, {}], unreduced={"data"}> : tensor<8x8xf32>'
CONSTRAIN_G = f"%g1 = sdy.sharding_constraint %g {TAGGED}"


def module(text: str = STEP) -> ir.Module:
    return parsed(text)


def reduction(*dims: int, group: int = 4, loops: tuple[Loop, ...] = (), kind: str = "all-reduce") -> Collective:
    return collective([dims], group, loops, kind)


def collective(
    arrays: list[tuple[int, ...]], group: int = 4, loops: tuple[Loop, ...] = (), kind: str = "all-reduce"
) -> Collective:
    return Collective(kind, "r", tuple(Array("f32", dims) for dims in arrays), group, loops, False, False, "", "", 0)


def test_what_is_predicted() -> None:
    predicted = prediction(module().operation)
    assert list(predicted.unreduced) == [Key(64, 4, DATA)]
    assert predicted.closings == (Reduced(64, 64, 4, False, 1.0, DATA),)
    assert tuple(predicted.kept) == tuple(predicted.others) == ()


SUM = reduction(8, 8)

FITTING = {
    "as the module says": [SUM],
    "in another shape": [reduction(64)],
    "scattered": [reduction(8, 8, kind="reduce-scatter")],
    "with other collectives": [SUM, reduction(8, 8, group=2, loops=(LOOP,)), reduction(8, 8, kind="all-gather", loops=(LOOP,))],
}  # fmt: skip


@pytest.mark.parametrize("found", FITTING.values(), ids=FITTING.keys())
def test_executables_that_fit(found: list[Collective]) -> None:
    assert mismatches(prediction(module().operation), found) == []


OTHERS = {
    "again in the loop": ([SUM, reduction(8, 8, loops=(LOOP,))], "64 elements over 4 devices runs 4 times in loops, not 0 times"),
    "in a loop of unknown length": ([SUM, reduction(8, 8, loops=(Loop("", None),))], "runs 1 times in loops, not 0"),
    "unrolled": ([collective([(8, 8)] * 5)], "64 elements over 4 devices runs 5 times in all, not 1 times"),
    "concatenated in the loop": ([SUM, reduction(128, loops=(LOOP,))], "128 elements over 4 devices runs in loops, which no value"),
    "nowhere": ([reduction(8, 8, group=2)], "64 elements over 4 devices is missing"),
    "in the loop instead": ([reduction(8, 8, loops=(LOOP,))], "runs 4 times in loops"),
}  # fmt: skip


@pytest.mark.parametrize(("found", "words"), OTHERS.values(), ids=OTHERS.keys())
def test_executables_that_lost_something(found: list[Collective], words: str) -> None:
    lines = mismatches(prediction(module().operation), found)
    assert lines and words in lines[0]


@pytest.mark.parametrize("found", FITTING.values(), ids=FITTING.keys())
def test_executables_that_fit_take_no_propagation(found: list[Collective], monkeypatch: pytest.MonkeyPatch) -> None:
    """What a compiler may add besides is found out where something is in doubt."""
    made = []

    def recorded(module: ir.Operation) -> Propagated:
        made.append(module)
        return Propagated(module)

    monkeypatch.setattr(predictions, "Propagated", recorded)
    over_data = STEP.replace(', "model"=2', "")  # what is unreduced over all axes, the compiler has nothing to add to
    assert mismatches(prediction(module(over_data).operation), found) == []
    assert made == []
    assert mismatches(prediction(module(over_data).operation), [*found, reduction(8, 8, loops=(LOOP,))])
    assert len(made) == 1


def test_a_prediction_is_of_the_module_as_it_was() -> None:
    """Compilers change modules, and some of it is found out later."""
    given = module(
        STEP.replace(f"%d1 = sdy.sharding_constraint %d {TAGGED}", "%d1 = stablehlo.add %d, %d : tensor<8x8xf32>")
    )
    predicted, want = prediction(given.operation), tuple(prediction(given.operation).others)
    for op in list(given.body.operations):
        op.operation.erase()
    assert want and tuple(predicted.others) == want


def test_a_value_that_is_not_tagged_may_be_reduced() -> None:
    text = STEP.replace("%d = ", f"%e = {DOT}\n%d = ").replace("%sum, %t1", "%sum, %g1")
    text = text.replace("%a = ", f"%g = stablehlo.multiply %t1, %e : tensor<8x8xf32>\n{CONSTRAIN_G}\n%a = ")
    assert gaps(module(text).operation) == []
    predicted = prediction(module(text).operation)
    assert tuple(predicted.others) == (Reduced(64, 64, 4, True, 4.0, DATA),)
    once, twice = reduction(8, 8, loops=(LOOP,)), collective([(8, 8)] * 2, loops=(LOOP,))
    assert mismatches(predicted, [SUM, once]) == []
    assert mismatches(predicted, [SUM, collective([(8, 8)] * 4)]) == []  # unrolled
    assert "runs 8 times in loops, not 4 times" in mismatches(predicted, [SUM, twice])[0]


def test_concatenated_closings() -> None:
    text = STEP.replace("%r = ", f"%q = sdy.sharding_constraint %z2 {TAGGED}\n%r = ")
    text = text.replace("%s = ", "%s2 = sdy.sharding_constraint %q <@mesh, [{}, {}]> : tensor<8x8xf32>\n%s = ")
    text = text.replace("return %s :", "%both = stablehlo.add %s, %s2 : tensor<8x8xf32>\nreturn %both :")
    predicted = prediction(module(text).operation)
    assert len(predicted.closings) == 2
    assert mismatches(predicted, [reduction(128)]) == []
    assert "missing" in mismatches(predicted, [SUM])[0]


def test_sums_that_nobody_reads_are_not_missing() -> None:
    dead = STEP.replace("  return %s", "  %dead = stablehlo.add %s, %s : tensor<8x8xf32>\n  return %x")
    dead = dead.replace("-> tensor<8x8xf32> {", "-> tensor<16x8xf32> {").replace(
        "return %x : tensor<8x8xf32>", "return %x : tensor<16x8xf32>"
    )
    assert mismatches(prediction(module(dead).operation), []) == []
    assert "missing" in mismatches(prediction(module().operation), [])[0]


def test_what_is_unreduced_over_some_axes_is_reduced_over_the_others() -> None:
    both = STEP.replace('[{"data"}, {}]>})', '[{"data", "model"}, {}]>})')
    predicted = prediction(module(both).operation)
    assert tuple(predicted.kept) == (Reduced(64, 64, 2, True, 4.0, MODEL, addition=1),)
    kept = reduction(8, 8, group=2, loops=(LOOP,))
    assert mismatches(predicted, [SUM, kept]) == []
    assert mismatches(predicted, [SUM, reduction(8, 8, group=2)]) == []  # moved out of the loop by the compiler
    assert "64 elements over 2 devices is missing" in mismatches(predicted, [SUM])[0]


def test_each_dimension_that_is_added_up_may_get_a_reduction_of_its_own() -> None:
    split = '%y: tensor<16x4x4x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {"model"}, {}]>}'
    reduce = "stablehlo.reduce(%y init: %f0) applies stablehlo.add across dimensions = [0, 1, 2]"
    text = STEP.replace(") -> tensor<8x8xf32> {", f", {split}) -> tensor<8x8xf32> {{", 1).replace(
        "%r = ",
        "%f0 = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f"%q = {reduce} : (tensor<16x4x4x3xf32>, tensor<f32>) -> tensor<3xf32>\n"
        "stablehlo.custom_call @print(%q) {has_side_effect = true} : (tensor<3xf32>) -> ()\n%r = ",
    )
    predicted = prediction(module(text).operation)
    assert sorted(reduced.group for reduced in predicted.others) == [2, 4, 8]
    assert {(reduced.fewest, reduced.most) for reduced in predicted.others} == {(3, 3)}


def test_what_a_function_reduces_runs_as_often_as_it_is_called() -> None:
    call = "%e = func.call @product(%x) : (tensor<16x8xf32>) -> tensor<8x8xf32>"
    text = STEP.replace("%d = ", f"{call}\n%d = ").replace("%sum, %t1", "%sum, %g1")
    text = text.replace("%a = ", f"%g = stablehlo.multiply %t1, %e : tensor<8x8xf32>\n{CONSTRAIN_G}\n%a = ")
    function = f"""func.func private @product(%x: tensor<16x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"data"}}, {{}}]>}}) -> tensor<8x8xf32> {{
      %q = {DOT}
      return %q : tensor<8x8xf32>
    }}"""
    assert tuple(prediction(module(text + function).operation).others) == (Reduced(64, 64, 4, True, 4.0, DATA),)


def test_reductions_over_other_axes_are_no_sign_of_a_loss() -> None:
    square = STEP.replace('"model"=2', '"model"=4')
    predicted = prediction(module(square).operation)
    found, asked = reduction(8, 8, loops=(LOOP,)), replace(SUM, axes=("data",))
    assert mismatches(predicted, [asked]) == []
    assert mismatches(predicted, [asked, replace(found, axes=("model",))]) == []
    assert "in loops" in mismatches(predicted, [asked, replace(found, axes=("data",))])[0]
    assert "missing" in mismatches(predicted, [replace(asked, axes=("model",))])[0]


def test_where_axes_are_not_known_groups_are_compared() -> None:
    square = STEP.replace('[{"data"}, {}]>})', '[{"data", "model"}, {}]>})').replace('"model"=2', '"model"=4')
    predicted = prediction(module(square).operation)
    assert {key.axes for key in predicted.unreduced} == {DATA} and {r.axes for r in predicted.kept} == {MODEL}
    kept = reduction(8, 8, loops=(LOOP,))
    assert mismatches(predicted, [SUM, kept]) == []
    assert mismatches(predicted, [replace(SUM, axes=("data",)), kept]) == []
    assert "runs 8 times in loops, not 4 times" in mismatches(predicted, [SUM, kept, kept])[0]


def test_axes_of_one_device_and_parts_of_axes_are_told_as_in_the_census() -> None:
    parts = STEP.replace('"data"=4', '"data"=4, "one"=1').replace(
        'unreduced={"data"}', 'unreduced={"data":(1)2, "one"}'
    )
    assert list(prediction(module(parts).operation).unreduced) == [Key(64, 2, frozenset({"data:(1)2"}))]


def test_axes_of_another_mesh_may_span_the_same_devices() -> None:
    two = 'sdy.mesh @other = <["x"=4, "y"=2]>' + STEP
    predicted = prediction(module(two).operation)
    assert list(predicted.unreduced) == [Key(64, 4)]
    assert mismatches(predicted, [replace(SUM, axes=("x",))]) == []


ROWS = '{"model"}, {}'
PRODUCT = """
      %y1 = sdy.sharding_constraint %y <@mesh, [SPLIT]> : tensor<8x8xf32>
      %q = stablehlo.dot_general %y1, %y, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %q1 = sdy.sharding_constraint %q <@mesh, [RESULT]> : tensor<8x8xf32>
      stablehlo.custom_call @print(%q1) {has_side_effect = true} : (tensor<8x8xf32>) -> ()
"""


def with_product(before: str, split: str = ROWS, result: str = "{?}, {?}") -> Prediction:
    """Of a step that multiplies `y`, with its rows and columns split like that, by itself before it makes `before`."""
    argument = ", %y: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [SPLIT]>}"
    text = STEP.replace(") -> tensor<8x8xf32> {", f"{argument}) -> tensor<8x8xf32> {{", 1)
    text = text.replace(f"{before} = ", f"{PRODUCT}{before} = ")
    return prediction(module(text.replace("SPLIT", split).replace("RESULT", result)).operation)


def test_what_is_split_over_other_axes_for_a_product() -> None:
    """Where `model` splits what is added up and another dimension, XLA splits the former over `data` instead."""
    predicted = with_product("%r")
    added = replace(SUM, axes=("data",))
    assert mismatches(predicted, [SUM, added]) == []
    assert "runs 3 times in all, not 2 times" in mismatches(predicted, [SUM, added, added])[0]
    whole = with_product("%r", "{}, {}")
    assert "runs 2 times in all, not 1 times" in mismatches(whole, [SUM, added])[0]


def test_what_is_split_over_free_axes_for_a_product_in_a_loop() -> None:
    """XLA does the same in loops, where only sums over axes that split nothing are let pass."""
    predicted = with_product("%d")
    closing, added = (replace(each, axes=("data",)) for each in (SUM, reduction(8, 8, loops=(LOOP,))))
    assert mismatches(predicted, [closing, added]) == []
    assert "runs 8 times in loops, not 4 times" in mismatches(predicted, [closing, added, added])[0]
    whole = with_product("%d", "{}, {}")
    assert "runs 4 times in loops, not 0 times" in mismatches(whole, [closing, added])[0]
    taken = with_product("%d", result='{"model"}, {"data"}')
    assert "runs 4 times in loops, not 0 times" in mismatches(taken, [closing, added])[0]


def test_what_a_loop_only_stacks_may_be_reduced_after_it() -> None:
    text = STEP.replace("%d = ", f"%e = {DOT}\n%d = ").replace("%sum, %t1", "%sum, %g1")
    text = text.replace("%a = ", f"%g = stablehlo.multiply %t1, %e : tensor<8x8xf32>\n{CONSTRAIN_G}\n%a = ")
    key, where = Key(256, 4), "a stack of what is not reduced"
    predicted = replace(prediction(module(text).operation), unreduced={key: where}, in_loops=frozenset([key]))
    stack = reduction(4, 8, 8)
    assert mismatches(predicted, [SUM, stack]) == []
    assert (
        "256 elements over 4 devices runs 2 times in all, not 1 times" in mismatches(predicted, [SUM, stack, stack])[0]
    )
    assert "256 elements over 4 devices runs 4" in mismatches(predicted, [SUM, reduction(4, 8, 8, loops=(LOOP,))])[0]


def test_what_is_lost_after_loops_is_reduced_there() -> None:
    """XLA may split what a loop computes otherwise: what it reduces there is no sign of a sum lost after it."""
    key, outside, inside = Key(1, 4), reduction(group=4), reduction(group=4, loops=(LOOP,))
    asked, other = Reduced(1, 1, 4, False, 1.0), Reduced(1, 1, 4, True, 4.0)
    predicted = Prediction({key: "a norm"}, (asked,), (), (other,), frozenset())
    for found in ([outside], [outside, inside], [outside, inside, inside]):
        assert mismatches(predicted, found) == []
    lost = (
        "a reduction of 1 elements over 4 devices runs 2 times after loops, not 1 times: maybe the value at a norm (r)"
    )
    assert mismatches(predicted, [outside, inside, outside]) == [lost]
    assert mismatches(predicted, [outside] * 5) == []  # the loop's has left it
    unknown = [outside, reduction(3, loops=(LOOP,))]
    assert mismatches(predicted, unknown) == []
    for found in ([outside, inside, inside], unknown):
        assert mismatches(replace(predicted, in_loops=frozenset([key])), found)


def test_what_a_callback_returns_is_sent_to_all_by_a_sum() -> None:
    text = STEP.replace("func.func", "sdy.mesh @one = <[], device_ids=[0]>\nfunc.func", 1).replace(
        "%n = ",
        "%q = stablehlo.custom_call @callback() {sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} "
        ": () -> tensor<3xf32>\nstablehlo.custom_call @callback(%q) : (tensor<3xf32>) -> ()\n%n = ",
    )
    predicted = prediction(module(text).operation)
    assert mismatches(predicted, [SUM, reduction(3, loops=(LOOP,))]) == []
    assert mismatches(predicted, [SUM, reduction(4, loops=(LOOP,))])


def test_modules_in_which_nothing_was_tagged_are_not_judged() -> None:
    wrong = [reduction(8, 8, loops=(LOOP,))]
    plain, tagged = module(STEP.replace(', unreduced={"data"}', "")), module()
    assert differences(plain.operation, plain.operation, wrong) == []
    assert differences(tagged.operation, tagged.operation, wrong) == []  # the tags are the user's
    assert differences(plain.operation, tagged.operation, wrong)
    assert differences(plain.operation, tagged.operation, [SUM]) == []


def test_sums_of_floats_are_in_no_array_of_integers() -> None:
    """XLA:GPU shards the bits of dropout, and reduces ten numbers in one."""
    predicted = prediction(module().operation)
    bits = replace(reduction(10, loops=(LOOP,)), arrays=(Array("u32", (10,)),))
    assert predicted.are_floats and mismatches(predicted, [SUM, bits]) == []
    assert "10 elements over 4 devices runs in loops" in mismatches(predicted, [SUM, reduction(10, loops=(LOOP,))])[0]
    counts = prediction(module(STEP.replace("f32", "i32").replace("dense<0.0>", "dense<0>")).operation)
    assert not counts.are_floats and "10 elements" in mismatches(counts, [SUM, bits])[0]


# ---- gaps


def test_no_gap() -> None:
    assert len(tags_of(module().operation)) == 5
    assert gaps(module().operation) == []


def test_zeros_are_no_gap() -> None:
    """JAX's explicit mode says of zeros that they are not reduced."""
    text = STEP.replace(f"%z2 = sdy.sharding_constraint %z1 {TAGGED}", f"%z2 = sdy.sharding_constraint %z {TAGGED}")
    assert gaps(module(text).operation) == []


def test_gaps_that_were_there() -> None:
    text = STEP.replace("%a = stablehlo.add %sum, %t1", "%a = stablehlo.add %sum, %z")
    known = gaps(module(text).operation)
    assert known and gaps(module(text).operation, known) == []
    old, new, words = GAPS["no closing"]
    (line,) = gaps(module(text.replace(old, new)).operation, known)
    assert words in line
    more = text.replace("return %s", f"%more = sdy.sharding_constraint %z1 {TAGGED}\nreturn %s")
    before, after = module(text), module(more)
    assert not set(known) & set(differences(before.operation, after.operation, []))
    assert Fallback(before, strict=True).is_needed(after)


GAPS = {
    "of the start": (f"%z2 = sdy.sharding_constraint %z1 {TAGGED}", "%z2 = stablehlo.negate %z1 : tensor<8x8xf32>", "carried value 1"),
    "behind a linear op": (f"%t1 = sdy.sharding_constraint %t {TAGGED}", "%t1 = stablehlo.negate %t : tensor<8x8xf32>", "its result is not declared so"),
    "of the next value": (f"%a1 = sdy.sharding_constraint %a {TAGGED}", "%a1 = stablehlo.negate %a : tensor<8x8xf32>", "carried value 1"),
    "of the result": (f"%r = sdy.sharding_constraint %l#1 {TAGGED}", "%r = stablehlo.negate %l#1 : tensor<8x8xf32>", "carried value 1"),
    "a sum with what is reduced": ("%a = stablehlo.add %sum, %t1", "%a = stablehlo.add %sum, %z", "its addends are not"),
    "an op that is not linear": ("%a = stablehlo.add %sum, %t1", "%a = stablehlo.maximum %sum, %t1", "stablehlo.maximum"),
    "nothing to be unreduced": ("%a = stablehlo.add %sum, %t1", "%a = stablehlo.add %z, %z", "its addends are not"),
    "other axes": ("%t1 = sdy.sharding_constraint %t <@mesh, [{}, {}], unreduced={\"data\"}>", "%t1 = sdy.sharding_constraint %t <@mesh, [{}, {}], unreduced={\"model\"}>", "transpose"),
    "no closing": ("return %s", "return %r", "func.return at"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "words"), GAPS.values(), ids=GAPS.keys())
def test_gaps(old: str, new: str, words: str) -> None:
    assert STEP.count(old) == 1
    assert any(words in line for line in gaps(module(STEP.replace(old, new)).operation))


def test_a_part_of_the_axes_asks_for_the_sum_over_the_others() -> None:
    """As JAX's explicit mode has it, where a value that is not reduced over two axes is reduced over one."""
    both = 'unreduced={"data", "model"}'
    text = STEP.replace('unreduced={"data"}', both)
    part = '%half = sdy.sharding_constraint %r <@mesh, [{}, {}], unreduced={"model"}> : tensor<8x8xf32>\n'
    text = text.replace("%s = sdy.sharding_constraint %r", f"{part}%s = sdy.sharding_constraint %half")
    assert both in text and gaps(module(text).operation) == []


BARRIERS = {
    "all of it": ("%d1, %x", "tensor<8x8xf32>, tensor<16x8xf32>", f"sdy.sharding_constraint %b#0 {TAGGED}", ""),
    "an untagged result": ("%d1, %d", "tensor<8x8xf32>, tensor<8x8xf32>", "stablehlo.negate %b#0 : tensor<8x8xf32>", "its result is not declared so"),
    "an untagged operand": ("%d, %d1", "tensor<8x8xf32>, tensor<8x8xf32>", f"sdy.sharding_constraint %b#0 {TAGGED}", "its operand is not"),
}  # fmt: skip


@pytest.mark.parametrize(("held", "kinds", "made", "words"), BARRIERS.values(), ids=BARRIERS.keys())
def test_each_result_of_a_barrier_is_the_operand_in_its_place(held: str, kinds: str, made: str, words: str) -> None:
    barrier = f"%b:2 = stablehlo.optimization_barrier {held} : {kinds}\n%b1 = {made}\n"
    text = STEP.replace("%t = stablehlo.transpose %d1", f"{barrier}%t = stablehlo.transpose %b1")
    found = gaps(module(text).operation)
    assert any(words in line for line in found) if words else not found


def test_what_a_loop_reads_from_outside() -> None:
    text = STEP.replace("%l:2 = ", f"%o = {DOT}\n%o1 = sdy.sharding_constraint %o {TAGGED}\n%l:2 = ")
    assert gaps(module(text).operation) == []
    (line,) = gaps(module(text.replace("stablehlo.add %sum, %t1", "stablehlo.add %o1, %t1")).operation)
    assert "that its loop does not carry" in line


def test_arguments_say_it_too() -> None:
    """Those of functions; what a function is called with shows once it is inlined."""
    said = '{sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"data"}>}'
    text = STEP.replace("%z2 = ", "%unread = ").replace("%sum = %z2", "%sum = %start")
    assert gaps(module(text.replace("(%x:", f"(%start: tensor<8x8xf32> {said}, %x:")).operation) == []
    assert gaps(module(text.replace("(%x:", "(%start: tensor<8x8xf32>, %x:")).operation)


def test_what_a_program_comes_with_is_known_inlined_as_well() -> None:
    called = "stablehlo.transpose %d1, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>"
    function = """
        func.func private @turned(%d: tensor<8x8xf32>) -> tensor<8x8xf32> {
          %t = stablehlo.transpose %d, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
          %n = stablehlo.negate %t : tensor<8x8xf32>
          return %n : tensor<8x8xf32>
        }"""
    text = STEP.replace(called, "func.call @turned(%d1) : (tensor<8x8xf32>) -> tensor<8x8xf32>") + function
    before, after = module(text), module(text)
    inline_calls(after.operation)
    assert set(gaps(after.operation)) - set(gaps(before.operation))
    assert differences(before.operation, after.operation, []) == []


def test_a_condition_that_reads_it() -> None:
    text = STEP.replace("%p = ", "%bad = stablehlo.abs %sum : tensor<8x8xf32>\n%p = ")
    assert any("its condition reads an unreduced value" in line for line in gaps(module(text).operation))


# ---- what XLA makes of the program as it was


def test_what_xla_reduces_anyway_is_no_alarm() -> None:
    """In the program as it was the loop reduces the product, and besides it something of the same size."""
    predicted = prediction(module().operation)
    assert {key: each.times for key, each in predicted.moved.items()} == {Key(64, 4, DATA): 4.0}
    once = reduction(8, 8, loops=(LOOP,))
    for alone in ([], [once], [once, reduction(8, 8)]):  # the second leaves nothing to explain: that has moved
        assert mismatches(predicted, [SUM, once], alone)
    assert mismatches(predicted, [SUM, once], [once, once]) == []
    assert mismatches(predicted, [SUM, once, once], [once, once])  # the product is lost
    assert mismatches(predicted, [once, once], [once, once])
    assert mismatches(predicted, [once], [once, once])[0].endswith("is missing, one of 1")


def test_sizes_that_nothing_has_are_explained_by_their_volume() -> None:
    predicted = prediction(module().operation)
    once, padded, larger = (reduction(*dims, loops=(LOOP,)) for dims in ((8, 8), (8, 9), (8, 20)))
    assert "which no value of the module explains" in mismatches(predicted, [SUM, padded])[0]
    assert mismatches(predicted, [SUM, padded], [once, padded]) == []
    assert mismatches(predicted, [SUM, padded], [padded])  # that may be the product, in another form
    assert mismatches(predicted, [SUM, padded, padded], [once, padded])
    assert mismatches(predicted, [SUM, padded], [once, larger])  # another thing


def test_what_is_seen_is_named() -> None:
    lost = replace(reduction(8, 8, loops=(LOOP,)), name="all-reduce.7", source_file="model.py", source_line=3)
    (line,) = mismatches(prediction(module().operation), [SUM, lost])
    assert line.endswith("(all-reduce.7 of model.py:3)")
