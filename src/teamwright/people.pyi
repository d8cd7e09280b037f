from teamwright.values.limits import (
    Spend as Spend,
    SpendForecast as SpendForecast,
)
from teamwright.values.people import (
    Cancel as Cancel,
    Intervention as Intervention,
    Notify as Notify,
    Pause as Pause,
    Question as Question,
    TeamChange as TeamChange,
    Tell as Tell,
)
