"""Truncated, garbled and hostile input: one line and exit status 1, whatever MLIR's parser makes of it."""

import json
import random
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paropt.modules import readable
from paropt.modules.module_io import MAX_NESTING, ModuleError, bytecode_of, optimize, parse
from paropt.passes.support.context import make_context

# A program with what jax writes: aliases, shardings, regions, strings, locations.
PROGRAM = """\
#loc1 = loc("step.py":12:4)
module @jit_step attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=8]>
  func.func public @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
                         %arg1: tensor<4xf32> {tf.aliasing_output = 0 : i32})
      -> (tensor<4xf32> {jax.result_info = "result"}) {
    %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %limit = stablehlo.constant dense<[1, 2, 3, 0x7F, -5]> : tensor<5xi32>
    %sum = stablehlo.reduce(%arg0 init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32> loc(#loc1)
    %all = "stablehlo.all_reduce"(%sum) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %new = stablehlo.add %arg1, %all : tensor<4xf32>
    return %new : tensor<4xf32>
  }
}
"""

# Runs par-opt on each file named on stdin, in one process that has MLIR loaded: a fork for each costs some ms.
BATCH = """
import json, os, sys, tempfile
import paropt.command.driver
from paropt import cli
for line in sys.stdin:
    path = line.rstrip("\\n")
    sys.stderr.flush()
    with tempfile.TemporaryFile() as caught:
        kept = os.dup(2)
        os.dup2(caught.fileno(), 2)
        status = cli.main([path, "-o", path + ".out", "-p", "inline-calls,cse"])
        os.dup2(kept, 2)
        os.close(kept)
        caught.seek(0)
        said = caught.read().decode(errors="replace")
    print(json.dumps([path, status, said, os.path.exists(path + ".out")]), flush=True)
"""


def _mutated(data: bytes, source: random.Random) -> bytes:
    """`data` with one of the damages that files meet."""
    at, other = sorted(source.randrange(len(data)) for _ in range(2))
    match source.randrange(6):
        case 0:  # cut off
            return data[:at]
        case 1:  # some bits flipped
            damaged = bytearray(data)
            for _ in range(source.randrange(1, 9)):
                damaged[source.randrange(len(damaged))] ^= 1 << source.randrange(8)
            return bytes(damaged)
        case 2:  # a part lost
            return data[:at] + data[other:]
        case 3:  # a part twice
            return data[:other] + data[at:]
        case 4:  # noise in the middle
            return data[:at] + source.randbytes(source.randrange(1, 40)) + data[at:]
    words = data.split(b" ")  # words swapped
    for _ in range(3):
        i, j = source.randrange(len(words)), source.randrange(len(words))
        words[i], words[j] = words[j], words[i]
    return b" ".join(words)


