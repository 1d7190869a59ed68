"""The programs of the gallery, in the order of the page. Imports none of the packages."""

from dataclasses import dataclass, replace
from typing import Any

TARGETS = ("cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8")

# By file of gallery_programs: the packages on PyPI whose code a step is, the one that it is named for first.
PACKAGES = {
    "levanter_steps": ("marin-levanter", "marin-haliax", "equinox", "optax"),
    "keras_steps": ("keras", "keras-hub"),
    "flax_steps": ("flax", "optax"),
    "equinox_steps": ("equinox", "optax"),
    "optax_steps": ("optax", "flax"),
}

WIDTH = 64  # of models

DEFAULT, FINITE = "grad-sync", "grad-sync{finite=true}"
# Options that ask for no memory.
NOT_FOR_MEMORY = (DEFAULT, FINITE, f"roll-accumulation,{FINITE}")
DEFER, ONCE = "grad-sync{policy=defer}", "grad-sync{policy=once}"
# Of fully sharded programs: bytes per device that a plan may hold beside the shards.
BUDGETS = ("100kB", "300kB", "600kB")


IN_BRANCH = """\
The sum is reduced in the branch that updates the parameters, and once more after the loop: the optimizer's state holds
it, and the program does not say that none is on its way when the loop ends."""


IN_STATE = """\
The optimizer's state holds a sum, which the program does not say to be 0 where the loop begins: the loop carries it
beside the sum of each device, one gradient more. (Why XLA:TPU then takes memory beside arrays, and how much, is not
known.)"""

NOT_IN_PLACE = """\
XLA:CPU all-reduces nothing in place: the branch that updates the parameters holds the sum of each device and the whole
sum, one gradient more."""

PACKED = """\
XLA:GPU packs its buffers with 32 kB more, of parameters of this width; of twice the width (levanter_gpt2_wide) par-opt
takes less."""

SCRATCH = """\
XLA:TPU takes 1.1 MB beside arrays for the program of a micro-batch, whatever the width, and nothing where an all-reduce
is in it."""


@dataclass(frozen=True)
class Entry:
    """A program: what makes it, and what its user changes."""

    name: str
    title: str
    make: str  # file:function of gallery_programs
    arguments: dict[str, Any]
    before: str  # the line to change
    after: str
    passes: str
    targets: tuple[str, ...] = TARGETS  # that it can be traced for
    more: str = ""  # why par-opt sends more than the ideal, where it sends less than XLA alone
    worse: str = ""  # why it takes more temporary memory than XLA alone, which was not asked for

    @property
    def packages(self) -> tuple[str, ...]:
        return PACKAGES[self.make.partition(":")[0]]


def _jitted(name: str, title: str, make: str, passes: str = DEFAULT, /, **arguments: Any) -> Entry:
    """The user's own `jax.jit` becomes `paropt.jit`."""
    option = f', passes="{passes}"' if passes != DEFAULT else ""
    before, after = "step = jax.jit(step, donate_argnums=0)", f"step = paropt.jit(step, donate_argnums=0{option})"
    return Entry(name, title, make, arguments, before, after, passes)


def _enabled(name: str, title: str, make: str, call: str, passes: str = DEFAULT, /, **arguments: Any) -> Entry:
    """The package calls `jax.jit` itself: `paropt.enabled` covers what is called inside."""
    option = f'"{passes}"' if passes != DEFAULT else ""
    return Entry(name, title, make, arguments, call, f"with paropt.enabled({option}): {call}", passes)


def _levanter(name: str, title: str, model: str, passes: str = DEFAULT, /, **arguments: Any) -> Entry:
    call = "trainer.train(state, loader)"
    return _enabled(name, title, "levanter_steps:language_model", call, passes, name=model, **arguments)


def _planned(entry: Entry) -> list[Entry]:
    """The entry with each of the budgets."""
    return [
        replace(
            entry,
            name=f"{entry.name}_{budget}",
            title=f"{entry.title}, {budget} for parameters and sums",
            after=f'with paropt.enabled("{plan}"): {entry.before}',
            passes=plan,
        )
        for budget in BUDGETS
        for plan in [f"grad-sync{{policy=auto memory-budget={budget}}}"]
    ]


def _nnx(name: str, title: str, passes: str = DEFAULT, /, **arguments: Any) -> Entry:
    return _enabled(name, title, "flax_steps:nnx_step", "train(model, optimizer, batch)", passes, **arguments)


def _accumulated(name: str, title: str, make: str, before: str, after: str, /) -> Entry:
    """Calls of a step become calls of what `paropt.accumulate` returns."""
    return Entry(name, title, make, {}, before, after, DEFAULT)


