"""Write schemas for `kubeconform -strict`: `python deploy/kubernetes_schemas.py FOLDER FILE...`.

FILE is Kubernetes' own description, `api/openapi-spec/swagger.json` of the Go module k8s.io/kubernetes, or a
CustomResourceDefinition as YAML, such as `config/crd/bases/*.yaml` of github.com/kedacore/keda/v2 and
`config/crd/standard/*.yaml` of sigs.k8s.io/gateway-api.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Schema = dict[str, Any]


def strict(schema: Any) -> Any:
    """The schema without room for fields that it does not name, and with the types that JSON Schema does not know."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return {"type": ["string", "integer"]}
    made = {key: strict(value) for key, value in schema.items() if not key.startswith("x-")}
    if (
        "properties" in made
        and "additionalProperties" not in made
        and not schema.get("x-kubernetes-preserve-unknown-fields")
    ):
        made["additionalProperties"] = False
    return made


def schemas(file: Path) -> Iterator[tuple[str, Schema]]:
    """Name of the file that kubeconform looks for, and what it holds, for every kind that `file` describes."""
    if file.suffix == ".json":
        definitions = json.loads(file.read_text())["definitions"]
        definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"type": ["string", "number"]}
        known = strict(definitions)
        for name, one in definitions.items():
            for kind in one.get("x-kubernetes-group-version-kind", []):
                needed = {part: known[part] for part in _needed(name, known)}
                schema = {"$ref": f"#/definitions/{name}", "definitions": needed}
                yield _name(kind["group"], kind["version"], kind["kind"]), schema
        return
    for crd in yaml.safe_load_all(file.read_text()):
        if crd and crd["kind"] == "CustomResourceDefinition":
            for version in crd["spec"]["versions"]:
                made = strict(version["schema"]["openAPIV3Schema"])
                yield _name(crd["spec"]["group"], version["name"], crd["spec"]["names"]["kind"]), made


def _needed(name: str, known: dict[str, Schema]) -> set[str]:
    """The definitions that one refers to, directly or through others, and itself."""
    found, waiting = {name}, [name]
    while waiting:
        refs = set(re.findall(r'"#/definitions/([^"]+)"', json.dumps(known[waiting.pop()])))
        waiting += refs - found
        found |= refs
    return found


def _name(group: str, version: str, kind: str) -> str:
    first = group.partition(".")[0]
    return f"{kind}{f'-{first}' if first else ''}-{version}.json".lower()


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for file in map(Path, sys.argv[2:]):
        for name, schema in schemas(file):
            (folder / name).write_text(json.dumps(schema))


if __name__ == "__main__":
    main()
