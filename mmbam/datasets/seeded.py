"""Samples whose random draws depend on their place in the run alone."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from mmbam.utils.random import seed_by_key


class SeededSamples:
    """A data set that seeds the random numbers before it reads a sample.

    Draws then depend on (seed, epoch, sample), whatever the number of workers or ranks
    and whatever was read before. A loop without epochs asks for a sample by a tuple
    (turn, position, index); its draws depend on (seed, turn, position).

    Attributes are those of the data set inside.

    Args:
        dataset (Any): A data set with an index.
        clock (Tensor): Seed and epoch in shared memory.
    """

    def __init__(self, dataset: Any, clock: Tensor) -> None:
        self.__dict__.update(dataset=dataset, clock=clock)

    def __getitem__(self, key: int | tuple[int, int, int]) -> Any:
        seed, epoch = self.clock.tolist()
        if isinstance(key, tuple):
            turn, position, index = key
            seed_by_key(seed, turn, position)
        else:
            index = int(key)
            seed_by_key(seed, epoch, index)
        return self.dataset[index]

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        # Special methods, such as `__getitems__`, would get around the seed.
        if name.startswith('__') or 'dataset' not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.dataset, name, value)
