"""The made world: deterministic, split by region, and readable by OpenMMLab."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image
from pycocotools.coco import COCO

from mmbam.demo.world import (
    PHOTOGRAPHS,
    class_names,
    load_photograph,
    make_world,
    patches,
    photographs,
)
from mmbam.demo.world.scenes import draw_scene, draw_video
from mmbam.utils.errors import InputError

SMALL = dict(
    num_classes=5,
    patches=(20, 10),
    patch_size=16,
    scenes=(6, 4),
    scene_size=64,
    videos=(1, 2),
    frames=4,
    progress=False,
)


@pytest.fixture(scope='module')
def world(tmp_path_factory) -> dict[str, Path]:
    roots = make_world(tmp_path_factory.mktemp('world') / 'small', **SMALL)
    return {layout: Path(root) for layout, root in roots.items()}


def digest(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob('*'))
        if path.is_file()
    }


def test_all_photographs_are_in_the_wheel_and_use_the_whole_grey_range():
    assert len(PHOTOGRAPHS) >= 16
    for name in PHOTOGRAPHS:
        photograph = load_photograph(name)
        assert photograph.dtype == np.uint8 and photograph.ndim == 2
        assert photograph.min() == 0 and photograph.max() == 255


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    for folder, seed in (('a', 3), ('b', 3), ('c', 4)):
        make_world(tmp_path / folder, seed=seed, **SMALL)
    first, again, other = (digest(tmp_path / folder) for folder in 'abc')
    assert first == again
    pictures = [file for file in first if file.endswith(('.png', '.jpg'))]
    assert first.keys() == other.keys()
    assert sum(first[file] == other[file] for file in pictures) == 0


def test_more_patches_do_not_change_the_first_ones(tmp_path, world):
    make_world(tmp_path / 'more', **{**SMALL, 'patches': (40, 10)})
    more = digest(tmp_path / 'more' / 'imagenet' / 'train')
    few = digest(world['imagenet'] / 'train')
    assert few.items() <= more.items() and len(more) == 40


@pytest.mark.parametrize('name', list(PHOTOGRAPHS))
def test_cells_tile_a_photograph_without_overlap(name):
    photograph = load_photograph(name)
    count = np.zeros(photograph.shape, int)
    cells = photographs.split_cells(*photograph.shape)
    for split in ('train', 'test'):
        assert cells[split]
        for top, left, bottom, right in cells[split]:
            assert min(bottom - top, right - left) >= photographs.MIN_CELL
            count[top:bottom, left:right] += 1
    assert (count == 1).all()


def test_no_pixel_of_a_test_region_reaches_a_training_image(monkeypatch):
    """Train cells painted black, test cells white: every image has one colour."""

    def painted(name: str) -> np.ndarray:
        canvas = np.zeros((303, 448), np.uint8)
        for top, left, bottom, right in photographs.split_cells(*canvas.shape)['test']:
            canvas[top:bottom, left:right] = 255
        return canvas

    monkeypatch.setattr(patches, 'load_photograph', painted)
    monkeypatch.setattr('mmbam.demo.world.scenes.relight', lambda image, rng: image)
    rng = np.random.default_rng(0)
    for split, value in (('train', 0), ('test', 255)):
        for size in (16, 32, 64, 150):
            for _ in range(50):
                cut = patches.cut_photograph('any', split, size, rng, tries=1)
                assert (cut == value).all()
        for _ in range(5):
            frames = draw_video(['a', 'b', 'c'], split, 96, 2, rng)
            for scene in [draw_scene(['a', 'b', 'c'], split, 96, rng), *frames]:
                assert (scene.image == value).all()


def test_the_rotated_footprint_lies_inside_its_cell():
    rows, cols = np.mgrid[:120, :100].astype(np.float32)
    rng = np.random.default_rng(0)
    for _ in range(200):
        angle = rng.uniform(0, 2 * math.pi)
        state = rng.bit_generator.state
        # The same cut of the coordinates says where each pixel was read.
        places = []
        for plane in (rows, cols):
            rng.bit_generator.state = state
            places.append(patches.cut_patch(plane, 32, (1.0, 2.0), angle, rng))
        y, x = places
        corner = [(y[i, j], x[i, j]) for i in (0, -1) for j in (0, -1)]
        sides = [math.dist(corner[a], corner[b]) for a, b in ((0, 1), (0, 2))]
        # Corners are pixel centres; the footprint reaches half a pixel further.
        assert np.allclose(sides, sides[0], atol=0.1)
        assert 1.0 * 31 - 0.1 <= sides[0] <= 2.0 * 31 + 0.1
        assert y.min() >= 0 and y.max() <= 119 and x.min() >= 0 and x.max() <= 99


def test_patches_show_something_and_are_grey(world):
    files = sorted((world['imagenet'] / 'train').rglob('*.png'))
    assert len(files) == 20
    for file in files:
        image = cv2.imread(str(file), cv2.IMREAD_UNCHANGED)
        assert image.shape == (16, 16, 3)
        assert (image == image[..., :1]).all()
        assert image.std() > 2


def test_imagenet_layout_loads_with_mmpretrain(world):
    from mmpretrain.datasets import CustomDataset, ImageNet

    root = str(world['imagenet'])
    for split, count in (('train', 20), ('val', 10)):
        by_folder = CustomDataset(data_root=root, data_prefix=split)
        by_list = ImageNet(data_root=root, split=split)
        assert len(by_folder) == len(by_list) == count
        assert list(by_folder.CLASSES) == class_names(5)
        labels = {
            Path(sample['img_path']).name: sample['gt_label'] for sample in by_folder
        }
        for sample in by_list:
            name = Path(sample['img_path'])
            assert labels[name.name] == sample['gt_label']
            assert class_names(5)[sample['gt_label']] == name.parent.name


def scenes_of(world, split):
    names = {'train': 'train2017', 'val': 'val2017'}
    path = world['coco'] / 'annotations' / f'instances_{names[split]}.json'
    return json.loads(path.read_text())


def test_coco_masks_match_boxes_areas_and_semantic_maps(world):
    for split, ade in (('train', 'training'), ('val', 'validation')):
        path = world['coco'] / 'annotations' / f'instances_{split}2017.json'
        coco = COCO(str(path))
        labels = {number: label for label, number in enumerate(coco.getCatIds())}
        assert len(labels) == 80
        for index, image_id in enumerate(coco.getImgIds(), 1):
            info = coco.loadImgs(image_id)[0]
            image = cv2.imread(str(world['coco'] / f'{split}2017' / info['file_name']))
            assert image.shape == (info['height'], info['width'], 3) == (64, 64, 3)
            name = f'ADE_{split}_{index:08d}.png'
            with Image.open(world['ade20k'] / 'annotations' / ade / name) as file:
                semantic = np.asarray(file)
            assert semantic.min() >= 1 and semantic.max() <= 5
            annotations = coco.loadAnns(coco.getAnnIds(image_id))
            assert annotations
            free = np.ones_like(semantic, bool)
            for annotation in annotations:
                mask = coco.annToMask(annotation).astype(bool)
                box = cv2.boundingRect(mask.astype(np.uint8))
                assert annotation['bbox'] == list(box)
                assert annotation['area'] == mask.sum() > 0
                assert (semantic[mask] == labels[annotation['category_id']] + 1).all()
                assert free[mask].all(), 'two objects share a pixel'
                free &= ~mask
            assert len(np.unique(semantic[free])) == 1, 'one background'
            assert not np.isin(semantic[~free], semantic[free]).any()


def test_train_and_val_of_coco_share_no_ids(world):
    train, val = scenes_of(world, 'train'), scenes_of(world, 'val')
    for key in ('images', 'annotations'):
        ids = [item['id'] for item in train[key] + val[key]]
        assert len(ids) == len(set(ids))
    named = [c['photograph'] for c in val['categories'] if c['photograph']]
    assert named == class_names(5)


def test_a_background_out_of_focus_is_smooth_and_its_objects_are_not():
    names = class_names(5)

    def detail(blur, of_objects):
        scenes = (
            draw_scene(names, 'train', 64, np.random.default_rng(i), 1, blur)
            for i in range(12)
        )
        steps = []
        for scene in scenes:
            inside = cv2.erode((scene.ids > 0).astype(np.uint8), np.ones((5, 5)))
            outside = cv2.erode((scene.ids == 0).astype(np.uint8), np.ones((5, 5)))
            edges = np.abs(cv2.Laplacian(scene.image, cv2.CV_32F))
            steps.append(edges[(inside if of_objects else outside) > 0].mean())
        return np.mean(steps)

    assert detail(6.0, of_objects=False) < 0.1 * detail(0.0, of_objects=False)
    assert detail(6.0, of_objects=True) == detail(0.0, of_objects=True)


def test_scenes_have_no_more_objects_than_asked_for():
    counts = [
        len(draw_scene(class_names(5), 'train', 64, np.random.default_rng(i), 2).labels)
        for i in range(20)
    ]
    assert {count - 1 for count in counts} == {1, 2}


def test_videos_keep_object_ids_and_move_them(world):
    for split, count in (('train', 1), ('val', 2)):
        path = world['davis'] / 'ImageSets' / '2017' / f'{split}.txt'
        names = path.read_text().split()
        assert len(names) == count
        for name in names:
            frames = sorted((world['davis'] / 'JPEGImages/480p' / name).iterdir())
            masks = sorted((world['davis'] / 'Annotations/480p' / name).iterdir())
            assert [f.stem for f in frames] == [m.stem for m in masks]
            assert [f.name for f in frames] == [f'{t:05d}.jpg' for t in range(4)]
            ids = []
            for mask in masks:
                with Image.open(mask) as file:
                    assert file.mode == 'P'
                    assert file.getpalette()[:6] == [0, 0, 0, 128, 0, 0]
                    ids.append(np.asarray(file))
            objects = set(np.unique(ids[0])) - {0}
            assert objects == set(range(1, len(objects) + 1)) and objects
            for k in objects:
                places = [np.argwhere(m == k).mean(0) for m in ids if (m == k).any()]
                steps = np.linalg.norm(np.diff(places, axis=0), axis=1)
                assert 0 < steps.max() < 64 / 4, 'moves, but does not jump'
            assert all(set(np.unique(m)) <= objects | {0} for m in ids)


def test_an_object_keeps_its_texture_while_it_moves():
    video = draw_video(class_names(16), 'train', 96, 6, np.random.default_rng(5))
    for k in range(1, len(video[0].labels)):
        means = [frame.image[frame.ids == k].mean() for frame in video]
        assert np.ptp(means) < 25
        assert all(frame.labels == video[0].labels for frame in video)


def test_dense_layouts_load_with_mmdet_and_mmseg(world):
    pytest.importorskip('mmcv._ext', reason='mmdet needs mmcv with its ops')
    mmdet = pytest.importorskip('mmdet.datasets')
    mmseg = pytest.importorskip('mmseg.datasets')
    from mmcv.transforms import LoadImageFromFile
    from mmdet.datasets.transforms import LoadAnnotations as LoadBoxes
    from mmengine.registry import init_default_scope
    from mmseg.datasets.transforms import LoadAnnotations as LoadMap

    init_default_scope('mmdet')
    coco = mmdet.CocoDataset(
        data_root=str(world['coco']),
        ann_file='annotations/instances_val2017.json',
        data_prefix=dict(img='val2017/'),
        pipeline=[],
    )
    assert len(coco) == 4
    content = scenes_of(world, 'val')
    for sample in coco:
        loaded = LoadImageFromFile()(dict(sample))
        loaded = LoadBoxes(with_bbox=True, with_mask=True)(loaded)
        assert not loaded['gt_ignore_flags'].any()
        expected = [
            a for a in content['annotations'] if a['image_id'] == sample['img_id']
        ]
        masks = loaded['gt_masks'].masks
        assert [int(mask.sum()) for mask in masks] == [a['area'] for a in expected]
        assert loaded['gt_bboxes_labels'].max() < 5
        boxes = loaded['gt_bboxes'].tensor.numpy()
        x, y, w, h = np.array([a['bbox'] for a in expected]).T
        np.testing.assert_array_equal(boxes, np.stack([x, y, x + w, y + h], 1))

    init_default_scope('mmseg')
    ade = mmseg.ADE20KDataset(
        data_root=str(world['ade20k']),
        data_prefix=dict(
            img_path='images/training', seg_map_path='annotations/training'
        ),
        pipeline=[],
    )
    assert len(ade) == 6
    for sample in ade:
        seg = LoadMap(reduce_zero_label=True)(dict(sample))['gt_seg_map']
        assert seg.max() < 5 and seg.shape == (64, 64)


def test_a_complete_world_is_reused(tmp_path):
    make_world(tmp_path / 'w', **SMALL)
    marker = tmp_path / 'w' / 'imagenet' / 'meta' / 'train.txt'
    before = marker.stat().st_mtime_ns
    make_world(tmp_path / 'w', **SMALL)
    assert marker.stat().st_mtime_ns == before


def test_a_damaged_world_or_one_of_other_settings_is_made_again(tmp_path):
    root = tmp_path / 'w'
    make_world(root, **SMALL)
    whole = digest(root)
    next((root / 'imagenet' / 'train').rglob('*.png')).unlink()
    make_world(root, **SMALL)
    assert digest(root) == whole
    (root / 'world.json').write_text('{"settings"')
    make_world(root, **SMALL)
    assert digest(root) == whole
    make_world(root, seed=1, **SMALL)
    assert digest(root) != whole
    assert [path.name for path in tmp_path.iterdir()] == ['w']


def test_an_interrupted_run_leaves_no_world_behind(tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr('mmbam.demo.world.make.write_davis', interrupt)
        with pytest.raises(KeyboardInterrupt):
            make_world(tmp_path / 'w', **SMALL)
    assert list(tmp_path.iterdir()) == []
    make_world(tmp_path / 'w', **SMALL)


def test_files_that_are_not_a_world_are_never_deleted(tmp_path):
    (tmp_path / 'thesis.txt').write_text('years of work')
    with pytest.raises(InputError, match='not a made world'):
        make_world(tmp_path, **SMALL)
    assert (tmp_path / 'thesis.txt').read_text() == 'years of work'


@pytest.mark.parametrize(
    'wrong', [dict(num_classes=99), dict(patches=(2, 2)), dict(scene_size=4),
              dict(videos=(1,)), dict(seed=-1), dict(objects=0),
              dict(background_blur=-1)]
)  # fmt: skip
def test_wrong_settings_are_refused_by_name(tmp_path, wrong):
    with pytest.raises(InputError, match=f'^{next(iter(wrong))} must be'):
        make_world(tmp_path / 'w', **{**SMALL, **wrong})
    assert not (tmp_path / 'w').exists()
