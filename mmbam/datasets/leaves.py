"""Walk wrapped data sets and nested pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mmengine.dataset import BaseDataset, ClassBalancedDataset, RepeatDataset
from mmpretrain.datasets import KFoldDataset
from torch.utils.data import ConcatDataset, Subset

REPEATING = (RepeatDataset, ClassBalancedDataset)
SINGLE = (*REPEATING, KFoldDataset, Subset)


def leaf_datasets(dataset: Any) -> list[BaseDataset]:
    """Find the data sets that read the samples of a wrapped data set.

    Args:
        dataset (Any): A sub-class of mmengine's BaseDataset, or ConcatDataset,
            RepeatDataset, ClassBalancedDataset, mmpretrain's KFoldDataset or torch's
            ConcatDataset and Subset around such, nested at will.

    Returns:
        list[BaseDataset]: Each leaf once, fully initialised, in the order of the data.
    """
    leaves: list[BaseDataset] = []
    for node in _nodes(dataset):
        if isinstance(node, BaseDataset) and all(node is not leaf for leaf in leaves):
            leaves.append(node)
    return leaves


def repeats_samples(dataset: Any) -> str | None:
    """The type of a wrapper that shows a sample more than once an epoch, or None."""
    for node in _nodes(dataset):
        if isinstance(node, REPEATING):
            return type(node).__name__
    return None


def _nodes(dataset: Any) -> Iterator[Any]:
    full_init = getattr(dataset, 'full_init', None)
    if full_init is not None:
        full_init()
        # mmengine cuts epochs short (`num_batch_per_epoch`) with a wrapper that passes
        # on every attribute: the owner of the method is the data set inside.
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
    """Visit every transform of a pipeline, also those inside others.

    Args:
        pipeline (Any): A transform, a Compose or a list of them.

    Yields:
        Any: Each transform once, outer before inner.
    """
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
    """Find the transforms that have a method, with the samples that reach them.

    Args:
        leaves (list[BaseDataset]): Data sets in the order of the data.
        method (str): Name of the method, ``'set_boxes'`` say.

    Yields:
        tuple: The bound method, and the first sample and the sample after the last of
        its data set, counted over all leaves.
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
