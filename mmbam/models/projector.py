"""The projector g, as a neck."""

from __future__ import annotations

from mmcv.cnn import build_activation_layer, build_norm_layer
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmbam.registry import MODELS
from mmbam.utils.errors import InputError


@MODELS.register_module()
class BAMNeck(BaseModule):
    """Projector of BAM: linear layers with activations between them (App. C).

    Args:
        in_channels (int): Width of the backbone's embedding.
        hid_channels (int): Width of the hidden layers. Defaults to 4096.
        out_channels (int): Width of the latents, equal to that of a frozen teacher's
            latents if there is one. Defaults to 4096.
        num_layers (int): Number of linear layers. Defaults to 3.
        act_cfg (dict): Activation; the paper uses GELU for ViT and CAFormer and ReLU
            for ResNet. Defaults to ``dict(type='GELU')``.
        norm_cfg (dict, optional): Norm after every layer, the last one without affine
            parameters. The paper uses batch norm without a teacher and no norm with
            one. Defaults to None.
        init_cfg (dict): Initialization of the weights. Defaults to a truncated normal
            of standard deviation 0.02.
    """

    def __init__(
        self,
        in_channels: int,
        hid_channels: int = 4096,
        out_channels: int = 4096,
        num_layers: int = 3,
        act_cfg: dict = dict(type='GELU'),  # noqa: B006 (only read)
        norm_cfg: dict | None = None,
        init_cfg: dict | list | None = dict(  # noqa: B006
            type='TruncNormal', layer='Linear', std=0.02, bias=0.0
        ),
    ) -> None:
        super().__init__(init_cfg)
        for name, value in dict(
            in_channels=in_channels,
            hid_channels=hid_channels,
            out_channels=out_channels,
            num_layers=num_layers,
        ).items():
            if value < 1:
                raise InputError(
                    f'BAMNeck: {name} must be at least 1, but got {value}.'
                )
        widths = [in_channels] + [hid_channels] * (num_layers - 1) + [out_channels]
        layers: list[nn.Module] = []
        for index, (width_in, width_out) in enumerate(zip(widths, widths[1:])):
            last = index == num_layers - 1
            layers.append(nn.Linear(width_in, width_out))
            if norm_cfg is not None:
                cfg = dict(norm_cfg, affine=False) if last else norm_cfg
                layers.append(build_norm_layer(cfg, width_out)[1])
            if not last:
                layers.append(build_activation_layer(act_cfg))
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.layers = nn.Sequential(*layers)

    def forward(self, embeddings: Tensor) -> Tensor:
        """Project embeddings (n, in_channels) to latents (n, out_channels)."""
        if embeddings.shape[-1] != self.in_channels:
            raise InputError(
                f'BAMNeck has in_channels={self.in_channels}, but the backbone gives '
                f'embeddings of width {embeddings.shape[-1]}.'
            )
        return self.layers(embeddings)
