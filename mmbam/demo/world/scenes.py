"""Scenes and videos: shapes cut out of photographs, on a background of another.

``names`` are the photographs of the world in the order of their labels, ``split`` is
``'train'`` or ``'test'``, ``rng`` draws all random numbers, sizes are in pixels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np

from .patches import cut_photograph, relight

_SUBPIXEL_BITS = 6


@dataclass
class Sprite:
    """A shape with the texture of a photograph.

    Attributes:
        label (int): Index of the photograph in the world's list of classes.
        outline (np.ndarray): Corners (k, 2) around the origin, in pixels of a scene.
        texture (np.ndarray): Gray square around the origin that covers the outline.
    """

    label: int
    outline: np.ndarray
    texture: np.ndarray


@dataclass
class Scene:
    """An image with its objects.

    Attributes:
        image (np.ndarray): uint8 of shape (h, w).
        ids (np.ndarray): uint8 of shape (h, w): 0 is the background, k the k-th
            object. What is hidden behind another object is not marked.
        labels (list[int]): Class of the background, then of every object, so that
            ``np.array(labels)[ids]`` is the semantic map.
    """

    image: np.ndarray
    ids: np.ndarray
    labels: list[int]


def draw_outline(radius: float, rng: np.random.Generator) -> np.ndarray:
    """Draw the corners (k, 2) of a disc, a polygon, a star or a blob, as (x, y).

    The farthest corner is ``radius`` away from the origin.
    """
    kind = rng.integers(4)
    if kind == 0:  # disc, more or less flattened
        angles = np.linspace(0, 2 * math.pi, 40, endpoint=False)
        radii = np.ones(40)
    elif kind == 1:  # polygon of unequal sides
        corners = int(rng.integers(3, 8))
        angles = (np.arange(corners) + rng.uniform(-0.25, 0.25, corners)) * (
            2 * math.pi / corners
        )
        radii = np.ones(corners)
    elif kind == 2:  # star
        points = int(rng.integers(4, 9))
        angles = np.arange(2 * points) * (math.pi / points)
        radii = np.where(np.arange(2 * points) % 2, rng.uniform(0.45, 0.7), 1.0)
    else:  # blob
        angles = np.linspace(0, 2 * math.pi, 60, endpoint=False)
        radii = np.ones(60)
        for wave in range(2, 6):
            phase = rng.uniform(0, 2 * math.pi)
            radii = radii + rng.uniform(0, 0.6 / wave) * np.sin(wave * angles + phase)
    outline = radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1)
    outline[:, 1] *= rng.uniform(0.7, 1.0)
    return outline * (radius / np.linalg.norm(outline, axis=1).max())


def draw_sprite(
    label: int, name: str, split: str, radius: float, rng: np.random.Generator
) -> Sprite:
    """Draw a shape and fill it with a piece of a photograph."""
    side = 2 * math.ceil(radius) + 3
    texture = cut_photograph(name, split, side, rng, scales=(0.7, 1.4))
    return Sprite(label, draw_outline(radius, rng), relight(texture, rng))


def draw_background(
    name: str, split: str, size: int, rng: np.random.Generator, blur: float = 0.0
) -> np.ndarray:
    """Cut a background out of one cell of a photograph.

    ``blur`` is the sigma of its Gaussian blur.
    """
    # Quarter turns keep the footprint as large as the cell allows.
    angle = math.pi / 2 * int(rng.integers(4))
    background = cut_photograph(name, split, size, rng, (0.5, 1.0), angle)
    background = relight(background, rng)
    return cv2.GaussianBlur(background, (0, 0), blur) if blur else background


def sprite_mask(
    sprite: Sprite, centre: np.ndarray, angle: float, zoom: float, size: int
) -> np.ndarray:
    """Silhouette of a sprite in a scene, as a boolean map of ``size`` x ``size``."""
    corners = _turn(sprite.outline, angle) * zoom + centre
    mask = np.zeros((size, size), np.uint8)
    fixed = np.rint(corners * (1 << _SUBPIXEL_BITS)).astype(np.int32)
    cv2.fillPoly(mask, [fixed], 1, shift=_SUBPIXEL_BITS)
    return mask.astype(bool)


def paste_sprite(
    scene: Scene, sprite: Sprite, centre: np.ndarray, angle: float, zoom: float = 1.0
) -> None:
    """Lay a sprite over a scene, in place, as its next object.

    Its origin goes to ``centre`` (x, y); ``angle``, in radians, turns both shape and
    texture.
    """
    size = len(scene.image)
    mask = sprite_mask(sprite, centre, angle, zoom, size)
    middle = (len(sprite.texture) - 1) / 2
    linear = _turn(np.eye(2), angle).T * zoom
    shift = centre - linear @ [middle, middle]
    texture = cv2.warpAffine(
        sprite.texture,
        np.column_stack([linear, shift]),
        (size, size),
        flags=cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REPLICATE,
    )
    scene.image[mask] = texture[mask]
    scene.labels.append(sprite.label)
    scene.ids[mask] = len(scene.labels) - 1


def draw_scene(
    names: list[str],
    split: str,
    size: int,
    rng: np.random.Generator,
    objects: int = 4,
    blur: float = 0.0,
) -> Scene:
    """Draw up to ``objects`` shapes, at least one, over a background of another class.

    No object is hidden by more than about a half. ``blur`` is that of the background.
    """
    labels = _draw_labels(len(names), objects, rng)
    image = draw_background(names[labels[0]], split, size, rng, blur)
    scene = Scene(image, np.zeros((size, size), np.uint8), labels[:1])
    for label in labels[1:]:
        radius = size * rng.uniform(0.12, 0.26)
        sprite = draw_sprite(label, names[label], split, radius, rng)
        for _ in range(20):
            centre = rng.uniform(0.6 * radius, size - 0.6 * radius, 2)
            angle = rng.uniform(0, 2 * math.pi)
            mask = sprite_mask(sprite, centre, angle, 1.0, size)
            if _hides_little(mask, scene.ids):
                paste_sprite(scene, sprite, centre, angle)
                break
    return scene


def draw_video(
    names: list[str], split: str, size: int, frames: int, rng: np.random.Generator
) -> list[Scene]:
    """Draw a video of one to three shapes that drift, turn and swell.

    An object keeps its id in all frames. Later objects pass in front of earlier
    ones; in the first frame, which gives the masks to propagate, none hides another.
    """
    labels = _draw_labels(len(names), 3, rng)
    # The camera pans over a background that is larger than a frame.
    margin = max(2, size // 8)
    background = draw_background(names[labels[0]], split, size + margin, rng)
    first, last = rng.uniform(0, margin, (2, 2))
    tracks, taken = [], np.zeros((size, size), bool)
    for label in labels[1:]:
        radius = size * rng.uniform(0.12, 0.2)
        sprite = draw_sprite(label, names[label], split, radius, rng)
        track = _draw_track(radius, size, frames, rng)
        while (sprite_mask(sprite, *track[0], size) & taken).any():
            sprite.outline *= 0.95  # ends: a small enough shape finds a free place
            track = _draw_track(radius, size, frames, rng)
        taken |= sprite_mask(sprite, *track[0], size)
        tracks.append((sprite, track))
    video = []
    for step in range(frames):
        shift = first + (last - first) * step / max(1, frames - 1)
        view = np.column_stack([np.eye(2), shift])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        image = cv2.warpAffine(background, view, (size, size), flags=flags)
        scene = Scene(image, np.zeros((size, size), np.uint8), labels[:1])
        for sprite, track in tracks:
            paste_sprite(scene, sprite, *track[step])
        video.append(scene)
    return video


def _draw_track(
    radius: float, size: int, frames: int, rng: np.random.Generator
) -> list[tuple[np.ndarray, float, float]]:
    """Centre, angle and zoom in every frame; the centre bounces off the borders."""
    low, high = radius, size - radius
    place = rng.uniform(low, high, 2)
    heading = rng.uniform(0, 2 * math.pi)
    step = size * rng.uniform(0.015, 0.035)
    velocity = step * np.array([math.cos(heading), math.sin(heading)])
    angle, spin = rng.uniform(0, 2 * math.pi), rng.uniform(-0.12, 0.12)
    swell, phase = rng.uniform(0, 0.15), rng.uniform(0, 2 * math.pi)
    track = []
    for t in range(frames):
        # A triangle wave folds the straight path back into the frame.
        path = (place + velocity * t - low) % (2 * (high - low))
        centre = low + np.minimum(path, 2 * (high - low) - path)
        track.append((centre, angle + spin * t, 1 + swell * math.sin(phase + 0.3 * t)))
    return track


def _draw_labels(num_classes: int, most: int, rng: np.random.Generator) -> list[int]:
    """Class of the background, and of one to ``most`` objects of other classes."""
    background = int(rng.integers(num_classes))
    others = [label for label in range(num_classes) if label != background]
    return [background, *rng.choice(others, rng.integers(1, most + 1)).tolist()]


def _hides_little(mask: np.ndarray, ids: np.ndarray) -> bool:
    """Whether a new object covers at most a quarter of each earlier one."""
    hidden = np.bincount(ids[mask], minlength=256)
    total = np.bincount(ids.ravel(), minlength=256)
    return bool((hidden[1:] <= 0.25 * total[1:]).all())


def _turn(points: np.ndarray, angle: float) -> np.ndarray:
    cos, sin = math.cos(angle), math.sin(angle)
    return points @ np.array([[cos, sin], [-sin, cos]])
