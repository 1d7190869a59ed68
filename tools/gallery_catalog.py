"""The programs of the gallery, in the order of the page, and what they need. Imports none of the packages."""

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
    "tunix_steps": ("google-tunix", "flax", "optax"),
    "easydel_steps": ("easydel", "flax", "optax"),
    "maxtext_steps": ("maxtext", "flax", "optax"),
    "kauldron_steps": ("kauldron", "gemma", "flax", "optax"),
}

# Of models; of trainers' models that have experts; and of others, by layout: eight shards of 1024, or four of 512, have
# 128 elements each, a row of XLA:TPU's tiles. Narrower ones it all-reduces, and cuts.
WIDTH, WIDTH_WITH_EXPERTS = 64, 128
WIDTHS = {"dp": 128, "fsdp": 1024, "hsdp": 512, "fsdp_tp": 1024}


@dataclass(frozen=True)
class Environment:
    """What pip installs for a trainer into an environment of its own, of Python 3.12, before par-opt."""

    packages: tuple[str, ...]
    jax: str = ""  # installed with par-opt, whatever the packages ask for; empty: what they ask for
    note: str = ""  # what a user should know of it


# By package that a step is named for first. The versions are those that were measured.
ENVIRONMENTS = {
    "google-tunix": Environment(("google-tunix==0.1.7",)),
    "easydel": Environment(
        ("easydel==0.3.0", "pillow", "torch", "torchvision"),
        "jax==0.10.2",
        "EasyDeL imports PyTorch and Pillow, and asks for neither. The jax that it asks for, before 0.10, is older "
        "than any that par-opt works with: pip warns of that. Its own options for XLA, of which some are unknown to "
        "this jax, are off (`EASYDEL_AUTO=false`).",
    ),
    "maxtext": Environment(("maxtext[tpu]==0.2.5",)),
    "kauldron": Environment(
        ("kauldron==1.4.4", "gemma==4.0.1", "sentencepiece<0.2.2"),
        note="Without a limit pip takes a sentencepiece that was made for a newer protobuf than it takes, and "
        "importing Gemma fails. Kauldron's mesh has one axis: it offers no other layouts.",
    ),
}

DEFAULT, FINITE = "grad-sync", "grad-sync{finite=true}"
# Options that ask for no memory.
NOT_FOR_MEMORY = (DEFAULT, FINITE, f"roll-accumulation,{FINITE}")
DEFER, ONCE = "grad-sync{policy=defer}", "grad-sync{policy=once}"
ONCE_FINITE = "grad-sync{policy=once finite=true}"
AUTO = "grad-sync{policy=auto memory-budget=auto}"  # by the memory of the device, which CPUs do not tell
# Of fully sharded programs: bytes per device that a plan may hold beside the shards.
BUDGETS = ("100kB", "300kB", "600kB")

# Of trainers: how parameters and batch are split.
LAYOUTS = {
    "dp": "data-parallel",
    "fsdp": "fully sharded",
    "hsdp": "fully sharded in two groups",
    "fsdp_tp": "fully sharded and tensor-parallel",
    "fsdp_ep": "fully sharded and expert-parallel",
}
ONCE_SAID = ", gathered once and reduced once"
SUFFIXES = {DEFAULT: "", FINITE: "", ONCE: "once", ONCE_FINITE: "once", AUTO: "auto"}
ASKED = {DEFAULT: "", FINITE: "", ONCE: ONCE_SAID, ONCE_FINITE: ONCE_SAID, AUTO: ", within the memory of the device"}


IN_BRANCH = """\
The sum is reduced in the branch that updates the parameters, and once more after the loop: the optimizer's state holds
it, and the program does not say that none is on its way when the loop ends."""


IN_STATE = """\
The optimizer's state holds a sum, which the program does not say to be 0 where the loop begins: the loop carries it
beside the sum of each device, one gradient more. (Why XLA:TPU then takes memory beside arrays, and how much, is not
known.)"""

APART = """\
By default, too, sums are scattered in each micro-batch where that sends half; XLA:CPU combines all-reduces, and
reduce-scatters it does not."""

NOT_IN_PLACE = """\
XLA:CPU all-reduces nothing in place: the branch that updates the parameters holds the sum of each device and the whole
sum, one gradient more."""

PACKED = """\
XLA:GPU packs its buffers with 32 kB more, of parameters of this width; of twice the width (levanter_gpt2_wide) par-opt
takes less."""

SCRATCH = """\
XLA:TPU takes 1.1 MB beside arrays for the program of a micro-batch, whatever the width, and nothing where an all-reduce
is in it."""


IN_CARRY = """\
The loop carries the parameters and adds updates to them in each trip, of which all but the last are 0: they are
gathered in the first trip, and again only where one follows an update."""

EACH_CALL = """\
Each call is a program of its own: it gathers parameters, and it reduces gradients, whose norm it returns or which the
optimizer's state adds up. `paropt.accumulate` takes such steps as gradients and an update."""

UNCONSTRAINED = """\
The largest dimension of each parameter is sharded, of the embedding the features, and the model constrains no
activations: XLA takes these for sharded over features, and moves and reduces them in place of parameters, unless
these are gathered."""

ALL_REDUCED = """\
XLA:CPU makes an all-reduce of a reduce-scatter along a dimension that devices of two axes shard, and XLA:TPU of one
whose shards are narrower than a row of its tiles, 128 elements, as norms' scales have."""

OF_BATCH = """\
The all-gathers that are left in the loop are of the batch, which each trip slices along its sharded dimension; with
tensor parallelism what is left are activations, too."""

