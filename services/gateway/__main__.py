import sys

from services.gateway.server import run
from shared.service import serve
from shared.settings import Settings

if __name__ == "__main__":
    sys.exit(serve("gateway", Settings(), run, ready_at_once=False))
