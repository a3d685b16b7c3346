"""The temperature of the targets over the first epochs."""

from __future__ import annotations

from dataclasses import dataclass

from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmbam.registry import HOOKS
from mmbam.utils.errors import InputError
from mmbam.utils.model import unwrap


@HOOKS.register_module()
@dataclass(eq=False)
class TauBHook(Hook):
    """Change ``tau_b`` of the loss linearly over the first epochs.

    Without this hook it is constant, as in the paper. A start below the final value
    gives sharper targets while the network knows little.

    Args:
        start (float): Temperature of the first epoch.
        end (float): Temperature from epoch ``epochs`` on. Defaults to 0.05.
        epochs (int): Number of epochs until ``end`` is reached. Defaults to 30.
    """

    start: float
    end: float = 0.05
    epochs: int = 30

    def __post_init__(self) -> None:
        for name in ('start', 'end', 'epochs'):
            value = getattr(self, name)
            if not value > 0:
                raise InputError(f'TauBHook: {name} must be positive, got {value}.')

    def before_train_epoch(self, runner: Runner) -> None:
        """Set the temperature of the epoch that begins."""
        model = unwrap(runner.model)
        share = min(runner.epoch / self.epochs, 1.0)
        tau_b = self.start + (self.end - self.start) * share
        model.head.loss_module.tau_b = tau_b
        runner.message_hub.update_scalar('train/tau_b', tau_b)
