import sys

from services.gateway.server import run
from shared.service import serve
from shared.settings import from_environment

if __name__ == "__main__":
    sys.exit(serve("gateway", from_environment(), run, ready_at_once=False))
