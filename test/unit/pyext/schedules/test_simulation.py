"""The simulator: times, waiting, memory, deadlock."""

from dataclasses import replace
from fractions import Fraction

import pytest

from paropt.schedules import Costs, Deadlock, Instruction, Schedule, ScheduleError, period, schedule, simulate
from paropt.schedules.text import text


def forward(chunk: int, microbatch: int = 0) -> Instruction:
    return Instruction("F", chunk, microbatch)


def backward(chunk: int, microbatch: int = 0) -> Instruction:
    return Instruction("B", chunk, microbatch)


def table(*devices: list[Instruction]) -> Schedule:
    """A table of one chunk on each device, without updates."""
    return Schedule("mine", tuple(map(tuple, devices)), (tuple(range(len(devices))),), 2)


def test_a_table_of_ones_own_is_printed() -> None:
    printed = text(simulate(table([forward(0), backward(0)])))
    assert printed.startswith(
        "mine: 1 devices, 2 micro-batches; time 3, bubble 0 = 0.0%\nupdated together, 0 transfers\n"
    )
    assert printed.endswith("device 0: 0F0 0B0")


def test_an_instruction_waits_for_its_device_and_for_what_it_depends_on() -> None:
    found = simulate(
        table([forward(0), backward(0)], [forward(1), backward(1)]), Costs(F=[2, 3], B=1, W=1, transfer="1/2")
    )
    assert found.events[1][0].start == Fraction(5, 2)  # the forward of chunk 0, and half a unit on the way
    assert found.events[1][1].end == Fraction(15, 2)
    assert found.events[0][1].start == 8
    assert found.makespan == 10
    assert found.busy == (4, 5)
    assert found.idle == (6, 5)
    assert found.bubble == Fraction(11, 20)
    assert found.transfers == 2


def test_chunks_of_one_device_hand_over_at_no_cost() -> None:
    one = Schedule("mine", ((forward(0), forward(1), backward(1), backward(0)),), ((0, 0),), 1)
    found = simulate(one, Costs(transfer=100))
    assert found.makespan == 3  # the share of a device, in two chunks
    assert found.transfers == 0
    assert found.peak == (1,)
    assert found.live == (2,)


def test_a_backward_without_weight_gradient_takes_both() -> None:
    whole = table([forward(0), backward(0)])
    split = table([forward(0), backward(0), Instruction("W", 0, 0)])
    costs = Costs(F=1, B=2, W=4)
    assert [event.end - event.start for event in simulate(whole, costs).events[0]] == [1, 6]
    assert [event.end - event.start for event in simulate(split, costs).events[0]] == [1, 2, 4]


def test_part_of_the_activations_goes_after_the_gradient_of_the_inputs() -> None:
    made = schedule("gpipe", stages=1, microbatches=1)
    assert simulate(made).peak == (1,)
    split = [forward(0), backward(0), forward(0, 1), Instruction("W", 0, 0), backward(0, 1), Instruction("W", 0, 1)]
    assert simulate(table(split), Costs(kept="1/3")).peak == (Fraction(4, 3),)
    assert simulate(table(split)).peak == (2,)


def test_devices_that_wait_for_each_other_are_named() -> None:
    broken = table([forward(0), backward(0), forward(0, 1)], [forward(1), forward(1, 1), backward(1)])
    with pytest.raises(Deadlock) as found:
        simulate(broken)
    assert str(found.value) == (
        "mine: deadlock: device 0 stands at backward of chunk 0, micro-batch 0, and waits for backward of chunk 1, micro-batch 0; "
        "device 1 stands at forward of chunk 1, micro-batch 1, and waits for forward of chunk 0, micro-batch 1"
    )
    assert found.value.waiting[1] == (forward(1, 1), forward(0, 1))


def test_a_device_that_waits_for_itself_is_named() -> None:
    with pytest.raises(Deadlock, match="device 0 stands at backward of chunk 0, micro-batch 0, and waits for forward"):
        simulate(table([backward(0), forward(0)]))


def test_what_no_device_runs_is_named() -> None:
    with pytest.raises(Deadlock, match="waits for forward of chunk 0, micro-batch 1, which no device runs"):
        simulate(table([forward(0)], [forward(1), forward(1, 1)]))


def test_a_wrong_table_is_refused() -> None:
    with pytest.raises(ScheduleError, match="mine: forward of chunk 0, micro-batch 0, runs twice"):
        simulate(table([forward(0), forward(0)]))
    with pytest.raises(ScheduleError, match="runs on device 1, where its chunk is not"):
        simulate(table([forward(0)], [forward(0, 1)]))


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (Costs(F="x"), "F: expected a number such as 2, 0.5 or 1/3, not 'x'"),
        (Costs(B=-1), "B: expected a number from 0 up, not -1"),
        (Costs(kept=2), "kept: expected a part from 0 to 1, not 2"),
        (Costs(W=[1, 2, 3]), "W: expected one number or 2 of them, not 3"),
        (Costs(transfer=[1, 2]), "transfer: expected one number or 1 of them, not 2"),
    ],
)
def test_costs_that_do_not_fit_are_refused(costs: Costs, message: str) -> None:
    with pytest.raises(ScheduleError) as found:
        simulate(schedule("1f1b", stages=2, microbatches=2), costs)
    assert str(found.value) == message


def test_decimal_costs_are_exact() -> None:
    assert simulate(schedule("1f1b", stages=1, microbatches=10), Costs(F=0.1, B=0.1, W="0.1")).makespan == 3


def test_steps_in_a_row_overlap_where_chunks_are_updated_alone() -> None:
    together = schedule("1f1b", stages=4, microbatches=8)
    assert period(together) == simulate(together).makespan == 33
    by_chunk = schedule("zb-h2", stages=4, microbatches=8)
    assert period(by_chunk) == 24
    assert period(replace(by_chunk, update="together")) == simulate(by_chunk).makespan == 27


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("1fb1", {}, "no schedule '1fb1': did you mean '1f1b'?"),
        ("gpipe", {"stages": 0}, "gpipe: stages must be a whole number from 1 up, not 0"),
        ("gpipe", {"microbatches": 2.5}, "gpipe: microbatches must be a whole number from 1 up, not 2.5"),
        ("gpipe", {"chunks": 2}, "gpipe: chunks is 1 in this schedule, not 2"),
        ("gpipe", {"token_slices": 2}, "gpipe: it cuts no sequences: leave token_slices out"),
        ("interleaved", {"chunks": 0}, "interleaved: chunks must be a whole number from 1 up, not 0"),
        (
            "interleaved",
            {"microbatches": 7},
            "interleaved: micro-batches must be a multiple of the stages: got 4 stages, 7 micro-batches",
        ),
    ],
)
def test_mistakes_are_one_line(name: str, arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ScheduleError) as found:
        schedule(name, **({"stages": 4, "microbatches": 8} | arguments))
    assert str(found.value) == message
