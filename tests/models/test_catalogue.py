"""Models by name, their prices, an operator's own file, and a core a role."""

from pathlib import Path

import pytest

from shared.errors import UserError
from shared.models import cores, make_core
from shared.models.catalogue import find, read_catalogue
from shared.models.endpoint import EndpointCore

PAPERS = (
    "claude-3.7-sonnet", "claude-3.5-sonnet", "gpt-4o", "qwen-max", "deepseek-v3", "gemini-2.0-flash", "llama-3.3-70b",
)  # fmt: skip


@pytest.mark.parametrize("name", PAPERS)
def test_the_papers_models_are_known_by_name_and_at_their_endpoint(name: str) -> None:
    core = make_core(name)
    assert isinstance(core, EndpointCore) and core.listing.known
    again = make_core(core.name)
    assert isinstance(again, EndpointCore) and again.listing == core.listing


def test_every_listed_model_has_an_endpoint_and_a_price_for_short_requests_if_any() -> None:
    catalogue = read_catalogue()
    for model in catalogue.models.values():
        assert model.endpoint in catalogue.endpoints
        assert model.output <= model.context
        assert not model.usd or model.usd[0].above == 0


def test_a_model_that_is_not_listed_works_with_defaults_and_has_no_price() -> None:
    found = find("openai:newest", read_catalogue())
    assert found is not None and not found.known and found.model.context == 128_000
    spent = found.spent(100, 900, 0, 10)
    assert spent.unpriced and spent.usd == 0 and spent.input_tokens == 1000


def test_a_server_of_ones_own_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_API_KEY", raising=False)
    found = find("ollama:qwen3:8b", read_catalogue())
    assert found is not None and found.key() == "none" and found.model.model == "qwen3:8b"
    assert not found.spent(100, 0, 0, 10).unpriced and found.spent(100, 0, 0, 10).usd == 0


def test_a_long_request_has_the_price_of_long_ones() -> None:
    found = find("claude-haiku-5.5", read_catalogue())
    assert found is not None
    assert found.spent(100_000, 0, 0, 1000).usd == pytest.approx((100_000 * 0.1 + 1000 * 0.5) / 1e6)
    assert found.spent(1, 100_000, 0, 1000).usd == pytest.approx((1 * 0.5 + 100_000 * 0.05 + 1000 * 2.5) / 1e6)


def test_an_operators_file_comes_on_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(
        "endpoints: {our-gpu.1: {protocol: openai, url: 'http://gpu/v1', own: true}}\n"
        "models:\n"
        "  strong: {endpoint: our-gpu.1, model: big, context: 9000, output: 500}\n"
        "  gpt-4o: {endpoint: openai, model: gpt-4o, usd: [{input: 1, output: 2}]}\n"
        "  ours: {endpoint: anthropic, model: claude-opus-5-5, usd: [{input: 7, output: 7}]}\n"
    )
    strong = make_core("strong", file)
    assert isinstance(strong, EndpointCore)
    assert (strong.name, strong.max_output, strong.listing.url) == ("our-gpu.1:big", 500, "http://gpu/v1")
    monkeypatch.setenv("OUR_GPU_1_BASE_URL", "http://other/v1")
    assert strong.listing.url == "http://other/v1"
    mine = make_core("gpt-4o", file)
    assert isinstance(mine, EndpointCore) and mine.listing.spent(1_000_000, 0, 0, 1_000_000).usd == 3
    same = make_core("anthropic:claude-opus-5-5", file)
    assert isinstance(same, EndpointCore) and same.listing.model.usd[0].input == 7
    assert make_core("claude-3.7-sonnet", file).name == "anthropic:claude-3-7-sonnet-20250219"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "cannot be read"),
        ("models: [", "is no YAML"),
        ("models: {a: {endpoint: openai}}", r"models\.a\.model: Field required"),
        ("models: {a: {endpoint: openai, model: b, price: 3}}", r"models\.a\.price"),
        ("models: {a: {endpoint: nowhere, model: b}}", "'nowhere' of a is none of anthropic"),
        ("endpoints: {e: {protocol: grpc, url: x}}", r"endpoints\.e\.protocol"),
    ],
)
def test_an_operators_file_with_a_mistake_is_told_where(text: str | None, says: str, tmp_path: Path) -> None:
    file = tmp_path / "models.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UserError, match=says) as caught:
        make_core("gpt-4o", file)
    assert "\n" not in str(caught.value) and str(file) in str(caught.value)


def test_a_core_a_role() -> None:
    assert set(cores("playbook").values()) == {"playbook"}
    assert cores("strong, task_manager=small,model_trainer=openai:a:b") == {
        "task_manager": "small", "data_engineer": "strong", "module_architect": "strong", "model_trainer": "openai:a:b",
    }  # fmt: skip
    assert set(cores("scripted:/a,b=c").values()) == {"scripted:/a,b=c"}


@pytest.mark.parametrize(("spec", "says"), [("a,nurse=b", "no role"), ("task_manager=b", "without a core")])
def test_a_core_for_nobody_or_too_few_is_refused(spec: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        cores(spec)
