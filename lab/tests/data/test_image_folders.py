"""Images in folders and archives, in the layouts of Tiny-ImageNet, ImageNet, Places365, DCIC."""

import io
import json
import os
import pickle
import subprocess
import sys
import tarfile
import zipfile

import numpy as np
import pytest

from decal_lab import data as datasets
from decal_lab.data import DamagedDataError, MissingDataError

pillow = pytest.importorskip("PIL.Image")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("DECAL_CACHE", str(folder))
    return folder


def png(colour, size=(64, 64)):
    """An image of one colour, without loss; `size` is width × height."""
    buffer = io.BytesIO()
    pillow.new("RGB", size, colour).save(buffer, "png")
    return buffer.getvalue()


def jpeg(colour, size=(64, 64), mode="RGB"):
    buffer = io.BytesIO()
    pillow.new(mode, size, colour).save(buffer, "jpeg")
    return buffer.getvalue()


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def write_zip(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def write_tar(path, files):
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            content = content if isinstance(content, bytes) else content.encode()
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


TINY = {
    "wnids.txt": "n02\nn01\n",
    "words.txt": "n00\tsomething\nn01\tgoldfish, Carassius auratus\nn02\ttailed frog\n",
    "train/n01/images/n01_0.JPEG": jpeg((200, 0, 0)),
    "train/n01/n01_boxes.txt": "n01_0.JPEG\t0\t0\t62\t62\n",
    "train/n02/images/n02_0.JPEG": jpeg((0, 200, 0)),
    "train/n02/images/n02_1.JPEG": jpeg(200, mode="L"),  # some of the real ones are grey
    "val/images/val_0.JPEG": jpeg((0, 200, 0)),
    "val/images/val_1.JPEG": jpeg((200, 0, 0)),
    "val/val_annotations.txt": "val_0.JPEG\tn02\t0\t32\t44\t62\nval_1.JPEG\tn01\t5\t5\t59\t59\n",
    "test/images/test_0.JPEG": jpeg((0, 0, 0)),
}


@pytest.fixture(params=["inner", "outer", "zip", "zip itself"])
def tiny(request, tmp_path):
    if request.param == "inner":
        write(tmp_path, TINY)
        return tmp_path
    if request.param == "outer":
        write(tmp_path / "tiny-imagenet-200", TINY)
        return tmp_path
    path = tmp_path / "tiny-imagenet-200.zip"
    write_zip(path, {f"tiny-imagenet-200/{name}": content for name, content in TINY.items()})
    return tmp_path if request.param == "zip" else path


def test_tiny_imagenet_is_read_wherever_it_lies(tiny):
    val = datasets.tiny_imagenet(folder=tiny)
    assert val.classes == ("goldfish, Carassius auratus", "tailed frog")
    assert [val.classes[i] for i in val.labels] == ["tailed frog", "goldfish, Carassius auratus"]
    assert val[0].shape == (64, 64, 3)
    assert val[0][0, 0].argmax() == 1
    assert val[1][0, 0].argmax() == 0
    train = datasets.tiny_imagenet("train", folder=tiny, size=8)
    assert train.labels.tolist() == [0, 1, 1]
    grey = train[2]
    assert grey.shape == (8, 8, 3)
    assert (grey[..., 0] == grey[..., 1]).all()
    assert repr(train) == "ImageFolder: 3 images of 8×8×3, 2 classes"


def test_sorted_validation_images_are_labelled_by_their_folders(tmp_path):
    write(tmp_path, {"val/n01/a.JPEG": jpeg(0, mode="L"), "val/n02/b.JPEG": jpeg(9, mode="L")})
    val = datasets.tiny_imagenet(folder=tmp_path)
    assert val.classes == ("n01", "n02")
    assert val.labels.tolist() == [0, 1]


def test_an_image_without_an_annotation_is_named(tmp_path):
    write(tmp_path, {**TINY, "val/images/val_2.JPEG": jpeg((0, 0, 0))})
    with pytest.raises(DamagedDataError, match="tell the class of every image: not .*val_2.JPEG"):
        datasets.tiny_imagenet(folder=tmp_path)


def test_batches_and_rows_are_the_images_one_by_one(tmp_path):
    shades = {f"{kind}/{i}.png": png((40 * i, 0, 0)) for kind in "ab" for i in range(3)}
    write(tmp_path, shades)
    folder = datasets.image_folder(tmp_path, size=None)
    expected = [0, 40, 80, 0, 40, 80]
    batches = list(folder.batches(4))
    assert [len(labels) for _, labels in batches] == [4, 2]
    assert np.concatenate([images[:, 5, 5, 0] for images, _ in batches]).tolist() == expected
    some = folder.load([5, 1])
    assert some.images[:, 0, 0, 0].tolist() == [80, 40]
    assert some.labels.tolist() == [1, 0]
    assert len(folder.load()) == len(folder) == 6


def test_images_of_several_sizes_need_a_size(tmp_path):
    write(tmp_path, {"a/1.png": png((0, 0, 0), (4, 4)), "a/2.png": png((0, 0, 0), (5, 4))})
    with pytest.raises(ValueError, match=r"size must be given .*\(4, 4, 3\) and \(4, 5, 3\)"):
        datasets.image_folder(tmp_path, size=None).load()
    with pytest.raises(ValueError, match="rows must name one image or more"):
        datasets.image_folder(tmp_path, size=4).load([])


def three_stripes():
    """60 × 20: a red, a green and a blue square side by side."""
    image = np.zeros((20, 60, 3), dtype=np.uint8)
    for channel in range(3):
        image[:, 20 * channel : 20 * (channel + 1), channel] = 255
    buffer = io.BytesIO()
    pillow.fromarray(image).save(buffer, "png")
    return buffer.getvalue()


def test_crop_keeps_the_middle_and_stretch_keeps_all(tmp_path):
    write(tmp_path, {"a/wide.png": three_stripes()})
    cropped = datasets.image_folder(tmp_path, size=20)[0]
    assert (cropped == [0, 255, 0]).all()
    smaller = datasets.image_folder(tmp_path, size=10)[0]
    assert (smaller[:, 1:-1] == [0, 255, 0]).all()
    stretched = datasets.image_folder(tmp_path, size=21, fit="stretch")[0]
    assert stretched.shape == (21, 21, 3)
    assert stretched[10, [1, 10, 19]].argmax(axis=1).tolist() == [0, 1, 2]


def test_sizes_and_fits_are_checked(tmp_path):
    write(tmp_path, {"a/1.png": png((0, 0, 0))})
    with pytest.raises(ValueError, match="fit must be one of 'crop', 'stretch': got 'pad'"):
        datasets.image_folder(tmp_path, size=4, fit="pad")
    with pytest.raises(ValueError, match="size must be a whole number, at least 1: got 0"):
        datasets.image_folder(tmp_path, size=0)


def test_a_file_that_is_no_image_is_named_when_it_is_read(tmp_path):
    write(tmp_path, {"a/1.png": png((0, 0, 0))[:60], "a/notes.txt": "no image by its name"})
    folder = datasets.image_folder(tmp_path, size=4)
    assert len(folder) == 1
    with pytest.raises(DamagedDataError, match=r"1.png must be an image"):
        folder[0]


def test_imagenet_is_a_folder_of_wordnet_ids(tmp_path, cache):
    files = {
        "val/n01440764/ILSVRC2012_val_00000293.JPEG": jpeg((0, 0, 0), (30, 50)),
        "val/n01443537/ILSVRC2012_val_00000236.JPEG": jpeg((0, 0, 0), (50, 30)),
        "LOC_synset_mapping.txt": "n01440764 tench, Tinca tinca\nn01443537 goldfish\n",
    }
    write(tmp_path, files)
    got = datasets.imagenet(folder=tmp_path, size=16)
    assert got.classes == ("tench, Tinca tinca", "goldfish")
    assert got.load().images.shape == (2, 16, 16, 3)
    with pytest.raises(MissingDataError, match=r"imagenet needs val .* in .*image-net.org"):
        datasets.imagenet()
    write(cache / "imagenet", files)
    assert len(datasets.imagenet()) == 2


PLACES_LISTS = {
    "categories_places365.txt": "/a/airfield 0\n/b/bus_station/indoor 1\n/c/canal/natural 2\n",
    "places365_val.txt": "Places365_val_00000001.jpg 2\nPlaces365_val_00000002.jpg 0\n",
}
PLACES_IMAGES = {
    "val_256/Places365_val_00000001.jpg": jpeg((0, 0, 200)),
    "val_256/Places365_val_00000002.jpg": jpeg((200, 0, 0)),
}


@pytest.mark.parametrize("packed", [True, False])
def test_places365_is_labelled_by_its_lists(tmp_path, packed):
    if packed:
        write_tar(tmp_path / "val_256.tar", PLACES_IMAGES)
        write_tar(tmp_path / "filelist_places365-standard.tar", PLACES_LISTS)
    else:
        write(tmp_path, PLACES_IMAGES | PLACES_LISTS)
    got = datasets.places365(folder=tmp_path, size=32)
    assert got.classes == ("airfield", "bus_station/indoor", "canal/natural")
    assert got.labels.tolist() == [2, 0]
    assert got.load().images[:, 0, 0].argmax(axis=1).tolist() == [2, 0]


def test_places365_must_be_whole(tmp_path):
    write(tmp_path, PLACES_IMAGES | PLACES_LISTS)
    (tmp_path / "val_256" / "Places365_val_00000001.jpg").unlink()
    with pytest.raises(
        DamagedDataError, match="must hold the 2 images of places365_val.txt: got 1"
    ):
        datasets.places365(folder=tmp_path)


def votes(*pairs):
    """annotations.json of DCIC: one entry per annotator."""
    return json.dumps(
        [
            {"name": f"annotator {i}", "annotations": [{"image_path": p, "class_label": c}]}
            for i, (p, c) in enumerate(pairs)
        ]
    )


MRI = {
    "annotations.json": votes(
        ("QualityMRI/fold2/b.png", "1"),
        ("QualityMRI/fold1/a.png", "0"),
        ("QualityMRI/fold2/b.png", "0"),
        ("QualityMRI/fold2/b.png", "1"),
    ),
    "fold1/a.png": png((200, 0, 0)),
    "fold2/b.png": png((0, 0, 200)),
}


@pytest.mark.parametrize("place", ["inner", "outer", "zip"])
def test_qualitymri_counts_votes(tmp_path, place):
    if place == "zip":
        members = {f"QualityMRI/{name}": content for name, content in MRI.items()}
        write_zip(tmp_path / "QualityMRI.zip", members)
    else:
        write(tmp_path / ("QualityMRI" if place == "outer" else ""), MRI)
    got = datasets.qualitymri(folder=tmp_path, size=24)
    assert got.classes == ("0", "1")
    np.testing.assert_allclose(got.human, [[1 / 3, 2 / 3], [1, 0]])
    assert got.labels.tolist() == [1, 0]
    loaded = got.load()
    assert loaded.images[:, 0, 0].argmax(axis=1).tolist() == [2, 0]
    np.testing.assert_array_equal(loaded.human, got.human)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("no json", DamagedDataError, "annotations.json is damaged"),
        ('[{"votes": []}]', DamagedDataError, "annotations.json is damaged: 'annotations'"),
        ("[]", DamagedDataError, "with votes: got none"),
        (votes(("QualityMRI/../../x.png", "1")), MissingDataError, "must hold QualityMRI/../../x"),
        (votes(("QualityMRI/none.png", "1")), MissingDataError, "must hold QualityMRI/none.png"),
    ],
)
def test_annotations_that_lead_nowhere_are_refused(tmp_path, content, error, message):
    write(tmp_path / "home", {"annotations.json": content})
    write(tmp_path, {"x.png": png((0, 0, 0))})
    with pytest.raises(error, match=message):
        datasets.qualitymri(folder=tmp_path / "home")


