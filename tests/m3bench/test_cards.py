import json
from importlib.resources import files

from m3bench import cards
from m3bench.readers.bars import bars
from shared.contracts.cards import parse_card

TABLE_4 = {
    "BTCV", "VerSe", "OASIS", "COVID19", "INSTANCE2022", "MSD Pancreas", "ChestX-Det10",
    "ADNI", "KneeMRI", "CC-CCII", "CT-Kidney", "CT-RATE", "BrainGenome", "IU-Xray",
}  # fmt: skip


def test_fourteen_cards_in_the_published_shape() -> None:
    cards_ = [json.loads(path.read_text(encoding="utf-8")) for path in cards.paths()]

    assert {card["dataset name"] for card in cards_} == TABLE_4
    assert len(cards_) == 14
    spaced = [card for card in cards_ if set(card) == {"dataset name", "dataset description", "dataset path"}]
    underscored = [card for card in cards_ if set(card) == {"dataset name", "dataset description", "dataset_path"}]
    assert (len(spaced), len(underscored)) == (11, 3)
    assert {card["dataset name"] for card in underscored} == {"CT-Kidney", "IU-Xray", "BTCV"}


def test_every_card_is_read_by_the_contract() -> None:
    for path in cards.paths():
        (card,) = parse_card(path.read_text(encoding="utf-8"), path.name)
        assert card.path is not None and card.path.startswith("/path/to/")
        assert card.dataset_id == path.stem


def test_the_published_text_is_word_for_word() -> None:
    text = {
        card.name: card.description for path in cards.paths() for card in parse_card(path.read_text(encoding="utf-8"))
    }

    assert text["CC-CCII"] == (
        "CC-CCII is a 3D CT disease diagnosis dataset that contains 3 sub-folders, representing 3 disease classes, and "
        "the name of the subfolders are the class labels. Every sub-folder has more sub-sub-folders, containing images "
        "of the corresponding class. And you should use at most 1000 samples for training and 200 for testing. keep "
        "classes balanced!"
    )
    assert "colomns: 'volumeFilename' and 'aclDiagnosis'" in text["KneeMRI"]


def test_distractors_are_cards_too_and_no_name_is_twice() -> None:
    found = [parse_card(path.read_text(encoding="utf-8"), path.name)[0] for path in cards.distractors()]
    assert len(found) >= 40
    assert [card.dataset_id for card in found] == [path.stem for path in cards.distractors()]
    assert not {card.name for card in found} & TABLE_4


def test_each_task_is_asked_for_in_five_ways() -> None:
    asked = json.loads(files("m3bench").joinpath("requests.json").read_text(encoding="utf-8"))
    assert asked["tasks"].keys() == TABLE_4
    assert {task["card"] for task in asked["tasks"].values()} == {path.stem for path in cards.paths()}
    texts = [request["text"] for task in asked["tasks"].values() for request in task["requests"]]
    assert len(texts) == len(set(texts)) == 5 * 14
    assert asked["tasks"]["CC-CCII"]["requests"][0]["source"] == "authors"
    assert len(asked["unserved"]) >= 6
    for task in asked["tasks"].values():
        assert task["real"].keys() == {"metric", "floor", "target", "alarm"}


def test_replicas_have_bars_that_follow_from_what_was_measured() -> None:
    asked = json.loads(files("m3bench").joinpath("requests.json").read_text(encoding="utf-8"))["tasks"]
    for task in asked.values():
        assert task["replicas"].keys() == {"tiny", "small"}
        for size in task["replicas"].values():
            rule = bars(**size["measured"], ideal=size["ideal"])
            assert (size["floor"], size["target"], size["alarm"]) == (rule.floor, rule.target, rule.alarm)
            assert size["metric"] == task["real"]["metric"]
            assert max(size["measured"]["no_image"], size["measured"]["greys"]) < size["floor"] < size["target"] <= 1
