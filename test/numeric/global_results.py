"""Global results of modules, as whole arrays: for passes that change where arrays are."""

import jax
import numpy as np
from jax._src.sharding_impls import GSPMDSharding
from jaxlib.mlir import ir
from modules import parsed
from numeric import oracle


def whole_results(text: str) -> list[np.ndarray]:
    """The results of `@main` put together from the parts that devices hold."""
    placed = oracle._compiled(text).executable.get_output_shardings()
    main = ir.SymbolTable(parsed(text).operation)["main"]
    kinds = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
    found = []
    for parts, kind, sharding in zip(oracle.results(text), map(ir.RankedTensorType, kinds), placed, strict=True):
        array = np.zeros(kind.shape, parts[0].dtype)
        cuts = GSPMDSharding(jax.devices(), sharding).devices_indices_map(tuple(kind.shape))
        for device, part in zip(jax.devices(), parts, strict=True):
            array[cuts[device]] = part
        found.append(array)
    return found
