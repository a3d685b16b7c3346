"""`mmbam subset`: the first images that have objects."""

import json

import pytest

from tests.helpers.run import run_verb


@pytest.fixture
def annotations(tmp_path):
    objects = [(1, 0), (2, 1), (3, 0), (3, 0), (4, 1), (5, 0)]
    content = dict(
        categories=[dict(id=1, name='person')],
        images=[dict(id=i, file_name=f'{i}.jpg') for i in range(6)],
        annotations=[
            dict(id=k, image_id=image, iscrowd=crowd)
            for k, (image, crowd) in enumerate(objects)
        ],
    )
    path = tmp_path / 'instances.json'
    path.write_text(json.dumps(content))
    return path


def test_takes_the_first_images_that_have_objects(annotations, tmp_path):
    out = tmp_path / 'new' / 'first.json'
    printed, error = run_verb('subset', annotations, out, '--images', 2)
    assert error is None and printed.startswith('2 images, 3 objects')
    content = json.loads(out.read_text())
    assert [image['id'] for image in content['images']] == [1, 3]
    assert [a['image_id'] for a in content['annotations']] == [1, 3, 3]
    assert content['categories'] == [dict(id=1, name='person')]


@pytest.mark.parametrize(
    'name, images, sentence',
    [
        ('gone.json', 2, 'File not found: '),
        ('broken.json', 2, 'Not annotations of COCO: '),
        ('instances.json', 9, 'Only 3 images have objects, not 9: '),
        ('instances.json', 0, 'images must be at least 1, got 0.'),
    ],
)
def test_mistakes_end_in_one_sentence(name, images, sentence, annotations, tmp_path):
    (tmp_path / 'broken.json').write_text('[1, 2]')
    out = tmp_path / 'first.json'
    _, error = run_verb('subset', tmp_path / name, out, '--images', images)
    assert error.startswith(f'mmbam subset: {sentence}') and not out.exists()
