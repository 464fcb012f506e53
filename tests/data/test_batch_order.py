"""Indices are given out from the batch that an epoch begins with, and it is known which worker has them."""

from __future__ import annotations

from videodataset.data.batch_order import BatchOrder, Held


def test_every_epoch_begins_where_it_is_told() -> None:
    firsts = iter([2, 0, 5])
    order = BatchOrder([[0], [1], [2], [3]], lambda: (next(firsts), Held(1)))
    epochs = [iter(order) for _ in range(3)]
    assert [list(epoch) for epoch in epochs] == [[[2], [3]], [[0], [1], [2], [3]], []]
    assert len(order) == 4


def test_what_is_given_out_is_noted_as_it_is_taken() -> None:
    held = Held(3)
    batches = iter(BatchOrder([[k] for k in range(9)], lambda: (1, held)))
    for _ in range(7):
        next(batches)
    assert [held.by(worker) for worker in range(3)] == [[[1], [4], [7]], [[2], [5]], [[3], [6]]]
    for _ in range(4):
        held.take_back()
    assert [held.by(worker) for worker in range(3)] == [[[7]], [[5]], [[6]]]
    next(batches)
    assert held.by(1) == [[5], [8]]


def test_unknown_turns() -> None:
    held = Held(0)
    held.give([1])
    held.take_back()
    held.take_back()
    assert held.by(0) == []
