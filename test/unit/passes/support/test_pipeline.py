"""Pipelines as text: what is read, what is written back, and what each mistake is told."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxlib.mlir import ir
from modules import parsed

from paropt.passes.support.context import make_context
from paropt.passes.support.pipeline import Pipeline, PipelineError, Printing
from paropt.passes.support.registry import PASSES, PIPELINES, name_pipeline, register
from paropt.passes.support.remarks import Remark


def sample_pass(
    module: ir.Operation,
    *,
    text: Annotated[str, "Text."] = "",
    count: Annotated[int, "Integer."] = 0,
    ratio: Annotated[float, "Number."] = 0.0,
    flag: Annotated[bool, "Truth value."] = False,
    choice: Annotated[Literal["first", "second"], "Choice."] = "first",
) -> list[Remark]:
    """Record the options."""
    CALLS.append({"text": text, "count": count, "ratio": ratio, "flag": flag, "choice": choice})
    return []


CALLS: list[dict[str, Any]] = []


@pytest.fixture(autouse=True, scope="module")
def registered() -> Iterator[None]:
    """`sample-pass` and `sample-pipeline` exist for the tests of this file only."""
    register(sample_pass)
    name_pipeline("sample-pipeline", "cse,sample-pass{count=1}", "A pipeline.")
    name_pipeline("endless", "cse,endless", "Contains itself.")
    yield
    del PASSES["sample-pass"], PIPELINES["sample-pipeline"], PIPELINES["endless"]


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("", ""),
        ("  ", ""),
        ("builtin.module()", ""),
        ("cse", "cse"),
        (" cse , canonicalize ", "cse,canonicalize"),
        ("builtin.module(cse)", "cse"),
        ("builtin.module (sample-pass,cse)", "sample-pass,cse"),
        ("func.func(cse,canonicalize{max-iterations=3 top-down=false})",) * 2,
        ("func.func(func.func(cse))",) * 2,
        ("sample-pass{}", "sample-pass"),
        ("sample-pass{count=3  flag}", "sample-pass{count=3 flag=true}"),
        ("sample-pass{ text='a b' }", "sample-pass{text='a b'}"),
        ('sample-pass{text="plain"}', "sample-pass{text=plain}"),
        ("sample-pass{text={a=b}}", "sample-pass{text=a=b}"),
        ("sample-pass{text=}", "sample-pass{text=''}"),
        ("sample-pass{text='a,b)'},cse",) * 2,
        ("sample-pipeline", "cse,sample-pass{count=1}"),
        ("sample-pipeline{count=2 text=a}", "cse,sample-pass{count=2 text=a}"),
        ("builtin.module(sample-pipeline,sample-pipeline)", "cse,sample-pass{count=1},cse,sample-pass{count=1}"),
    ],
)
def test_spelling(text: str, spelled: str) -> None:
    pipeline = Pipeline.parse(text)
    assert str(pipeline) == spelled
    assert Pipeline.parse(spelled) == pipeline


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sample-pas", "no pass called `sample-pas`; did you mean `sample-pass`?"),
        ("func.func(sample-pas)", "no pass called `sample-pas`; did you mean `sample-pass`?"),
        ("xyzzy", "no pass called `xyzzy`; `par-opt --list-passes` lists them"),
        ("cse,,cse", "`cse,,cse` has an empty element at character 5"),
        ("cse,", "`cse,` has an empty element at character 5"),
        ("cse)", "`cse)` has a stray `)` at character 4"),
        ("a{(}", "`a{(}` has a stray `}` at character 4"),
        ("builtin.module(cse", "`builtin.module(cse` ends without a closing `)`"),
        ("sample-pass{count=1", "`sample-pass{count=1` ends without a closing `}`"),
        ("sample-pass{text='a}", "`sample-pass{text='a}` has no closing ' after character 18"),
        (
            "builtin.module(cse),cse",
            "write one `builtin.module(...)` around the whole pipeline, not around parts of it",
        ),
        ("builtin.module(cse){}", "`builtin.module(cse){}` goes on after the end of `builtin.module(...)`"),
        ("sample-pass{nope=1}", "sample-pass has no option `nope`; it has: text, count, ratio, flag, choice"),
        ("sample-pass{cuont=1}", "sample-pass has no option `cuont`; did you mean `count`?"),
        ("sample-pass{text=2 GiB}", "sample-pass has no option `GiB`; a value with a space is in quotes: text='2 GiB'"),
        ("sample-pass{text=2 count}", "sample-pass{count}: expected an integer"),
        ("sample-pass{text=2 cuont}", "sample-pass has no option `cuont`; did you mean `count`?"),
        ("sample-pass{flag GiB}", "sample-pass has no option `GiB`; it has: text, "),
        ("inline-calls{a=1}", "inline-calls has no option `a`; it has: max-ops"),
        ("sample-pass{count=x}", "sample-pass{count=x}: expected an integer"),
        ("sample-pass{count}", "sample-pass{count}: expected an integer"),
        (
            "sample-pass{count=9223372036854775808}",
            "sample-pass{count=9223372036854775808}: expected an integer of 64 ",
        ),
        ("sample-pass{ratio=nan}", "sample-pass{ratio=nan}: expected a number"),
        ("sample-pass{flag=1}", "sample-pass{flag=1}: expected true or false"),
        ("sample-pass{choice=third}", "sample-pass{choice=third}: expected one of first, second"),
        (
            "sample-pass{choice=frist}",
            "sample-pass{choice=frist}: expected one of first, second; did you mean `first`?",
        ),
        ("sample-pipeline{count=x}", "sample-pipeline{count=x}: expected an integer"),
        ("sample-pass(\n  text)", "`sample-pass( text)`: `sample-pass` takes its options in braces"),
        ("f(" * 2000 + "cse" + ")" * 2000, "the pipeline nests deeper than 100 levels at character 202"),
        ("sample-pass{count=1 count=2}", "sample-pass{count=1 count=2}: option `count` is given twice"),
        ("sample-pass{=1}", "sample-pass{=1}: write options as `name=value name2=value2`"),
        ("sample-pass(count=1)", "`sample-pass(count=1)`: `sample-pass` takes its options in braces"),
        ("sample-pipeline{a=1}", "no pass in sample-pipeline has an option `a`; it has: "),
        ("func.func(sample-pass)", "`sample-pass` runs on the module: write it outside `func.func(...)`"),
        ("func.func(cse,sample-pipeline)", "`sample-pipeline` runs on the module: write it outside `func.func(...)`"),
        ("endless", "pipeline `endless` contains itself"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(PipelineError) as raised:
        Pipeline.parse(text).manager(make_context(), [])
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


# Text that a pipeline can hold: a value in quotes cannot hold both kinds of quotes.
TEXT = st.text(st.characters(exclude_characters="'")) | st.text(st.characters(exclude_characters='"'))
VALUES = {
    "text": TEXT,
    "count": st.integers(-(1 << 63) + 1, (1 << 63) - 1),
    "ratio": st.floats(allow_nan=False),
    "flag": st.booleans(),
    "choice": st.sampled_from(["first", "second"]),
}


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    quote = '"' if "'" in str(value) else "'"
    return f"{quote}{value}{quote}"


@given(st.lists(st.fixed_dictionaries({}, optional=VALUES), max_size=3))
def test_options_come_through_and_back(stages: list[dict[str, Any]]) -> None:
    text = ",".join(
        "sample-pass{" + " ".join(f"{name}={_spelled(value)}" for name, value in options.items()) + "}"
        for options in stages
    )
    pipeline = Pipeline.parse(text)
    assert Pipeline.parse(str(pipeline)) == pipeline
    assert Pipeline.parse(f"builtin.module({pipeline})") == pipeline
    assert [dict(stage.options) for stage in pipeline.stages] == stages


@given(st.text(alphabet="ab-{}()=,.'\" 1", max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        pipeline = Pipeline.parse(text)
    except PipelineError as error:
        assert "\n" not in str(error)
    else:
        assert Pipeline.parse(str(pipeline)) == pipeline


def test_options_reach_the_pass() -> None:
    CALLS.clear()
    with make_context():
        module = ir.Module.parse("module {}")
    Pipeline.parse("sample-pass{text='a b' count=-3 ratio=1e-3 flag choice=second},sample-pass").run(module.operation)
    assert CALLS == [
        {"text": "a b", "count": -3, "ratio": 1e-3, "flag": True, "choice": "second"},
        {"text": "", "count": 0, "ratio": 0.0, "flag": False, "choice": "first"},
    ]


def test_options_of_a_named_pipeline_reach_the_passes_that_have_them() -> None:
    given = {stage.name: dict(stage.options) for stage in Pipeline.parse("split{count=8 policy=defer}").stages}
    assert given["split-microbatches"] == {"count": 8}
    assert given["defer-sync"] == {"policy": "defer"}
    with pytest.raises(PipelineError, match=r"^no pass in split has an option `cuont`; did you mean `count`\?$"):
        Pipeline.parse("split{cuont=8}")


@pytest.mark.parametrize("inlines", [True, False])
def test_a_pass_that_needs_an_inlined_module_gets_one(inlines: bool) -> None:
    seen: list[str] = []

    def looks(module: ir.Operation) -> list[Remark]:
        """Looks."""
        seen.append(str(module))
        return []

    text = """
      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
        return %0 : tensor<4xf32>
      }
      func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
        return %x : tensor<4xf32>
      }"""
    register(inlines=inlines)(looks)
    try:
        module = parsed(text)
        remarks = Pipeline.parse("looks").run(module.operation)
    finally:
        del PASSES["looks"]
    assert ["call @f" in text for text in seen] == [not inlines]
    assert [remark.pass_name for remark in remarks] == ["inline-calls"] * inlines


def test_steps_hold_one_pass_each() -> None:
    pipeline = Pipeline.parse("sample-pass{count=1},func.func(cse,canonicalize{max-iterations=3}),any(cse)")
    steps = ["sample-pass{count=1}", "func.func(cse)", "func.func(canonicalize{max-iterations=3})", "any(cse)"]
    assert [str(step) for step in pipeline.steps()] == steps
    assert pipeline.pass_names == ["sample-pass", "cse", "canonicalize", "cse"]


def test_steps_do_what_the_pipeline_does() -> None:
    text = """
      func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = stablehlo.add %x, %x : tensor<4xf32>
        %1 = stablehlo.add %x, %x : tensor<4xf32>
        %unused = stablehlo.multiply %0, %1 : tensor<4xf32>
        %2 = stablehlo.add %0, %1 : tensor<4xf32>
        return %2 : tensor<4xf32>
      }"""
    pipeline = Pipeline.parse("func.func(cse,canonicalize)")
    with make_context():
        whole, stepwise = ir.Module.parse(text), ir.Module.parse(text)
    pipeline.run(whole.operation)
    for step in pipeline.steps():
        step.run(stepwise.operation)
    assert str(whole) == str(stepwise)
    assert str(whole).count("stablehlo.") == 2


def test_printing_is_off_unless_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    with make_context() as context:
        module = ir.Module.parse("module {}")
    pipeline = Pipeline.parse("cse")
    pipeline.manager(context, []).run(module.operation)
    pipeline.manager(context, [], printing=Printing(before=frozenset({"sccp"}))).run(module.operation)
    assert capfd.readouterr().err == ""
    pipeline.manager(context, [], printing=Printing(before=frozenset({"cse"}))).run(module.operation)
    assert "IR Dump Before CSEPass" in capfd.readouterr().err


def test_options_that_differ_by_platform_are_set_where_they_are_not_given() -> None:
    pipeline = Pipeline.parse("inline-calls,expose-all-reduces,func.func(cse)")
    assert str(pipeline.on("gpu")) == "inline-calls,expose-all-reduces{scatters=left},func.func(cse)"
    assert str(pipeline.on("cpu")) == "inline-calls,expose-all-reduces{scatters=large},func.func(cse)"
    assert str(pipeline.on("tpu")) == "inline-calls,expose-all-reduces{scatters=outermost},func.func(cse)"
    assert pipeline.on("") == pipeline
    given = Pipeline.parse("expose-all-reduces{scatters=written}")
    assert given.on("gpu") == given
