"""Writes docs/EVENTS.md and the state machines in ARCHITECTURE.md.

Of the events, the text is the comments of the schema: `gen-docs` pipes a buf image in (a
FileDescriptorSet with source info). The machines are the tables of core/transitions.py, drawn between
two markers. With --check nothing is written, and the exit code is 1 when a committed file differs.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

from trainstate.core.model import AttemptStatus, ReplicaGroupStatus, Status
from trainstate.core.transitions import MOVES, TARGETS

EVENTS = Path("docs/EVENTS.md")
ARCHITECTURE = Path("ARCHITECTURE.md")
BEGIN, END = "<!-- machines:begin -->", "<!-- machines:end -->"
# Field numbers in descriptor.proto: the steps of a SourceCodeInfo path.
MESSAGE, FIELD, ENUM, ENUM_VALUE = 4, 2, 5, 2

# What moves a machine without an entry in TARGETS: it carries its target, or moves another as well.
ALSO: list[tuple[str, type[Status], str]] = [
    ("attempt_ended", AttemptStatus, "FINISHED, ERRORED or ABORTED"),
    ("attempt_planned", ReplicaGroupStatus, "RUNNING"),
    ("attempt_ended", ReplicaGroupStatus, "ENDED"),
]

HEAD = """\
# Events

Made from the comments in `proto/trainstate/v1` by `scripts/gen-docs`; do not edit.