def _optimizer(name: str, title: str, function: str, passes: str, optimizer: str = "multi_steps", /) -> Entry:
    """Gradients that optax adds up in the optimizer's state."""
    made = _jitted(name, title, f"optax_steps:{function}", passes, optimizer=optimizer)
    return replace(made, more=IN_BRANCH, worse=IN_STATE if passes == FINITE else "")


ENTRIES = (
    replace(_levanter("levanter_gpt2", "GPT-2, data-parallel, `Trainer`", "gpt2"), worse=PACKED),
    _levanter("levanter_gpt2_wide", "GPT-2 of twice the width, data-parallel, `Trainer`", "gpt2", width=2 * WIDTH),
    # Its rotary embeddings compute while they are traced, on devices that have to be there.
    replace(_levanter("levanter_llama", "Llama, data-parallel, `Trainer`; on CPUs only", "llama"), targets=TARGETS[:1]),
    _levanter("levanter_fsdp", "GPT-2, fully sharded, as is Levanter's default", "gpt2", sharded=True),
    _levanter(
        "levanter_fsdp_defer", "GPT-2, fully sharded, gradients whole until the end", "gpt2", DEFER, sharded=True
    ),
    *_planned(_levanter("levanter_fsdp", "GPT-2, fully sharded", "gpt2", sharded=True)),
    _levanter("levanter_fsdp_once", "GPT-2, fully sharded, gathered once and reduced once", "gpt2", ONCE, sharded=True),
    replace(
        _jitted("keras_scan", "GPT-2 of keras-hub, a scan of `Model.train_step`", "keras_steps:gpt2_scan", FINITE),
        more=IN_BRANCH,
        worse=NOT_IN_PLACE,
    ),
    _enabled(
        "keras_fit",
        "GPT-2 of keras-hub, `Model.fit`: one call per micro-batch",
        "keras_steps:gpt2_calls",
        "model.fit(x, y, ...)",
    ),
    _accumulated(
        "keras_accumulate",
        "GPT-2 of keras-hub, `Model.train_step` per micro-batch; with par-opt a step that adds up gradients in a scan",
        "keras_steps:gpt2_accumulated",
        "train = jax.jit(model.train_step, donate_argnums=0)",
        "train = paropt.accumulate(step, microbatches=4, donate_argnums=0)",
    ),
    _jitted("keras_gradients", "BERT of keras-hub, gradients added up in a scan", "keras_steps:bert_gradients"),
    _jitted("flax_linen", "linen transformer, scanned layers, `TrainState`", "flax_steps:linen"),
    _nnx("flax_nnx", "nnx transformer, data-parallel, `nnx.jit` and `nnx.scan`"),
    _nnx("flax_nnx_fsdp", "nnx transformer, fully sharded", sharded=True),
    _nnx("flax_nnx_fsdp_defer", "nnx transformer, fully sharded, gradients whole until the end", DEFER, sharded=True),
    *_planned(_nnx("flax_nnx_fsdp", "nnx transformer, fully sharded", sharded=True)),
    _nnx("flax_nnx_fsdp_once", "nnx transformer, fully sharded, gathered once and reduced once", ONCE, sharded=True),
    _enabled("equinox", "transformer, `filter_jit`", "equinox_steps:classifier", "train(model, state, batch, key)"),
    _jitted("optax_microbatch", "`microbatching.microbatch`, mean", "optax_steps:microbatch", kind="MEAN"),
    _jitted("optax_running_mean", "the same, running mean", "optax_steps:microbatch", kind="RUNNING_MEAN"),
    _optimizer("optax_multisteps", "`MultiSteps` in a scan", "scanned", FINITE),
    _optimizer("optax_multisteps_default", "`MultiSteps` in a scan, default options", "scanned", DEFAULT),
    _optimizer("optax_multisteps_unrolled", "`MultiSteps` in a loop of Python", "unrolled", NOT_FOR_MEMORY[2]),
    _optimizer("optax_multisteps_calls", "`MultiSteps`, one call per micro-batch", "called", DEFAULT),
    replace(
        _accumulated(
            "optax_accumulate",
            "`MultiSteps`, one call per micro-batch; with par-opt the gradients and the inner optimizer",
            "optax_steps:accumulated",
            "train = jax.jit(step, donate_argnums=0)",
            "train = paropt.accumulate(compute_grad=..., apply_grad=..., microbatches=4, has_aux=True)",
        ),
        worse=SCRATCH,
    ),
    _optimizer("optax_apply_every", "SGD and `apply_every` in a scan", "scanned", FINITE, "apply_every"),
)
