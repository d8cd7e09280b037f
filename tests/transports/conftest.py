from tests.kit.redis import redis_url, shared_redis

__all__ = ["redis_url", "shared_redis"]