An event is one fact of a training run, in the past tense. A field that is not set has its type's
zero value; one marked optional knows absent from zero. What a reader does not know, field or payload,
survives its read and rewrite byte for byte.
"""


class Schema:
    """The messages and enums of an image by full name, and the comment of each part by path."""

    def __init__(self, image: FileDescriptorSet) -> None:
        self.comments: dict[tuple[str, ...], str] = {}
        self.messages: dict[str, Any] = {}
        self.enums: dict[str, Any] = {}
        for file in image.file:
            places = file.source_code_info.location
            comments = {tuple(place.path): place.leading_comments for place in places}
            for i, message in enumerate(file.message_type):
                self.messages[message.name] = message
                self._note(comments, (MESSAGE, i), message, FIELD, message.field)
            for i, enum in enumerate(file.enum_type):
                self.enums[enum.name] = enum
                self._note(comments, (ENUM, i), enum, ENUM_VALUE, enum.value)

    def _note(self, comments: Any, path: Any, parent: Any, step: int, children: Any) -> None:
        self.comments[parent.name,] = one_line(comments.get(path, ""))
        for i, child in enumerate(children):
            self.comments[parent.name, child.name] = one_line(comments.get((*path, step, i), ""))


def one_line(comment: str) -> str:
    return " ".join(comment.split())


def type_name(field: FieldDescriptorProto) -> str:
    """`repeated Version`, `optional double`, linked to its own section when it is one of ours."""
    kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    if field.type_name:
        name = field.type_name.rpartition(".")[2]
        kind = f"[{name}](#{name.lower()})"
    repeated = field.label == FieldDescriptorProto.LABEL_REPEATED
    return "repeated " * repeated + "optional " * field.proto3_optional + kind


def section(schema: Schema, name: str) -> Iterator[str]:
    """One message or enum: its comment and its parts."""
    yield from ("", f"### {name}", "")
    if comment := schema.comments[name,]:
        yield from (comment, "")
    if name in schema.enums:
        yield ", ".join(f"`{value.name}` = {value.number}" for value in schema.enums[name].value)
        return
    # The payloads have sections of their own.
    fields = [field for field in schema.messages[name].field if not is_payload(name, field)]
    if not fields:
        yield "No fields."
        return
    yield from ("| number | field | type | |", "|---|---|---|---|")
    for field in fields:
        comment = schema.comments[name, field.name]
        yield f"| {field.number} | `{field.name}` | {type_name(field)} | {comment} |"


def is_payload(message: str, field: FieldDescriptorProto) -> bool:
    return message == "Event" and field.HasField("oneof_index")


def payloads(schema: Schema) -> dict[str, list[str]]:
    """Family -> messages, in schema order; the comment "Run. 16-" opens the family "Run"."""
    found: dict[str, list[str]] = {}
    for field in schema.messages["Event"].field:
        if not is_payload("Event", field):
            continue
        if opens := re.match(r"([\w ]+)\. \d+-", schema.comments["Event", field.name]):
            family = found.setdefault(opens[1], [])
        family.append(field.type_name.rpartition(".")[2])
    return found


def used_by(schema: Schema, names: list[str]) -> list[str]:
    """The messages and enums that `names` lead to, each once, in the order of the schema."""
    seen: set[str] = set(names)
    queue = list(names)
    while queue:
        for field in getattr(schema.messages.get(queue.pop()), "field", ()):
            name = field.type_name.rpartition(".")[2]
            if name and name not in seen:
                seen.add(name)
                queue.append(name)
    return [name for name in (*schema.messages, *schema.enums) if name in seen - set(names)]


def render(schema: Schema) -> str:
    """The whole page."""
    families = payloads(schema)
    lines = [HEAD.rstrip(), "", "## Envelope", *section(schema, "Event")]
    for family, names in families.items():
        lines += ["", f"## {family}"]
        for name in names:
            lines += section(schema, name)
    lines += ["", "## What they are made of"]
    for name in used_by(schema, [name for names in families.values() for name in names]):
        lines += section(schema, name)
    return "\n".join(lines) + "\n"


def machine_name(machine: type[Status]) -> str:
    """`ReplicaGroupStatus` -> `Replica group`."""
    words = re.findall("[A-Z][a-z]+", machine.__name__.removesuffix("Status"))
    return " ".join(words).capitalize()


def diagram(machine: type[Status]) -> Iterator[str]:
    """A machine as a mermaid diagram: UNSPECIFIED is the start, a terminal state leads to the end."""
    yield from ("", f"### {machine_name(machine)}", "", "```mermaid", "stateDiagram-v2")
    for state, exits in MOVES[machine].items():
        name = state.name if state else "[*]"
        yield from (f"    {name} --> {target.name}" for target in sorted(exits))
        if state.is_terminal:
            yield f"    {name} --> [*]"
    yield "```"


def machines() -> str:
    """The region between the markers, with them."""
    made = "Made from `trainstate/core/transitions.py` by `scripts/gen-docs`; do not edit."
    lines = [BEGIN, "", made]
    for machine in MOVES:
        lines += diagram(machine)
    moved = [(payload, type(target), target.name) for payload, target in TARGETS.items()]
    lines += ["", "### What moves them", "", "| machine | payload | to |", "|---|---|---|"]
    for payload, machine, target in sorted([*moved, *ALSO], key=lambda row: [*MOVES].index(row[1])):
        lines.append(f"| {machine_name(machine).lower()} | `{payload}` | {target} |")
    return "\n".join([*lines, "", END])


def architecture(page: str) -> str:
    """The page with its region of machines as the tables are now."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{ARCHITECTURE} has no region from {BEGIN} to {END}")
    return before + machines() + after


def differences(path: Path, text: str) -> list[str]:
    committed = path.read_text().splitlines()
    return [*difflib.unified_diff(committed, text.splitlines(), str(path), "now", lineterm="")]


def main(arguments: list[str]) -> int:
    schema = Schema(FileDescriptorSet.FromString(sys.stdin.buffer.read()))
    pages = {EVENTS: render(schema), ARCHITECTURE: architecture(ARCHITECTURE.read_text())}
    if arguments != ["--check"]:
        for path, text in pages.items():
            path.write_text(text)
        return 0
    changes = [line for path, text in pages.items() for line in differences(path, text)]
    print("\n".join(changes), end="\n" * bool(changes))
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
