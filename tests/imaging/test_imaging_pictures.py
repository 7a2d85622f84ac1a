"""Pictures keep their values, their colour, and the way they are held."""

from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image as Pillow

from shared.imaging.headers import peek
from shared.imaging.volume import BadImage, channels_first, coloured, read

RNG = np.random.default_rng(5)
GREY = RNG.integers(0, 256, (6, 9)).astype(np.uint8)
RGB = RNG.integers(0, 256, (6, 9, 3)).astype(np.uint8)
DEEP = RNG.integers(0, 65536, (6, 9)).astype(np.uint16)


def one(path: Path) -> np.ndarray:
    image = read([path])
    assert image.affine is None
    head = peek(path)
    assert head.shape[:2] == image.array.shape[1::-1] and head.dimensions == 2
    assert head.channels == image.array.shape[2] or head.channels == 3 != image.array.shape[2]
    return image.array[..., 0] if image.array.shape[2] == 1 else image.array


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif", ".gif", ".pgm", ".jp2"])
def test_grey_of_eight_bits(tmp_path: Path, suffix: str) -> None:
    Pillow.fromarray(GREY).save(tmp_path / f"x{suffix}")
    np.testing.assert_array_equal(one(tmp_path / f"x{suffix}"), GREY)


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif", ".ppm", ".webp"])
def test_colour(tmp_path: Path, suffix: str) -> None:
    Pillow.fromarray(RGB).save(tmp_path / f"x{suffix}", **({"lossless": True} if suffix == ".webp" else {}))
    np.testing.assert_array_equal(one(tmp_path / f"x{suffix}"), RGB)
    assert read([tmp_path / f"x{suffix}"]).colour


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_sixteen_bits_keep_their_values(tmp_path: Path, suffix: str) -> None:
    Pillow.fromarray(DEEP).save(tmp_path / f"x{suffix}")
    found = one(tmp_path / f"x{suffix}")
    assert found.dtype == np.uint16
    np.testing.assert_array_equal(found, DEEP)


def test_colour_of_sixteen_bits(tmp_path: Path) -> None:
    import SimpleITK

    deep = RNG.integers(0, 65536, (6, 9, 3)).astype(np.uint16)
    SimpleITK.WriteImage(SimpleITK.GetImageFromArray(deep, isVector=True), str(tmp_path / "x.png"))
    np.testing.assert_array_equal(one(tmp_path / "x.png"), deep)


def test_palettes_are_shown_in_colour(tmp_path: Path) -> None:
    picture = Pillow.fromarray((GREY % 3).astype(np.uint8), "P")
    picture.putpalette([0, 0, 0, 200, 10, 10, 10, 10, 200])
    picture.save(tmp_path / "p.png")
    expected = np.array([[0, 0, 0], [200, 10, 10], [10, 10, 200]], np.uint8)[GREY % 3]
    np.testing.assert_array_equal(one(tmp_path / "p.png"), expected)
    picture.save(tmp_path / "p.tif")
    np.testing.assert_array_equal(one(tmp_path / "p.tif"), expected)


def test_grey_saved_as_colour_is_grey(tmp_path: Path) -> None:
    same = np.repeat(GREY[..., None], 3, -1)
    for name in ("x.png", "x.tif", "x.jpg"):
        Pillow.fromarray(same).save(tmp_path / name)
        image = read([tmp_path / name])
        assert not image.colour and image.array.shape == (6, 9, 1)
        assert coloured(image).array.shape == (6, 9, 3) and coloured(image).colour


def test_transparency(tmp_path: Path) -> None:
    alpha = np.full((6, 9, 1), 255, np.uint8)
    Pillow.fromarray(np.concatenate([RGB, alpha], -1)).save(tmp_path / "opaque.png")
    np.testing.assert_array_equal(one(tmp_path / "opaque.png"), RGB)
    alpha[2, 3] = 0
    for name in ("holes.png", "holes.tif"):
        Pillow.fromarray(np.concatenate([RGB, alpha], -1)).save(tmp_path / name)
        expected = RGB.copy()
        expected[2, 3] = 0
        np.testing.assert_array_equal(one(tmp_path / name), expected)


