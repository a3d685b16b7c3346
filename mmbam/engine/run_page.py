"""The page about a run: what it shows, from the run as it is now."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.runner import Runner

from mmbam.datasets.decoding import decode, read_image
from mmbam.datasets.leaves import leaf_datasets
from mmbam.datasets.transforms.resize import resize_bicubic
from mmbam.evaluation.nearest import nearest
from mmbam.models import embedding, heat_map
from mmbam.utils.errors import InputError
from mmbam.utils.model import frozen, unwrap
from mmbam.visualization.crops import draw_crops
from mmbam.visualization.curves import Scalars, read_run
from mmbam.visualization.page import Picture, Section, Table, write_page
from mmbam.visualization.run_pictures import (
    draw_course,
    draw_neighbours,
    draw_views,
)

VIEWED, QUERIES, NEIGHBOURS = 4, 6, 5
#: Images among which neighbours are looked for, and seconds to read them at most.
GALLERY, SECONDS = 256, 10
#: Longer side of images that are shown, which may be photographs of 12 megapixels.
SHOWN = 448

Part = Any  # str, Table or Picture


class RunPage:
    """Knows a few images of a run, and writes the page about it.

    Nothing here changes the run: images are read beside the data set, whose transforms
    count what they cannot read, and the caller keeps the random states.

    Args:
        runner (Runner): The run, whose data loader is there.
    """

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        loader: Any = runner.train_dataloader
        self.leaf: Any = leaf_datasets(loader.dataset)[0]
        self.crop: Any = next(
            (t for t in self.leaf.pipeline.transforms if hasattr(t, 'views')), None
        )
        self.size = self.crop.views[0].size if self.crop is not None else 224
        self.images: list[np.ndarray] = []
        self.indices: list[int] = []
        count = len(self.leaf)
        began = time.monotonic()
        for number in range(min(GALLERY, count)):
            index = number * count // min(GALLERY, count)
            enough = len(self.images) >= QUERIES
            if enough and time.monotonic() - began > SECONDS:
                break
            try:
                image = _read(self.leaf.get_data_info(index))
            except Exception:  # the run itself reports it
                continue
            self.images.append(_reduced(image))
            self.indices.append(index)

    def write(self, path: Path, note: str, facts: Mapping[str, str]) -> list[str]:
        """Write the page.

        Args:
            path (Path): HTML file.
            note (str): State of the run in a sentence.
            facts (Mapping[str, str]): What the curves say, under names.

        Returns:
            list[str]: A sentence for each picture that could not be drawn.
        """
        failures: list[str] = []
        with tempfile.TemporaryDirectory() as folder:

            def part(name: str, make: Callable[[Path], Part | None], caption: str):
                picture = Path(folder, f'{name}.png')
                try:
                    missing = make(picture)
                except Exception as error:  # a picture must not end a run
                    failure = f'{name}: {type(error).__name__}: {error}'
                    failures.append(failure)
                    return f'This picture could not be drawn ({failure}).'
                return missing or Picture(picture, caption)

            sections = [
                Section(
                    'How it goes',
                    [
                        note,
                        Table(['', ''], list(facts.items())),
                        part('curves', self._draw_curves, CURVES),
                    ],
                ),
                Section('What the network finds similar', [
                    part('neighbours', self._draw_neighbours, NEIGHBOURS_CAPTION),
                ]),
                Section('What the network gets to see', [
                    part('views', self._draw_views, VIEWS_CAPTION),
                ]),
                Section('Crops and boxes', [part('crops', self._draw_crops, CROPS)]),
                Section('Alarms', self._alarms()),
            ]  # fmt: skip
            write_page(path, f'Pre-training in {self.runner.work_dir}', sections)
        return failures

    def _draw_curves(self, path: Path) -> str | None:
        try:
            scalars: Scalars = read_run(self.runner.work_dir)
        except InputError:
            return 'Nothing is logged yet.'
        if 'loss' not in scalars:
            return 'Nothing is logged yet.'
        draw_course(scalars, path, self.runner.message_hub.get_info(UNIFORM, None))
        return None

    def _draw_views(self, path: Path) -> str | None:
        if self.crop is None:
            return 'The pipeline of this run has no mmbam.MultiCrop to show.'
        rows = []
        for number in range(min(VIEWED, len(self.images))):
            image = self.images[number]
            np.random.seed(number)  # the same draws on each page
            bgr = np.ascontiguousarray(image[..., ::-1])
            sample = dict(img=bgr, sample_idx=self.indices[number])
            views = self.crop.transform(sample)['img']
            rows.append((image, [view[..., ::-1] for view in views]))
        draw_views(rows, path)
        return None

    def _draw_neighbours(self, path: Path) -> str | None:
        if len(self.images) < 2:
            return 'There are too few images for neighbors.'
        features, count = self._run(embedding), len(self.images)
        queries = torch.arange(min(QUERIES, count)) * count // QUERIES
        near = min(NEIGHBOURS, count - 1)
        values, found = nearest(features[queries], features, near, left_out=queries)
        rows = torch.cat([queries[:, None], found], dim=1).tolist()
        images = [[self.images[i] for i in row] for row in rows]
        draw_neighbours(images, values.tolist(), path)
        return None

    def _draw_crops(self, path: Path) -> str | None:
        hooks = [hook for hook in self.runner.hooks if hasattr(hook, 'boxes')]
        if not hooks:
            return 'This run crops at random, without ContrastiveCrop.'
        boxes = hooks[0].boxes
        if boxes is None:
            start = hooks[0].start_epoch
            return f'Crops are random until epoch {start}; then boxes are shown here.'
        chosen = self.indices[:VIEWED]
        shown = self.images[:VIEWED]
        found = boxes[chosen]
        # What could not be localized is cropped at random, anywhere in the image.
        found = torch.where(found.isnan(), torch.tensor([0.0, 0.0, 1.0, 1.0]), found)
        draw_crops(shown, self._run(heat_map, VIEWED), found, path)
        return None

    def _run(self, function: Callable, number: int | None = None) -> torch.Tensor:
        """Run the network that is to be used on plain resizes of the images."""
        model: Any = unwrap(self.runner.model)
        backbone = getattr(model, 'target_backbone', model.backbone)
        outputs = []
        images = self.images[:number]
        with frozen(backbone):
            for start in range(0, len(images), 32):
                plain = [
                    resize_bicubic(image, self.size, self.size)[..., ::-1]
                    for image in images[start : start + 32]
                ]
                batch = torch.from_numpy(np.stack(plain)).permute(0, 3, 1, 2)
                data = dict(inputs=batch, data_samples=None)
                inputs = model.data_preprocessor(data)['inputs']
                outputs.append(function(backbone, inputs).float().cpu())
        return torch.cat(outputs)

    def _alarms(self) -> list[Part]:
        alarms = self.runner.message_hub.get_info('mmbam_alarms', [])
        if not alarms:
            return ['None so far.']
        return [f'Step {alarm["iter"]:,}: {alarm["message"]}' for alarm in alarms]


def _read(sample: Mapping[str, Any]) -> np.ndarray:
    """The image of a sample, a file or a part of a shard, as RGB."""
    content = sample.get('img_bytes')
    if content is None:
        return read_image(sample['img_path'])
    return decode(content())[..., ::-1]


def _reduced(image: np.ndarray) -> np.ndarray:
    height, width = image.shape[:2]
    scale = min(1.0, SHOWN / max(height, width))
    if scale == 1.0:
        return image
    return resize_bicubic(
        image, max(1, round(height * scale)), max(1, round(width * scale))
    )


def describe_run(runner: Runner) -> dict[str, str]:
    """Name the network and the images of a run."""
    model: Any = unwrap(runner.model)
    weights = sum(parameter.numel() for parameter in model.backbone.parameters())
    loader: Any = runner.train_dataloader
    leaf: Any = leaf_datasets(loader.dataset)[0]
    return {
        'network': f'{type(model.backbone).__name__}, {weights:,} weights',
        'images': f'{len(loader.dataset):,}, in {getattr(leaf, "data_root", "")}',
    }


UNIFORM = 'mmbam_uniform_entropy'
CURVES = (
    'B, the balanced target, should stay below A, and the loss should fall below the '
    'dashed line. In long runs both entropies fall slowly. If A and B stay at the '
    'dashed line, nothing is learned.'
)
NEIGHBOURS_CAPTION = (
    'Images of the folder, and those whose features are most alike by the present '
    'network, with their cosine similarity. Neighbors should become more alike in '
    'content, and not only in color.'
)
VIEWS_CAPTION = (
    'Each image, and random views of it. The network learns to attend to the same '
    'other images from all views of one image.'
)
CROPS = (
    'Boxes around what the network attends to, and crops: at random (left) and '
    'centered in the boxes (right).'
)