PACKED_OTHERWISE = """\
XLA:GPU takes the all-reduces out of this loop itself, and packs its buffers with 99 kB fewer where it does."""

KEPT = """\
For GPUs the program stays as it was: with the passes it would send half the bytes, and take 3.8 % more temporary
memory, which is not asked for."""

SCALES = """\
Both reduce the gradients of norms' scales once: par-opt in float32, in which they are added up, XLA:GPU by itself in
bfloat16, a few kB fewer."""

IN_EXPERTS = """\
What is left in the loop are gathers of activations, which are routed to experts over the same axes."""


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
    remains: str = ""  # what of it stays, and why

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


def _trained(
    package: str,
    title: str,
    function: str,
    call: str,
    *variants: str,
    remains: str = "",
    whole: str = "",
    worse: dict[str, str] | None = None,
    width: int | None = None,
    **arguments: Any,
) -> list[Entry]:
    """Of a trainer's step the variants, as `fsdp: grad-sync{policy=once}`. CPUs do not tell their memory.

    `remains`: of what is sharded, `whole`: of what is not; `worse`: by layout, where no memory is asked for.
    """
    return [
        replace(
            _enabled(
                "_".join(part for part in (package, layout, SUFFIXES[passes]) if part),
                f"{title}, {LAYOUTS[layout]}{ASKED[passes]}",
                function,
                call,
                passes,
                layout=layout,
                width=width or WIDTHS[layout],
                **arguments,
            ),
            targets=TARGETS[1:] if passes == AUTO else TARGETS,
            remains=remains if layout != "dp" else whole,
            worse=(worse or {}).get(layout, "") if passes in NOT_FOR_MEMORY else "",
        )
        for layout, _, passes in (variant.partition(": ") for variant in variants)
    ]


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
    *_trained(
        "tunix_calls",
        "Llama, `PeftTrainer`: one call per micro-batch",
        "tunix_steps:calls",
        "trainer.train(batches)",
        f"dp: {DEFAULT}",
        f"fsdp: {ONCE}",
        remains=EACH_CALL,
        whole=EACH_CALL,
    ),
    *_trained(
        "tunix_scan",
        "Llama, a scan of `PeftTrainer._train_step`",
        "tunix_steps:scanned",
        "train(state, batch)",
        f"dp: {FINITE}",
        f"fsdp: {DEFAULT}",
        f"fsdp: {ONCE_FINITE}",
        f"fsdp_tp: {ONCE_FINITE}",
        remains=f"{IN_CARRY} {ALL_REDUCED}",
        worse={"dp": IN_STATE, "fsdp": APART},
    ),
    *_trained(
        "tunix_grpo",
        "Llama, the same with the loss of GRPO",
        "tunix_steps:scanned",
        "train(state, batch)",
        f"dp: {FINITE}",
        f"fsdp: {ONCE_FINITE}",
        policy=True,
        remains=f"{IN_CARRY} {ALL_REDUCED}",
        worse={"dp": IN_STATE},
    ),
    *_trained(
        "easydel",
        "Llama, `Trainer`",
        "easydel_steps:language_model",
        "trainer.train()",
        f"dp: {DEFAULT}",
        f"fsdp: {DEFAULT}",
        f"fsdp: {AUTO}",
        f"fsdp: {ONCE}",
        f"hsdp: {ONCE}",
        f"fsdp_tp: {ONCE}",
        remains=OF_BATCH,
        worse={"dp": PACKED_OTHERWISE, "fsdp": APART},
    ),
    *_trained(
        "maxtext",
        "Llama, scanned layers",
        "maxtext_steps:language_model",
        "train.main(argv)",
        f"dp: {DEFAULT}",
        f"fsdp: {DEFAULT}",
        f"fsdp: {AUTO}",
        f"fsdp: {ONCE}",
        f"hsdp: {ONCE}",
        f"fsdp_tp: {DEFAULT}",
        f"fsdp_tp: {ONCE}",
        worse={"fsdp": APART, "fsdp_tp": SCALES},
        remains=ALL_REDUCED,
        whole=KEPT,
    ),
    *_trained(
        "maxtext_unrolled",
        "Llama, layers one by one",
        "maxtext_steps:language_model",
        "train.main(argv)",
        f"fsdp: {ONCE}",
        scanned=False,
        remains=ALL_REDUCED,
    ),
    *_trained(
        "maxtext_experts",
        "Mixtral, scanned layers",
        "maxtext_steps:language_model",
        "train.main(argv)",
        f"fsdp: {ONCE}",
        f"fsdp_ep: {ONCE}",
        experts=True,
        width=WIDTH_WITH_EXPERTS,
        remains=IN_EXPERTS,
        dtype="float32",
    ),
    *_trained(
        "kauldron_calls",
        "Gemma, `TrainStep.step`: one call per micro-batch",
        "kauldron_steps:calls",
        "trainer.train()",
        f"fsdp: {ONCE}",
        remains=f"{EACH_CALL} {UNCONSTRAINED}",
    ),
    *_trained(
        "kauldron_scan",
        "Gemma, a scan of `TrainStep.step`",
        "kauldron_steps:scanned",
        "train(state, batch)",
        f"dp: {FINITE}",
        f"fsdp: {ONCE_FINITE}",
        remains=f"{IN_CARRY} {UNCONSTRAINED}",
        worse={"dp": IN_STATE},
    ),
)

# Fully sharded steps that are timed over a slow link.
TIMED = ("tunix_scan_fsdp_once", "maxtext_unrolled_fsdp_once")
