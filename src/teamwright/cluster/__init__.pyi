from teamwright.cluster.limits import ClusterLimits as ClusterLimits
from teamwright.cluster.placement import WorkerPlacement as WorkerPlacement
from teamwright.cluster.redis_transport import RedisTransport as RedisTransport
