"""Sets of sharding rules under one name, written as users write theirs."""

# An axis with `?` is used if the mesh has it; a name of which nothing is left is an error.
_EXAMPLES = 'examples = ["replica?", "data?", "fsdp?"]'
_BATCH = """
[[rule]]
role = "batch"
examples = "examples"
"""


def _preset(axes: str, *rules: str) -> str:
    return "\n".join(("[axes]", axes, _BATCH, *rules))


def _whole(role: str) -> str:
    return f'[[rule]]\nrole = "{role}"\nwhole = true\n'


def _largest(role: str, axes: str) -> str:
    return f'[[rule]]\nrole = "{role}"\nlargest = "{axes}"\n'


# Else Shardy, which sees a parameter that is cut over the axis of the examples, may cut activations instead of them.
_FULLY_SHARDED = (_largest("parameter", "shards") + 'gather = "shards"\n', _largest("gradient", "shards"))


# Megatron: the first matrix of a pair by columns, the second by rows, so that nothing is exchanged between them.
_MATRICES = """
[[rule]]
regex = '(^|/)(qkv|query|key|value|[qkv](_proj)?|w[qkv]|(up|gate)(_proj)?|wi|w1|fc1|c_fc|c_attn)(/kernel)?$'
role = "state"
shard = ["...", "model"]

[[rule]]
regex = '(^|/)(out|o_proj|out_proj|wo|down|down_proj|w2|fc2|c_proj)(/kernel)?$'
role = "state"
shard = ["...", "model", ""]
"""
_EXPERTS = """
[[rule]]
role = "expert"
min_rank = 3
shard = ["expert", "..."]

[[rule]]
regex = '(^|/)(up|down|gate_proj|up_proj|down_proj|w1|w2|w3)(/|$)'
role = "state"
min_rank = 3
shard = ["expert", "..."]
"""
_ALL = 'shards = ["replica?", "data?", "fsdp?"]'

PRESETS = {
    "dp": _preset(_EXAMPLES, _whole("parameter"), _whole("optimizer")),
    "fsdp": _preset(f"{_EXAMPLES}\n{_ALL}", *_FULLY_SHARDED, _largest("optimizer", "shards")),
    # Levanter's: the optimizer's shards are parts of the parameters', so nothing else moves between the two.
    "hsdp": _preset(
        'examples = ["replica", "data?", "fsdp?"]\n'
        'shards = ["data?", "fsdp?"]\n'
        'optimizer = ["data?", "fsdp?", "replica"]',
        *_FULLY_SHARDED,
        _largest("optimizer", "optimizer"),
    ),
    "zero1": _preset(f"{_EXAMPLES}\n{_ALL}", _whole("parameter"), _whole("gradient"), _largest("optimizer", "shards")),
    "tp": _preset(f'{_EXAMPLES}\nmodel = ["model?", "tensor?", "tp?"]', _MATRICES, _whole("state")),
    "moe": _preset('examples = ["replica?", "data?", "expert"]\nexpert = ["expert"]', _EXPERTS, _whole("state")),
}
