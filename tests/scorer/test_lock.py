"""A clean index seals; each planted fault is found, and by its own gate alone."""

import hashlib

import pytest

from services.scorer.lock.copies import Copies
from services.scorer.lock.seal import check_and_seal, read_index
from shared.contracts.base import Ref
from shared.contracts.data import Handoff, IndexMeta, IndexRow, PackedSample, PackList

META = IndexMeta(
    task="diagnosis",
    dimensions=2,
    label_names=("normal", "covid"),
    grouping="stated",
    grouping_from="column patient",
    split_from="made",
)


def row(name: str, split: str, label: str | None = "normal", **changes: object) -> IndexRow:
    return IndexRow(
        **{
            "sample_id": f"scan-{name}",
            "patient": f"patient-{name}",
            "study": f"study-{name}",
            "label": label,
            "files": (f"images/{name}/1.png", f"images/{name}/2.png"),
            "attributes": {"slope": 1.5},
            "split": split,
        }
        | changes
    )


def clean() -> list[IndexRow]:
    splits = ["train"] * 4 + ["val"] * 2 + ["test"] * 4
    return [row(f"{100 + i}", split, META.label_names[i % 2]) for i, split in enumerate(splits)]


def pack(one: IndexRow, bucket: str | None = None) -> PackedSample:
    digest = hashlib.sha256(one.sample_id.encode()).hexdigest()
    bucket = bucket or ("sealed" if one.split == "test" else "data")
    return PackedSample(
        sample_id=one.sample_id, pack=Ref(bucket=bucket, key=digest, sha256=digest, size=10240), files=one.files
    )


def seal(rows: list[IndexRow], meta: IndexMeta = META, **more: object):
    return check_and_seal(rows, meta, PackList(samples=tuple(map(pack, rows))), **more)


def test_a_clean_index_seals_and_names_every_check() -> None:
    sealed = seal(clean())
    assert not sealed.problems
    assert sealed.leakage.checks == {
        "same_patient": 0,
        "same_study": 0,
        "same_file": 0,
        "same_content": 0,
        "test_file_named_in_train": 0,
        "near_duplicate": 0,
        "content_not_compared": 0,
        "look_not_compared": 0,
    }
    assert sealed.counts == {
        "train": {"normal": 2, "covid": 2},
        "val": {"normal": 1, "covid": 1},
        "test": {"normal": 2, "covid": 2},
    }
    assert sealed.patients == {"train": 4, "val": 2, "test": 4}
    assert [one.sample_id for one in sealed.test] == [f"scan-{n}" for n in (106, 107, 108, 109)]
    assert [one.pack.bucket for one in sealed.test_packs] == ["sealed"] * 4


def test_nothing_of_test_is_in_the_view() -> None:
    handoff = Handoff(
        layout="images/<scan>/<n>.png; scan-106 has 3 slices, scan-100 has 2",
        geometry={"patient-107": {"odd": ["images/108/1.png", 512]}, "images": 30},
        oddities=("study-109 has no date", "scan-1060 is no sample"),
    )
    sealed = seal(clean(), handoff=handoff)
    text = sealed.view.model_dump_json()
    for number in (106, 107, 108, 109):
        for name in (f"scan-{number}", f"patient-{number}", f"study-{number}", f"images/{number}/"):
            assert f"{name}" not in text.replace("scan-1060", "")
    assert [one.split for one in sealed.view.rows] == ["train"] * 4 + ["val"] * 2
    assert [one.sample_id for one in sealed.view.packs] == [one.sample_id for one in sealed.view.rows]
    assert sealed.view.handoff.layout == "images/<scan>/<n>.png; [sealed] has 3 slices, scan-100 has 2"
    assert sealed.view.handoff.geometry["images"] == 30
    assert sealed.view.handoff.oddities[1] == "scan-1060 is no sample"


def plant(number: int, **changes: object) -> list[IndexRow]:
    rows = clean()
    rows[number] = rows[number].model_copy(update=changes)
    return rows


