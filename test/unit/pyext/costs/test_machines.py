"""The library's figures of machines: what each is confirmed by, and that they agree with what data sheets print."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from unit.scripts import ROOT

from paropt.clusters import targets
from paropt.clusters.gpus import GPUS
from paropt.clusters.targets import HostTarget
from paropt.costs import CostError, Link, Machine, cluster_of, read_table
from paropt.costs.machines import ASSUMED_OF_ALL

TABLE = read_table()
TPUS = {"v4": "v4:2x2x1", "v5e": "v5e:2x4", "v5p": "v5p:2x2x1", "v6e": "v6e:2x4", "tpu7x": "tpu7x:2x2x1"}
_LINE = re.compile(
    r"(?P<figures>[\w.]+(, [\w.]+)*): (confirmed by https://\S+ \S.*|as for (?P<other>\w+)|(?P<assumed>assumed, \S.*))"
)


class Figure(NamedTuple):
    machine: str
    link: str  # the level that it joins, "" of a figure of the machine
    name: str
    value: float


def figures_of(machine: Machine) -> Iterator[tuple[Figure, str]]:
    """With the source that has to name them."""
    own = {"memory_bandwidth": machine.memory_bandwidth, "op_start": machine.op_start}
    for name, value in (own | {f"flops.{kind}": figure for kind, figure in machine.flops.items()}).items():
        yield Figure(machine.name, "", name, value), machine.source
    for link in machine.links:
        for name in ("bandwidth", "latency", "start"):
            yield Figure(machine.name, link.within, name, getattr(link, name)), link.source


FIGURES = {figure[:3]: (figure, source) for machine in TABLE.values() for figure, source in figures_of(machine)}


def status_of(figure: Figure, source: str) -> re.Match[str]:
    """The line of `source` about the figure: there is one."""
    lines = [_LINE.fullmatch(line) for line in source.strip().splitlines()]
    assert all(lines), f"{figure}: a line that says nothing of figures in {source}"
    names = (figure.name, figure.name.partition(".")[0])
    about = [line for line in lines if line and set(names) & set(line["figures"].split(", "))]
    assert len(about) == 1, f"{figure}: {len(about)} lines are about it"
    return about[0]


@pytest.mark.parametrize(("figure", "source"), FIGURES.values(), ids=["-".join(key) for key in FIGURES])
def test_each_figure_is_confirmed_or_said_to_be_assumed(figure: Figure, source: str) -> None:
    other = status_of(figure, source)["other"]
    if other:
        assert FIGURES[other, figure.link, figure.name][0].value == figure.value, f"not as for {other}"


def test_sources_name_no_figure_that_is_not_there() -> None:
    for machine in TABLE.values():
        for level, source in (("", machine.source), *((link.within, link.source) for link in machine.links)):
            for line in filter(None, map(_LINE.fullmatch, source.strip().splitlines())):
                for name in line["figures"].split(", "):
                    assert name == "flops" or (machine.name, level, name) in FIGURES, f"{machine.name}: {name}"


def assumed() -> Iterator[tuple[str, str]]:
    """The figures that are assumed, each with its machine or link, those `as for` another among them."""
    for figure, source in FIGURES.values():
        line = status_of(figure, source)
        while line["other"]:
            line = status_of(*FIGURES[line["other"], figure.link, figure.name])
        if line["assumed"]:
            owner = figure.machine
            if figure.link:
                owner = next(link.name for link in TABLE[figure.machine].links if link.within == figure.link)
            yield owner, figure.name.partition(".")[0]


def test_the_page_lists_the_figures_that_are_assumed() -> None:
    page = (ROOT / "docs/costs.md").read_text().partition("### Assumed")[2].partition("\n#")[0]
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| `")]
    listed = {
        (owner.strip(" `"), name.strip(" `")) for n, of in rows for name in n.split(",") for owner in of.split(",")
    }
    assert {*assumed(), *(("all", name) for name in ASSUMED_OF_ALL)} == listed


def test_a_narrower_type_is_as_fast_or_twice_as_fast() -> None:
    """One figure with sparsity among others without it is twice too much; f64 has units of its own."""
    for machine in (each for each in TABLE.values() if each.name != "v100"):  # its tensor cores multiply f16 only
        f32, bf16, f8, s8 = (machine.flops_of(kind) for kind in ("f32", "bf16", "f8", "s8"))
        assert machine.flops_of("f16") == bf16
        for wide, narrow in ((f32, bf16), (bf16, f8), (bf16, s8)):
            assert min(abs(narrow / wide - 1), abs(narrow / wide - 2)) < 0.01, machine.name
        assert machine.flops.get("f64", 0) < f32, machine.name


def test_a_v100_multiplies_only_f16_by_its_tensor_cores() -> None:
    """64 products per clock and tensor core, of which 8 stand beside 64 units for f32."""
    v100 = TABLE["v100"]
    assert v100.flops_of("f16") == pytest.approx(8 * v100.flops_of("f32"), rel=0.01)
    assert v100.flops_of("bf16") == v100.flops_of("f32")
    assert v100.links[0].bandwidth == 6 * 25e9
    assert v100.links[1].bandwidth == 25e9 / 8 / 8  # bits, and devices of a host


class Printed(NamedTuple):
    """Of NVIDIA's tables: BF16 with sparsity, and NVLink both ways."""

    bf16: float
    nvlink: float


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("a100", Printed(624e12, 600e9)),
        ("h100", Printed(1979e12, 900e9)),
        ("h200", Printed(1979e12, 900e9)),
        ("b200", Printed(36e15 / 8, 14.4e12 / 8)),
    ],
)
def test_gpus_have_half_of_what_is_printed_with_sparsity_and_for_both_ways(name: str, printed: Printed) -> None:
    assert TABLE[name].flops["bf16"] == pytest.approx(printed.bf16 / 2, rel=1e-3)
    assert TABLE[name].flops["f32"] == pytest.approx(printed.bf16 / 4, rel=1e-3)  # TF32
    assert TABLE[name].links[0].bandwidth == printed.nvlink / 2


