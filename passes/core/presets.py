"""Sets of sharding rules under one name, written as users write theirs."""

# An axis with `?` is used if the mesh has it; a name of which nothing is left is an error.
PRESETS = {
    "dp": """
[axes]
examples = ["replica?", "data?", "fsdp?"]

[[rule]]
role = "batch"
examples = "examples"

[[rule]]
role = "parameter"
whole = true

[[rule]]
role = "optimizer"
whole = true
""",
    "fsdp": """
[axes]
examples = ["replica?", "data?", "fsdp?"]
shards = ["replica?", "data?", "fsdp?"]

[[rule]]
role = "batch"
examples = "examples"

[[rule]]
role = "parameter"
largest = "shards"

[[rule]]
role = "optimizer"
largest = "shards"
""",
    "hsdp": """
[axes]
examples = ["replica", "data?", "fsdp?"]
shards = ["data?", "fsdp?"]

[[rule]]
role = "batch"
examples = "examples"

[[rule]]
role = "parameter"
largest = "shards"

[[rule]]
role = "optimizer"
largest = "shards"
""",
    "zero1": """
[axes]
examples = ["replica?", "data?", "fsdp?"]
shards = ["replica?", "data?", "fsdp?"]

[[rule]]
role = "batch"
examples = "examples"

[[rule]]
role = "parameter"
whole = true

[[rule]]
role = "gradient"
whole = true

[[rule]]
role = "optimizer"
largest = "shards"
""",
    # Megatron: the first matrix of a pair by columns, the second by rows, so that nothing is exchanged between them.
    "tp": """
[axes]
examples = ["replica?", "data?", "fsdp?"]
model = ["model?", "tensor?", "tp?"]

[[rule]]
role = "batch"
examples = "examples"

[[rule]]
regex = '(^|/)(qkv|query|key|value|[qkv](_proj)?|w[qkv]|(up|gate)(_proj)?|wi|w1|fc1|c_fc|c_attn)(/kernel)?$'
role = "state"
shard = ["...", "model"]

[[rule]]
regex = '(^|/)(out|o_proj|out_proj|wo|down|down_proj|w2|fc2|c_proj)(/kernel)?$'
role = "state"
shard = ["...", "model", ""]

[[rule]]
role = "state"
whole = true
""",
    "moe": """
[axes]
examples = ["replica?", "data?", "expert"]
expert = ["expert"]

[[rule]]
role = "batch"
examples = "examples"

[[rule]]
role = "expert"
min_rank = 3
shard = ["expert", "..."]

[[rule]]
regex = '(^|/)(up|down|gate_proj|up_proj|down_proj|w1|w2|w3)(/|$)'
role = "state"
min_rank = 3
shard = ["expert", "..."]

[[rule]]
role = "state"
whole = true
""",
}
