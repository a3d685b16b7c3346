"""Views of an image: their sizes, and the pipeline that makes them."""

from __future__ import annotations

from . import numbers

#: ImageNet's, of RGB images, as everywhere in OpenMMLab.
PREPROCESSOR = dict(
    type='SelfSupDataPreprocessor',
    mean=[123.675, 116.28, 103.53],
    std=[58.395, 57.12, 57.375],
    to_rgb=True,
)


def view_sizes(short_side: int, patch: int = 1) -> tuple[int, int]:
    """Choose the sizes of global and local views.

    Args:
        short_side (int): Typical shorter side of the images, in pixels.
        patch (int): Side of the network's patches, of which sizes are multiples.
            Defaults to 1, no patches.

    Returns:
        tuple[int, int]: Sides of the global and of the local views. Views are no larger
        than the images, except for networks that would see too few patches.
    """
    least = max(2 * 8, numbers.LEAST_PATCHES * patch if patch > 1 else 0)
    multiple = patch
    if patch == 1:
        multiple = 32 if short_side > numbers.SMALL_VIEW else 8
    largest = numbers.LARGEST_VIEW // multiple * multiple
    size = min(max(_nearest(short_side, multiple), least), largest)
    multiple = patch if patch > 1 else 8
    local = max(_nearest(size * numbers.LOCAL_SHARE, multiple), multiple)
    return size, local


def _nearest(value: float, multiple: int) -> int:
    return int(value / multiple + 0.5) * multiple


def view_pipeline(size: int, local_size: int, num_local: int) -> list[dict]:
    """Config of the transforms from a file to two global and some local views."""

    def sigma(side: int) -> tuple[float, float]:
        low, high = numbers.SIGMA
        return low, round(max(2 * low, high * side / numbers.LARGEST_VIEW), 2)

    def kind(side: int, area: tuple[float, float], **extra: float) -> dict:
        return dict(
            size=side,
            area=area,
            flip=0.5,
            jitter=0.8,
            strength=(0.4, 0.4, 0.4, 0.1),
            gray=0.2,
            sigma=sigma(side),
            **extra,
        )

    views = [
        kind(size, numbers.GLOBAL_AREA, blur=1.0),
        kind(size, numbers.GLOBAL_AREA, blur=0.1, solarize=0.2),
    ]
    if num_local:
        small = size <= numbers.SMALL_VIEW
        area = numbers.SMALL_LOCAL_AREA if small else numbers.LOCAL_AREA
        views.append(kind(local_size, area, blur=0.5, num=num_local))
    return [
        dict(type='mmbam.LoadImage', max_errors=0.01),
        dict(type='mmbam.MultiCrop', views=views, alpha=0.6),
        dict(type='PackInputs'),
    ]
