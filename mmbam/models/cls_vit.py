"""A ViT that computes for training only what training uses."""

from __future__ import annotations

import torch.nn.functional as F
from mmpretrain.models.backbones.vision_transformer import TransformerEncoderLayer
from mmpretrain.models.selfsup import MoCoV3ViT
from torch import Tensor

from mmbam.registry import MODELS


@MODELS.register_module()
class ClsViT(MoCoV3ViT):
    """MoCo v3's ViT whose last block, in training, computes [cls] alone.

    Of the last block's output the loss sees one token, and that token depends on the
    keys and values of the others only: their queries, their projection and their MLP
    are left out, 1/14 of a network of 12 blocks. Output, gradients and names of weights
    are those of :class:`mmpretrain.models.selfsup.MoCoV3ViT`, and so is all that it
    returns in evaluation mode, where patches may be looked at.

    Args:
        **kwargs: Those of ``MoCoV3ViT``. With another ``out_type`` than
            ``'cls_token'`` the last block computes all tokens in training too.
    """

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        if self.out_type == 'cls_token':
            # The same block with the same weights; only what it computes is another.
            self.layers[-1].__class__ = ClsBlock


class ClsBlock(TransformerEncoderLayer):
    """A block that returns [cls] alone in training."""

    def forward(self, x: Tensor) -> Tensor:
        """From all tokens (n, l, c) to the first (n, 1, c), or in evaluation to all."""
        if not self.training:
            return super().forward(x)
        cls = x[:, :1] + self._attend(self.ln1(x))
        return self.ffn(self.ln2(cls), identity=cls)

    def _attend(self, x: Tensor) -> Tensor:
        """What [cls] gathers from all tokens."""
        attn = self.attn
        n, length, width = x.shape
        parts = (width, 2 * width)  # the query; keys and values
        weights = attn.qkv.weight.split(parts)
        biases = (None, None) if attn.qkv.bias is None else attn.qkv.bias.split(parts)
        query = F.linear(x[:, :1], weights[0], biases[0])
        query = query.view(n, 1, attn.num_heads, attn.head_dims).transpose(1, 2)
        both = F.linear(x, weights[1], biases[1])
        both = both.view(n, length, 2, attn.num_heads, attn.head_dims)
        key, value = both.permute(2, 0, 3, 1, 4)
        out = attn.scaled_dot_product_attention(
            query, key, value, dropout_p=attn.attn_drop
        )
        out = attn.proj(out.transpose(1, 2).reshape(n, 1, width))
        return attn.out_drop(attn.gamma1(attn.proj_drop(out)))
