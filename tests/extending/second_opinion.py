"""A preset of plans: the lead may give a step to two members who compete, and finishes where it fails."""

from teamwright.strategies import PlanStrategy, options_with


class SecondOpinion(PlanStrategy):
    """Settings of the plan engine under a name; a manifest can change each of them."""

    name = "second_opinion"
    options = options_with(
        "SecondOpinionOptions",
        answer="lead",
        timeout=900.0,
        shared_steps=True,
        revisions=1,
        on_failure=("adjust", "upgrade_model", "finish"),
    )
