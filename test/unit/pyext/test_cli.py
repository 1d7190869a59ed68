"""par-opt as a process, and `paropt.optimize`: what lit cannot see."""

import io
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from command import PAR_OPT, par_opt
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib.mlir import ir
from modules import parsed
from unit.scripts import ROOT

from paropt import cli
from paropt.command import listing, option_parser
from paropt.command.expectations import expectations, mismatches
from paropt.command.reproducer import pipeline_of, reproducer
from paropt.modules.module_io import Diagnostic, ModuleError, bytecode_of, optimize, parse
from paropt.passes.support.context import make_context
from paropt.passes.support.pipeline import PipelineError
from paropt.passes.support.plugins import load_plugin
from paropt.passes.support.registry import PIPELINES, NamedPipeline
from paropt.passes.support.sources import Source

INPUTS = ROOT / "test" / "par-opt" / "Inputs"

TWO_ADDS = """\
func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  %1 = stablehlo.add %x, %x : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
"""


@pytest.fixture(scope="module")
def lowered() -> jax.stages.Lowered:
    """A sharded, jitted program with a loop, a call and a donated argument."""
    mesh = Mesh(jax.devices()[:1], ("data",))
    sharded = NamedSharding(mesh, P("data"))

    def step(p: jax.Array, x: jax.Array) -> jax.Array:
        def body(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, None]:
            return carry + jnp.tanh(row), None

        return jax.lax.scan(body, p, x)[0]

    arguments = jnp.zeros(4), jnp.ones((3, 4))
    return jax.jit(step, donate_argnums=0, in_shardings=(sharded, None), out_shardings=sharded).lower(*arguments)


@pytest.mark.parametrize("debug_info", [False, True])
def test_what_jax_dumps_passes_through_unchanged(lowered: jax.stages.Lowered, debug_info: bool) -> None:
    dumped = lowered.as_text(debug_info=debug_info)
    assert "sdy.sharding" in dumped and "mhlo." in dumped
    flags = ["--mlir-print-debuginfo"] if debug_info else []
    done = par_opt("--passes=", *flags, text=dumped)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.rstrip("\n") == dumped.rstrip("\n")


