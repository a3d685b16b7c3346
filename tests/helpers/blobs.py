"""A training run whose boxes are known: images with one bright rectangle each."""

import cv2
import numpy as np
import torch
from mmcv.transforms import BaseTransform
from mmengine.model import BaseModel
from mmengine.runner import Runner
from mmpretrain.models import SelfSupDataPreprocessor
from torch import nn

from mmbam.registry import TRANSFORMS

SIZE = 32


@TRANSFORMS.register_module(force=True)
class BoxedCrop(BaseTransform):
    """A crop of 8 x 8 pixels at a random place, or in the middle of the box."""

    def __init__(self, use_boxes=True):
        self.use_boxes, self.boxes = use_boxes, None

    def set_boxes(self, boxes):
        self.boxes = boxes

    def transform(self, results):
        image = results['img']
        centre = np.random.uniform(0, 1, 2)
        box = self.boxes[results['sample_idx']] if self.boxes is not None else None
        if box is not None and self.use_boxes:
            low, high = np.array(box[:2]), np.array(box[2:])
            centre = low + (0.4 + 0.2 * centre) * (high - low)
        corner = np.array(image.shape[:2]) - 8
        top, left = np.clip(centre * image.shape[:2] - 4, 0, corner).astype(int)
        results['img'] = np.ascontiguousarray(image[top : top + 8, left : left + 8])
        return results


class Student(nn.Sequential):
    """Sees nothing: its maps are flat, so only a teacher can find the rectangles."""

    def __init__(self):
        super().__init__(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5))

    def forward(self, images):
        return super().forward(images)


class Toy(BaseModel):
    """Dropout shows a disturbed random state in the weights, as do other crops."""

    def __init__(self):
        super().__init__(SelfSupDataPreprocessor(mean=[100] * 3, std=[50] * 3))
        torch.manual_seed(0)
        self.backbone = Student()
        self.target_backbone = nn.AvgPool2d(2)
        self.mean_inputs = []

    def forward(self, inputs, data_samples=None, mode='loss'):
        self.mean_inputs.append(torch.stack(inputs).mean().item())
        return dict(loss=sum(self.backbone(view).square().mean() for view in inputs))


def write_blobs(folder, number=10, seed=0):
    """Images of different shapes; returns the rectangles as relative boxes."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    boxes = []
    for i in range(number):
        # 32-fold, so that a plain resize to 32 x 32 keeps the edges
        scale = rng.integers(1, 4, 2)
        low = rng.integers(0, 8, 2) * 2
        high = low + 2 * rng.integers(3, 9, 2)
        # no two crops of a background are alike
        image = np.arange(32 * 32 * 3).reshape(32, 32, 3) * 90 // 3072
        image = image.astype(np.uint8)
        image[low[0] : high[0], low[1] : high[1]] = 255
        image = image.repeat(scale[0], 0).repeat(scale[1], 1)
        cv2.imwrite(str(folder / f'{i:03}.png'), image)
        boxes.append([*low / SIZE, *high / SIZE])
    return torch.tensor(boxes, dtype=torch.float32)


def dataset(folder, crop=None, seeded=True, **kwargs):
    crop = crop or dict(type='mmbam.BoxedCrop')
    pipeline = [
        dict(type='mmbam.SeedBySample'),
        dict(type='LoadImageFromFile'),
        dict(type='mmpretrain.MultiView', num_views=[2], transforms=[[crop]]),
        dict(type='mmpretrain.PackInputs'),
    ]
    return dict(
        type='mmpretrain.CustomDataset',
        data_root=str(folder),
        with_label=False,
        pipeline=pipeline if seeded else pipeline[1:],
        **kwargs,
    )


def localize_cfg(**kwargs):
    cfg = dict(type='mmbam.LocalizeHook', start_epoch=1, interval=2)
    return {**cfg, **dict(image_size=SIZE, batch_size=3, threshold=0.5), **kwargs}


def build(data, work_dir, hooks=(), epochs=4, seed=0, loader=(), model=Toy, **kwargs):
    """A runner; ``hooks`` besides the one that seeds."""
    kwargs.setdefault('train_cfg', dict(by_epoch=True, max_epochs=epochs))
    kwargs.setdefault('randomness', dict(seed=seed))
    return Runner(
        model(),
        work_dir=str(work_dir),
        train_dataloader=dict(
            dict(
                batch_size=4,
                num_workers=0,
                dataset=data,
                sampler=dict(type='DefaultSampler', shuffle=True),
                collate_fn=dict(type='default_collate'),
            ),
            **dict(loader),
        ),
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.01)),
        default_hooks=dict(logger=dict(type='LoggerHook', interval=1000)),
        custom_hooks=list(hooks),
        default_scope='mmpretrain',
        experiment_name=str(work_dir).replace('/', '_'),
        **kwargs,
    )


def weights(runner):
    """Parameters, and what batch norm remembers."""
    values = runner.model.backbone.state_dict().values()
    return torch.cat([value.flatten().float() for value in values])
