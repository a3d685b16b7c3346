"""Find the data sets inside wrappers, and the transforms inside pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mmengine.dataset import BaseDataset, ClassBalancedDataset, RepeatDataset
from mmpretrain.datasets import KFoldDataset
from torch.utils.data import ConcatDataset, Subset

from .seeded import SeededSamples

SINGLE = (RepeatDataset, ClassBalancedDataset, KFoldDataset, Subset)


def leaf_datasets(dataset: Any) -> list[BaseDataset]:
    """Find the data sets inside wrappers: each once, fully initialized, in order.

    Wrappers are mmengine's ConcatDataset, RepeatDataset and ClassBalancedDataset,
    mmpretrain's KFoldDataset, and torch's ConcatDataset and Subset, in any nesting.
    """
    leaves: list[BaseDataset] = []
    for node in _nodes(dataset):
        if isinstance(node, BaseDataset) and all(node is not leaf for leaf in leaves):
            leaves.append(node)
    return leaves


def _nodes(dataset: Any) -> Iterator[Any]:
    if isinstance(dataset, SeededSamples):
        dataset = dataset.dataset
    full_init = getattr(dataset, 'full_init', None)
    if full_init is not None:
        full_init()
        # For `num_batch_per_epoch`, mmengine wraps the data set in a class that passes
        # on all attributes. The owner of the method is the data set inside.
        dataset = getattr(full_init, '__self__', dataset)
    yield dataset
    if isinstance(dataset, ConcatDataset):
        children = dataset.datasets
    elif isinstance(dataset, SINGLE):
        children = [dataset.dataset]
    elif isinstance(dataset, BaseDataset):
        children = []
    else:
        raise TypeError(
            f'{type(dataset).__name__} does not say which sample it reads: use a '
            "sub-class of mmengine's BaseDataset, alone or inside ConcatDataset, "
            'RepeatDataset, ClassBalancedDataset, KFoldDataset or Subset.'
        )
    for child in children:
        yield from _nodes(child)


def walk_transforms(pipeline: Any) -> Iterator[Any]:
    """Visit every transform of a pipeline once, outer ones before inner ones."""
    seen: set[int] = set()
    stack = [pipeline]
    while stack:
        node = stack.pop()
        if isinstance(node, (list, tuple)):
            stack.extend(reversed(node))
        elif isinstance(node, dict):
            stack.extend(reversed(list(node.values())))
        elif callable(node) and hasattr(node, '__dict__') and id(node) not in seen:
            seen.add(id(node))
            if not isinstance(node, type):
                yield node
                stack.extend(reversed(list(vars(node).values())))


def hand_to_transforms(
    leaves: list[BaseDataset], method: str
) -> Iterator[tuple[Any, int, int]]:
    """Find the transforms that have a certain method, such as ``set_boxes``.

    Yields the bound method, and start and stop of its data set's samples, counted over
    all data sets.
    """
    owner: dict[int, BaseDataset] = {}
    start = 0
    for leaf in leaves:
        stop = start + len(leaf)
        for transform in walk_transforms(leaf.pipeline):
            if not hasattr(transform, method):
                continue
            if owner.setdefault(id(transform), leaf) is not leaf:
                raise ValueError(
                    f'Two data sets share one {type(transform).__name__} object, which '
                    'cannot tell their samples apart: build a pipeline for each.'
                )
            yield getattr(transform, method), start, stop
        start = stop
