"""DAVIS-2017 on disk: frames, annotations with a palette, lists of sequences."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from mmbam.datasets.decoding import open_image, read_image
from mmbam.datasets.finding import SUFFIXES
from mmbam.utils.errors import InputError

from .scores import VOID


@dataclass(frozen=True)
class Video:
    """A sequence of DAVIS.

    Args:
        name (str): Name of the sequence.
        frames (list[Path]): Images in order.
        masks (list[Path]): Annotation of each frame. Only the first must exist if the
            sequence is not scored.
    """

    name: str
    frames: list[Path]
    masks: list[Path]

    def read_frame(self, index: int) -> np.ndarray:
        """Read a frame as BGR of uint8 (height, width, 3)."""
        return read_image(self.frames[index])[..., ::-1]

    def first_labels(self) -> np.ndarray:
        """Read the objects 1, 2, ... of the first frame; 0 is everything else."""
        labels = read_labels(self.masks[0])
        return np.where(labels == VOID, 0, labels)

    def check(self, scored: bool = True) -> None:
        """Check that all files exist and that their sizes and labels are right.

        If the sequence is ``scored``, every frame needs an annotation.
        """
        if scored and len(self.frames) < 3:
            raise InputError(
                f'Sequence {self.name!r} has {len(self.frames)} frames, but scores '
                'need at least 3, since the first and the last do not count.'
            )
        masks = self.masks if scored else self.masks[:1]
        absent = [mask for mask in masks if not mask.is_file()]
        if absent:
            raise InputError(
                f'Sequence {self.name!r} lacks {len(absent)} of {len(masks)} '
                f'annotations, such as {str(absent[0])!r}.'
            )
        size = _size(self.frames[0])
        for path in self.frames + masks:
            if _size(path) != size:
                raise InputError(
                    'All frames and annotations of a sequence must have one size, but '
                    f'{str(path)!r} has {" x ".join(map(str, _size(path)))} pixels and '
                    f'{str(self.frames[0])!r} {" x ".join(map(str, size))}.'
                )
        if not self.first_labels().any():
            raise InputError(
                f'The annotation of the first frame, {str(self.masks[0])!r}, marks no '
                f'object (labels 1 to {VOID - 1}).'
            )


def read_davis(
    root: str | Path, split: str = 'val', scored: bool = True
) -> list[Video]:
    """Find the sequences of a split and check them.

    Args:
        root (str | Path): Folder of DAVIS-2017, with ``JPEGImages/480p``,
            ``Annotations/480p`` and ``ImageSets/2017``.
        split (str): Name of a list in ``ImageSets/2017``. Defaults to ``'val'``.
        scored (bool): Whether every frame needs an annotation, not only the first.
            Defaults to True.
    """
    root = Path(root)
    if not root.is_dir():
        raise InputError(f'There is no folder {str(root)!r} with DAVIS-2017.')
    listed = root / 'ImageSets' / '2017' / f'{split}.txt'
    if not listed.is_file():
        raise InputError(
            f'There is no list of sequences {str(listed)!r}: {str(root)!r} must hold '
            'JPEGImages/480p, Annotations/480p and ImageSets/2017.'
        )
    names = listed.read_text().split()
    if not names or len(set(names)) < len(names):
        raise InputError(f'{str(listed)!r} must list each sequence once, at least one.')
    videos = []
    for name in names:
        folder = root / 'JPEGImages' / '480p' / name
        masks = root / 'Annotations' / '480p' / name
        if not folder.is_dir():
            raise InputError(
                f'There is no folder {str(folder)!r} of the sequence {name!r}.'
            )
        files = (f for f in folder.iterdir() if f.name[0] != '.')
        frames = sorted(f for f in files if f.suffix.lower() in SUFFIXES)
        if not frames:
            raise InputError(f'The folder {str(folder)!r} holds no frames.')
        video = Video(name, frames, [masks / f'{frame.stem}.png' for frame in frames])
        video.check(scored)
        videos.append(video)
    return videos


def read_labels(path: str | Path) -> np.ndarray:
    """Read a label map (height, width) of uint8 from a PNG, with a palette or gray."""
    with _open(path) as image:
        if image.mode not in ('P', 'L'):
            raise InputError(
                f'{str(path)!r} must hold one label per pixel, with a palette or in 8 '
                f'bits of gray, but has the mode {image.mode}.'
            )
        try:
            return np.array(image)
        except OSError as error:
            raise InputError(f'{str(path)!r} cannot be read: {error}.') from error


def write_labels(path: str | Path, labels: np.ndarray) -> None:
    """Write a label map of uint8 (height, width) as a PNG with the palette of DAVIS."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(labels)
    image.putpalette(davis_palette().ravel().tolist())
    image.save(path)


def davis_palette() -> np.ndarray:
    """Return the RGB colors of uint8 (256, 3) of the labels in DAVIS and PASCAL VOC.

    Each group of three bits of a label, the lowest first, gives red, green and blue
    one bit each, the highest first.
    """
    label = np.arange(256)[:, None, None]
    channel, level = np.arange(3)[:, None], np.arange(3)
    bits = (label >> (3 * level + channel)) & 1
    return (bits << (7 - level)).sum(axis=2).astype(np.uint8)


def _open(path: str | Path) -> Image.Image:
    try:
        return open_image(path)
    except FileNotFoundError:
        raise InputError(f'There is no image {str(path)!r}.') from None
    except UnidentifiedImageError:
        raise InputError(f'{str(path)!r} cannot be read: this is no image.') from None
    except (OSError, ValueError) as error:
        raise InputError(f'{str(path)!r} cannot be read: {error}.') from None


def _size(path: Path) -> tuple[int, int]:
    """Read width and height from the header of the file."""
    with _open(path) as image:
        return image.size
