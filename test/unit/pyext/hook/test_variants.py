"""What a module may become is compiled when it is asked for, and a plan of as many bytes once."""

from types import SimpleNamespace
from typing import Any, cast

from modules import parsed

from paropt.hook.jit_arguments import Spec
from paropt.hook.variants import Rewrite, Variants
from paropt.modules.summary import Remarks
from paropt.passes.support.pipeline import Pipeline


def test_what_is_asked_for_is_compiled_once() -> None:
    module, fresh = parsed("module @step {}"), [parsed("module @fresh {}") for _ in range(4)]
    compiled: list[Any] = []
    asked: list[str] = []

    def compile(module: Any) -> str:
        compiled.append(module)
        return f"executable {len(compiled)}"

    def by(module: Any, pipeline: Pipeline) -> tuple[Remarks, Any]:
        asked.append(str(pipeline))
        return Remarks([]), fallback

    fallback: Any = SimpleNamespace(
        fresh=lambda context: fresh[len(compiled)], compiled=lambda module, *_: (compile(module), None)
    )
    spec = cast(Spec, SimpleNamespace(pipeline=Pipeline.parse("hoist-gathers"), apart=None))
    variants = Variants(module, Rewrite(spec, fallback, by, 0, is_guess=False), Remarks([]), compile, (), {})
    assert not compiled
    variants.within(5), variants.within(6), variants.within(5)
    assert compiled == fresh[:2]
    assert "memory-budget=5" in asked[0] and "memory-budget=6" in asked[1]
    assert variants.original() is variants.original() and compiled == fresh[:3]
    variants.rewritten()
    assert compiled[3] is module