@pytest.mark.parametrize(("name", "flops"), [("a100", 2048), ("h100", 4096), ("h200", 4096), ("b200", 8192)])
def test_gpus_do_no_more_per_clock_than_their_units_can(name: str, flops: int) -> None:
    """bf16, without sparsity; the tensor cores' clock is up to a tenth below the other units'."""
    gpu = GPUS[name]
    per_clock = TABLE[name].flops["bf16"] / (gpu.multiprocessors * gpu.clock_ghz * 1e9)
    assert 0.9 * flops < per_clock < 1.001 * flops
    assert TABLE[name].memory_bandwidth == gpu.bandwidth


class Chip(NamedTuple):
    """Of Google's tables, per chip."""

    bf16: float
    memory: float
    links: float = 0  # both ways, all ports
    ports: int = 1


CHIPS: Mapping[str, Chip] = {
    "v4": Chip(275e12, 1200e9),
    "v5e": Chip(197e12, 819e9, 400e9, 4),
    "v5p": Chip(459e12, 2765e9, 1200e9, 6),
    "v6e": Chip(918e12, 1638e9, 800e9, 4),
    "tpu7x": Chip(2307e12, 7380e9, 1200e9, 6),
}


def devices_per_chip(name: str) -> int:
    devices: tuple[Any, ...] = targets.get(f"tpu:{TPUS[name]}").devices
    return len(devices) // len({tuple(device.coords) for device in devices})


@pytest.mark.parametrize("name", TPUS)
def test_devices_of_a_tpu_chip_share_its_figures(name: str) -> None:
    """As libtpu makes them: two of a chip of v4 or tpu7x. Along an axis two links leave a chip, each with half of a port."""
    cluster = cluster_of(f"tpu:{TPUS[name]}", TABLE)
    machine, devices, chip = cluster.machine, devices_per_chip(name), CHIPS[name]
    assert machine.name == name
    assert devices * machine.flops["bf16"] == chip.bf16
    assert devices * machine.memory_bandwidth == chip.memory
    if chip.links:
        assert devices * machine.links[0].bandwidth == 2 * chip.links / chip.ports / 2


@pytest.mark.parametrize(
    ("name", "links", "bisection"), [("v4", 2 * 16 * 16, 24e12), ("v5e", 2 * 16, 1.6e12), ("v6e", 2 * 16, 3.2e12)]
)
def test_links_that_a_cut_through_a_pod_crosses_have_its_bisection_bandwidth(
    name: str, links: int, bisection: float
) -> None:
    """A torus of 16 x 16 (x 16) chips; v4's is printed 7 % below. Of a chip, two links leave along an axis."""
    one_way = devices_per_chip(name) * TABLE[name].links[0].bandwidth / 2
    assert links * one_way == pytest.approx(bisection, rel=0.07)


def on_a_host_with(name: str) -> HostTarget:
    host = HostTarget("host")
    vars(host)["devices"] = targets.get(f"tpu:{TPUS[name]}").devices
    return host


@pytest.mark.parametrize("name", ["v5e", "v5p", "v6e", "tpu7x"])
def test_tpus_of_a_host_are_known_by_what_jax_calls_them(name: str) -> None:
    assert cluster_of(on_a_host_with(name), TABLE).machine.name == name


def test_a_host_with_v4_is_declined() -> None:
    """Its devices are chips, of which those that libtpu describes are halves."""
    with pytest.raises(CostError, match="the table of costs has no machine `TPU v4`"):
        cluster_of(on_a_host_with("v4"), TABLE)


def test_any_two_devices_are_joined_and_outer_links_are_slower() -> None:
    for machine in TABLE.values():
        links: list[Link] = list(machine.links)
        assert links[-1].within == "cluster"
        assert [link.bandwidth for link in links] == sorted((link.bandwidth for link in links), reverse=True)
        assert [link.latency for link in links] == sorted(link.latency for link in links)
        assert links[0].bandwidth < machine.memory_bandwidth
