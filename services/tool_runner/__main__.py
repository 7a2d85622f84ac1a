import os
from pathlib import Path

import services
from shared.settings import Settings


def main() -> int:
    settings = Settings()
    if os.geteuid() == 0:
        from services.tool_runner.sandbox import drop_root

        keep = [settings.home / "runner", Path(services.__file__).parents[1], *settings.data_roots]
        if settings.ready_file:
            keep.append(settings.ready_file.parent)
        drop_root(settings.runner_uid, keep)
    from services.tool_runner.runner import run
    from shared.service import serve

    return serve("tool_runner", settings, run, ready_at_once=False)


if __name__ == "__main__":
    raise SystemExit(main())
