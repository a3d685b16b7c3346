"""The checkpoints and the config in the work directory of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmbam.checkpoints.newest import damage, saved_checkpoints
from mmbam.checkpoints.reading import read_checkpoint
from mmbam.utils.config import read_config
from mmbam.utils.errors import InputError

from .frozen import loading_step
from .networks import network_config

_CROPS = 'mmbam.MultiCrop'
_ARGUMENTS = ('views', 'alpha', 'box', 'channels', 'value_range')


@dataclass(frozen=True)
class Run:
    """What a run left.

    Args:
        folder (str): Its work directory.
        cfg (Config): Its config.
        checkpoints (list[Path]): Its intact checkpoints, the oldest first.
        passed_over (list[str]): A phrase about each damaged one: its name and why.
    """

    folder: str
    cfg: Config
    checkpoints: list[Path]
    passed_over: list[str]


def find_run(folder: str | Path, config: str | Path | None = None) -> Run:
    """Find the config of a run and its checkpoints, ``epoch_*.pth`` and ``iter_*.pth``.

    Args:
        folder (str | Path): Work directory of the run.
        config (str | Path, optional): Config to take. Defaults to None: ``config.py``
            in the folder, or else the ``*.py`` there, of which a continued run has
            several, or else what the checkpoints say of their network and of
            ``mmbam.MultiCrop``, which runs nothing.
    """
    if not Path(folder).is_dir():
        raise InputError(f'There is no work directory {str(folder)!r}.')
    saved = saved_checkpoints(folder)
    if not saved:
        raise InputError(
            f'{str(folder)!r} holds no checkpoint of a run: epoch_*.pth or iter_*.pth.'
        )
    reasons = {path: damage(path) for path in saved}
    intact = [path for path, reason in reasons.items() if reason is None]
    bad = [f'{path.name} ({why})' for path, why in reasons.items() if why is not None]
    if not intact:
        raise InputError(
            f'No checkpoint in {str(folder)!r} is intact: {", ".join(bad)}.'
        )
    path = config or _config_in(Path(folder))
    cfg = read_config(path) if path else _stored_config(intact[0])
    return Run(str(folder), cfg, intact, bad)


def _config_in(folder: Path) -> Path | None:
    """The config of a run; of those of its several starts, the newest."""
    if (folder / 'config.py').is_file():
        return folder / 'config.py'
    found = sorted(folder.glob('*.py'))
    if found and any(_used(one) != _used(found[-1]) for one in found[:-1]):
        raise InputError(
            f'{str(folder)!r} holds several configs that differ in the network or the '
            f'images, {", ".join(path.name for path in found)}: name one with --config.'
        )
    return found[-1] if found else None


def _used(path: Path) -> list[Any]:
    """What a config says of its network and of its training images."""
    cfg = read_config(path)
    loader = cfg.get('train_dataloader') or {}
    return [cfg.get('model'), cfg.get('data_preprocessor'), loader.get('dataset')]


def _stored_config(checkpoint: Path) -> Config:
    """The config in a checkpoint, of which only trusted parts are kept."""
    cfg = network_config(checkpoint)
    own: Any = read_checkpoint(checkpoint).config
    loader = own.get('train_dataloader')
    dataset = loader.get('dataset') if isinstance(loader, dict) else None
    pipeline = dataset.get('pipeline') if isinstance(dataset, dict) else None
    for step in pipeline if isinstance(pipeline, list) else []:
        if isinstance(step, dict) and step.get('type') in (_CROPS, 'MultiCrop'):
            # Its arguments are numbers; other types could do more than make views.
            crops = {key: step[key] for key in _ARGUMENTS if key in step}
            steps = [
                loading_step(own),
                dict(type=_CROPS, **crops),
                dict(type='mmpretrain.PackInputs'),
            ]
            cfg.train_dataloader = dict(dataset=dict(pipeline=steps))
    return cfg
