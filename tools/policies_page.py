"""Prints what the policies of a program of the tests communicate and hold: the example of docs/sharded-training.md."""

import argparse
import os
import sys
from functools import partial
from pathlib import Path

import simulated_devices

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = simulated_devices.flags_for(8)
sys.path.append(str(Path(__file__).resolve().parent.parent / "test"))

from programs import models, plain
from programs.catalog import LAYERS, MATRIX
from programs.program import Sizes

import paropt

PROGRAMS = MATRIX | LAYERS | {"blocks_over_all": partial(plain.layers_over_all, models.blocks)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", choices=PROGRAMS, default="blocks_p18", metavar="NAME", help="(%(default)s)")
    parser.add_argument("--target", default="cpu:8", help="(%(default)s)")
    parser.add_argument("--width", type=int, default=64, help="of its layers (%(default)s)")
    parser.add_argument("--budget", default="500kB", help="bytes per device (%(default)s); empty: none")
    parser.add_argument("--plans", type=int, default=3, help="of the policy auto, between the ends (%(default)s)")
    parser.add_argument("--plot", metavar="FILE", help="write the picture, too")
    options = parser.parse_args()
    devices = paropt.targets.get(options.target).devices
    program = PROGRAMS[options.program](Sizes(width=options.width), devices=devices or None)
    budget = options.budget or None
    found = paropt.policies(
        program.step, *program.args, target=options.target, memory_budget=budget, plans=options.plans
    )
    print(found)
    if options.plot:
        found.plot(options.plot)


if __name__ == "__main__":
    main()
