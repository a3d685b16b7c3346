"""A page of nearest images and near-duplicates."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from mmengine.dataset import BaseDataset
from mmengine.dist import is_main_process
from torch import Tensor

from mmbam.evaluation.loaders import ImageFiles
from mmbam.evaluation.nearest import near_duplicates, nearest

from .figures import save_figure, to_picture
from .page import Picture, Section, write_page

_COLUMNS = 9  # of images side by side
_INCHES = 1.35


class Shown(NamedTuple):
    """A row of the data set or a packed image, and its similarity to the query."""

    sample: Any
    name: str
    similarity: float | None = None


@dataclass
class NeighborPage:
    """The page of a data set's neighbours, every pair of images compared.

    Args:
        dataset (BaseDataset): The images, packed as for a network.
        names (Sequence[str]): Their names.
        features (Tensor): Their embeddings (n, d).
    """

    dataset: BaseDataset
    names: Sequence[str]
    features: Tensor

    def write(
        self,
        path: str | Path,
        about: str,
        *,
        queries: tuple[ImageFiles, Tensor] | None = None,
        num_queries: int = 8,
        k: int = 8,
        threshold: float = 0.98,
        pairs: int = 20,
    ) -> int:
        """Write the page.

        Args:
            path (str | Path): HTML file to write, by the first rank.
            about (str): Sentence on the images and the network.
            queries (tuple[ImageFiles, Tensor], optional): Images and their embeddings.
                Defaults to None: some images of the data set, evenly spaced.
            num_queries (int): Number of queries from the data set. Defaults to 8.
            k (int): Number of neighbours of each query. Defaults to 8.
            threshold (float): Cosine similarity from which on two images count as
                near-duplicates. Defaults to 0.98.
            pairs (int): Number of near-duplicates to show at most. Defaults to 20.

        Returns:
            int: Number of near-duplicates.
        """
        strips = self._of_files(*queries, k) if queries else self._own(num_queries, k)
        alike, rows, total = near_duplicates(self.features, threshold, pairs)
        if not is_main_process():
            return total
        number = len(self.names)
        counted = (
            f'{total:,} of {number * (number - 1) // 2:,} pairs have a cosine '
            f'similarity of at least {threshold}'
        )
        counted += f'; the {len(rows)} most similar are shown.' if len(rows) else '.'
        with TemporaryDirectory() as folder:
            near = [
                self._strip(strip, Path(folder, f'query{n}.png'))
                for n, strip in enumerate(strips)
            ]
            duplicates = [
                self._strip(
                    [self._shown(int(a)), self._shown(int(b), float(value))],
                    Path(folder, f'pair{n}.png'),
                )
                for n, ((a, b), value) in enumerate(zip(rows, alike))
            ]
            sections = [
                Section('Nearest images', [about, *near]),
                Section('Near-duplicates', [counted, *duplicates]),
            ]
            write_page(path, 'Neighbors', sections)
        return total

    def _own(self, number: int, k: int) -> list[list[Shown]]:
        """Strips of images of the data set."""
        last = len(self.names) - 1
        rows = torch.linspace(0, last, min(number, last + 1)).round().long()
        found = nearest(self.features[rows], self.features, k, left_out=rows)
        firsts = [self._shown(int(row)) for row in rows]
        return self._strips(firsts, *found)

    def _of_files(self, files: ImageFiles, features: Tensor, k: int) -> list:
        """Strips of images that need not be in the data set."""
        where = {os.path.realpath(path): -1 for path in files.paths}
        for row in range(len(self.names)):
            path = os.path.realpath(self.dataset.get_data_info(row).get('img_path', ''))
            if path in where:
                where[path] = row
        own = torch.tensor([where[os.path.realpath(path)] for path in files.paths])
        found = nearest(features, self.features, k, left_out=own)
        firsts = [Shown(files[i], path) for i, path in enumerate(files.paths)]
        return self._strips(firsts, *found)

    def _strips(
        self, firsts: Sequence[Shown], similarities: Tensor, rows: Tensor
    ) -> list[list[Shown]]:
        return [
            [first, *(self._shown(i, s) for i, s in zip(near, alike) if np.isfinite(s))]
            for first, near, alike in zip(firsts, rows.tolist(), similarities.tolist())
        ]

    def _shown(self, row: int, similarity: float | None = None) -> Shown:
        return Shown(row, self.names[row], similarity)

    def _strip(self, strip: Sequence[Shown], path: Path) -> Picture:
        """Draw images side by side, and list them as text."""
        lines = -(-len(strip) // _COLUMNS)
        size = (_INCHES * min(len(strip), _COLUMNS), (_INCHES + 0.25) * lines)
        figure = Figure(figsize=size, layout='constrained')
        grid = figure.subplots(lines, min(len(strip), _COLUMNS), squeeze=False)
        for axes in grid.flat:
            axes.axis('off')
        for axes, (sample, _, similarity) in zip(grid.flat, strip):
            sample = self.dataset[sample] if isinstance(sample, int) else sample
            image = sample['inputs'].permute(1, 2, 0).numpy()
            # What the network gets is BGR, unless it has other bands.
            axes.imshow(to_picture(image, (2, 1, 0) if image.shape[2] > 2 else None))
            # The names are in the caption.
            axes.set_title(
                '' if similarity is None else f'{similarity:.3f}', fontsize=10
            )
        save_figure(figure, path)
        first, *others = strip
        listed = ', '.join(f'{name} ({value:.3f})' for _, name, value in others)
        return Picture(path, f'{first.name}: {listed}')