@pytest.mark.parametrize(
    ("rows", "gates"),
    [
        (plant(6, patient="patient-100"), {"no_same_patient"}),
        (plant(4, patient="patient-100"), {"no_same_patient"}),
        (plant(6, study="study-101"), {"no_same_study"}),
        (plant(6, files=("images/106/1.png", "images/104/2.png")), {"no_same_file"}),
        (plant(0, attributes={"prior": "images/106/7.png"}), set()),
        (plant(0, attributes={"prior": ["see", {"x": "images/106/2.png"}]}), {"no_test_file_named_in_train"}),
        (plant(0, attributes={"slope": "2.png"}), set()),
        (plant(6, sample_id="scan-107"), {"samples_unique"}),
        (plant(6, label=None), {"test_labelled"}),
        (plant(0, label="other"), {"labels_known"}),
        ([one for one in clean() if one.split != "test" or one.label == "normal"], {"classes_present"}),
        ([one for one in clean() if one.split != "train" or one.label == "normal"], {"classes_present"}),
        (
            [one.model_copy(update={"patient": "p"}) if one.split == "test" else one for one in clean()],
            {"test_patients"},
        ),
        (
            [one.model_copy(update={"attributes": {"group": one.label.upper()}}) for one in clean()],
            {"attributes_without_label"},
        ),
        (
            [one.model_copy(update={"attributes": {"y": META.label_names.index(one.label)}}) for one in clean()],
            {"attributes_without_label"},
        ),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, set) else "",
)
def test_each_fault_is_found_by_its_own_gate(rows: list[IndexRow], gates: set[str]) -> None:
    assert set(seal(rows).problems) == gates


def test_a_leak_is_counted_and_its_first_pair_named() -> None:
    leakage = seal(plant(6, patient="patient-100")).leakage
    assert leakage.checks["same_patient"] == 1
    assert leakage.pairs == (("same_patient", "scan-100", "scan-106"),)


def test_an_exact_copy_found_in_the_packs_fails() -> None:
    sealed = seal(clean(), copies=Copies(pairs=(("scan-100", "scan-106"),), no_look=2))
    assert set(sealed.problems) == {"no_same_content"}
    assert sealed.leakage.checks["look_not_compared"] == 2
    assert any(note.startswith("2 samples have no look") for note in sealed.leakage.notes)
    assert sealed.leakage.pairs == (("same_content", "scan-100", "scan-106"),)
    assert sealed.told.pairs == (("same_content", "scan-100", "[sealed]"),)


def test_near_duplicates_ask_for_a_merge_only_where_the_split_was_made_here() -> None:
    copies = Copies(near=(("scan-100", "scan-106"),), merge=(("scan-100", "scan-106"), ("scan-101", "scan-102")))
    made, given = (
        seal(clean(), copies=copies),
        seal(clean(), META.model_copy(update={"split_from": "dataset"}), copies=copies),
    )
    assert not made.problems and not given.problems
    assert (made.merge, given.merge) == (copies.merge, ())
    assert made.leakage.pairs == (("near_duplicate", "scan-100", "scan-106"),)
    assert made.leakage.checks["near_duplicate"] == given.leakage.checks["near_duplicate_in_given_split"] == 1
    assert "1 near-duplicates cross the split that came with the dataset" in given.leakage.notes[-1]


def test_contents_that_were_not_compared_are_told() -> None:
    report = seal(clean(), copies=Copies(compared=False, no_look=10)).leakage
    assert report.checks["content_not_compared"] == 10
    assert report.notes[-1].startswith("Contents were not compared")


def test_study_numbers_that_begin_anew_for_each_patient_are_no_leak() -> None:
    rows = [one.model_copy(update={"study": "1"}) for one in clean()]
    assert not seal(rows).problems


def test_several_classes_in_the_test_set_may_share_a_folder_with_train() -> None:
    rows = [one.model_copy(update={"files": (f"all/{one.sample_id}.png",)}) for one in clean()]
    sealed = seal(rows, handoff=Handoff(layout="all images lie in all/"))
    assert sealed.view.handoff.layout == "all images lie in all/"


def test_missing_packs_and_test_packs_in_the_open_bucket_fail() -> None:
    rows = clean()
    packs = [pack(one) for one in rows]
    assert set(check_and_seal(rows, META, PackList(samples=tuple(packs[:-1]))).problems) == {"packs_complete"}
    open_packs = PackList(samples=tuple(pack(one, "data") for one in rows))
    assert set(check_and_seal(rows, META, open_packs).problems) == {"packs_complete"}


def test_the_manifest_changes_with_the_split_and_with_nothing_else() -> None:
    rows = clean()
    same = seal(rows).manifest_sha256
    assert seal(rows[::-1]).manifest_sha256 == same
    assert seal(plant(5, split="train")).manifest_sha256 != same
    assert seal(plant(5, patient="other")).manifest_sha256 != same
    lines = sorted(f"{one.sample_id} {one.patient} {one.split}" for one in rows)
    assert same == hashlib.sha256("\n".join(lines).encode()).hexdigest()


