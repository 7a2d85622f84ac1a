"""Write the NATS users of a cluster from the one table of rights: `python -m deploy.nats_users`.

`helm/m3builder/files/nats-users.conf` is for the chart's trial server, `deploy/nats/users.yaml` for the official chart,
on top of the `values.yaml` beside it. Passwords are variables there, which come out of a secret; none is written.
"""

import json
import re
from pathlib import Path

from shared.bus.rights import users
from shared.contracts.base import SERVICES

HERE = Path(__file__).resolve().parent
CONF = HERE.parent / "helm" / "m3builder" / "files" / "nats-users.conf"
VALUES = HERE / "nats" / "users.yaml"
OPERATOR = "m3builder"


def conf() -> str:
    """The `authorization` block of a nats-server, which takes the passwords from its environment."""
    block = users((OPERATOR, "$M3_PASSWORD_operator"), {name: f"$M3_PASSWORD_{name}" for name in SERVICES})
    return re.sub(r'"password": "(\$\w+)"', r'"password": \1', block)


def values() -> str:
    """The same as values of the official chart, which writes what stands in << >> without quotes."""
    block = users((OPERATOR, "<< $M3_PASSWORD_operator >>"), {name: f"<< $M3_PASSWORD_{name} >>" for name in SERVICES})
    authorization = json.loads(block.removeprefix("authorization "))
    keys = {"operator": OPERATOR} | {name: name for name in SERVICES}
    secret = {user: {"name": "m3builder-nats", "key": key} for user, key in keys.items()}
    env = {f"M3_PASSWORD_{user}": {"valueFrom": {"secretKeyRef": one}} for user, one in secret.items()}
    made = {"config": {"merge": {"authorization": authorization}}, "container": {"env": env}}
    # JSON is YAML, and needs no quoting rules of its own.
    return f"# Written by `python -m deploy.nats_users` from shared/bus/rights.py.\n{json.dumps(made, indent=1)}\n"


def main() -> None:
    CONF.write_text(conf())
    VALUES.write_text(values())


if __name__ == "__main__":
    main()
