"""Many machines: runs are queued in Postgres, and workers on any machine drive them; the extra `cluster`.

The package is optional: its commands import it when they are called. Names load on first use.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.cluster.limits import ClusterLimits
    from teamwright.cluster.placement import WorkerPlacement
    from teamwright.cluster.redis_transport import RedisTransport

__all__ = ["ClusterLimits", "RedisTransport", "WorkerPlacement"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.cluster.limits": "ClusterLimits",
        "teamwright.cluster.placement": "WorkerPlacement",
        "teamwright.cluster.redis_transport": "RedisTransport",
    },
)
