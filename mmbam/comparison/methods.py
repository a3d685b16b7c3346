"""The methods: a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .models import (
    Setup,
    bam,
    barlow_twins,
    byol,
    dino,
    mae,
    moco_v3,
    simclr,
    simsiam,
    swav,
    swav_hooks,
)


@dataclass
class Method:
    """A row of the table.

    Args:
        title (str): Its name for people.
        model (Callable[[Setup], dict]): Makes the config of the model.
        own (str): What it does not share with the others.
        multi_crop (bool): Whether smaller crops join the two views. Defaults to False.
        hooks (Callable[[Setup], list[dict]], optional): Hooks that the algorithm needs.
            Defaults to none.
        one_view (bool): Whether it wants a single view, cropped and flipped. Defaults
            to False.
    """

    title: str
    model: Callable[[Setup], dict]
    own: str
    multi_crop: bool = False
    hooks: Callable[[Setup], list[dict]] = lambda setup: []
    one_view: bool = False


_BAM = 'tau 0.1, tau_B 0.05, 3 iterations of balancing, positives masked'
_DINO = 'temperatures 0.1 and 0.04 to 0.07, centre 0.9, average from 0.996'
_SWAV = '3000 prototypes, epsilon 0.05, temperature 0.1, queue of 3840'
METHODS: dict[str, Method] = {
    'bam': Method('BAM', bam(False), f'{_BAM}; batch norm in the projector'),
    'bam-teacher': Method(
        'BAM, teacher', bam(True), f'{_BAM}; average from 0.995, no batch norm'
    ),
    'bam-multicrop': Method(
        'BAM, multi-crop', bam(False), f'{_BAM}; batch norm in the projector', True
    ),
    'bam-teacher-multicrop': Method(
        'BAM, teacher, multi-crop',
        bam(True),
        f'{_BAM}; average from 0.995, no batch norm',
        True,
    ),
    'simclr': Method('SimCLR', simclr, 'temperature 0.1'),
    'mocov3': Method(
        'MoCo v3',
        moco_v3,
        'temperature 1.0 (CNN) or 0.2 (ViT), average from 0.99, predictor',
    ),
    'byol': Method('BYOL', byol, 'cosine loss, average from 0.99, predictor'),
    'swav': Method('SwAV', swav, _SWAV, hooks=swav_hooks),
    'swav-multicrop': Method('SwAV, multi-crop', swav, _SWAV, True, swav_hooks),
    'barlowtwins': Method(
        'Barlow Twins', barlow_twins, 'weight 0.0051 of what is off the diagonal'
    ),
    'simsiam': Method('SimSiam', simsiam, 'cosine loss, predictor of a quarter width'),
    'mae': Method(
        'MAE',
        mae,
        '75 % masked, pixels normalised by patch, crop and flip alone; patch '
        'projection trained; decoder as wide as the network, two thirds of its blocks',
        one_view=True,
    ),
    'dino': Method('DINO', dino, _DINO),
    'dino-multicrop': Method('DINO, multi-crop', dino, _DINO, True),
}
