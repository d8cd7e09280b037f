from teamwright.history.diff import compare as compare
from teamwright.history.kpis import (
    check_gates as check_gates,
    read_gates as read_gates,
    read_kpis as read_kpis,
    side_by_side as side_by_side,
)
from teamwright.history.run_history import RunHistory as RunHistory
