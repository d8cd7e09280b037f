from teamwright.cluster.placement import WorkerPlacement as WorkerPlacement
from teamwright.cluster.redis_transport import RedisTransport as RedisTransport
from teamwright.cluster.shared_limits import ClusterLimits as ClusterLimits