@pytest.mark.parametrize("way", range(1, 9))
def test_pictures_are_turned_as_their_camera_says(tmp_path: Path, way: int) -> None:
    from PIL import ImageOps

    exif = Pillow.Exif()
    exif[274] = way
    for name in ("x.png", "x.tif", "x.webp"):
        Pillow.fromarray(RGB).save(tmp_path / name, exif=exif, **({"lossless": True} if name == "x.webp" else {}))
        with Pillow.open(tmp_path / name) as picture:
            expected = np.asarray(ImageOps.exif_transpose(picture).convert("RGB"))
        np.testing.assert_array_equal(one(tmp_path / name), expected)


def test_pages_of_a_tiff_are_slices(tmp_path: Path) -> None:
    pages = RNG.normal(size=(4, 6, 9)).astype(np.float32)
    tifffile.imwrite(tmp_path / "x.tif", pages, photometric="minisblack")
    image = read([tmp_path / "x.tif"])
    assert image.affine is not None
    np.testing.assert_array_equal(channels_first(image)[0], pages)
    head = peek(tmp_path / "x.tif")
    assert (head.dimensions, head.shape, head.dtype) == (3, (9, 6, 4), "float32")
    Pillow.fromarray(GREY).save(tmp_path / "y.tif", save_all=True, append_images=[Pillow.fromarray(GREY + 1)])
    np.testing.assert_array_equal(channels_first(read([tmp_path / "y.tif"]))[0, 1], (GREY + 1).astype(float))
    tifffile.imwrite(tmp_path / "c.tif", np.stack([RGB, RGB[::-1]]), photometric="rgb")
    assert read([tmp_path / "c.tif"]).colour and read([tmp_path / "c.tif"]).array.shape == (9, 6, 2, 3)
    tifffile.imwrite(tmp_path / "i.tif", pages[:, None], imagej=True, metadata={"axes": "ZCYX"})
    np.testing.assert_array_equal(channels_first(read([tmp_path / "i.tif"]))[0], pages)


def test_signed_and_inverted_tiff(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "s.tif", GREY.astype(np.int16) - 1000, compression="zlib")
    np.testing.assert_array_equal(one(tmp_path / "s.tif"), GREY.astype(int) - 1000)
    tifffile.imwrite(tmp_path / "w.tif", GREY, photometric="miniswhite")
    np.testing.assert_array_equal(one(tmp_path / "w.tif"), 255 - GREY)


def test_folders_of_pictures_are_volumes(tmp_path: Path) -> None:
    files = []
    for number in range(3):
        files.append(tmp_path / f"{number}.png")
        Pillow.fromarray(GREY + number).save(files[-1])
    image = read(files)
    np.testing.assert_array_equal(channels_first(image)[0], np.stack([GREY, GREY + 1, GREY + 2]).astype(float))
    assert image.order == (0, 1, 2) and image.affine is not None
    with pytest.raises(BadImage, match="views are read one by one"):
        read(files, several="views")
    Pillow.fromarray(GREY[:4]).save(files[1])
    with pytest.raises(BadImage, match=r"1\.png has 9 x 4 pixels, 0\.png 9 x 6: .*one size"):
        read(files)


def test_animations_are_not_read(tmp_path: Path) -> None:
    first, *rest = [Pillow.fromarray(GREY), Pillow.fromarray(GREY[::-1])]
    for suffix in (".gif", ".webp", ".png"):
        first.save(tmp_path / f"x{suffix}", save_all=True, append_images=rest)
        for look in (peek, lambda path: read([path])):
            with pytest.raises(BadImage, match="animation of 2 pictures, not supported yet; convert to one PNG"):
                look(tmp_path / f"x{suffix}")


def test_a_table_tells_the_units(tmp_path: Path) -> None:
    Pillow.fromarray(DEEP).save(tmp_path / "x.png")
    image = read([tmp_path / "x.png"], slope=2, intercept=-1024)
    np.testing.assert_array_equal(image.array[..., 0], DEEP.astype(int) * 2 - 1024)
