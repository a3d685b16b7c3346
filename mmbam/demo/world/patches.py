"""Patches of photographs at a random place, scale, rotation and lighting.

Images are gray, of uint8 (h, w). ``split`` is ``'train'`` or ``'test'``: the cells of
the photographs that pixels come from. ``rng`` draws all random numbers.
"""

from __future__ import annotations

import math

import cv2
import numpy as np

from .photographs import load_photograph, split_cells

SCALES = (1.0, 2.0)
"""Pixels of the photograph per pixel of a patch."""
MIN_CONTRAST = 20.0
"""Smallest standard deviation of a useful patch, in gray levels."""


def cut_patch(
    area: np.ndarray,
    size: int,
    scales: tuple[float, float],
    angle: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Cut a rotated square out of an area at a random place and scale.

    The rotated footprint lies inside the area, so that a cut from one cell of a
    photograph contains nothing of the neighbouring cells. ``scales`` is the range of
    pixels of the area per pixel of the result, drawn log-uniformly and lowered where
    the area is too small; ``angle`` is in radians.
    """
    height, width = area.shape
    cos, sin = math.cos(angle), math.sin(angle)
    extent = abs(cos) + abs(sin)
    fits = min(height, width) / (size * extent)
    low, high = (min(scale, fits) for scale in scales)
    scale = min(math.exp(rng.uniform(math.log(low), math.log(high))), fits)
    half = size * scale * extent / 2
    x = half + (width - 2 * half) * rng.random()
    y = half + (height - 2 * half) * rng.random()
    # Twice the resolution, then the mean of 2 x 2: no aliasing up to scale 2.
    step = scale / 2
    reach = (2 * size - 1) / 2 * step
    inverse = np.array(
        [
            [step * cos, -step * sin, x - 0.5 - reach * (cos - sin)],
            [step * sin, step * cos, y - 0.5 - reach * (sin + cos)],
        ]
    )
    fine = cv2.warpAffine(
        area,
        inverse,
        (2 * size, 2 * size),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return cv2.resize(fine, (size, size), interpolation=cv2.INTER_AREA)


def cut_photograph(
    name: str,
    split: str,
    size: int,
    rng: np.random.Generator,
    scales: tuple[float, float] = SCALES,
    angle: float | None = None,
    tries: int = 20,
) -> np.ndarray:
    """Cut a square out of the cells of a photograph that belong to one split.

    Empty sky looks the same in every photograph, so a cut without contrast is drawn
    again; after ``tries`` draws the one with the most contrast is returned. Without
    an ``angle``, the rotation is random.
    """
    photograph = load_photograph(name)
    cells = split_cells(*photograph.shape)[split]
    drawn = []
    for _ in range(tries):
        top, left, bottom, right = cells[rng.integers(len(cells))]
        turn = rng.uniform(0, 2 * math.pi) if angle is None else angle
        patch = cut_patch(photograph[top:bottom, left:right], size, scales, turn, rng)
        drawn.append(patch)
        if patch.std() >= MIN_CONTRAST:
            break
    return max(drawn, key=np.std)


def expose(image: np.ndarray) -> np.ndarray:
    """Bring a gray image to a standard brightness and contrast.

    Otherwise brightness would identify a patch across its views, and a network that
    learns to tell images apart would learn nothing else.
    """
    scaled = (image - image.mean()) * (50.0 / (image.std() + 5.0)) + 128.0
    return np.clip(np.rint(scaled), 0, 255).astype(np.uint8)


def relight(
    image: np.ndarray, rng: np.random.Generator, gamma: float = 0.7, dim: float = 0.5
) -> np.ndarray:
    """Change gamma, contrast and brightness of a gray image at random.

    The exponent is between 2 ** -gamma and 2 ** gamma; at most the share ``dim`` of
    the range of gray levels is lost.
    """
    levels = np.linspace(0, 1, 256) ** (2 ** rng.uniform(-gamma, gamma))
    contrast = rng.uniform(1 - dim, 1.0)
    levels = rng.uniform(0, 1 - contrast) + contrast * levels
    return np.rint(255 * levels).astype(np.uint8)[image]


def draw_patch(
    name: str, split: str, size: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw a patch of a class: random place, scale, rotation and lighting."""
    patch = expose(cut_photograph(name, split, size, rng))
    # Weaker than the jitter of the views, which has to hide it.
    return relight(patch, rng, gamma=0.3, dim=0.25)
