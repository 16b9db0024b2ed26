"""What each role may do. The pages, the routes and the docs follow this table."""

from typing import Literal, NamedTuple

Role = Literal["admin", "member", "visitor"]
Reach = Literal["all", "own", "none"]  # everything of this kind; only what the person owns; nothing
Action = Literal[
    "view",
    "queue",
    "change",
    "delete",
    "analyze",
    "import",
    "upload",
    "download",
    "teach",
    "steer",
    "answer",
    "views",
    "paths",
    "audit",
]


class Row(NamedTuple):
    """``what`` completes "may ..."."""

    what: str
    admin: Reach
    member: Reach
    visitor: Reach


TABLE: dict[Action, Row] = {
    "view": Row("see all runs, turn dials, and download figures, tables and results", "all", "all", "all"),
    "queue": Row("queue experiments, presets and the demo", "all", "all", "none"),
    "change": Row(
        "cancel, pause, resume, reorder, rerun, retry, archive and rename runs, and edit notes and tags",
        "all",
        "own",
        "none",
    ),
    "delete": Row("delete and restore runs, and delete models and uploaded files", "all", "own", "none"),
    "analyze": Row("request, repeat and cancel analyses of runs", "all", "own", "none"),
    "import": Row("import exported runs, and load the examples", "all", "all", "none"),
    "upload": Row("upload data", "all", "all", "none"),
    "download": Row("have the server download a data set", "all", "all", "none"),
    "teach": Row("open a room for a class", "all", "all", "none"),
    "steer": Row("lead and close a room", "own", "own", "none"),
    "answer": Row("join a room, be counted there, and answer its questions", "all", "all", "none"),
    "views": Row("save and delete views of the Library, which everyone sees", "all", "none", "none"),
    "paths": Row("use files of the server that were not uploaded", "all", "none", "none"),
    "audit": Row("read the audit log", "all", "none", "none"),
}


def reach(role: Role, action: Action) -> Reach:
    """Whether ``role`` may do this with everything, with its own things, or not at all."""
    row = TABLE[action]
    return {"admin": row.admin, "member": row.member, "visitor": row.visitor}[role]
