"""Loading: all of a backbone's weights, or none and the list of what does not fit."""

import pytest
import torch
from mmpretrain.registry import MODELS

from mmbam.checkpoints import load_backbone
from tests.helpers.networks import (
    mm_caformer,
    mm_resnet,
    mm_vit,
    timm_caformer,
    timm_resnet,
    timm_vit,
)

IMAGE = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def save(path, network, prefix='', **other):
    weights = {prefix + name: value for name, value in network.state_dict().items()}
    torch.save(dict(state_dict={**weights, **other}), path)
    return path


@torch.no_grad()
def features(network, image=IMAGE):
    if hasattr(network, 'forward_features'):  # timm
        out = network.forward_features(image)
        return out[:, 0] if out.dim() == 3 else out
    return network(image)[-1]


@pytest.mark.parametrize('kind', ['VisionTransformer', 'MoCoV3ViT'])
@pytest.mark.parametrize('prefix', ['', 'module.student._orig_mod.backbone.'])
def test_a_vit_of_timm_gives_the_same_features_in_mmpretrain(tmp_path, kind, prefix):
    theirs, ours = timm_vit(), mm_vit(kind)
    path = save(tmp_path / 'a.pth', theirs, prefix)
    assert not torch.allclose(features(ours), features(theirs), atol=1e-2)
    assert load_backbone(ours, path) == 'student'
    torch.testing.assert_close(features(ours), features(theirs), atol=1e-5, rtol=0)


def test_a_vit_of_mmpretrain_gives_the_same_features_in_timm(tmp_path):
    ours, theirs = mm_vit(), timm_vit(num_classes=0)
    load_backbone(theirs, save(tmp_path / 'a.pth', ours, 'backbone.'))
    torch.testing.assert_close(features(theirs), features(ours), atol=1e-5, rtol=0)


def test_layer_scale_and_the_norms_before_and_after(tmp_path):
    theirs = timm_vit(init_values=0.1, pre_norm=True, num_classes=0)
    ours = mm_vit(layer_scale_init_value=0.1, pre_norm=True)
    load_backbone(ours, save(tmp_path / 'a.pth', theirs))
    torch.testing.assert_close(features(ours), features(theirs), atol=1e-5, rtol=0)


def test_resnet_both_ways(tmp_path):
    theirs, ours = timm_resnet(), mm_resnet()
    save(tmp_path / 'ours.pth', ours, 'backbone.')
    expected = features(ours)
    load_backbone(ours, save(tmp_path / 'theirs.pth', theirs))
    torch.testing.assert_close(features(ours), features(theirs), atol=1e-5, rtol=0)
    theirs.reset_classifier(0)
    load_backbone(theirs, tmp_path / 'ours.pth')
    torch.testing.assert_close(features(theirs), expected, atol=1e-5, rtol=0)


@torch.no_grad()
def test_caformer_both_ways(tmp_path):
    theirs, ours = timm_caformer(), mm_caformer()
    path = save(tmp_path / 'theirs.pth', theirs)
    save(tmp_path / 'ours.pth', ours, 'backbone.')
    expected = features(ours)
    load_backbone(ours, path)
    theirs.reset_classifier(0, '')
    torch.testing.assert_close(features(ours), theirs(IMAGE), atol=1e-5, rtol=0)
    stages = mm_caformer(features_only=True)  # for dense tasks: no final norm
    load_backbone(stages, path)
    last = theirs.forward_features(IMAGE)
    torch.testing.assert_close(features(stages), last, atol=1e-5, rtol=0)
    load_backbone(theirs, tmp_path / 'ours.pth')
    torch.testing.assert_close(theirs(IMAGE), expected, atol=1e-5, rtol=0)


def test_the_teacher_is_taken_where_it_is_an_average(tmp_path):
    teacher, student, ours = mm_vit(), timm_vit(num_classes=0), mm_vit()
    load_backbone(
        ours, save(tmp_path / 's.pth', student)
    )  # student's weights, our names
    weights = {f'teacher.backbone.{n}': v for n, v in teacher.state_dict().items()}
    path = save(tmp_path / 'a.pth', ours, 'backbone.', **weights)
    fresh = mm_vit()
    assert load_backbone(fresh, path) == 'teacher'
    assert torch.equal(features(fresh), features(teacher))
    assert load_backbone(fresh, path, 'student') == 'student'
    assert torch.equal(features(fresh), features(ours))


