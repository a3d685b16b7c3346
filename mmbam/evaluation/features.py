"""Features of a whole data set, equal on one rank and on many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from mmengine.dataset import InfiniteSampler
from mmengine.dist import all_gather, get_rank, is_main_process
from torch import Tensor, nn
from torch.utils.data import DataLoader

from mmbam.models import embedding
from mmbam.utils.errors import InputError
from mmbam.utils.model import frozen
from mmbam.utils.progress import Progress
from mmbam.utils.random import preserved_randomness


def extract_features(
    model: nn.Module,
    dataloader: DataLoader,
    *,
    data_preprocessor: nn.Module | None = None,
    gather: bool = True,
    progress: bool = True,
) -> tuple[Tensor, Tensor]:
    """Run a frozen network over a data set and keep one vector per image.

    Samples that a distributed sampler repeats to fill the last batches are dropped.
    The modes of all submodules and the random states are restored afterwards.

    Args:
        model (nn.Module): A backbone, or a model with a ``backbone``. Any module from
            images to features works: ``nn.Flatten()`` gives raw pixels.
        dataloader (DataLoader): Batches of OpenMMLab's form
            (``dict(inputs, data_samples)`` with ``gt_label``) or ``(images, labels)``
            pairs. Its sampler must give the same order each time it is read, and the
            samplers of all ranks together must reach every sample.
        data_preprocessor (nn.Module, optional): Module that normalizes batches.
            Defaults to None: the model's own if it has one, else images are only moved
            to the model's device as float32.
        gather (bool): Whether every rank gets all features, in the order of the data
            set. If False, each rank keeps its own part, and the parts of all ranks
            hold each sample once. Defaults to True.
        progress (bool): Whether the first rank shows how far it is, and the time left.
            Defaults to True.

    Returns:
        tuple[Tensor, Tensor]: Features (N, d) in float32 and labels (N,) in int64, on
        the CPU.
    """
    if data_preprocessor is None:
        data_preprocessor = getattr(model, 'data_preprocessor', None)
    backbone = getattr(model, 'backbone', model)

    with frozen(backbone), preserved_randomness():
        batches = _batches_of(dataloader)
        bar = Progress(len(batches), 'Features', show=progress and is_main_process())
        features, labels = [], []
        for indices, batch in zip(batches, dataloader):
            images, batch_labels = _unpack(batch)
            images = preprocess(images, batch_labels, backbone, data_preprocessor)
            pooled = embedding(backbone, images).float().cpu()
            if not len(indices) == len(pooled) == len(batch_labels):
                raise ValueError(
                    f'A batch of {len(indices)} samples gave {len(pooled)} features '
                    f'and {len(batch_labels)} labels; each sample must give one of '
                    'each.'
                )
            features.append(pooled)
            labels.append(batch_labels)
            bar.advance()
    bar.close()
    order = torch.tensor([i for batch in batches for i in batch], dtype=torch.long)
    size = _size(dataloader)
    return _merge(torch.cat(features), torch.cat(labels), order, size, gather)


def _size(dataloader: DataLoader) -> int:
    dataset: Any = dataloader.dataset  # torch's type has no length
    return len(dataset)


def _batches_of(dataloader: DataLoader) -> list[list[int]]:
    """Return the indices of the samples in each batch of the loader."""
    if isinstance(dataloader.sampler, InfiniteSampler):
        raise InputError(
            'Features need a sampler that ends, such as DefaultSampler with '
            'shuffle=False, but got InfiniteSampler.'
        )
    if _size(dataloader) == 0:
        raise InputError('Features need a data set with samples, but it is empty.')
    sampler: Any = dataloader.batch_sampler
    batches = [list(batch) for batch in sampler]
    if batches != [list(batch) for batch in sampler]:
        raise InputError(
            'Features need a sampler with the same order each time it is read, such '
            'as DefaultSampler with shuffle=False, but got '
            f'{type(dataloader.sampler).__name__}.'
        )
    return batches


def _unpack(batch: Mapping | Sequence) -> tuple[Tensor, Tensor]:
    """Return the images and the labels (n,) of a batch."""
    if not isinstance(batch, Mapping):
        images, labels = batch
        return images, torch.as_tensor(labels, dtype=torch.long)
    images = stack_images(batch['inputs'])
    labels = []
    for sample in batch['data_samples']:
        label = sample.get('gt_label')
        if label is None or len(label) != 1:
            raise InputError(
                'Features need one label per sample in gt_label, but '
                f'{sample.get("img_path", "a sample")} has '
                f'{"none" if label is None else len(label)}.'
            )
        labels.append(label.cpu())
    return images, torch.cat(labels).long()


def stack_images(images: Tensor | Sequence[Tensor]) -> Tensor:
    """Stack the images of a batch, if its loader left them apart."""
    if isinstance(images, Tensor):
        return images
    # pseudo_collate leaves a list of images
    shapes = {tuple(image.shape) for image in images}
    if len(shapes) > 1:
        raise InputError(
            'Features need images of one size, but a batch has the shapes '
            f'{sorted(shapes)}: resize or crop them in the pipeline.'
        )
    return torch.stack(list(images))


def preprocess(
    images: Tensor,
    labels: Tensor | None,
    backbone: nn.Module,
    preprocessor: nn.Module | None,
) -> Tensor:
    """Move images to the backbone's device, and normalize them as in training."""
    if preprocessor is None:
        parameter = next(backbone.parameters(), images)
        return images.to(parameter.device).float()
    # Some preprocessors expect data samples. None changes them at test time, so the
    # labels take their place.
    samples = list(torch.zeros(len(images)) if labels is None else labels)
    return preprocessor(dict(inputs=images, data_samples=samples), False)['inputs']


def _merge(
    features: Tensor, labels: Tensor, order: Tensor, size: int, gather: bool
) -> tuple[Tensor, Tensor]:
    """Keep each sample once over all ranks, and bring the ranks together."""
    orders = gather_rows(order)
    seen = torch.cat(orders).numpy()
    samples, first = np.unique(seen, return_index=True)
    if len(samples) != size:
        raise ValueError(
            f'The samplers of all ranks reach {len(samples)} of {size} samples; use '
            'DefaultSampler with shuffle=False and drop_last=False.'
        )
    if not gather:
        keep = torch.zeros(len(seen), dtype=torch.bool)
        keep[first] = True
        mine = keep.split([len(part) for part in orders])[get_rank()]
        return features[mine], labels[mine]
    # Rows of the kept samples, in the order of the data set.
    return (
        torch.cat(gather_rows(features))[first],
        torch.cat(gather_rows(labels))[first],
    )


def gather_rows(rows: Tensor) -> list[Tensor]:
    """Gather the tensors of all ranks, whose numbers of rows may differ."""
    lengths = [int(n) for n in all_gather(torch.tensor([len(rows)]))]
    padded = rows.new_zeros(max(lengths), *rows.shape[1:])
    padded[: len(rows)] = rows
    return [part[:n] for part, n in zip(all_gather(padded), lengths)]
