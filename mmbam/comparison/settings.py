"""What all methods of a comparison share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import mmbam
from mmbam.datasets.folder import dataset_of
from mmbam.evaluation.frozen import plain_pipeline
from mmbam.evaluation.labeled import parts_of, train_and_test
from mmbam.utils.config import read_config
from mmbam.utils.errors import InputError

# A link to configs/ in the repository, a copy of it in an installed package.
FOLDER = Path(mmbam.__file__).parent / '.mim' / 'configs' / 'compare'
# Networks for small images that train in minutes on a CPU.
BACKBONES = ('resnet', 'vit')


@dataclass
class Settings:
    """What all runs of a comparison share, except the seed.

    Args:
        data (str): Folder of class folders, or a folder with ``train`` and ``val`` (or
            ``test``) folders of class folders. A folder of any images will do, and no
            accuracy is measured then, unless ``labeled`` is given.
        labeled (str, optional): Folder of class folders, laid out as above, if
            ``data`` has none. Nothing is pre-trained on it. Defaults to None.
        backbone (str): ``'resnet'`` or ``'vit'`` (small networks for small images), or
            a config whose ``model.backbone`` is taken. Defaults to ``'resnet'``.
        size (int): Height and width of the images in pixels. Defaults to 32.
        epochs (int, optional): Number of epochs of each run, unless ``minutes`` is
            given.
        minutes (float, optional): Minutes of training of each run, evaluation not
            counted: each method gets the epochs that fit, by the time of its steps,
            which is measured in turns with that of the other methods.
        batch_size (int): Images in a batch. Defaults to 256.
        lr (float): Peak learning rate of AdamW. Defaults to 0.002.
        head_width (int): Hidden width of all projectors and predictors. Defaults
            to 512.
        local_views (int): Number of smaller crops in methods with multi-crop. Defaults
            to 4.
        evaluations (int): Number of evaluations of each run after its start. Defaults
            to 5.
        workers (int): Processes that load images. Defaults to 1.
        amp (bool): Whether to train in mixed precision. Defaults to False.
        keep (bool): Whether to keep about as many checkpoints as there are evaluations,
            evenly spaced, for ``mmbam judge``. Defaults to False: the last one.
        options (dict): Changes to the config of a method, as ``--cfg-options`` makes
            them, under the method's name. Defaults to none.
    """

    data: str
    labeled: str | None = None
    backbone: str = 'resnet'
    size: int = 32
    epochs: int | None = None
    minutes: float | None = None
    batch_size: int = 256
    lr: float = 0.002
    head_width: int = 512
    local_views: int = 4
    evaluations: int = 5
    workers: int = 1
    amp: bool = False
    keep: bool = False
    options: dict[str, dict] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.minutes is None):
            raise InputError(
                'A comparison needs a budget, either epochs or minutes, but got epochs='
                f'{self.epochs} and minutes={self.minutes}.'
            )
        smallest = dict(
            size=8,
            epochs=1,
            batch_size=2,
            head_width=8,
            local_views=1,
            evaluations=1,
            workers=0,
        )
        for name, least in smallest.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f'{name} must be at least {least}, but got {value}.')
        for name in ('lr', 'minutes'):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(
                    f'{name} must be a finite number above 0, but got {value}.'
                )

    @property
    def local_size(self) -> int:
        """Size of the smaller crops: 96 of 224 px in proportion, a multiple of 8."""
        return max(8, round(self.size * 96 / 224 / 8) * 8)

    def backbone_config(self) -> dict:
        """Return the config of the network that all methods train."""
        path = Path(self.backbone)
        if self.backbone in BACKBONES:
            path = FOLDER / '_base_' / 'backbones' / f'{self.backbone}.py'
        if not path.is_file():
            raise InputError(
                f'backbone must be one of {", ".join(BACKBONES)} or the path of a '
                f'config, but got {self.backbone!r}.'
            )
        model = read_config(path).get('model') or {}
        if 'backbone' not in model:
            raise InputError(f'{self.backbone!r} has no model.backbone.')
        cfg = model['backbone'].to_dict()
        if cfg['type'].endswith(('ViT', 'VisionTransformer')):
            cfg['img_size'] = self.size
        return cfg

    def datasets(self) -> dict[str, dict]:
        """Return the configs of ``pretrain``, ``train`` and ``test``.

        The first has no pipeline: that is the method's. The others are to evaluate on.
        """
        pipeline = plain_pipeline(self.size)
        train, test, _ = train_and_test(
            self.labeled or self.data, pipeline, self.classes() > 0
        )
        pretrain = {k: v for k, v in train.items() if k != 'pipeline'}
        if self.labeled is not None:
            pretrain = dataset_of(self.data)
        return dict(pretrain=pretrain, train=train, test=test)

    def classes(self) -> int:
        """Return the number of class folders, 0 if there are no labels."""
        folder = parts_of(self.labeled or self.data)[0]
        number = sum(child.is_dir() for child in folder.iterdir())
        if number < 2 and self.labeled is not None:
            raise InputError(
                f'labeled needs at least 2 class folders, but {str(folder)!r} holds '
                f'{number}.'
            )
        return number if number > 1 else 0
