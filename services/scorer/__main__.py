from services.scorer.service import Scorer
from shared.service import Context, serve
from shared.settings import from_environment


async def run(context: Context) -> None:
    scorer = Scorer(context.bus, context.store, context.settings.left_out_bound)
    # Scoring is CPU work in threads: more at a time than this only makes each of them slower.
    await context.bus.listen("scorer", scorer.handle, 2, context.stop, on_dead=scorer.dead)


if __name__ == "__main__":
    raise SystemExit(serve("scorer", from_environment(), run))
