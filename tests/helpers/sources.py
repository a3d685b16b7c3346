"""Checkpoints laid out as other projects write them, made from small networks.

Each function takes the network whose features are to arrive, another of the same kind,
and a folder; it returns the path of the checkpoint.
"""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from .networks import randomise

Weights = dict[str, Tensor]


def named(network: nn.Module, prefix: str) -> Weights:
    return {prefix + name: value for name, value in network.state_dict().items()}


def bare(network: nn.Module) -> Weights:
    """Without timm's classifier."""
    weights = network.state_dict()
    return {n: w for n, w in weights.items() if n.split('.')[0] not in ('head', 'fc')}


def below(prefix: str, weights: Weights) -> Weights:
    return {prefix + name: value for name, value in weights.items()}


def random(*names: str) -> Weights:
    return {name: torch.randn(3, 3) for name in names}


def saved(folder: Path, content, name='a.pth') -> Path:
    torch.save(content, folder / name)
    return folder / name


def timm(network, other, folder):
    return saved(folder, network.state_dict())


def timm_training(network, other, folder):
    content = dict(
        epoch=3, arch='vit', state_dict=network.state_dict(), args=Namespace()
    )
    return saved(folder, content)


def release(network, other, folder):
    """Of BAM's authors."""
    weights = {
        **below('student.backbone.', bare(other)),
        **below('teacher.backbone.', bare(network)),
        **random('student.projector.0.weight', 'teacher.projector.0.weight'),
    }
    return saved(folder, weights)


def dino(network, other, folder):
    """A full checkpoint: the student is inside of DistributedDataParallel."""
    head = random('head.mlp.0.weight', 'head.last_layer.weight_g')
    return saved(
        folder,
        dict(
            student=below('module.', {**below('backbone.', bare(other)), **head}),
            teacher={**below('backbone.', bare(network)), **head},
            optimizer={'state': {}},
            epoch=5,
            args=Namespace(arch='vit_small'),
            dino_loss={'center': torch.zeros(1, 3)},
        ),
    )


def dino_backbone(network, other, folder):
    return saved(folder, bare(network))


def ibot(network, other, folder):
    """The student alone has a token for masked patches."""
    head = random('head.mlp.0.weight', 'head.last_layer2.weight_v')
    masked = {'backbone.masked_embed': torch.zeros(1, 24)}
    student = {**below('backbone.', bare(other)), **head, **masked}
    teacher = {**below('backbone.', bare(network)), **head}
    return saved(folder, dict(student=below('module.', student), teacher=teacher))


def moco_v3(network, other, folder):
    mlp = random('head.0.weight', 'head.1.running_mean')
    weights = {
        **below('base_encoder.', {**bare(network), **mlp}),
        **below('momentum_encoder.', {**bare(other), **mlp}),
        **random('predictor.0.weight'),
    }
    content = dict(epoch=300, arch='vit_small', state_dict=below('module.', weights))
    return saved(folder, {**content, 'optimizer': {}, 'scaler': {}}, 'vit-s.pth.tar')


def moco_v2(network, other, folder):
    mlp = random('fc.0.weight', 'fc.2.bias')
    weights = {
        **below('encoder_q.', {**bare(network), **mlp}),
        **below('encoder_k.', {**bare(other), **mlp}),
        'queue': torch.zeros(3, 7),
        'queue_ptr': torch.zeros(1, dtype=torch.long),
    }
    return saved(folder, dict(state_dict=below('module.', weights)), 'a.pth.tar')


def lightning(network, other, folder):
    """A model of lightly inside of a module of Lightning."""
    weights = {
        **below('student_backbone.', bare(network)),
        **below('teacher_backbone.', bare(other)),
        **random('student_head.layers.0.weight', 'teacher_head.layers.0.weight'),
    }
    weights = {**below('model.', weights), **random('criterion.center')}
    return saved(folder, {'state_dict': weights, 'pytorch-lightning_version': '2.1'})


def simclr(network, other, folder):
    """A prefix that nothing knows."""
    weights = {
        **below('encoder.', bare(network)),
        **random('projection.model.0.weight'),
    }
    return saved(folder, dict(state_dict=weights, hyper_parameters=Namespace(lr=1)))


