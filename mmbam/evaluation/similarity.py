"""Similarity of the views of one image, and of different images."""

from __future__ import annotations

import torch
from mmengine.dist import all_reduce
from torch import Tensor
from torch.nn.functional import normalize


def pair_similarities(latents: Tensor) -> tuple[float, float]:
    """Average the cosine similarity over positive and over other pairs of views.

    A positive pair is two views of one image, any other pair two views of different
    images, over the images of all ranks. Both means follow from sums of latents, so no
    matrix of similarities is formed.

    Args:
        latents (Tensor): Latents of this rank's images, shape (V, n, d), one row of
            images per view. The number of images may differ between ranks.

    Returns:
        tuple[float, float]: Means over positive and over other pairs; NaN if there is
        no such pair.
    """
    if latents.dim() != 3:
        raise ValueError(
            'Similarities of pairs need latents of shape (V, n, d), but got '
            f'{tuple(latents.shape)}.'
        )
    num_views, num_images, dim = latents.shape
    z = normalize(latents.detach().double(), dim=-1)
    of_image = z.sum(dim=0)
    # |sum of the views|^2 counts each pair twice and each view with itself once; the
    # latter are subtracted. They are 0, not 1, for latents that are all zero.
    squares = of_image.square().sum()
    selves = z.square().sum()
    total = torch.cat(
        [
            of_image.sum(dim=0),
            torch.stack([squares, selves]),
            z.new_tensor([num_images]),
        ]
    )
    all_reduce(total)
    sums, (squares, selves, images) = total[:dim], total[dim:]
    num_positive = images * num_views * (num_views - 1)
    num_other = images * (images - 1) * num_views**2
    positive = (squares - selves) / num_positive
    other = (sums.square().sum() - squares) / num_other
    return positive.item(), other.item()
