"""The settings of a run in the trainer's own arguments, as plain Python, and back (rows A3.2, 3-02).

    {"train_loop_config": {...}, "scaling_config": {"num_workers": (2, 4), ...}, ...}

By the schema: a field is a key, a oneof is the key of its name with the value that is set, and what has
presence and is not set is absent. The messages that stand for a Python type are in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from google.protobuf.message import Message

from trainstate.core.values import from_map, to_map
from trainstate.v1 import state_pb2 as s


class _Type(NamedTuple):
    """How a message stands for a Python value, and how it is made of one."""

    dump: Callable[[Any], Any]
    load: Callable[[Any], Message]


def _resources(amounts: Mapping[str, float]) -> s.ResourceSet:
    made = (s.Resource(name=name, amount=amount) for name, amount in amounts.items())
    return s.ResourceSet(resources=made)


def _labels(selector: Mapping[str, str]) -> s.LabelSelector:
    return s.LabelSelector(labels=[s.Label(key=key, value=one) for key, one in selector.items()])


def _labels_of(selector: s.LabelSelector) -> dict[str, str]:
    return {one.key: one.value for one in selector.labels}


_TYPES: Mapping[str, _Type] = {
    "ValueMap": _Type(from_map, to_map),
    "ResourceSet": _Type(
        lambda found: {one.name: one.amount for one in found.resources}, _resources
    ),
    "LabelSelector": _Type(_labels_of, _labels),
    "LabelSelectorList": _Type(
        lambda found: [_labels_of(one) for one in found.selectors],
        lambda many: s.LabelSelectorList(selectors=map(_labels, many)),
    ),
    "WorkerRange": _Type(
        lambda found: (found.min, found.max),
        lambda between: s.WorkerRange(min=between[0], max=between[1]),
    ),
    "AllDatasets": _Type(lambda _: "all", lambda _: s.AllDatasets()),
    "DatasetNames": _Type(
        lambda found: list(found.names), lambda names: s.DatasetNames(names=names)
    ),
}
# Which field of a oneof a value is for.
_CHOICES: Mapping[str, Callable[[Any], str]] = {
    "num_workers": lambda n: "num_workers_fixed" if isinstance(n, int) else "num_workers_range",
    "label_selector": lambda one: (
        "label_selector_single" if isinstance(one, Mapping) else "label_selector_list"
    ),
    "datasets_to_split": lambda split: "all" if split == "all" else "datasets",
}
_SCALARS = (str, bytes, int, float)
_PREFIXES = {"TrainingFramework": "TRAINING_FRAMEWORK_", "ScoreOrder": "SCORE_ORDER_"}


def model_of(message: Message) -> dict[str, Any]:
    """A message of the settings in the trainer's terms; what is not set is absent."""
    fields = message.DESCRIPTOR.fields
    shown = (one for one in fields if not one.has_presence or message.HasField(one.name))
    return {_key(one): _dumped(one, getattr(message, one.name)) for one in shown}


def settings_from(model: Mapping[str, Any], kind: type[Message] = s.RunSettings) -> Any:
    """The RunSettings (or the part of it) that `model_of` gives back; None is as if it were not there.

    Raises ValueError for a key that is none of ours, TypeError and ValueError for what does not fit.
    """
    message = kind()
    if not isinstance(model, Mapping):
        raise TypeError(f"{kind.DESCRIPTOR.name} is made of no {type(model).__name__}: {model!r}")
    for key, value in model.items():
        if value is None:
            continue
        name = _CHOICES[key](value) if key in _CHOICES else key
        if name not in message.DESCRIPTOR.fields_by_name:
            raise ValueError(f"{kind.DESCRIPTOR.name} has no {key!r}")
        _load(message, message.DESCRIPTOR.fields_by_name[name], value)
    return message


def _key(field: Any) -> str:
    union = field.containing_oneof
    # The oneof that the compiler makes of an `optional` field has an underscore in front.
    alone = union is None or union.name.startswith("_")
    return str(field.name if alone else union.name)


def _dumped(field: Any, value: Any) -> Any:
    if field.name == "per_dataset":
        return {one.dataset: model_of(one.options) for one in value}
    if field.message_type is not None:
        known = _TYPES.get(field.message_type.name)
        return known.dump(value) if known else model_of(value)
    if field.enum_type is not None:
        return _name_of(field, value)
    return value if isinstance(value, _SCALARS) else list(value)


def _load(message: Any, field: Any, value: Any) -> None:
    if field.name == "per_dataset":
        for name, options in value.items():
            message.per_dataset.add(
                dataset=name, options=settings_from(options, s.ExecutionOptions)
            )
    elif field.message_type is not None:
        known, part = _TYPES.get(field.message_type.name), getattr(message, field.name)
        part.CopyFrom(known.load(value) if known else settings_from(value, type(part)))
        part.SetInParent()
    elif field.enum_type is not None:
        setattr(message, field.name, _number_of(field, value))
    elif isinstance(getattr(message, field.name), _SCALARS):
        setattr(message, field.name, value)
    elif isinstance(value, str):
        raise TypeError(f"{field.name} is a text, not several: {value!r}")
    else:
        getattr(message, field.name).extend(value)


def _name_of(field: Any, number: int) -> str | int | None:
    """ "torch", "max"; None for the zero; the number where only a newer version knows the name."""
    found = field.enum_type.values_by_number.get(number)
    prefix = _PREFIXES[field.enum_type.name]
    return None if not number else found.name.removeprefix(prefix).lower() if found else number


def _number_of(field: Any, name: str | int) -> int:
    if isinstance(name, int):
        return name
    known = field.enum_type.values_by_name.get(_PREFIXES[field.enum_type.name] + name.upper())
    if known is None:
        raise ValueError(f"{field.name} is none that is known: {name!r}")
    return int(known.number)
