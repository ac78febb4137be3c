"""The storage format: a sample for each code. If one of these fails, old checkpoints can no longer be read."""

import collections
import datetime as dt
import decimal
import enum
import fractions
import ipaddress
import pathlib
import re
import uuid
import zoneinfo
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from pydantic import BaseModel

from phalanx.channels.delta import DeltaSnapshot
from phalanx.checkpoint.serde import Serializer, TypeRegistry, codecs
from phalanx.types import Command, Interrupt, Overwrite, Send


@dataclass
class Invoice:
    number: int
    lines: tuple[str, ...]


class Color(enum.Enum):
    RED = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: int


class Model(BaseModel, extra="allow"):
    number: int


class UserId(str):
    pass


registry = TypeRegistry()
for cls, name in ((Invoice, "Invoice"), (Color, "Color"), (Point, "Point"), (Model, "Model"), (UserId, "UserId")):
    registry.register(cls, name)
registry.register(Access, "Access")
serializer = Serializer(registry)

MODEL = Model.model_validate({"number": 1, "more": 2})
COMMAND: Command[str] = Command(update={"x": 1}, goto=[Send("node", 2), "other"])

RECORDS = np.array([(1, 2.5)], [("a", "<i2"), ("b", "<f4")])
ROWS = pd.RangeIndex(2)

