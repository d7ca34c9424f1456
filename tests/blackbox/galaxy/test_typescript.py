"""The bodies of events, decoded by code that flatc generates for TypeScript, as a client would."""

import base64
import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.blackbox.galaxy.rig.document import TYPES, WITH_EVENT
from tests.blackbox.galaxy.rig.system import CATALOG, Notifications
from tests.javascript.packages import package, program

SCHEMA = CATALOG.parent / "notification.fbs"
DECODE = Path(__file__).parents[2] / "javascript" / "decode.mjs"
TSC = ("--target", "ES2022", "--module", "ES2022", "--moduleResolution", "bundler", "--strict")


class TypeScript:
    """The code that was generated and compiled."""

    def __init__(self, node: str, folder: Path) -> None:
        self._node = node
        self._folder = folder

    def decode(self, bodies: Sequence[tuple[str, bytes]]) -> list[dict[str, Any]]:
        """Decode bodies, each of the table with the given name."""
        wanted = [
            {
                "module": str(self._folder / f"{_dashed(table)}.js"),
                "table": table,
                "body": base64.b64encode(body).decode(),
            }
            for table, body in bodies
        ]
        done = subprocess.run(
            [self._node, DECODE], input=json.dumps(wanted), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        decoded: list[dict[str, Any]] = json.loads(done.stdout)
        return decoded


@pytest.fixture(scope="module")
def typescript(tmp_path_factory: pytest.TempPathFactory) -> TypeScript:
    node, flatc = program("node", "nodejs"), program("flatc", "flatbuffers-compiler")
    modules = package("flatbuffers").parent
    folder = tmp_path_factory.mktemp("typescript")
    (folder / "node_modules").symlink_to(modules)
    (folder / "package.json").write_text('{"type": "module"}')
    subprocess.run([flatc, "--ts", "-o", folder, SCHEMA], check=True)
    sources = sorted((folder / "notification").glob("*.ts"))
    tsc = package("typescript") / "bin" / "tsc"
    compiled = subprocess.run(
        [node, tsc, *TSC, "--outDir", folder / "out", *sources], capture_output=True, text=True, check=False
    )
    assert compiled.returncode == 0, compiled.stdout
    return TypeScript(node, folder / "out")


async def test_every_event_is_decoded_by_the_code_of_its_table(
    galaxy: Notifications, typescript: TypeScript
) -> None:
    bodies = []
    for name in WITH_EVENT:
        entry_id = await galaxy.append(name, galaxy.player())
        await galaxy.routes(entry_id, "published")
        (event,) = await galaxy.events(entry_id)
        bodies.append((str(TYPES[name].table), event["payload_bytes"]))

    decoded = typescript.decode(bodies)

    for name, fields in zip(WITH_EVENT, decoded, strict=True):
        type_ = TYPES[name]
        assert fields == _camel({field: type_.payload[field] for field in type_.event_fields}), name


async def test_a_body_has_texts_and_numbers_as_they_were_given(
    galaxy: Notifications, typescript: TypeScript
) -> None:
    given = {"game_id": "partie-é-游戏-🚀", "game_name": "Perseus", "turn_number": 2**53 - 1}

    entry_id = await galaxy.append("game.turn.ready", galaxy.player(), payload_json=json.dumps(given))

    await galaxy.routes(entry_id, "published")
    (event,) = await galaxy.events(entry_id)
    (decoded,) = typescript.decode([("GameTurnReadyEvent", event["payload_bytes"])])
    assert decoded == {"gameId": given["game_id"], "turnNumber": given["turn_number"]}
    assert str(given["game_name"]).encode() not in event["payload_bytes"]


def _dashed(table: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", table).lower()


def _camel(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {re.sub(r"_(\w)", lambda part: part[1].upper(), name): value for name, value in fields.items()}
