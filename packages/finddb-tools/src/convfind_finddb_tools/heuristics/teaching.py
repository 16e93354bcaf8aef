"""`Teaching`: large networks that teach small ones, one for each data type."""

from __future__ import annotations

from dataclasses import dataclass, replace

from convfind_finddb_tools.heuristics.aim import FIRST
from convfind_finddb_tools.heuristics.perceptrons import Form

_TEACHER = Form(hidden=(384, 256), dropout=0.12, decay=0.6, members=24, is_fine=True)
_STUDENT = Form(hidden=(176, 112), dropout=0.0, decay=0.1, is_fine=True, aim=FIRST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Teaching:
    """How networks are taught; the defaults worked best on MIOpen's databases.

    Teachers are too slow for a query. Their mean labels the measured problems and derived
    ones, as many as the students need to come close to it. Teachers that aim at the choice are
    better at it, the others at the times.
    """

    teachers: tuple[Form, ...] = (_TEACHER, replace(_TEACHER, aim=FIRST))
    student: Form = _STUDENT
    fewest: int = 1500  # problems from which on there are teachers
    apart: int = 400  # problems of a data type that get a student of their own
    made: int = 320_000  # problems that the teachers are asked about besides the measured ones
    steps: int = 180  # of an epoch of the students

    @classmethod
    def by(cls, teachers: int) -> Teaching | None:
        """Return the teaching by so many teachers of each form; None without any."""
        if not teachers:
            return None
        teaching = cls()
        forms = (replace(form, members=teachers) for form in teaching.teachers)
        return replace(teaching, teachers=tuple(forms))