def test_heads_necks_and_projectors_of_the_file_are_passed_over(tmp_path):
    ours = mm_vit()
    other = {
        'neck.layers.0.weight': torch.zeros(1),
        'head.layers.head.weight': torch.zeros(1),
        'teacher.neck.weight': torch.zeros(1),
    }
    load_backbone(mm_vit(), save(tmp_path / 'a.pth', ours, 'backbone.', **other))
    other = {'projector.0.weight': torch.zeros(1), 'fc.weight': torch.zeros(1)}
    load_backbone(mm_vit(), save(tmp_path / 'b.pth', ours, **other))


def test_what_does_not_fit_is_listed_and_nothing_is_loaded(tmp_path):
    weights = timm_vit(num_classes=0).state_dict()
    weights['blocks.2.norm1.weight'] = weights.pop('norm.bias')
    weights['cls_token'] = weights['cls_token'][..., :5]
    torch.save(weights, tmp_path / 'a.pth')
    ours = mm_vit()
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    with pytest.raises(ValueError) as error:
        load_backbone(ours, tmp_path / 'a.pth')
    sentence = str(error.value)
    assert 'a.pth' in sentence and 'does not fit VisionTransformer' in sentence
    assert 'missing: ln1.bias; left over: blocks.2.norm1.weight;' in sentence
    assert 'of another shape: cls_token (1, 1, 5) for (1, 1, 24); 28 of 30' in sentence
    for name, value in ours.state_dict().items():
        assert torch.equal(value, before[name])


def test_the_final_norm_is_passed_over_by_a_vit_that_has_none(tmp_path):
    path = save(tmp_path / 'a.pth', timm_vit())
    ours = mm_vit(final_norm=False)
    load_backbone(ours, path)
    weights = torch.load(path)['state_dict']
    assert torch.equal(ours.layers[1].ln2.bias, weights['blocks.1.norm2.bias'])
    # But not the other way round.
    save(tmp_path / 'b.pth', ours, 'backbone.')
    with pytest.raises(ValueError, match='missing: ln1.weight, ln1.bias'):
        load_backbone(mm_vit(), tmp_path / 'b.pth')


def test_another_architecture_is_refused(tmp_path):
    path = save(tmp_path / 'a.pth', mm_resnet(18), 'backbone.')
    with pytest.raises(ValueError, match='missing: cls_token.*left over: conv1.weight'):
        load_backbone(mm_vit(), path)


def test_old_files_without_batch_counters_load(tmp_path):
    weights = mm_resnet(18).state_dict()
    weights = {n: v for n, v in weights.items() if 'num_batches' not in n}
    torch.save(weights, tmp_path / 'a.pth')
    load_backbone(mm_resnet(18), tmp_path / 'a.pth')


@pytest.mark.parametrize('size', [64, (48, 80)])
def test_position_embeddings_of_another_grid_are_resized(tmp_path, size):
    """As mmpretrain does it, whose own loading is the reference."""
    source, ours, reference = mm_vit(), mm_vit(img_size=size), mm_vit(img_size=size)
    load_backbone(ours, save(tmp_path / 'a.pth', source))
    reference.load_state_dict(source.state_dict())
    assert ours.pos_embed.shape != source.pos_embed.shape
    assert torch.equal(ours.pos_embed, reference.pos_embed)
    assert torch.equal(ours.pos_embed[:, 0], source.pos_embed[:, 0])


def test_position_embeddings_are_resized_in_timm_too(tmp_path):
    source, theirs = mm_vit(), timm_vit(img_size=64, num_classes=0)
    load_backbone(theirs, save(tmp_path / 'a.pth', source))
    reference = mm_vit(img_size=64)
    reference.load_state_dict(source.state_dict())
    assert torch.equal(theirs.pos_embed, reference.pos_embed)


def test_a_class_token_without_a_position_gets_zeros(tmp_path):
    theirs, ours = timm_vit(no_embed_class=True, num_classes=0), mm_vit()
    load_backbone(ours, save(tmp_path / 'a.pth', theirs))
    assert ours.pos_embed[:, 0].eq(0).all()
    torch.testing.assert_close(features(ours), features(theirs), atol=1e-5, rtol=0)


def test_positions_of_no_square_grid_are_refused(tmp_path):
    path = save(tmp_path / 'a.pth', mm_vit(img_size=(48, 80)))
    with pytest.raises(ValueError, match=r'pos_embed \(1, 61, 24\) for \(1, 17, 24\)'):
        load_backbone(mm_vit(), path)


def test_any_network_with_the_same_names_loads(tmp_path):
    cfg = dict(type='mmpretrain.LeNet5')
    source, ours = MODELS.build(cfg), MODELS.build(cfg)
    load_backbone(ours, save(tmp_path / 'a.pth', source, 'backbone.'))
    for mine, theirs in zip(ours.parameters(), source.parameters()):
        assert torch.equal(mine, theirs)
