"""The members of a team that people change while it works: who is there now, and who has left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from teamwright.agents.contract.agent import Agent, AppliedChange
from teamwright.errors import nearest
from teamwright.strategies.protocol import Members
from teamwright.values.people import AddMember, RemoveMember, TeamChange, Tell


class LiveMembers(Sequence[Agent]):
    """The present members in order, and the names of those who left. At least one stays."""

    def __init__(self, members: Members) -> None:
        self._present: list[Agent] = list(members)
        self.left: list[str] = []

    @property
    def names(self) -> list[str]:
        """The names of the present members."""
        return [member.name for member in self._present]

    def named(self, name: str) -> Agent:
        """Return the present member with this name."""
        return self._present[self.names.index(name)]

    def apply(self, applied: AppliedChange) -> str | None:
        """Add or remove a member, or return why that is impossible; anything else changes nothing here."""
        change = applied.change
        if (problem := self.problem(change)) is not None:
            return problem
        if isinstance(change, AddMember):
            self._present.append(cast("Agent", applied.agent))
        elif isinstance(change, RemoveMember):
            self._present = [one for one in self._present if one.name != change.member]
            self.left.append(change.member)
        return None

    def problem(self, change: TeamChange | Tell) -> str | None:
        """Return why a member can't be added or removed now, if it is so."""
        names = self.names
        match change:
            case AddMember(member=name) if name in names:
                return f"there is already a member {name!r}"
            case AddMember(member=name) if name in self.left:
                return f"{name!r} has left, and its work keeps the name; choose another one"
            case RemoveMember(member=name) if name not in names:
                return f"there is no member {name!r}; {nearest(name, names).rstrip('.')}"
            case RemoveMember(member=name) if len(names) == 1:
                return f"{name!r} is the last member"
            case _:
                return None

    def __getitem__(self, index: int) -> Agent:  # pyright: ignore[reportIncompatibleMethodOverride] - no slices
        return self._present[index]

    def __len__(self) -> int:
        return len(self._present)
