"""Make the whole world, or reuse it."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, Callable

import numpy as np

from mmbam.utils.errors import InputError
from mmbam.utils.files import locked
from mmbam.utils.progress import Progress

from .layouts import write_ade20k, write_coco, write_davis, write_imagenet
from .patches import draw_patch
from .photographs import class_names
from .scenes import draw_scene, draw_video

LAYOUTS = {
    'imagenet': 'imagenet',
    'coco': 'coco',
    'ade20k': 'ade/ADEChallengeData2016',
    'davis': 'DAVIS',
}
"""Folder of each layout inside a world, named as in OpenMMLab's ``data/``."""

# Raise this when the same settings give other images, so that old worlds are remade.
_VERSION = 2
_RECORD = 'world.json'
_STREAMS = {'patches': 0, 'scenes': 1, 'videos': 2}


def make_world(
    root: str | Path,
    seed: int = 0,
    num_classes: int = 16,
    patches: tuple[int, int] = (4000, 800),
    patch_size: int = 32,
    scenes: tuple[int, int] = (200, 50),
    scene_size: int = 128,
    objects: int = 4,
    background_blur: float = 0.0,
    videos: tuple[int, int] = (2, 4),
    frames: int = 16,
    progress: bool = True,
) -> dict[str, str]:
    """Make a small world from real photographs, in the layouts of public data sets.

    The class of a patch is the photograph that it was cut from. Training and test
    images show disjoint regions of the photographs. The same settings give the same
    files; a complete world of the same settings is reused, any other one at ``root``
    is replaced.

    Args:
        root (str | Path): Folder of the world.
        seed (int): Seed of all random draws. Defaults to 0.
        num_classes (int): Number of photographs, 2 to 18. Defaults to 16.
        patches (tuple[int, int]): Number of training and of test patches.
            Defaults to (4000, 800).
        patch_size (int): Side of a patch in pixels. Defaults to 32.
        scenes (tuple[int, int]): Number of training and of test scenes.
            Defaults to (200, 50).
        scene_size (int): Side of scenes and of video frames in pixels. Defaults to 128.
        objects (int): Largest number of objects in a scene. Defaults to 4.
        background_blur (float): Sigma in pixels of the blur of the scenes' backgrounds,
            which leaves only the objects to tell scenes apart. Defaults to 0.
        videos (tuple[int, int]): Number of training and of test videos.
            Defaults to (2, 4).
        frames (int): Number of frames per video. Defaults to 16.
        progress (bool): Whether to show how far it is. Defaults to True.

    Returns:
        dict[str, str]: The root of each layout: ``imagenet``, ``coco``, ``ade20k``
        and ``davis``.
    """
    root = Path(root)
    settings: dict[str, Any] = dict(
        version=_VERSION,
        seed=seed,
        classes=class_names(num_classes),
        patches=list(patches),
        patch_size=patch_size,
        scenes=list(scenes),
        scene_size=scene_size,
        objects=objects,
        background_blur=background_blur,
        videos=list(videos),
        frames=frames,
    )
    for key, least in dict(patches=num_classes, scenes=0, videos=0).items():
        if len(settings[key]) != 2 or min(settings[key]) < least:
            raise InputError(
                f'{key} must be two numbers (training, test) of at least {least}, '
                f'got {settings[key]!r}.'
            )
    smallest = dict(
        seed=0, patch_size=8, scene_size=32, objects=1, background_blur=0, frames=1
    )
    for key, least in smallest.items():
        if not least <= settings[key] < math.inf:
            raise InputError(f'{key} must be at least {least}, got {settings[key]!r}.')
    roots = {key: str(root / place) for key, place in LAYOUTS.items()}
    if _is_complete(root, settings):
        return roots
    if root.exists() and not root.is_dir():
        raise InputError(f'{root} is a file; the world needs a folder.')
    if root.is_dir() and any(root.iterdir()) and not (root / _RECORD).is_file():
        raise InputError(
            f'{root} holds files that are not a made world (it has no {_RECORD}); '
            'name an empty or a new folder.'
        )

    root.parent.mkdir(parents=True, exist_ok=True)
    partial, old = (root.with_name(f'.{root.name}.{end}') for end in ('partial', 'old'))
    with locked(root.with_name(f'.{root.name}.lock')):
        if _is_complete(root, settings):  # another process was faster
            return roots
        try:
            for folder in (partial, old):  # of a run that was killed
                shutil.rmtree(folder, ignore_errors=True)
            partial.mkdir()
            total = sum(patches) + sum(scenes) + frames * sum(videos)
            with Progress(total, 'Making the world', show=progress) as bar:
                _write_world(partial, settings, bar.advance)
            record = {'settings': settings, 'files': _count_files(partial)}
            (partial / _RECORD).write_text(json.dumps(record, indent=2))
            if root.exists():
                root.rename(old)
            partial.rename(root)
        finally:
            for folder in (partial, old):
                shutil.rmtree(folder, ignore_errors=True)
    return roots


def _write_world(root: Path, settings: dict, advance: Callable[[int], None]) -> None:
    seed, names = settings['seed'], settings['classes']
    patch_size, scene_size = settings['patch_size'], settings['scene_size']

    def generators(kind: str, split: str) -> Iterator[np.random.Generator]:
        # Every item has its own stream, so that it does not depend on the counts.
        stream = 2 * _STREAMS[kind] + (split == 'test')
        for index in range(settings[kind][split == 'test']):
            yield np.random.default_rng([seed, stream, index])
            advance(settings['frames'] if kind == 'videos' else 1)

    for split in ('train', 'test'):
        patches = (
            (name, draw_patch(name, split, patch_size, rng))
            for name, rng in zip(cycle(names), generators('patches', split))
        )
        write_imagenet(root / LAYOUTS['imagenet'], split, patches, names)
        look = settings['objects'], settings['background_blur']
        scenes = [
            draw_scene(names, split, scene_size, rng, *look)
            for rng in generators('scenes', split)
        ]
        write_coco(root / LAYOUTS['coco'], split, scenes, names)
        write_ade20k(root / LAYOUTS['ade20k'], split, scenes)
        videos = (
            draw_video(names, split, scene_size, settings['frames'], rng)
            for rng in generators('videos', split)
        )
        write_davis(root / LAYOUTS['davis'], split, videos)


def _count_files(root: Path) -> int:
    return sum(path.is_file() for path in root.rglob('*'))


def _is_complete(root: Path, settings: dict) -> bool:
    """Return whether ``root`` is a world of these settings with all its files."""
    try:
        record = json.loads((root / _RECORD).read_text())
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return False
    return (
        record.get('settings') == settings
        and record.get('files') == _count_files(root) - 1  # all but the record
    )