def mae(network, other, folder):
    """With its decoder, of which the names resemble the encoder's."""
    decoder = random(
        'mask_token', 'decoder_pos_embed', 'decoder_embed.weight', 'decoder_pred.bias',
        'decoder_blocks.0.norm1.weight', 'decoder_norm.weight',
    )  # fmt: skip
    return saved(folder, dict(model={**bare(network), **decoder}, epoch=1))


def mae_encoder(network, other, folder):
    return saved(folder, dict(model=bare(network)))


def dinov2(network, other, folder):
    return saved(folder, {**bare(network), 'mask_token': torch.zeros(1, 24)})


def dinov2_training(network, other, folder):
    """The blocks come in chunks."""
    weights = {
        name.replace('blocks.', 'blocks.0.'): value
        for name, value in bare(network).items()
    }
    heads = random('dino_head.mlp.0.weight', 'ibot_head.mlp.0.weight')
    weights = {**weights, 'mask_token': torch.zeros(1, 24)}
    return saved(folder, dict(teacher={**below('backbone.', weights), **heads}))


def safetensors(network, other, folder):
    save_file(network.state_dict(), folder / 'model.safetensors')
    return folder / 'model.safetensors'


def timm_folder(network, other, folder):
    """As timm pushes it to the hub."""
    config = dict(architecture='vit_small_patch16_224', num_classes=0, model_args={})
    return hf_folder(folder, bare(network), config)


def wrapped_folder(network, other, folder):
    """A network of timm as transformers saves it."""
    config = dict(architectures=['TimmWrapperModel'], architecture='vit_small')
    return hf_folder(folder, below('timm_model.', bare(network)), config)


def sharded_folder(network, other, folder):
    place = folder / 'hub'
    place.mkdir()
    weights, files = bare(network), {}
    for number, name in enumerate(weights):
        files[name] = f'model-{number % 2}.safetensors'
    for file in set(files.values()):
        part = {name: weights[name] for name in weights if files[name] == file}
        save_file(part, place / file)
    index = json.dumps(dict(metadata={}, weight_map=files))
    (place / 'model.safetensors.index.json').write_text(index)
    (place / 'config.json').write_text('{}')
    return place


_TRANSFORMERS = [
    ('cls_token', 'embeddings.cls_token'),
    ('pos_embed', 'embeddings.position_embeddings'),
    ('patch_embed.proj', 'embeddings.patch_embeddings.projection'),
    ('blocks.', 'encoder.layer.'),
    ('attn.proj', 'attention.output.dense'),
    ('mlp.fc1', 'intermediate.dense'),
    ('mlp.fc2', 'output.dense'),
    ('.norm1', '.layernorm_before'),
    ('.norm2', '.layernorm_after'),
]


def transformers(network, other, folder):
    """A ViT of transformers itself, whose q, k and v are apart."""
    weights = random('vit.pooler.dense.weight', 'classifier.weight')
    for name, value in bare(network).items():
        name = name.replace('norm.', 'layernorm.') if name[:5] == 'norm.' else name
        for old, new in _TRANSFORMERS:
            name = name.replace(old, new)
        parts = {name: value}
        if 'attn.qkv' in name:
            kinds = zip(('query', 'key', 'value'), value.chunk(3))
            parts = {
                name.replace('attn.qkv', f'attention.attention.{k}'): v
                for k, v in kinds
            }
        weights.update(below('vit.', parts))
    config = dict(architectures=['ViTModel'], num_attention_heads=4)
    return hf_folder(folder, weights, config)


def hf_folder(folder: Path, weights: Weights, config: dict) -> Path:
    place = folder / 'hub'
    place.mkdir()
    weights = {name: value.contiguous() for name, value in weights.items()}
    save_file(weights, place / 'model.safetensors', metadata=dict(format='pt'))
    (place / 'config.json').write_text(json.dumps(config))
    return place


OF_VIT = [
    timm, timm_training, release, dino, dino_backbone, ibot, moco_v3, lightning, simclr,
    mae, mae_encoder, dinov2, dinov2_training, safetensors, timm_folder, wrapped_folder,
    sharded_folder, transformers,
]  # fmt: skip
OF_RESNET = [timm, release, dino, moco_v3, moco_v2, lightning, simclr, safetensors]


def two(build) -> tuple[nn.Module, nn.Module]:
    """Two networks with different weights."""
    return build(), randomise(build(), seed=7)
