"""The contestants, in the order of the tables."""

from bench.contestants import celery_redis
from bench.contestants.bullmq import BULLMQ, BULLMQ_APPEND_ONLY, BULLMQ_PER_CORE
from bench.contestants.firebase_async import FirebaseAsync
from bench.contestants.tocsin import Tocsin
from bench.contract import Contestant

CONTESTANTS: tuple[Contestant, ...] = (
    Tocsin(),
    BULLMQ,
    BULLMQ_PER_CORE,
    BULLMQ_APPEND_ONLY,
    FirebaseAsync(),
    celery_redis.PREFORK,
    celery_redis.THREADS,
)
