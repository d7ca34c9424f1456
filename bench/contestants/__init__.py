"""The contestants, in the order of the tables."""

from bench.contestants import celery_redis
from bench.contestants.bullmq import BullMq
from bench.contestants.firebase_async import FirebaseAsync
from bench.contract import Contestant

CONTESTANTS: tuple[Contestant, ...] = (
    BullMq(),
    FirebaseAsync(),
    celery_redis.PREFORK,
    celery_redis.THREADS,
)