def _outcomes(folder: Path, inputs: dict[str, bytes]) -> Iterator[tuple[str, int, list[str], bool]]:
    """For each input: its name, par-opt's exit status, the lines it wrote to stderr, and is there an output."""
    for name, data in inputs.items():
        (folder / name).write_bytes(data)
    names = "".join(f"{folder / name}\n" for name in inputs)
    done = subprocess.run(
        [sys.executable, "-c", BATCH], input=names, capture_output=True, text=True, timeout=300, check=True
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(inputs)
    for path, status, said, written in answers:
        yield Path(path).name, status, said.splitlines(), written


def _check(name: str, status: int, lines: list[str], written: bool) -> None:
    assert status in (0, 1), (name, status, lines)
    assert written == (status == 0), (name, status)
    assert not [line for line in lines if "Traceback" in line or "internal error" in line], (name, lines)
    if status == 1:
        assert len(lines) == 1, (name, lines)
        assert lines[0].startswith("par-opt: error: "), (name, lines)


@pytest.mark.parametrize("form", ["text", "bytecode"])
def test_damaged_modules(form: str, tmp_path: Path) -> None:
    context = make_context()
    module = parse(PROGRAM.encode(), "program.mlir", context)
    whole = PROGRAM.encode() if form == "text" else bytecode_of(module)
    source = random.Random(form)
    inputs = {f"{n}.mlir": _mutated(whole, source) for n in range(400)}
    statuses = []
    for name, status, lines, written in _outcomes(tmp_path, {"whole.mlir": whole, **inputs}):
        _check(name, status, lines, written)
        statuses.append(status)
    assert statuses[0] == 0
    assert statuses.count(1) > 200, "the damages hardly damage anything"


def _nested(opening: str, core: str, closing: str, depth: int) -> str:
    return opening * depth + core + closing * depth


def _chain(first: str, link: Callable[[int], str], last: str) -> str:
    return first + "".join(link(i) for i in range(1, 100_000)) + last


HOSTILE = {
    "parentheses": "(" * 100_000,
    "regions": _nested("module {", "", "}", 100_000),
    "array": "module attributes {a.b = " + _nested("[", "", "]", 100_000) + "} {}",
    "dictionary": "module attributes {a.b = " + _nested("{a = ", "1", "}", 100_000) + "} {}",
    "tuple": "func.func private @f(" + _nested("tuple<", "i1", ">", 100_000) + ")",
    "function-type": "func.func private @f(" + _nested("(", "", ") -> ()", 100_000) + ")",
    "location": "module {} loc(" + _nested('"a"(', "unknown", ")", 100_000) + ")",
    "affine": "module attributes {a.b = affine_map<(d0) -> (" + _nested("(", "d0", ")", 100_000) + ")>} {}",
    # Deep without brackets: only the child process helps.
    "affine-sum": "module attributes {a.b = affine_map<(d0) -> (" + "d0 floordiv 2 + " * 100_000 + "d0)>} {}",
    "type-aliases": _chain(
        "!t0 = i1\n", lambda i: f"!t{i} = tuple<!t{i - 1}>\n", "func.func @f(%x: !t99999) { return }"
    ),
    "attribute-aliases": _chain(
        "#a0 = 1\n", lambda i: f"#a{i} = [#a{i - 1}]\n", "module attributes {a.b = #a99999} {}"
    ),
    "integer": "module attributes {a.b = " + "9" * 2_000 + " : i64} {}",
    "huge-shape": "func.func private @f(tensor<" + "9" * 30 + "xf32>)",
    "huge-splat": "module attributes {a = dense<0> : tensor<99999999999999x99999999999xi32>} {}",
    "short-hex": 'module attributes {a = dense<"0x00"> : tensor<9999999999xi32>} {}',
    "many-dimensions": "func.func private @f(tensor<" + "x" * 100_000 + "f32>)",
    "long-name": "func.func private @" + "f" * 1_000_000 + "(",
    "unclosed-string": 'module attributes {a = "' + "x" * 100_000,
    "zero-bytes": "\0" * 1_000,
    "binary": bytes(range(256)).decode("latin-1"),
}


def test_hostile_modules(tmp_path: Path) -> None:
    inputs = {name: text.encode() for name, text in HOSTILE.items()}
    inputs["invalid-utf8"] = b"module {\n  \xff }"
    inputs["only-the-magic-number"] = b"ML\xefR"
    inputs["magic-number-and-noise"] = b"ML\xefR" + random.Random(0).randbytes(10_000)
    refused = {name: lines for name, status, lines, written in _outcomes(tmp_path, inputs) if status == 1}
    assert refused.keys() == inputs.keys()
    for name, lines in refused.items():
        _check(name, 1, lines, written=False)
    assert f"array:1:{25 + MAX_NESTING}: brackets nest deeper than 1000 levels" in refused["array"][0]
    assert "invalid-utf8:2:3: neither MLIR bytecode nor UTF-8 text: byte 0xff" in refused["invalid-utf8"][0]
    assert "MLIR crashed (SIGSEGV) while parsing it" in refused["affine-sum"][-1]


@pytest.mark.parametrize("name", ["parentheses", "regions", "array", "tuple", "function-type", "location", "affine"])
def test_deep_nesting_is_refused_in_the_users_process(name: str) -> None:
    with pytest.raises(ModuleError, match="brackets nest deeper than 1000 levels"):
        optimize(HOSTILE[name], "")


@pytest.mark.parametrize("depth", [10, 900])
def test_allowed_nesting_is_read(depth: int) -> None:
    assert "i1" in optimize(f"func.func private @f({_nested('tuple<', 'i1', '>', depth)})", "").module


def _varint(number: int) -> bytes:
    return b"\0" + struct.pack("<Q", number)


def _bytecode_of_strings(count: int) -> bytes:
    """Bytecode with all sections it has to have, and a claim to hold `count` strings."""
    sections = {0: _varint(count) + b"\0" * 8, 1: _varint(0), 2: b"", 3: _varint(0) * 2, 4: b"", 5: b"", 8: b""}
    written = (bytes([number]) + _varint(len(payload)) + payload for number, payload in sections.items())
    return b"ML\xefR\x0dproducer\0" + b"".join(written)


# What ends a process, or did, and what is said of it.
DEADLY = {
    "producer-is-no-text": (b"ML\xefR\x0d\xff\xfe\0", "missing data for top-level section: String (0)"),
    "symbol-is-no-text": (
        b'func.func private @"\\FF"()\n' * 2,
        "-:2:1: MLIR's message holds bytes that are no UTF-8 text",
    ),
    "more-than-all-memory": (
        _bytecode_of_strings(1 << 31),
        "-: damaged MLIR bytecode: MLIR's reader ran out of memory",
    ),
    "more-than-any-vector": (_bytecode_of_strings(1 << 36), "-: SmallVector unable to grow"),
}


@pytest.mark.parametrize("name", DEADLY)
def test_damaged_modules_in_the_users_process(name: str) -> None:
    data, expected = DEADLY[name]
    code = f"import paropt\ntry: paropt.optimize({data!r})\nexcept ValueError as error: print(error)"
    if not data.startswith(b"ML"):
        code = code.replace(repr(data), repr(data.decode()))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    assert expected in done.stdout
    assert done.stdout.count("\n") == 1
    assert not done.stderr


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("kill -SEGV $$", "-: damaged MLIR bytecode: MLIR's reader died of SIGSEGV"),
        ("exec sleep 60", "-: damaged MLIR bytecode: MLIR's reader did not end in 0 s"),
        ("echo heap >&2; exit 3", "-: damaged MLIR bytecode: MLIR's reader ended with status 3"),
    ],
)
def test_what_ends_mlirs_reader_is_told(command: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which damages do depends on what the memory holds, so these stand in for them."""
    monkeypatch.setattr(readable, "_COMMAND", ("/bin/sh", "-c", command))
    monkeypatch.setattr(readable, "_SECONDS", 0.2)
    with pytest.raises(ModuleError) as raised:
        optimize(b"ML\xefR", "")
    assert str(raised.value) == expected


def test_arrows_do_not_count() -> None:
    text = "\n".join(f"func.func private @f{n}(i1) -> i1" for n in range(2 * MAX_NESTING))
    assert optimize(text, "").module.count("func.func") == 2 * MAX_NESTING
    deep = "(" * 2 * MAX_NESTING + "->" * 2 * MAX_NESTING
    with pytest.raises(ModuleError, match=f"-:1:{MAX_NESTING + 1}: brackets nest deeper"):
        optimize(deep, "")
