"""`mmbam pack`: every image once, in order, whatever happens in between."""

import errno
import hashlib
import json
import multiprocessing
import os
import tarfile
import time
import zlib

import numpy as np
import pytest
from PIL import Image

from mmbam.cli.main import build_parser
from mmbam.cli.pack import _bytes
from mmbam.datasets import ShardDataset
from mmbam.datasets.decoding import decode
from mmbam.datasets.shards import writer as writer_module
from mmbam.datasets.shards.index import ShardIndex, build_index
from mmbam.datasets.shards.pack import pack_images
from mmbam.datasets.shards.tar import members
from mmbam.datasets.shards.writer import verify_pack
from mmbam.datasets.transforms import LoadImage
from mmbam.evaluation.frozen import class_folders
from mmbam.evaluation.loaders import build_dataset
from mmbam.utils.errors import ExpectedError, InputError
from mmbam.utils.files import locked

SETTINGS = dict(short_side=24, shard_size=9000)


@pytest.fixture(scope='module')
def images(tmp_path_factory):
    """Two classes: large and small images, two unreadable ones, one in no class."""
    root = tmp_path_factory.mktemp('pack') / 'images'
    rng = np.random.default_rng(0)
    for i in range(14):
        folder = root / ('käse' if i % 2 else 'a')
        folder.mkdir(parents=True, exist_ok=True)
        side = 20 if i % 3 == 0 else 40
        noise = rng.integers(0, 256, (side, side + 8, 3), np.uint8)
        Image.fromarray(noise).save(folder / f'{i:02}.{"png" if i % 4 else "JPG"}')
    (root / 'a/03.png').write_bytes(b'no image')
    (root / 'käse/98.jpg').write_bytes(b'')
    Image.fromarray(noise).save(os.fsencode(root) + b'/\xff z.png', 'PNG')
    return root


@pytest.fixture(scope='module')
def whole(images):
    out = images.parent / 'whole'
    pack_images(images, out, workers=0, **SETTINGS)
    return out


def content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_pack_holds_every_image_that_can_be_read(images, whole):
    dataset = ShardDataset(
        str(whole), with_label=False, pipeline=[LoadImage(max_errors=0)]
    )
    paths = sorted(
        os.path.relpath(os.path.join(place, name), images)
        for place, _, names in os.walk(images)
        for name in names
    )
    good = [path for path in paths if path not in ('a/03.png', 'käse/98.jpg')]
    assert len(dataset) == len(good) == 15
    sample = iter(range(15))
    for shard in sorted(whole.glob('*.tar')):
        with tarfile.open(shard) as archive:
            found = archive.getmembers()
            for image, fields in zip(found[::2], found[1::2]):
                i = next(sample)
                known = json.load(archive.extractfile(fields))
                original = (images / good[i]).read_bytes()
                packed = archive.extractfile(image).read()
                assert known['path'] == good[i]
                assert known.get('class') == {0: None}.get(
                    good[i].count('/'), good[i].split('/')[0]
                )
                key = f'{paths.index(good[i]):06}'
                assert fields.name == f'{key}.json'
                if min(decode(original).shape[:2]) <= 24:
                    assert packed == original
                    assert image.name == key + os.path.splitext(good[i])[1].lower()
                else:
                    assert image.name == f'{key}.jpg'
                    assert decode(packed).shape == (24, 29, 3)
                np.testing.assert_array_equal(dataset[i]['img'], decode(packed))
    assert next(sample, None) is None
    lines = (whole / 'unreadable.txt').read_text().splitlines()
    assert [line.split('\t')[0] for line in lines] == ['a/03.png', 'käse/98.jpg']
    assert lines[0].endswith('ValueError: this is no image')


