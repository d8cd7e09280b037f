from teamwright.values.limits import (
    Spend as Spend,
    SpendForecast as SpendForecast,
)
from teamwright.values.people import (
    ActionClaim as ActionClaim,
    AddMember as AddMember,
    Answered as Answered,
    Cancel as Cancel,
    EditPlan as EditPlan,
    Intervention as Intervention,
    Mark as Mark,
    Notify as Notify,
    Pause as Pause,
    PauseMember as PauseMember,
    Question as Question,
    RaiseBudget as RaiseBudget,
    RemoveMember as RemoveMember,
    RestorePlan as RestorePlan,
    ResumeMember as ResumeMember,
    StopStep as StopStep,
    Tell as Tell,
    Undo as Undo,
)
