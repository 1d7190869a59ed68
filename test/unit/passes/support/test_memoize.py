"""What is remembered of attributes is that of their own context, and of one context only."""

import gc
import weakref

from jaxlib.mlir import ir

from paropt.passes.sharding.axes import whole_axes
from paropt.passes.sharding.shardings import closed_sharding, read_sharding
from paropt.passes.support.context import make_context
from paropt.passes.support.memoize import Remembered

MESH = 'mesh<["x"=2]>'


def test_each_attribute_is_read_once() -> None:
    read: list[str] = []

    def text_of(attribute: ir.Attribute) -> str:
        read.append(str(attribute))
        return read[-1]

    context, remembered = make_context(), Remembered(text_of)
    for text in ('"a"', '"b"', '"a"', '"a"'):
        assert remembered(ir.Attribute.parse(text, context), context) == text
    assert read == ['"a"', '"b"']


def test_attributes_are_those_of_the_context_that_asks() -> None:
    first, second = make_context(), make_context()
    for context in (first, second, first):
        with context:
            made = closed_sharding(MESH, [whole_axes(["x"]), ()])
        assert made.context is context
        assert read_sharding(made).dimensions == (whole_axes(["x"]), ())


def test_a_context_is_forgotten_with_the_next() -> None:
    length: Remembered[ir.Attribute, int] = Remembered(lambda attribute: len(str(attribute)))
    kept: list[weakref.ref[ir.Context]] = []

    def ask() -> None:
        context = make_context()
        attribute = ir.Attribute.parse('"abc"', context)
        assert length(attribute, context) == 5
        kept.append(weakref.ref(context))

    ask()
    ask()
    gc.collect()
    assert [reference() is None for reference in kept] == [True, False]
