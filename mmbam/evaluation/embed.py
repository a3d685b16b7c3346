"""Embeddings of many images, part by part, so that an interruption loses little."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.dist import (
    all_gather_object,
    barrier,
    broadcast_object_list,
    get_dist_info,
    is_main_process,
)
from mmengine.logging import print_log
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from mmbam.models import embedding, embedding_and_tokens
from mmbam.utils.errors import InputError, input_errors
from mmbam.utils.files import require_writable, write_text, written
from mmbam.utils.model import frozen
from mmbam.utils.progress import with_progress
from mmbam.utils.random import preserved_randomness

from .embedding_files import Rows, require_format, write_embeddings
from .features import preprocess, stack_images
from .readable import ReadableImages, collate

# Batches in a part; fewer where a data set is small, so that ranks share it evenly.
_BATCHES, _PARTS = 16, 64
_NAMED = 10  # images that cannot be read, at most


def embed(
    backbone: nn.Module,
    dataset: Dataset,
    out: str | Path,
    *,
    names: list[str],
    preprocessor: nn.Module | None = None,
    batch_size: int = 64,
    num_workers: int = 2,
    tokens: bool = False,
    half: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> list[int]:
    """Write the embeddings of all images of a data set, in its order.

    Images that cannot be read are left out, and the log names them. Parts are kept in
    the folder ``<out>.parts`` until all are there. A later call with the same settings
    goes on with the parts that are missing. The batches, and so the bytes of the
    result, depend neither on interruptions nor on the number of ranks.

    Args:
        backbone (nn.Module): A backbone of mmpretrain or timm.
        dataset (Dataset): Data set of samples as OpenMMLab packs them. Labels are not
            needed. An image that cannot be read raises
            :class:`mmbam.datasets.robust.TooManyReadErrors`, as that of
            ``mmbam.LoadImage`` with ``max_errors=0`` does.
        out (str | Path): File to write, see :func:`write_embeddings`.
        names (list[str]): Name of each sample.
        preprocessor (nn.Module, optional): Module that normalizes batches. Defaults to
            None: images are only moved to the backbone's device as float32.
        batch_size (int): Number of images per batch. Defaults to 64.
        num_workers (int): Number of processes per rank that load images. Defaults to 2.
        tokens (bool): Whether to write feature maps (n, c, h, w), for a ViT its patch
            tokens, as ``tokens``. Defaults to False.
        half (bool): Whether to compute and write in half precision. Defaults to False.
        settings (Mapping, optional): Whatever else the result depends on, as JSON has
            it. Defaults to None.

    Returns:
        list[int]: Numbers of the samples whose embeddings the file holds.
    """
    out = Path(out)
    require_format(out)
    require_writable(out)
    if batch_size < 1:
        raise InputError(f'batch_size must be at least 1, but got {batch_size}.')
    with preserved_randomness():
        readable = ReadableImages(dataset, names)
    indices = range(len(names))
    batches = [list(indices[i : i + batch_size]) for i in indices[::batch_size]]
    length = max(1, min(_BATCHES, len(batches) // _PARTS))
    parts = [batches[i : i + length] for i in range(0, len(batches), length)]
    folder = out.with_name(f'{out.name}.parts')
    files = [folder / f'{number:06}.npz' for number in range(len(parts))]

    settings = dict(settings or {}, batch_size=batch_size, tokens=tokens, half=half)
    settings['images'] = hashlib.sha256('\n'.join(names).encode()).hexdigest()
    missing = _missing(folder, files, json.loads(json.dumps(settings)))
    rank, world_size = get_dist_info()
    own = missing[rank::world_size]
    with input_errors((ValueError,)):  # of num_workers
        loader = DataLoader(
            readable,
            batch_sampler=[batch for number in own for batch in parts[number]],
            num_workers=num_workers,
            collate_fn=collate,
        )
    results = _outputs(backbone, loader, preprocessor, tokens, half)
    with frozen(backbone), preserved_randomness():
        for number in own:
            rows = [next(results) for _ in parts[number]]
            joined = {
                key: np.concatenate([row[key] for row in rows if key in row])
                for key in max(rows, key=len)  # the rest of an empty batch is missing
            }
            with written(files[number]) as part, part.open('wb') as file:
                np.savez(file, **joined)
        next(results, None)  # ends the progress bar
    # Not a barrier, which gives up where another rank has much more to do.
    _wait(lambda: all(file.is_file() for file in files) or not folder.is_dir())
    found: list[Any] = [_records(files) if is_main_process() else None]
    broadcast_object_list(found)
    kept, unreadable = found[0]
    numbers = [number for part in kept for number in part]
    listed = ', '.join(unreadable[:_NAMED])
    if len(unreadable) > _NAMED:
        listed += f' and {len(unreadable) - _NAMED:,} more'
    if is_main_process():
        if numbers and unreadable:
            share = f'{len(unreadable):,} of {len(names):,}'
            text = f'Images that cannot be read are left out ({share}): {listed}'
            print_log(text, 'current', logging.WARNING)
        if numbers:
            arrays = _arrays([f for f, part in zip(files, kept) if part], len(numbers))
            write_embeddings(out, [names[number] for number in numbers], arrays)
        shutil.rmtree(folder)
    _wait(lambda: not folder.is_dir())
    if not numbers:
        raise InputError(f'None of the {len(names):,} images can be read: {listed}.')
    return numbers


def _missing(folder: Path, files: list[Path], settings: dict) -> list[int]:
    """Numbers of the parts that are still to be made, the same on every rank."""
    found: list[Any] = [None]
    note = folder / 'settings.json'
    if is_main_process():
        found = [_take_up(note, settings) or _absent(files)]
    broadcast_object_list(found)
    if isinstance(found[0], str):
        raise InputError(found[0])
    # The parts of all ranks come together on the disk.
    if not all(all_gather_object(note.is_file())):
        raise InputError(f'Every rank must see the folder {str(folder)!r}.')
    barrier()
    done = len(files) - len(found[0])
    if done:
        print_log(
            f'Goes on behind {done} of {len(files)} parts in {folder}.', 'current'
        )
    return found[0]


def _take_up(note: Path, settings: dict) -> str:
    """Note the settings, or say why parts that are there do not fit them."""
    if not note.is_file():
        write_text(note, json.dumps(settings, indent=1))
        return ''
    try:
        before = json.loads(note.read_text('utf-8'))
    except ValueError:
        before = {}
    changed = [key for key in settings if before.get(key) != settings[key]]
    if not changed:
        return ''
    listed = ' and '.join(', '.join(changed).rsplit(', ', 1))
    return (
        f'{str(note.parent)!r} holds parts of embeddings with another {listed}: '
        'remove it, or choose another --out.'
    )


def _absent(files: list[Path]) -> list[int]:
    absent = []
    for number, file in enumerate(files):
        try:
            with np.load(file) as part:
                if len(part['kept']):
                    part['embeddings']
        # A part that was cut short when the machine died is made anew.
        except Exception:
            file.unlink(missing_ok=True)
            absent.append(number)
    return absent


def _outputs(
    backbone: nn.Module,
    loader: DataLoader,
    preprocessor: nn.Module | None,
    tokens: bool,
    half: bool,
) -> Iterator[dict[str, np.ndarray]]:
    """Run the network on each batch."""
    device = next(backbone.parameters()).device.type
    kind = torch.float16 if device == 'cuda' else torch.bfloat16
    for kept, unreadable, batch in with_progress(loader, len(loader), 'Images'):
        result = dict(kept=np.array(kept, int), unreadable=np.array(unreadable, str))
        if not kept:
            yield result
            continue
        images = preprocess(stack_images(batch['inputs']), None, backbone, preprocessor)
        with torch.autocast(device, kind, enabled=half):
            if tokens:
                found: tuple[Tensor, ...] = embedding_and_tokens(backbone, images)
            else:
                found = (embedding(backbone, images),)
        wanted = torch.float16 if half else torch.float32
        for key, value in zip(('embeddings', 'tokens'), found):
            result[key] = value.to(wanted).cpu().numpy()
        yield result


def _records(files: list[Path]) -> tuple[list[list[int]], list[str]]:
    """Numbers of the samples in each part, and the images that cannot be read."""
    kept, unreadable = [], []
    for file in files:
        with np.load(file) as part:
            kept.append(part['kept'].tolist())
            unreadable += part['unreadable'].tolist()
    return kept, unreadable


def _arrays(files: list[Path], number: int) -> dict[str, Rows]:
    with np.load(files[0]) as first:
        return {
            key: Rows(
                (number, *first[key].shape[1:]),
                first[key].dtype,
                partial(_rows, files, key),
            )
            for key in ('embeddings', 'tokens')
            if key in first
        }


def _rows(files: list[Path], key: str) -> Iterator[np.ndarray]:
    for file in files:
        with np.load(file) as part:
            yield part[key]


def _wait(done: Callable[[], bool]) -> None:
    """Wait for other ranks, whose work shows on the disk."""
    while not done():
        time.sleep(0.2)


def embed_files(
    backbone: nn.Module, files: Dataset, preprocessor: nn.Module | None
) -> Tensor:
    """Embeddings (n, d) in float32 of a few images, one at a time, on the CPU."""
    with frozen(backbone):
        rows = []
        for index in range(len(files)):  # type: ignore[arg-type]
            image = stack_images([files[index]['inputs']])
            image = preprocess(image, None, backbone, preprocessor)
            rows.append(embedding(backbone, image).float().cpu())
    return torch.cat(rows)


def stamp(path: str | Path | None) -> str | None:
    """Name, size and time of a file, to notice when it changes."""
    if path is None:
        return None
    state = os.stat(path)
    return f'{os.path.abspath(path)} {state.st_size} {state.st_mtime_ns}'
