"""What a user asks for, and the batch size that follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmbam.utils.errors import InputError

from . import numbers
from .networks import check_name

#: Options that would leave the rest of the recipe behind, and what to use instead.
OWN_ARGUMENTS = {
    'train_cfg.max_epochs': '--epochs',
    'train_dataloader.batch_size': '--batch-size',
    'work_dir': '--out',
}


@dataclass
class Wishes:
    """What a user asks for; everything else is derived.

    Args:
        model (str): One of :data:`mmbam.recipes.names.NAMES`, or ``timm:NAME``.
        out (str): Folder of the run.
        epochs (int): Number of epochs. Defaults to 100.
        batch_size (int, optional): Images in a batch of all devices. Defaults to None,
            256 or fewer for small sets.
        devices (int): Number of devices on all nodes. Defaults to 1.
        gpu (bool): Whether the devices are GPUs. Defaults to False.
        cores (int): Number of cores of this machine. Defaults to 1.
        init (str, optional): Checkpoint to start from. Defaults to None.
        prefix (str, optional): What the names of its weights begin with. Defaults to
            None: it is found.
        teacher (str, optional): Name of a frozen teacher's network. Defaults to None.
        teacher_checkpoint (str, optional): Its weights. Defaults to None.
        labeled (str, optional): Class folders for k-NN while training. Defaults to
            None.
        options (dict): Changes to the config by dotted keys. Defaults to none.
    """

    model: str
    out: str
    epochs: int = 100
    batch_size: int | None = None
    devices: int = 1
    gpu: bool = False
    cores: int = 1
    init: str | None = None
    prefix: str | None = None
    teacher: str | None = None
    teacher_checkpoint: str | None = None
    labeled: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ('epochs', 'devices'):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise InputError(f'{name} must be at least 1, but got {value}.')
        if self.batch_size is not None and self.batch_size < 2:
            raise InputError(
                f'The batch size must be at least 2, but got {self.batch_size}.'
            )
        check_name(self.model)
        if self.teacher is not None:
            check_name(self.teacher)
        if (self.teacher is None) != (self.teacher_checkpoint is None):
            raise InputError(
                'A frozen teacher needs both --teacher MODEL and --teacher-checkpoint '
                f'FILE, but got {self.teacher!r} and {self.teacher_checkpoint!r}.'
            )
        for name in ('init', 'teacher_checkpoint'):
            file = getattr(self, name)
            if file is not None and not Path(file).exists():
                raise InputError(
                    f'--{name.replace("_", "-")} must name a file or folder with '
                    f'weights, but there is no {file!r}.'
                )
        if self.prefix is not None and self.init is None:
            raise InputError(f'--prefix {self.prefix} needs --init FILE.')
        for key, argument in OWN_ARGUMENTS.items():
            if key in self.options:
                raise InputError(
                    f'{key} decides on much of the recipe: set it by {argument}, not '
                    'by --cfg-options.'
                )


def batch_size_of(count: int, wished: int | None, devices: int = 1) -> int:
    """Choose the number of images in a batch of all devices.

    Args:
        count (int): Number of images.
        wished (int, optional): Number that the user gave.
        devices (int): Number of devices, of which it is a multiple.
    """
    if wished is not None:
        if wished > count:
            raise InputError(
                f'The batch size must not exceed the number of images, {count}, but '
                f'got {wished}.'
            )
        if wished % devices or wished < 2 * devices:
            raise InputError(
                f'The batch size must be a multiple of the {devices} devices, with at '
                f'least 2 images on each, but got {wished}.'
            )
        return wished
    if count < 2 * devices:
        raise InputError(
            f'Pre-training needs at least 2 images on each of {devices} devices, but '
            f'there are {count}.'
        )
    size = min(
        numbers.BATCH_SIZE,
        max(numbers.SMALLEST_BATCH, count // numbers.STEPS_PER_EPOCH),
        count,
    )
    if size < numbers.BATCH_SIZE:
        size = count // (count // size)  # leaves out as few images as possible
    unit = devices * (8 if size > numbers.SMALLEST_BATCH else 1)
    return max(2 * devices, size // unit * unit)
