"""What people and a run send each other: questions, answers, approvals, interventions."""