def test_webdataset_reads_a_pack(whole):
    webdataset = pytest.importorskip('webdataset', reason='not installed')
    urls = sorted(str(path) for path in whole.glob('*.tar'))
    ours = ShardDataset(str(whole), pipeline=[LoadImage(max_errors=0)])
    samples = list(webdataset.WebDataset(urls, shardshuffle=False))
    assert len(samples) == len(ours) == 15
    for sample, info in zip(samples, ours):
        fields = json.loads(sample['json'])
        image = sample['jpg'] if 'jpg' in sample else sample['png']
        assert zlib.crc32(image) == fields['crc32']
        np.testing.assert_array_equal(decode(image), info['img'])


def test_shards_keep_to_their_size(whole):
    shards = sorted(whole.glob('*.tar'))
    assert len(shards) > 3
    for shard in shards:
        # The end of an archive is padded.
        assert shard.stat().st_size <= 9000 + tarfile.RECORDSIZE
    lines = [
        line.split('  ') for line in (whole / 'SHA256SUMS').read_text().split('\n')
    ]
    sums = {name: value for value, name in lines[:-1]}
    assert sums == {s.name: hashlib.sha256(s.read_bytes()).hexdigest() for s in shards}


@pytest.mark.parametrize('workers', [1, 3])
def test_the_number_of_workers_changes_nothing(images, whole, tmp_path, workers):
    pack_images(images, tmp_path / 'out', workers=workers, **SETTINGS)
    assert content(tmp_path / 'out') == content(whole)


class Killed(BaseException):
    """Ends everything at once, as SIGKILL does."""


@pytest.mark.parametrize(
    'at, part',
    [(1, 0), (2, 0), (3, 0.4), (6, 0.99), (7, 0), (8, 0), (9, 0), (15, 0.7), (30, 0.1)],
)
def test_a_killed_pack_goes_on_to_the_same_bytes(
    images, whole, tmp_path, monkeypatch, at, part
):
    """Killed within any call to the disk, of which a part may have arrived."""
    out, calls = tmp_path / 'out', 0

    def counted(function):
        def call(*args):
            nonlocal calls
            calls += 1
            if calls == at:
                if function is write:
                    self, sample = args
                    self._file.write(sample[: int(part * len(sample))])
                raise Killed
            return function(*args)

        return call

    write = writer_module.ShardWriter._write
    monkeypatch.setattr(writer_module.ShardWriter, '_write', counted(write))
    monkeypatch.setattr(os, 'replace', counted(os.replace))
    monkeypatch.setattr(os, 'fsync', counted(os.fsync))
    with pytest.raises(Killed):
        pack_images(images, out, workers=0, **SETTINGS)
    monkeypatch.undo()
    (out / '.pack.json.7.part.json').touch()  # of a file that was being written
    pack_images(images, out, workers=0, **SETTINGS)
    assert content(out) == content(whole)


