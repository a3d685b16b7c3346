"""Let the schedules of a recipe follow another number of epochs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmbam.utils.config import read_config

LENGTH = 'train_cfg.max_epochs'


def rescale_schedules(
    cfg: Config, path: str | Path, options: Mapping[str, Any] | None
) -> str | None:
    """Stretch or shrink schedules if ``--cfg-options`` changed the number of epochs.

    Warm-up and end keep their shares of the run, in whole epochs, or in whole steps if
    no schedule is in epochs, as in a config of ``mmbam pretrain``. Schedules that the
    options change themselves, that do not end with the run in the config's file, or
    that are of a config without anything of mmbam, stay as they are. The number of
    epochs is ``train_cfg.max_epochs``, or ``max_epochs`` in a config that has such a
    variable for it.

    Returns:
        str, optional: What was changed, or None.
    """
    options = dict(options or {})
    if not {LENGTH, 'max_epochs'} & {*options}:
        return None
    plain = read_config(path)
    own: Any = (plain.get('train_cfg') or {}).get('max_epochs')
    if LENGTH not in options and plain.get('max_epochs') == own:
        cfg.train_cfg.max_epochs = options['max_epochs']
    new, schedules = cfg.train_cfg.get('max_epochs'), cfg.get('param_scheduler')
    fits = (
        all(isinstance(n, int) and n > 0 for n in (own, new))
        and own != new
        and isinstance(schedules, list)
        and schedules == plain.get('param_scheduler')
        and 'mmbam.' in str(plain.to_dict())
    )
    if not fits:
        return None
    by_epoch = [s for s in schedules if s.get('by_epoch', True)]
    moved, unit = (by_epoch, 'epoch') if by_epoch else (schedules, 'step')
    length = max((s.get('end', 0) for s in moved), default=0)
    # How many steps an epoch has, only its data set knows; it is a whole number.
    ends_with_run = length == own if by_epoch else length > 0 and length % own == 0
    # A warm-up alone is as long as it is, however many epochs follow.
    if not ends_with_run or all(_is_warm_up(s) for s in moved):
        return None
    for schedule in moved:
        _rescale(schedule, own, new)
    ends = ', '.join(f'{s.type} {s.get("begin", 0)} to {s.end}' for s in moved)
    return (
        f'The schedules were made for {own} epochs and keep their shares of {new}, by '
        f'{unit}: {ends}.'
    )


def _is_warm_up(schedule: Any) -> bool:
    kind = schedule.get('type', '')
    return 'Linear' in kind and schedule.get('end_factor', 1.0) >= 1.0


def _rescale(schedule: Any, own: int, new: int) -> None:
    # At least one epoch each; in a run of one epoch they run side by side.
    end = max(1, round(schedule.get('end', own) * new / own))
    begin = min(round(schedule.get('begin', 0) * new / own), end - 1)
    if schedule.get('begin', 0) > 0 and end > 1:
        begin = max(1, begin)
    schedule.update(begin=begin, end=end)
    if 'T_max' in schedule:
        schedule.T_max = max(1, round(schedule.T_max * new / own))
    if 'milestones' in schedule:
        schedule.milestones = [round(m * new / own) for m in schedule.milestones]
