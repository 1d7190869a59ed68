"""Attributes of the wrong type or value: each run ends well, or with one line that names what is wrong."""

import re
import subprocess
from collections.abc import Iterator

import pytest
from command import par_opt
from jaxlib.mlir import ir
from modules import parsed
from numeric.corpus import LIT

from paropt.modules.module_io import ModuleError, bytecode_of, optimize
from paropt.passes.state.checked_attributes import MAX_DEVICES, complaint
from paropt.passes.support.traversal import all_ops_of

# Files (`*`: all of a pass) whose modules have between them what jax, Shardy and passes of ours write, and the passes
# that read it.
CORPUS = {
    "annotate-aliases": "annotate-aliases",
    "annotate-contract": "annotate-contract",
    "annotate-unreduced*": "annotate-unreduced",
    "decompose-all-reduces": "decompose-all-reduces",
    "defer-sync-policy": "defer-sync",
    "defer-sync-own-shards": "defer-sync",
    "inline-calls": "inline-calls,outline-accumulation",
}
VALUES = (
    *('"8"', "8 : i32", "-1 : i64", f"{MAX_DEVICES} : i32", "9223372036854775807 : i64", "true", "unit", "[]", "[1]"),
    *('["a"]', "{}", "{a = 1}", "@x", "f32", "1.5 : f32", "dense<0> : tensor<2xi64>", "array<i64: 1>", '"\\FF"'),
)


# What jaxlib itself dies of when it is set to another type.
NATIVE = {"reduction_op": "an enum that jaxlib 0.12 has for the collectives of Shardy"}


def _sites(module: ir.Module) -> Iterator[tuple[int, str, str, int]]:
    """Which op has which attribute; for those of arguments and results also which one, and of which."""
    for number, op in enumerate(all_ops_of(module.operation)):
        for name in ("arg_attrs", "res_attrs"):
            for place, notes in enumerate(ir.ArrayAttr(op.attributes[name]) if name in op.attributes else ()):
                entries = ir.DictAttr(notes)
                yield from ((number, name, entries[i].name, place) for i in range(len(entries)))
        names = [getattr(given, "name", given) for given in op.attributes]  # of jaxlib 0.10 and 0.12
        yield from ((number, name, "", 0) for name in names)


def _changed(data: bytes, site: tuple[int, str, str, int], value: str) -> bytes | None:
    """The module with another attribute there; None where MLIR does not accept that."""
    number, name, key, place = site
    module = parsed(data)
    op = all_ops_of(module.operation)[number]
    new = ir.Attribute.parse(value, module.context)
    if key:
        listed = list(ir.ArrayAttr(op.attributes[name]))
        entries = ir.DictAttr(listed[place])
        kept = {entries[i].name: entries[i].attr for i in range(len(entries))}
        listed[place] = ir.DictAttr.get({**kept, key: new}, module.context)
        new = ir.ArrayAttr.get(listed, module.context)
    try:
        op.attributes[name] = new
        module.operation.verify()
    except (ir.MLIRError, ValueError):
        return None
    is_there = name in op.attributes and op.attributes[name] == new  # MLIR drops some that are wrong
    return bytecode_of(module) if is_there else None


@pytest.mark.parametrize("stem", CORPUS)
def test_wrong_attributes_are_refused_or_read(stem: str) -> None:
    seen: set[tuple[str, str, str]] = set()
    refused = 0
    texts = [file.read_text() for file in sorted(LIT.glob(f"{stem}.mlir"))]
    for text in "// -----\n".join(texts).split("// -----\n"):
        module = parsed(text)
        ops, data = all_ops_of(module.operation), bytecode_of(module)
        for site in _sites(module):
            what = (ops[site[0]].name, *site[1:3])
            if what in seen or site[1] in NATIVE:
                continue
            seen.add(what)
            for value in VALUES:
                changed = _changed(data, site, value)
                refused += changed is not None and _is_refused(changed, CORPUS[stem], (*what, value))
    assert refused > 10


def _is_refused(bytecode: bytes, passes: str, what: tuple[str, ...]) -> bool:
    module = parsed(bytecode)
    try:
        optimize(module, passes, in_place=True)
    except ModuleError as error:
        assert "\n" not in str(error), what
        assert re.search(r"(attribute|mesh) [\w.@-]+ ", str(error)), what
        return True
    except Exception as error:  # any other is a defect, which the message is to name
        raise AssertionError(f"{what}: {error}") from error
    return False


def test_attributes_of_the_corpus_are_as_passes_take_them() -> None:
    for path in sorted(LIT.glob("*.mlir")):
        for text in path.read_text().split("// -----\n"):
            module = parsed(text)
            assert complaint(module.operation) is None, path


MESH = 'sdy.mesh @mesh = <["data"={}, "model"={}]>\n'
PARTITIONS = "module attributes {{mhlo.num_partitions = {}}} {{}}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (MESH.format(2**62, 4), f"1:1: mesh @mesh has {2**64} devices: meshes of up to 1048576 are read"),
        (MESH.format(2**20, 2), "1:1: mesh @mesh has 2097152 devices: meshes of up to 1048576 are read"),
        (
            PARTITIONS.format('"8"'),
            '1:1: attribute mhlo.num_partitions has to be an integer from 0 to 1048576, not "8"',
        ),
        (PARTITIONS.format("-1 : i32"), "1:1: attribute mhlo.num_partitions has to be an integer from 0 to"),
        (PARTITIONS.format("[" + "1, " * 99 + "1]"), "[1, 1, 1, 1"),
        ('func.func private @"\\FF"()', "1:1: attribute sym_name has to be a string of UTF-8 text"),
    ],
)
def test_what_is_said_and_when(text: str, said: str) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess:
        return par_opt(*arguments, "-o", "/dev/null", text=text)

    done = run("--passes=grad-sync")
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.startswith("par-opt: error: -:1:1: ")
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 200
    assert run("--passes=canonicalize").returncode == 0, "MLIR's own passes read what they read"
    with pytest.raises(ModuleError, match=r"^-:1:1: "):
        optimize(text)