@pytest.mark.parametrize('loss', ['hole', 'padding', 'fields', 'header'])
def test_a_sample_that_did_not_reach_the_disk_is_written_again(
    images, whole, tmp_path, monkeypatch, loss
):
    """A power failure may lose any block of what was written last."""
    out = tmp_path / 'out'
    monkeypatch.setattr(writer_module.ShardWriter, '_close_shard', stop)
    with pytest.raises(Killed):
        pack_images(images, out, workers=0, **SETTINGS)
    monkeypatch.undo()
    part = out / '.000000.tar.part'
    with open(part, 'r+b') as file:
        *_, image, fields = members(file.fileno())
        assert fields.name == image.name.replace('.jpg', '.json')
        if loss == 'hole':
            file.seek(image.offset + image.size // 2)
            file.write(bytes(9))
        elif loss == 'padding':
            file.truncate(fields.offset + fields.size + 3)
        elif loss == 'fields':
            file.truncate(fields.offset + fields.size - 3)
        else:
            file.truncate(fields.offset - 100)
    pack_images(images, out, workers=0, **SETTINGS)
    assert content(out) == content(whole)


def stop(self):
    raise Killed


def test_a_process_that_is_killed_goes_on_to_the_same_bytes(images, whole, tmp_path):
    out = tmp_path / 'out'
    process = multiprocessing.get_context('fork').Process(
        target=pack_images, args=(images, out), kwargs=dict(workers=0, **SETTINGS)
    )
    process.start()
    while not (out / '000000.tar').exists() and process.is_alive():
        time.sleep(0.0005)
    process.kill()
    process.join()
    pack_images(images, out, workers=0, **SETTINGS)
    assert content(out) == content(whole)


def test_a_finished_pack_is_left_alone(images, whole, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in whole.iterdir()}
    assert pack_images(images, whole, workers=0, **SETTINGS) == dict(
        packed=15, unreadable=2, shards=len(list(whole.glob('*.tar')))
    )
    assert before == {path: path.stat().st_mtime_ns for path in whole.iterdir()}


def test_another_pack_is_refused_in_its_place(images, whole, tmp_path):
    with pytest.raises(InputError, match='was begun with short_side=24, not 25'):
        pack_images(images, whole, workers=0, **dict(SETTINGS, short_side=25))
    with pytest.raises(InputError, match='was begun with images=17, not 8'):
        pack_images(images / 'käse', whole, workers=0, **SETTINGS)
    with pytest.raises(InputError, match="must be new or empty, but it holds 'a'"):
        pack_images(images, images, workers=0)
    with pytest.raises(InputError, match='quality must be from 1 to 100, but got 0'):
        pack_images(images, tmp_path / 'new', quality=0)
    with pytest.raises(InputError, match='there is no folder|There is no folder'):
        pack_images(images / 'gone', tmp_path / 'new')


def test_an_unfinished_pack_is_not_trained_on(images, whole, tmp_path):
    out = tmp_path / 'out'
    out.mkdir()
    (out / 'pack.json').write_text(json.dumps(dict(complete=False)))
    with pytest.raises(InputError, match='a pack that is not finished'):
        ShardDataset(str(out))
    with pytest.raises(InputError, match='is not finished'):
        verify_pack(out)


def test_a_full_disk_is_said_in_one_sentence(images, whole, tmp_path, monkeypatch):
    def full(self, sample):
        if len(sample) > 1024 and self.shards == 1:
            self._file.write(sample[:700])
            raise OSError(errno.ENOSPC, 'No space left on device')
        return write(self, sample)

    write = writer_module.ShardWriter._write
    monkeypatch.setattr(writer_module.ShardWriter, '_write', full)
    with pytest.raises(ExpectedError, match='No space left on device. Make room and'):
        pack_images(images, tmp_path / 'out', workers=0, **SETTINGS)
    monkeypatch.undo()
    pack_images(images, tmp_path / 'out', workers=0, **SETTINGS)
    assert content(tmp_path / 'out') == content(whole)


def test_two_packs_do_not_write_to_one_place(images, tmp_path):
    out = tmp_path / 'out'
    out.mkdir()
    holder = multiprocessing.get_context('fork').Process(
        target=hold, args=(out / '.lock', tmp_path / 'held')
    )
    holder.start()
    while not (tmp_path / 'held').exists():
        time.sleep(0.01)
    with pytest.raises(InputError, match='Another mmbam pack is writing to'):
        pack_images(images, out, workers=0, **SETTINGS)
    holder.kill()
    holder.join()
    pack_images(images, out, workers=0, **SETTINGS)


def hold(path, mark):
    with locked(path):
        mark.touch()
        time.sleep(600)


def test_class_folders_of_the_evaluation_may_be_a_pack(images, tmp_path):
    (tmp_path / 'images').mkdir()
    for name in ('a', 'käse'):
        (tmp_path / 'images' / name).symlink_to(images / name)
    (tmp_path / 'out').mkdir()
    pack_images(tmp_path / 'images', tmp_path / 'out', workers=0, **SETTINGS)
    load = [dict(type='mmbam.LoadImage', max_errors=0)]
    dataset = build_dataset(class_folders(tmp_path / 'out', load))
    assert dataset.CLASSES == ('a', 'käse')
    assert dataset.get_gt_labels().tolist() == [0] * 7 + [1] * 7
    assert dataset[13]['gt_label'] == 1 and dataset[13]['img'].ndim == 3


def test_no_image_can_be_read(tmp_path):
    (tmp_path / 'a').mkdir()
    (tmp_path / 'a/b.png').touch()
    with pytest.raises(InputError, match='None of the 1 images in .* can be read'):
        pack_images(tmp_path / 'a', tmp_path / 'out', workers=0)


def damaged(whole, tmp_path):
    out = tmp_path / 'damaged'
    out.mkdir()
    for name, stored in content(whole).items():
        (out / name).write_bytes(stored)
    return out


def test_verify_finds_every_flipped_byte(whole, tmp_path):
    assert verify_pack(whole) == 15
    out = damaged(whole, tmp_path)
    shard = out / '000001.tar'
    good = shard.read_bytes()
    for place in (600, 3, len(good) // 2, len(good) - 9):
        bad = bytearray(good)
        bad[place] ^= 4
        shard.write_bytes(bad)
        with pytest.raises(ExpectedError, match=r'is damaged:\n000001.tar: '):
            verify_pack(out)
    bad = bytearray(good)
    bad[600] ^= 4
    shard.write_bytes(bad)
    with tarfile.open(shard) as archive:
        name = archive.getnames()[0]
    with pytest.raises(ExpectedError, match=f'\n000001.tar: {name}$'):
        verify_pack(out)


def test_verify_misses_no_file(whole, tmp_path):
    out = damaged(whole, tmp_path)
    (out / '000002.tar').unlink()
    (out / 'shards.index').unlink()
    with pytest.raises(ExpectedError) as error:
        verify_pack(out)
    assert '\n000002.tar is gone\nshards.index is gone' in str(error.value)
    (out / 'SHA256SUMS').write_text('')
    with pytest.raises(ExpectedError, match='SHA256SUMS lists 0 shards instead of'):
        verify_pack(out)
    with pytest.raises(InputError, match='is no pack'):
        verify_pack(tmp_path)


def test_verify_counts_the_images_of_the_index(whole, tmp_path):
    out = damaged(whole, tmp_path)
    build_index(out, ['000000.tar'], out / 'shards.index')
    found = len(ShardIndex(out / 'shards.index', out))
    with pytest.raises(
        ExpectedError, match=f'\nshards.index has {found} images instead of 15'
    ):
        verify_pack(out)


def run(*words):
    args = build_parser(['pack', *map(str, words)]).parse_args(
        ['pack', *map(str, words)]
    )
    return args.verb.run(args)


def test_the_command_packs_and_verifies(images, tmp_path, whole, capsys):
    words = [images, tmp_path / 'out', '--short-side', 24, '--shard-size', 9000]
    done = run(*words, '--workers', 0, '--verify')
    assert done == dict(packed=15, unreadable=2, shards=len(list(whole.glob('*.tar'))))
    assert content(tmp_path / 'out') == content(whole)
    printed = capsys.readouterr().out
    assert f'15 images in {done["shards"]} shards in {tmp_path}/out' in printed
    assert '2 that cannot be read were left out' in printed
    assert '15 images are as they were packed' in printed
    assert run('--verify', tmp_path / 'out') is None
    with pytest.raises(InputError, match='needs IMAGES and OUT, or --verify OUT'):
        run(tmp_path / 'out')


@pytest.mark.parametrize(
    'text, size', [('1G', 2**30), ('500mb', 500 * 2**20), ('7', 7)]
)
def test_sizes_have_units(text, size):

    assert _bytes(text) == size


@pytest.mark.parametrize('text', ['', 'G', '-1G', '1.5G', '0', '1X'])
def test_what_is_no_size_is_refused(text, capsys):
    with pytest.raises(SystemExit):
        run('images', 'out', f'--shard-size={text}')
    assert 'must be a size such as 500M' in capsys.readouterr().err
