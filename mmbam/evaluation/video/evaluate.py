"""Segment videos from the annotation of their first frame, and score the masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.dist import all_gather_object, get_dist_info, is_main_process
from PIL import Image
from torch import Tensor

from mmbam.utils.model import frozen
from mmbam.utils.progress import Progress

from .davis import Video, read_labels, write_labels
from .propagation import check_protocol, hard_labels, propagate_labels
from .scores import mean_scores, object_scores
from .tokens import FrameTokens


def segment_videos(
    tokens: FrameTokens,
    videos: Sequence[Video],
    out: str | Path,
    last: Sequence[int] = (7, 14, 21, 28),
    scored: bool = True,
    progress: bool = True,
    **protocol,
) -> dict[int, dict]:
    """Segment videos from their first annotation, and score the result.

    The ranks share the videos, and each returns the scores of all videos.

    Args:
        tokens (FrameTokens): Features of a frozen network.
        videos (Sequence[Video]): Result of :func:`read_davis`.
        out (str | Path): Folder for the masks, ``T7/<sequence>/00000.png`` and so on.
            Each of ``T7``, ``T14``, ... has the layout of the official server and
            toolkit.
        last (Sequence[int]): Numbers T of preceding frames to use besides the first;
            they share one pass over each video. Defaults to (7, 14, 21, 28).
        scored (bool): Whether to compare with the annotations. Defaults to True.
        progress (bool): Whether the first rank shows the progress of its own part.
            Defaults to True.
        **protocol: ``k``, ``radius`` and ``temperature`` of :func:`propagate_labels`.

    Returns:
        dict[int, dict]: For each T the :func:`mean_scores` and, under ``objects``, the
        scores of each object, named ``<sequence>_<label>``. Empty if not scored.
    """
    check_protocol(last, **protocol)
    rank, world_size = get_dist_info()
    # The longest first, so that ranks finish at about the same time.
    mine = sorted(videos, key=lambda v: -len(v.frames))[rank::world_size]
    total = sum(len(video.frames) for video in mine)
    bar = Progress(total, 'Frames', show=progress and is_main_process())
    objects = {}
    with frozen(tokens.backbone):
        for video in mine:
            folders = {t: Path(out) / f'T{t}' / video.name for t in last}
            segment_video(tokens, video, folders, bar.advance, **protocol)
            if scored:
                objects[video.name] = {
                    t: score_video(video, folder) for t, folder in folders.items()
                }
    bar.close()
    # This also waits until the files of all ranks are written.
    objects = {k: v for part in all_gather_object(objects) for k, v in part.items()}
    if not scored:
        return {}
    results = {}
    for t in last:
        of_t = {
            f'{video.name}_{label}': scores
            for video in videos
            for label, scores in enumerate(objects[video.name][t], 1)
        }
        results[t] = {**mean_scores(of_t.values()), 'objects': of_t}
    return results


def segment_video(
    tokens: FrameTokens,
    video: Video,
    folders: dict[int, Path],
    advance: Callable[[], None] = lambda: None,
    **protocol,
) -> None:
    """Write the masks of a video into the folder of each number T of last frames.

    ``advance`` is called after every frame; ``protocol`` is as in
    :func:`segment_videos`.
    """
    labels = video.first_labels()
    height, width = labels.shape
    first = video.read_frame(0)
    size = tokens.seen_size(first)
    feature = tokens(first)
    later = (tokens(video.read_frame(i)) for i in range(1, len(video.frames)))
    for folder in folders.values():
        write_labels(folder / video.masks[0].name, labels)
    advance()
    steps = propagate_labels(
        chain([feature], later), _one_hot(labels, feature), list(folders), **protocol
    )
    for mask, soft in zip(video.masks[1:], steps):
        for t, folder in folders.items():
            found = Image.fromarray(hard_labels(soft[t], size).cpu().numpy())
            found = found.resize((width, height), Image.Resampling.NEAREST)
            write_labels(folder / mask.name, np.asarray(found))
        advance()


def score_video(video: Video, folder: str | Path) -> list[dict]:
    """Score the masks in a folder, named like the annotations, object by object."""
    counted = video.masks[1:-1]
    return object_scores(
        (read_labels(Path(folder) / mask.name) for mask in counted),
        (read_labels(mask) for mask in counted),
        int(video.first_labels().max()),
    )


def _one_hot(labels: np.ndarray, feature: Tensor) -> Tensor:
    """Return the label at the center of each token, one-hot (objects + 1, h, w)."""
    h, w = feature.shape[1:]
    small = Image.fromarray(labels).resize((w, h), Image.Resampling.NEAREST)
    classes = torch.from_numpy(np.array(small)).to(feature.device).long()
    return F.one_hot(classes, int(labels.max()) + 1).permute(2, 0, 1).float()