def test_no_jax_in_par_opt() -> None:
    code = """if True:
        import sys
        from paropt import cli
        assert "jaxlib" not in sys.modules, "the parent process loads MLIR"
        import paropt.command.driver
        assert "jax" not in sys.modules"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_start_up_is_quick() -> None:
    """Twice the processor time that jaxlib's MLIR takes to load: a ratio, since seconds differ between machines.

    Sources are compiled before; the least of five runs in turn, since other jobs lengthen some.
    """
    mlir = [sys.executable, "-c", "from jaxlib.mlir.dialects import chlo, func, mhlo, mpmd, sdy, stablehlo"]
    compiled = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    pairs = [(_cpu_seconds([str(PAR_OPT)], compiled), _cpu_seconds(mlir, compiled)) for _ in range(6)][1:]
    ours, alone = (min(column) for column in zip(*pairs, strict=True))
    assert ours < 3 * alone, f"par-opt loads more than it needs: {ours} s, {alone} s of them for MLIR"


def _cpu_seconds(command: list[str], environment: dict[str, str]) -> float:
    before = os.times()
    subprocess.run(command, input="", text=True, capture_output=True, timeout=60, check=True, env=environment)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def test_every_option_has_help() -> None:
    for action in option_parser.declared():
        assert action.help, action.option_strings


@pytest.mark.parametrize("dashes", ["-", "--"])
@pytest.mark.parametrize("given", [["passes=cse"], ["passes", "cse"], ["pass-pipeline=cse"], ["p=cse"], ["p", "cse"]])
def test_llvm_spellings(dashes: str, given: list[str]) -> None:
    if given[0].startswith("p=") or given[0] == "p":
        dashes = "-"
    assert cli.parse_arguments([dashes + given[0], *given[1:]]).passes == "cse"


def test_optional_values_stand_after_an_equals_sign() -> None:
    options = cli.parse_arguments(["-split-input-file", "in.mlir", "--verify-each"])
    assert (options.split_input_file, options.input, options.verify_each) == ("// -----", "in.mlir", True)
    options = cli.parse_arguments(["--split-input-file=// ===", "in.mlir", "-verify-each=false"])
    assert (options.split_input_file, options.input, options.verify_each) == ("// ===", "in.mlir", False)


def test_short_options_do_not_swallow_misspelt_ones() -> None:
    with pytest.raises(cli.UsageError, match="unknown option '--pases'; did you mean '--passes'"):
        cli.parse_arguments(["-pases=cse"])


def test_reader_that_goes_away() -> None:
    big = "".join(f"func.func @f{i}() {{ return }}\n" for i in range(20_000))
    with subprocess.Popen([PAR_OPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(big.encode())
        process.stdin.close()
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(60) == 128 + signal.SIGPIPE
        assert process.stderr.read() == b""


def _sleeping(tmp_path: Path) -> subprocess.Popen:
    """par-opt in a group of its own, in a pass that does not end; returns when the pass runs."""
    (tmp_path / "sleeper.py").write_text(
        "import time\nfrom paropt.passes.support.registry import register\n"
        "@register\ndef sleep_forever(module):\n"
        "    'Sleep.'\n    print('asleep', flush=True)\n    time.sleep(100)\n"
    )
    (tmp_path / "in.mlir").write_text(TWO_ADDS)
    process = subprocess.Popen(
        [PAR_OPT, "in.mlir", "-o", "out.mlir", "--load-pass-plugin=sleeper", "-p", "sleep-forever"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout and process.stdout.readline() == b"asleep\n"
    return process


@pytest.mark.parametrize("kill", [os.killpg, os.kill])  # as a terminal does, to parent and child; to the parent alone
def test_interrupt_ends_it_silently(tmp_path: Path, kill: Callable[[int, int], None]) -> None:
    with _sleeping(tmp_path) as process:
        kill(process.pid, signal.SIGINT)
        assert process.wait(30) == 128 + signal.SIGINT
        assert process.stderr and process.stderr.read() == b""
    assert sorted(p.name for p in tmp_path.glob("*.mlir")) == ["in.mlir"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_no_child_outlives_it(tmp_path: Path) -> None:
    with _sleeping(tmp_path) as process:
        process.kill()
        started = time.monotonic()
        assert process.stdout and process.stdout.read() == b""  # ends when nobody holds the pipe any more
        assert time.monotonic() - started < 30


def test_bytecode_is_not_written_to_a_terminal(tmp_path: Path) -> None:
    terminal, name = pty.openpty()
    (tmp_path / "in.mlir").write_text(TWO_ADDS)
    command = [str(PAR_OPT), str(tmp_path / "in.mlir"), "--emit-bytecode"]
    done = subprocess.run(command, stdout=name, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(name)
    os.close(terminal)
    assert done.returncode == 1
    assert b"par-opt: error: --emit-bytecode would write binary data to the terminal" in done.stderr


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    full = par_opt("-o", "/dev/full", text=TWO_ADDS)
    assert (full.returncode, full.stderr) == (1, "par-opt: error: cannot write '/dev/full': No space left on device\n")
    with Path("/dev/full").open("wb") as nowhere:
        command = [PAR_OPT]
        done = subprocess.run(
            command, input=TWO_ADDS.encode(), stdout=nowhere, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert done.returncode == 1
    assert done.stderr == b"par-opt: error: cannot write 'the standard output': No space left on device\n"


def test_output_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target.mlir", tmp_path / "link.mlir"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    assert par_opt("-o", link, text=TWO_ADDS).returncode == 0
    assert link.is_symlink()
    assert "stablehlo.add" in target.read_text()
    assert target.stat().st_mode & 0o777 == 0o600


def test_devices_are_written_to_not_replaced() -> None:
    assert par_opt("-o", os.devnull, text=TWO_ADDS).returncode == 0
    assert Path(os.devnull).is_char_device()


def test_pipe_as_input(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([PAR_OPT, pipe, "--mlir-print-debuginfo"], stdout=subprocess.PIPE) as process:
        pipe.write_text(TWO_ADDS)
        assert process.stdout and f'loc("{pipe}":2:8)' in process.stdout.read().decode()


def test_empty_input_is_an_empty_module() -> None:
    assert par_opt(text="").stdout == "module {\n}\n"
    assert par_opt(text="// nothing\n").stdout == "module {\n}\n"


def test_module_in_a_module() -> None:
    assert par_opt(text="module @a { module @b {} }").stdout == "module @a {\n  module @b {\n  }\n}\n"
    assert "module {\n  module @a {" in par_opt(text="module @a {}\nmodule @b {}").stdout


def test_windows_line_ends() -> None:
    text = TWO_ADDS.replace("\n", "\r\n")
    assert par_opt(text=text).returncode == 0
    parts = par_opt("--split-input-file", text="module @a {}\r\n// -----\r\nmodule @b {}\r\n")
    assert parts.stdout == "module @a {\n}\n// -----\nmodule @b {\n}\n"


def test_one_line_each_for_several_failing_modules() -> None:
    text = "func.func @f() { return %y : i32 }\n// -----\nmodule {}\n// -----\nnonsense\n"
    done = par_opt("--split-input-file", text=text)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "par-opt: error: -:1:25: use of undeclared SSA value name",
        "par-opt: error: -:5:1: custom op 'nonsense' is unknown (tried 'builtin.nonsense' as well)",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["-p", "nope"],
        ["-p", "canonicalize{max-iterations=x}"],  # MLIR explains this one on stderr by itself
        ["--load-pass-plugin=plugin_failing"],
        ["--load-pass-plugin=no.such.module"],
        ["--nope"],
        ["-o"],
        ["no-such-file.mlir"],
    ],
)
def test_a_mistake_is_one_line(arguments: list[str]) -> None:
    done = par_opt(*arguments, text="module {}", env={"PYTHONPATH": str(INPUTS)})
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("par-opt: error: ")


def test_a_half_written_output_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "in.mlir").write_text(TWO_ADDS)

    def killed_while_writing(work: object) -> int:
        (tmp_path / f".par-opt-{os.getpid()}.partial").write_text("module {")
        return -signal.SIGKILL

    monkeypatch.setattr(cli, "run_apart", killed_while_writing)
    assert cli.main([str(tmp_path / "in.mlir"), "-o", str(tmp_path / "out.mlir")]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in.mlir"]


def test_failing_pass_of_mlir_is_not_a_defect_of_ours(tmp_path: Path) -> None:
    pipeline = f"cse,snapshot-op-locations{{filename={tmp_path}/absent/file}}"
    done = par_opt("-p", pipeline, text=TWO_ADDS)
    assert done.returncode == 1
    assert done.stderr.startswith(f"par-opt: error: -: cannot open output file '{tmp_path}/absent/file'")
    assert len(done.stderr.splitlines()) == 1, "a reproducer that nobody asked for"
    saved = tmp_path / "repro.mlir"
    done = par_opt("-p", pipeline, f"--mlir-pass-pipeline-crash-reproducer={saved}", text=TWO_ADDS)
    assert f"a reproducer was written to {saved}" in done.stderr
    assert pipeline_of(saved.read_text()) == f"builtin.module({pipeline})"


def test_crash_in_a_split_input_is_reproduced_from_its_module(tmp_path: Path) -> None:
    saved = tmp_path / "repro.mlir"
    text = "module @first {}\n// -----\nmodule @second {}\n"
    flags = ["--load-pass-plugin=probe_plugin", f"--mlir-pass-pipeline-crash-reproducer={saved}"]
    env = {"PYTHONPATH": str(INPUTS)}
    done = par_opt("--split-input-file", "-p", "probe-crash-second", *flags, text=text, env=env)
    assert done.returncode == 1
    assert "crashed (SIGSEGV) while running probe-crash-second" in done.stderr
    assert "module @second" in saved.read_text()
    again = par_opt("--load-pass-plugin=probe_plugin", "--run-reproducer", saved, env={**env, "TMPDIR": str(tmp_path)})
    assert "crashed (SIGSEGV) while running probe-crash-second" in again.stderr


def test_stack_overflow_in_the_child_is_one_line() -> None:
    text = "!t0 = i1\n" + "".join(f"!t{i} = tuple<!t{i - 1}>\n" for i in range(1, 100_000))
    done = par_opt(text=text + "func.func private @f(!t99999)")
    assert done.returncode == 1
    assert done.stderr.startswith("par-opt: error: -: MLIR crashed (SIGSEGV) while p")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("comment", "line"),
    [
        ("expected-error {{m}}", 3),
        ("expected-error @+2 {{m}}", 5),
        ("expected-error@-1 {{m}}", 2),
        ("expected-error @above {{m}}", 2),
        ("expected-error @below {{m}}", 4),
        ("expected-error @unknown {{m}}", 0),
    ],
)
def test_lines_of_expectations(comment: str, line: int) -> None:
    (expected,) = expectations(f"\n\n// {comment}\n\n")
    assert (expected.written, expected.line) == (3, line)
    given = Diagnostic("error", Source("f", line, 1, ""), "a message")
    assert list(mismatches([expected], [given], "f")) == []
    assert len(list(mismatches([expected], [given._replace(source=Source("f", line + 1, 1, ""))], "f"))) == 2
    assert len(list(mismatches([expected], [given._replace(source=Source("other", line, 1, ""))], "f"))) == 2


def test_stacked_expectations_speak_of_the_same_line() -> None:
    text = "// expected-error @below {{a}}\n// expected-note @below {{b}}\nop\n// expected-remark @above {{c}}"
    assert [e.line for e in expectations(text)] == [3, 3, 3]


def test_each_expectation_is_met_once() -> None:
    expected = expectations("// expected-error {{m}}")
    given = Diagnostic("error", Source("f", 1, 1, ""), "m")
    assert list(mismatches(expected, [given, given], "f")) == ["f:1:1: unexpected error: m"]


@pytest.mark.parametrize("pipeline", ["", "cse", "probe{text='a \"b\" \\ c'}", 'a{x="it\'s"},func.func(cse)'])
def test_reproducers_hold_any_pipeline(pipeline: str) -> None:
    text = reproducer("module {}", pipeline, "par-opt", verify_each=True)
    assert pipeline_of(text) == f"builtin.module({pipeline})"
    parsed(text)  # MLIR reads it too


def test_reproducers_of_mlir_opt_are_read() -> None:
    resource = 'mlir_reproducer: {\n      verify_each: true,\n      pipeline: "a(b{c=\\22d\\22})"\n    }'
    text = f"{{-#\n  external_resources: {{\n    {resource}\n  }}\n#-}}"
    assert pipeline_of(text) == 'a(b{c="d"})'


def test_optimize_text() -> None:
    result = optimize(TWO_ADDS, "cse")
    assert result.module.count("stablehlo.add") == 1
    assert result.remarks == []


def test_optimize_bytecode_keeps_locations() -> None:
    data = bytecode_of(parse(TWO_ADDS.encode(), "adds.mlir", make_context()))
    result = optimize(data, "cse").module
    assert isinstance(result, bytes)
    module = parsed(result)
    assert 'loc("adds.mlir":2:8)' in str(module.operation.get_asm(enable_debug_info=True, use_local_scope=True))


def test_optimize_rewrites_a_module_in_place_only_when_asked() -> None:
    with make_context():
        module = ir.Module.parse(TWO_ADDS)
    result = optimize(module, "cse")
    assert str(result.module).count("stablehlo.add") == 1
    assert str(module).count("stablehlo.add") == 2
    result = optimize(module, "cse", in_place=True)
    assert result.module is module
    assert str(module).count("stablehlo.add") == 1
    with pytest.raises(TypeError, match=r"in_place=True rewrites an ir\.Module, not str"):
        optimize(TWO_ADDS, in_place=True)


@pytest.mark.parametrize("form", [lambda lowered: lowered, lambda lowered: lowered.compiler_ir()])
def test_optimize_copies_what_jax_caches(lowered: jax.stages.Lowered, form: Callable) -> None:
    before = lowered.as_text(debug_info=True)
    result = optimize(form(lowered), "symbol-dce,func.func(canonicalize),strip-debuginfo").module
    assert isinstance(result, ir.Module)
    assert lowered.as_text(debug_info=True) == before
    buffer = io.StringIO()
    result.operation.print(file=buffer, enable_debug_info=True)
    assert buffer.getvalue() != before


def test_optimize_gives_remarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(INPUTS)
    load_plugin("probe_plugin")
    (first, second) = optimize(TWO_ADDS, "probe-remark,probe-remark").remarks
    assert str(first) == "-:2:8: remark: [probe-remark] stablehlo.add applied: seen 0 (2 times)"
    assert second.source.line == 3


@pytest.mark.parametrize(
    ("module", "passes", "error", "message"),
    [
        ("module {", "", ModuleError, "-:1:7: "),
        (b"ML\xefRnoise", "", ModuleError, "-: "),
        (b"\xff", "", ModuleError, "-:1:1: neither MLIR bytecode nor UTF-8 text"),
        ("module {}", "nope", PipelineError, "no pass called `nope`"),
        (3, "", TypeError, "expected an ir.Module, text, bytecode or a lowered program, not int"),
    ],
)
def test_optimize_mistakes(module: object, passes: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        optimize(module, passes)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_both_filechecks_must_pass(tmp_path: Path) -> None:
    tool = ROOT / "tools" / "filecheck_both.py"
    (tmp_path / "checks").write_text("// CHECK: right\n")
    (tmp_path / "llvm").write_text("#!/bin/sh\nexit $FAKE_STATUS\n")
    (tmp_path / "llvm").chmod(0o755)

    def status(text: str, llvm_status: int) -> int:
        command = [sys.executable, *map(str, (tool, "--llvm", tmp_path / "llvm", tmp_path / "checks"))]
        env = {**os.environ, "FAKE_STATUS": str(llvm_status)}
        return subprocess.run(command, input=text, text=True, capture_output=True, check=False, env=env).returncode

    assert status("right", 0) == 0
    assert status("right", 1) == 1
    assert status("wrong", 0) == 1


def test_the_default_pipeline_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "DEFAULT_PIPELINE", "sample")
    monkeypatch.setitem(PIPELINES, "sample", NamedPipeline("sample", "cse,inline-calls", "What it is."))
    monkeypatch.setitem(PIPELINES, "other", NamedPipeline("other", "cse", "Another."))
    text = listing.passes_and_pipelines()
    assert text.count("default of paropt.jit and paropt.optimize") == 1
    assert "  sample                  What it is. (default of paropt.jit and paropt.optimize)" in text
    assert "= cse,inline-calls" in text


def test_a_plugin_may_be_loaded_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(INPUTS)
    load_plugin("probe_plugin")
    assert load_plugin("probe_plugin") == []


def test_the_output_ends_with_one_newline() -> None:
    for flags in ([], ["--mlir-print-debuginfo"], ["--mlir-print-debuginfo", "--mlir-print-local-scope"]):
        assert par_opt(*flags, text=TWO_ADDS).stdout.endswith(("}\n", ")\n"))