def test_an_index_that_cannot_be_read_names_its_line() -> None:
    good = clean()[0].model_dump_json().encode()
    assert len(read_index(good + b"\n\n" + good)) == 2
    for bad, said in ((b"", "no rows"), (good + b"\n{}", "line 2"), (b"\xff", "line 1"), (b"[1]", "line 1")):
        with pytest.raises(ValueError, match=said):
            read_index(bad)


VALUES = {"liver": 6, "spleen": 28}
MASKS = META.model_copy(
    update={"task": "organ_segmentation", "label_names": ("liver", "spleen"), "label_values": VALUES}
)


def masked() -> list[IndexRow]:
    return [one.model_copy(update={"label": None, "target": f"masks/organs-{one.patient}.nii.gz"}) for one in clean()]


def pack_masked(one: IndexRow) -> PackedSample:
    packed = pack(one)
    if one.split == "test":
        return packed.model_copy(update={"target": packed.pack.model_copy(update={"key": "mask"})})
    return packed.model_copy(update={"files": (*one.files, *([one.target] if one.target else []))})


def seal_masks(rows: list[IndexRow], meta: IndexMeta = MASKS, **more: object):
    return check_and_seal(rows, meta, PackList(samples=tuple(map(pack_masked, rows))), **more)


def test_a_clean_index_of_masks_seals_with_the_values_of_its_structures() -> None:
    handoff = Handoff(oddities=("organs-patient-106.nii.gz is empty", "organs-patient-100 is small"))
    sealed = seal_masks(masked(), handoff=handoff)
    assert not sealed.problems
    assert sealed.view.label_values == VALUES and sealed.view.task == "organ_segmentation"
    assert sealed.counts == {"train": {"all": 4}, "val": {"all": 2}, "test": {"all": 4}}
    assert "106" not in sealed.view.model_dump_json()
    assert sealed.view.handoff.oddities == ("[sealed] is empty", "organs-patient-100 is small")
    assert all(one.target and one.target.bucket == "sealed" for one in sealed.test_packs)


def plant_mask(number: int, **changes: object) -> list[IndexRow]:
    rows = masked()
    rows[number] = rows[number].model_copy(update=changes)
    return rows


@pytest.mark.parametrize(
    ("rows", "meta", "gates"),
    [
        (plant_mask(6, target=None), {}, {"masks_given"}),
        (plant_mask(0, target=None), {}, {"masks_given"}),
        (plant_mask(6, target="masks/organs-patient-100.nii.gz"), {}, {"no_same_file"}),
        (plant_mask(0, files=("masks/organs-patient-101.nii.gz",)), {}, {"masks_apart"}),
        (masked(), {"label_values": {"liver": 6}}, {"label_values"}),
        (masked(), {"label_values": {"liver": 6, "spleen": 6}}, {"label_values"}),
        (masked(), {"label_values": {"liver": 6, "spleen": 0}}, {"label_values"}),
        (masked(), {"label_values": {"liver": 6, "spleen": 2**40}}, {"label_values"}),
        (masked(), {"label_names": ()}, {"label_values"}),
        ([one for one in masked() if one.split != "train"], {}, {"train_present"}),
    ],
)
def test_each_fault_of_masks_is_found_by_its_own_gate(
    rows: list[IndexRow], meta: dict[str, object], gates: set[str]
) -> None:
    assert set(seal_masks(rows, MASKS.model_copy(update=meta)).problems) == gates


def test_masks_that_are_not_where_they_belong_or_damaged_do_not_seal() -> None:
    rows = masked()
    good = [pack_masked(one) for one in rows]
    inside = good[6].model_copy(update={"target": None, "files": (*good[6].files, "mask")})
    opened = good[6].model_copy(update={"target": good[0].pack})
    without = good[0].model_copy(update={"files": rows[0].files})
    for number, wrong in ((6, inside), (6, opened), (0, without)):
        packs = tuple(wrong if place == number else one for place, one in enumerate(good))
        assert set(check_and_seal(rows, MASKS, PackList(samples=packs)).problems) == {"packs_complete"}
    problems = seal_masks(rows, damaged={"scan-106": "it is no mask"}).problems
    assert problems == {"masks_readable": "1 masks of test rows cannot be scored against: scan-106 (it is no mask)"}


def test_values_of_structures_that_are_not_asked_for_stay_out() -> None:
    some = MASKS.model_copy(update={"label_names": ("spleen",)})
    assert seal_masks(masked(), some).view.label_values == {"spleen": 28}
