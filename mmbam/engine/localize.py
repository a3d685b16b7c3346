"""Find the box of the main object in every image of a data set."""

from __future__ import annotations

from multiprocessing.context import BaseContext

import torch
from mmengine.dist import all_gather, all_gather_object, get_dist_info
from torch import Tensor, nn
from torch.utils.data import DataLoader

from mmbam.datasets.plain_images import PlainImages
from mmbam.models import boxes_from_heat_maps, heat_map
from mmbam.utils.model import frozen
from mmbam.utils.progress import Progress
from mmbam.utils.random import preserved_randomness

MAX_MESSAGES = 10


def localize(
    backbone: nn.Module,
    data_preprocessor: nn.Module,
    images: PlainImages,
    batch_size: int = 256,
    num_workers: int = 4,
    threshold: float = 0.1,
    start_method: str | BaseContext | None = None,
    progress: bool = True,
) -> tuple[Tensor, int, list[str]]:
    """Find the box of every image, all ranks sharing the work.

    The backbone's modes and the random states are restored afterwards.

    Args:
        backbone (nn.Module): Any network that :func:`mmbam.models.heat_map` takes.
        data_preprocessor (nn.Module): Module of the model that normalizes images.
        images (PlainImages): Images to localise.
        batch_size (int): Number of images in a batch. Defaults to 256.
        num_workers (int): Number of data-loader workers of each rank. Defaults to 4.
        threshold (float): Limit above which a scaled heat map counts as warm. Defaults
            to 0.1.
        start_method (str | BaseContext, optional): Start method of the workers, as for
            a data loader. Defaults to None, the default of the process.
        progress (bool): Whether rank 0 shows how far it is. Defaults to True.

    Returns:
        tuple: The boxes of shape (len(images), 4), with NaN for images that could not
        be read; the number of those images; and messages about some of them. All ranks
        return the same.
    """
    rank, world_size = get_dist_info()
    # Whole batches are shared out, so that a batch holds the same images, and gives
    # the same bits, on any number of ranks.
    starts = range(0, len(images), batch_size)
    batches = [
        list(range(start, min(start + batch_size, len(images))))
        for start in starts[rank::world_size]
    ]
    loader = DataLoader(
        images,
        batch_sampler=batches,
        num_workers=num_workers,
        collate_fn=_collate,
        multiprocessing_context=start_method,
        pin_memory=torch.cuda.is_available(),
    )
    rounds = -(-len(starts) // world_size)
    boxes = torch.full((rounds, batch_size, 4), float('nan'))
    failed = 0
    messages: list[str] = []
    bar = Progress(len(images), 'Boxes', show=progress and rank == 0)
    with frozen(backbone), preserved_randomness():
        for number, (batch, errors) in enumerate(loader):
            inputs = data_preprocessor(dict(inputs=batch, data_samples=None))['inputs']
            found = boxes_from_heat_maps(
                heat_map(backbone, inputs), threshold, size=images.size
            ).cpu()
            readable = torch.tensor([not error for error in errors])
            boxes[number, : len(batch)][readable] = found[readable]
            failed += len(batch) - int(readable.sum())
            messages += [e for e in errors if e][: MAX_MESSAGES - len(messages)]
            bar.advance(min(len(batch) * world_size, len(images) - bar.done))
    bar.close()
    gathered = torch.stack(all_gather(boxes), dim=1)  # (rounds, ranks, batch, 4)
    reports = all_gather_object((failed, messages))
    return (
        gathered.flatten(0, 2)[: len(images)],
        sum(failed for failed, _ in reports),
        [message for _, messages in reports for message in messages],
    )


def _collate(samples: list[tuple[Tensor, str]]) -> tuple[Tensor, list[str]]:
    images, errors = zip(*samples)
    return torch.stack(images), list(errors)
