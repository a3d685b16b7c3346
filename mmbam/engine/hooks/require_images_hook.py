"""Do not begin to train on nothing."""

from __future__ import annotations

from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmbam.registry import HOOKS


@HOOKS.register_module()
class RequireImagesHook(Hook):
    """Stop with a reason if the training set is empty.

    mmdet leaves out images without an object of the config's classes; where none is
    left a run by epochs ends as if it had trained, and one by iterations waits for its
    first batch forever.
    """

    priority = 'VERY_HIGH'

    def before_train(self, runner: Runner) -> None:
        """Look at the size of the training set."""
        dataset = runner.train_dataloader.dataset
        if len(dataset) > 0:
            return
        prefix = getattr(dataset, 'data_prefix', None) or {}
        places = [getattr(dataset, 'ann_file', ''), *prefix.values()]
        raise ValueError(
            f'{type(dataset).__name__} has no image to train on in '
            f'{", ".join(map(str, filter(None, places)))}: the files are missing, or '
            'no image has an object of the classes of the config.'
        )