def test_a_folder_gives_only_files_inside_it(tmp_path):
    from decal_lab.data._archives import FolderTree

    write(tmp_path, {"secret.txt": "x", "home/a.txt": "y"})
    tree = FolderTree(tmp_path / "home")
    assert tree.read("a.txt") == b"y"
    for name in ("../secret.txt", str(tmp_path / "secret.txt")):
        with pytest.raises(DamagedDataError, match="must list files inside it"):
            tree.read(name)


def test_a_folder_must_be_a_folder_or_an_archive(tmp_path):
    write(tmp_path, {"images.rar": "x"})
    with pytest.raises(ValueError, match="folder must be a folder or one of .zip, .tar"):
        datasets.image_folder(tmp_path / "images.rar", size=4)
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingDataError, match="must hold images in sub-folders: got none"):
        datasets.image_folder(tmp_path / "empty", size=4)


def test_without_pillow_the_error_names_the_command(tmp_path):
    write(tmp_path, {"a/1.png": png((0, 0, 0))})
    code = (
        "import sys; sys.modules['PIL'] = None\n"
        "from decal_lab import data as datasets\n"
        f"datasets.image_folder({str(tmp_path)!r}, size=4)[0]\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ
    )
    assert ran.stderr.strip().endswith("Image files need Pillow: pip install 'decal[explore]'")


@pytest.mark.parametrize("kind", ["folder", "zip", "tar"])
def test_other_processes_can_be_handed_an_image_folder(tmp_path, kind):
    files = {f"{kind}/{i}.png": png((40 * i, 0, 0)) for kind in "ab" for i in range(3)}
    place = tmp_path / f"images.{kind}"
    {"folder": write, "zip": write_zip, "tar": write_tar}[kind](place, files)
    here = datasets.image_folder(place, size=8)
    there = pickle.loads(pickle.dumps(here))
    np.testing.assert_array_equal(here.load().images, there.load().images)
    assert there.load([4]).images[0, 0, 0, 0] == 40
