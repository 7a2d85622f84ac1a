"""Which endpoints and models there are and what they cost: `models.yaml`, and an operator's file on top of it."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field, ValidationError

from shared.contracts.base import Contract, Spent
from shared.errors import UserError

_BUILT_IN = Path(__file__).with_name("models.yaml")
_ONE_MILLION = 1e6


class Price(Contract):
    """US dollars a million tokens, in requests of more than `above` input tokens."""

    above: int = 0
    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    """For what is read from the endpoint's cache; as `input` where it is not given, and so is `written`."""
    written: float | None = Field(default=None, ge=0)

    def __str__(self) -> str:
        above = f"above {self.above:,}: " if self.above else ""
        cached = f", {self.cached:g} from the cache" if self.cached is not None else ""
        return f"{above}{self.input:g} in{cached}, {self.output:g} out (USD a million tokens)"


class Endpoint(Contract):
    protocol: Literal["anthropic", "openai"]
    url: str
    own: bool = False
    """A server of the operator: it wants no key and, where no price is given, no money."""
    inside: bool = False
    """Within the hospital: it is told names and texts of the data as they are. To others they become surrogates."""
    pixels: bool = False
    """An endpoint outside may be shown pictures, too; one inside may always."""
    limit: Literal["", "max_tokens", "max_completion_tokens"] = ""
    """The field of the protocol `openai` that carries the output limit; servers disagree, so most are sent none."""


class Model(Contract):
    endpoint: str
    model: str = Field(min_length=1)
    """Its name at the endpoint."""
    context: int = Field(default=128_000, gt=0)
    output: int = Field(default=8192, gt=0)
    """Tokens that a request with its reply, and a reply, may have."""
    vision: bool | None = None
    """None where nobody said."""
    usd: tuple[Price, ...] = ()
    """By size of the request; empty where the price is not known."""


class Catalogue(Contract):
    endpoints: dict[str, Endpoint] = {}
    models: dict[str, Model] = {}


@dataclass(frozen=True)
class Listing:
    """A model at its endpoint, as a core names them."""

    place: str
    """Name of the endpoint."""
    endpoint: Endpoint
    model: Model
    known: bool
    """False for a model that works with the defaults."""

    @property
    def name(self) -> str:
        return f"{self.place}:{self.model.model}"

    def variable(self, what: Literal["API_KEY", "AUTH_TOKEN", "BASE_URL"]) -> str:
        return f"{''.join(c if c.isalnum() else '_' for c in self.place.upper())}_{what}"

    @property
    def url(self) -> str:
        return os.environ.get(self.variable("BASE_URL")) or self.endpoint.url

    @property
    def address(self) -> str:
        """To be shown: the URL without what may be secret in it."""
        return re.sub(r"//[^/@]*@", "//", self.url).partition("?")[0]

    def key(self) -> str:
        """Raises UserError where none is set, unless the address is: a server of one's own may want none."""
        found = os.environ.get(self.variable("API_KEY")) or os.environ.get(self.variable("AUTH_TOKEN"))
        if found or self.endpoint.own or os.environ.get(self.variable("BASE_URL")):
            return found or "none"
        raise UserError(
            f"The core {self.name} needs {self.variable('API_KEY')} (or {self.variable('BASE_URL')} for an endpoint of "
            "your own) in the environment of `m3builder up`. Set it, run `m3builder down` and `m3builder up`, or use "
            "the core `playbook`, which needs no account."
        )

    @property
    def blind(self) -> str:
        """Why the model is shown no pictures; empty where it is."""
        if not self.model.vision:
            told = "reads no pictures" if self.model.vision is False else "is not known to read pictures"
            return f"{self.model.model} {told} (`vision` in M3_MODELS_FILE)"
        if not (self.endpoint.inside or self.endpoint.pixels):
            return f"the endpoint {self.place} is outside and the operator allows it no pixels"
        return ""

    @property
    def priced(self) -> bool:
        return self.endpoint.own or bool(self.model.usd)

    def spent(self, fresh: int, cached: int, written: int, output: int, estimated: bool = False) -> Spent:
        """The bill of one reply, from tokens. `fresh` input neither came from the cache nor went there."""
        total = fresh + cached + written
        usd = 0.0
        if self.model.usd:
            fitting = (one for one in self.model.usd if one.above < total)
            price = max(fitting, key=lambda one: one.above, default=self.model.usd[0])
            usd += fresh * price.input + output * price.output
            usd += cached * (price.input if price.cached is None else price.cached)
            usd += written * (price.input if price.written is None else price.written)
        return Spent(
            input_tokens=total,
            cached_tokens=cached,
            output_tokens=output,
            tokens_estimated=estimated,
            usd=usd / _ONE_MILLION,
            unpriced=not self.priced,
        )


def read_catalogue(own: Path | None = None) -> Catalogue:
    """What is built in, with the entries of the operator's file in place of those with their names.

    Raises UserError for a file that cannot be read or says something else than endpoints and models.
    """
    built_in = _read(_BUILT_IN)
    if own is None:
        return built_in
    more = _read(own)
    both = Catalogue(endpoints=built_in.endpoints | more.endpoints, models=built_in.models | more.models)
    for name, model in more.models.items():
        if model.endpoint not in both.endpoints:
            raise UserError(f"{own}: the endpoint {model.endpoint!r} of {name} is none of {', '.join(both.endpoints)}")
    return both


def find(spec: str, catalogue: Catalogue) -> Listing | None:
    """The model that a core names, by its name in the catalogue or as `endpoint:model`; None where it is neither."""
    if model := catalogue.models.get(spec):
        return Listing(model.endpoint, catalogue.endpoints[model.endpoint], model, known=True)
    place, _, name = spec.partition(":")
    if place not in catalogue.endpoints or not name:
        return None
    same = [one for one in catalogue.models.values() if (one.endpoint, one.model) == (place, name)]
    listed = same[-1] if same else None  # an operator's own come last
    return Listing(place, catalogue.endpoints[place], listed or Model(endpoint=place, model=name), known=bool(same))


def _read(path: Path) -> Catalogue:
    try:
        return Catalogue.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"M3_MODELS_FILE {path} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise UserError(f"M3_MODELS_FILE {path} is no YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"M3_MODELS_FILE {path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