SAMPLES: list[tuple[object, str]] = [
    (None, "c0"),
    (True, "c3"),
    (-1, "ff"),
    (2**64 - 1, "cfffffffffffffffff"),
    (1.5, "cb3ff8000000000000"),
    ("é", "a2c3a9"),
    ("\ud800", "a3eda080"),
    (b"x", "c40178"),
    ([1, "a"], "9201a161"),
    ({"a": 1, 2: None}, "82a1610102c0"),
    (2**64, "c70901010000000000000000"),
    (bytearray(b"x"), "d40278"),
    (1 - 2j, "d8033ff0000000000000c000000000000000"),
    (decimal.Decimal("1.50"), "d604312e3530"),
    (fractions.Fraction(1, 3), "c70305920103"),
    (uuid.UUID(int=1), "d80600000000000000000000000000000001"),
    (dt.date(2024, 2, 29), "d60a07e8021d"),
    (dt.time(1, 2, 3, 4), "c7070b960102030400c0"),
    (dt.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=dt.UTC), "c70e0c99cd07e8021d0102030400d40e90"),
    (dt.timedelta(-1, 2, 3), "c70c0dffffffff0000000200000003"),
    (dt.timezone(dt.timedelta(hours=1), "CET"), "c7140e92c70c0d0000000000000e1000000000a3434554"),
    (zoneinfo.ZoneInfo("Europe/Berlin"), "c70d0f4575726f70652f4265726c696e"),
    ((1, (2,)), "c706149201d5149102"),
    ({1}, "d5159101"),
    (frozenset([1]), "d5169101"),
    (collections.deque([1], maxlen=2), "d61792029101"),
    (collections.defaultdict(list, {"a": [1]}), "c70b1892a46c69737481a1619101"),
    (collections.Counter("aab"), "c7071982a16102a16201"),
    (collections.OrderedDict(b=1, a=2), "c7071a82a16201a16102"),
    (range(1, 9, 2), "d61b93010902"),
    (slice(1, None), "d61c9301c0c0"),
    (re.compile("a", re.IGNORECASE), "d61d92a16122"),
    (pathlib.PurePosixPath("/a/b"), "c7141e92ad50757265506f73697850617468a42f612f62"),
    (ipaddress.ip_address("10.0.0.1"), "c7161f92ab4950763441646472657373a831302e302e302e31"),
    (Color.RED, "c70b2892a5436f6c6f72a3524544"),
    (Access.READ | Access.WRITE, "c70a2893a6416363657373c003"),
    (Point(1, 2), "c70a2992a5506f696e74920102"),
    (Invoice(7, ("a", "b")), "c7202a92a7496e766f69636582a66e756d62657207a56c696e6573c7051492a161a162"),
    (
        Model.model_validate({"number": 1, "more": 2}),
        "c7252c95a54d6f64656c81a66e756d6265720192a46d6f7265a66e756d62657281a46d6f726502c0",
    ),
    (ValueError("x", 1), "c71b2d94b36275696c74696e733a56616c75654572726f7292a178018080"),
    (
        FileNotFoundError(2, "gone", "a.txt"),
        "c7342d94ba6275696c74696e733a46696c654e6f74466f756e644572726f729202a4676f6e658081a866696c656e616d65a5612e747874",
    ),
    (UserId("u"), "c70b2e93a6557365724964a17580"),
    (Send("node", {"x": 1}), "c70a3292a46e6f646581a17801"),
    (
        Send("node", 1, timeout=2),
        "c7173293a46e6f64650193cb4000000000000000c0a46175746f",
    ),
    (
        COMMAND,
        "c7183394c081a17801c092c7073292a46e6f646502a56f74686572",
    ),
    (Overwrite([1]), "c70334919101"),
    (DeltaSnapshot([1]), "c70336919101"),
    (Interrupt("why?", "id"), "c7093592a47768793fa26964"),
    (Interrupt("why?", "id", {"type": "string"}), "c7163593a47768793fa2696481a474797065a6737472696e67"),
    (np.array([[1, 2]], "<i2"), "d83c94a33c6932920102a143c40401000200"),
    (np.array([[1, 2], [3, 4]], ">i2", order="F"), "c7143c94a33e6932920202a146c4080001000300020004"),
    (RECORDS, "c72b3c9495a67374727563749294a161c000a33c693294a162c002a33c663406c2c29101a143c406010000002040"),
    (np.float32(1.5), "c70b3d92a33c6634c4040000c03f"),
    (np.str_("x"), "c7073d92a3737472a178"),
    (np.datetime64(1, "s"), "c7123d92a63c4d385b735dc4080100000000000000"),
    (pd.RangeIndex(1, 4, name="n"), "c7113e95aa52616e6765496e646578a16e010401"),
    (pd.Index([1.5], name="n"), "c7273e94a5496e646578a16ec092a56e756d7079c7133c94a33c66389101a143c408000000000000f83f"),
    (
        pd.MultiIndex.from_arrays([np.array([1], "i8"), np.array([2], "i8")]),
        "c7813e94aa4d756c7469496e64657892c0c092c7263e94a5496e646578c0c092a56e756d7079c7133c94a33c69389101a143c4080100000000000000c7263e94a5496e646578c0c092a56e756d7079c7133c94a33c69389101a143c408020000000000000092c70c3c94a37c69319101a143c40100c70c3c94a37c69319101a143c40100",
    ),
    (
        pd.Series(np.array([1, 2], "i8"), ROWS, name="n"),
        "c73c3f9592a56e756d7079c71b3c94a33c69389102a143c41001000000000000000200000000000000d83e95aa52616e6765496e646578c0000201a16e80c3",
    ),
    (
        pd.Series(pd.array([1, None], dtype="Int8"), ROWS),
        "c7433f9594a66d61736b6564a4496e7438c70d3c94a37c69319102a143c4020100c70d3c94a37c62319102a143c4020001d83e95aa52616e6765496e646578c0000201c080c3",
    ),
    (
        pd.Series(["x", None], ROWS, dtype=object),
        "c7223f9592a66f626a65637492a178c0d83e95aa52616e6765496e646578c0000201c080c3",
    ),
    (
        pd.DataFrame({0: np.array([1, 2], "i1")}, ROWS, pd.RangeIndex(1)),
        "c73f4095d83e95aa52616e6765496e646578c0000101d83e95aa52616e6765496e646578c00002019192a56e756d7079c70d3c94a37c69319102a143c402010280c3",
    ),
    (
        pd.Timestamp("2024-02-29", tz="UTC").as_unit("s"),
        "c7234193a954696d657374616d70c7123d92a63c4d385b735dc40800c9df6500000000d40e90",
    ),
    (pd.NaT, "c7094191a74e615454797065"),
    (pd.Period("2024-02", "M"), "c70d4193a6506572696f64a14dcd0289"),
]


@pytest.mark.parametrize(("value", "stored"), SAMPLES, ids=[f"{index}" for index in range(len(SAMPLES))])
def test_a_value_is_stored_as_it_always_was(value: object, stored: str) -> None:
    assert serializer.dumps(value).hex() == stored


@pytest.mark.parametrize(("value", "stored"), SAMPLES, ids=[f"{index}" for index in range(len(SAMPLES))])
def test_stored_bytes_are_read_as_they_always_were(value: object, stored: str) -> None:
    back = serializer.loads(bytes.fromhex(stored))

    assert type(back) is type(value)
    assert repr(back) == repr(value) or back == value


def test_every_code_of_the_table_has_a_sample() -> None:
    documented = {
        int(line[:4]) for line in (codecs.__doc__ or "").splitlines() if line[:4].strip().lstrip("-").isdigit()
    }
    constants = {value for name, value in vars(codecs).items() if name.isupper() and type(value) is int}
    sampled = {byte for _, stored in SAMPLES for byte in bytes.fromhex(stored)}

    assert documented == constants | {-1}
    assert constants - {codecs.ATTRS} <= sampled
