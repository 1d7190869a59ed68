"""`make scale`: its programs in every layout, what counts as worse, and its page."""

import json
import sys
from dataclasses import replace
from typing import Any

import jax
import pytest
from unit.scripts import ROOT

import paropt
from paropt.hlo.census import census

sys.path.insert(0, str(ROOT / "tools"))  # its parts import each other

import bench_scale
import scale_page
from scale_programs import LAYOUTS, MODELS, Model, program

TINY = Model("tiny", 2, 64, 8, 8, 64, 64)


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_layout_compiles(name: str) -> None:
    layout = LAYOUTS[name]
    layout = replace(layout, mesh={axis: min(size, 2) for axis, size in layout.mesh.items()})  # of 8 devices
    model = replace(TINY, experts=4) if "experts" in layout.parameters else TINY
    step, shapes, options = program(model, layout, jax.devices()[:8], length=32)
    compiled = jax.jit(step, **options).lower(*shapes).compile()
    ours = paropt.jit(step, strict=True, **options).lower(*shapes).compile()
    before, after = (sum(each.wire_bytes for each in census(each.as_text())) for each in (compiled, ours))
    assert before and after
    assert compiled.memory_analysis().argument_size_in_bytes == ours.memory_analysis().argument_size_in_bytes


def test_rows_name_models_and_layouts() -> None:
    assert all(model in MODELS and layout in LAYOUTS for model, layout, _ in bench_scale.ROWS)
    sizes = {name: sum(leaf.size for leaf in jax.tree.leaves(shapes_of(model))) for name, model in MODELS.items()}
    assert 6.7e9 < sizes["7 G"] < 6.8e9 and 68e9 < sizes["70 G"] < 70e9


def shapes_of(model: Model) -> Any:
    return jax.tree.map(
        lambda shape: jax.ShapeDtypeStruct(shape, "float32"), model.shapes, is_leaf=lambda leaf: isinstance(leaf, tuple)
    )


def variant(**changes: Any) -> dict[str, Any]:
    made = {"kinds": {"all-gather": 3e9, "all-to-all": 1e9}, "axes": {"fsdp": 4e9}, "collectives": 3, "peak": 5e9}
    return {**made, "lowering": 1.0, "compiling": 9.0, "step": 0.5, "warnings": [], **changes}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, []),
        ({"kinds": {"all-gather": 4.1e9}}, ["bytes"]),
        ({"peak": 5.09e9}, []),
        ({"peak": 5.2e9}, ["peak"]),
        ({"lowering": 5.0}, ["compile time"]),
    ],
)
def test_what_is_worse(changes: dict[str, Any], found: list[str]) -> None:
    assert scale_page.worse({"XLA alone": variant(), "default": variant(**changes)}) == found


def test_the_page_has_what_was_measured() -> None:
    found = {
        "7 G | HSDP | gpu:h100:1x8x8": {
            "date": "2026-11-28",
            "jax": "0.10.2",
            "problem": "",
            "variants": {
                "XLA alone": variant(axes={"replica": 1e9, "fsdp": 3e9}),
                "default": variant(peak=6e9),
                "policy=once": {"problem": "XlaRuntimeError: out of memory"},
            },
        }
    }
    page = scale_page.page(found)
    assert "| XLA alone | 4.00 | 3.00 | 0.00 | 1.00 | 1.00 | 3 | 5.00 | 1.0 | 9 | 0.50 |" in page
    assert "0 of 1 programs" in page and "7 G, HSDP, gpu:h100:1x8x8: worse in peak" in page
    assert "policy=once: XlaRuntimeError: out of memory" in page


def test_the_page_is_that_of_the_data() -> None:
    assert bench_scale.PAGE.read_text() == scale_page.page(json.loads(bench_scale.DATA.read_text()))
