"""Packages of functions, unpacked and run as Lambda does."""

import asyncio
import hashlib
import json
import os
import sys
import zipfile
from collections.abc import Callable
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from typer.testing import CliRunner

from tests.aws.functions.events import envelope, failed, queue_record
from tests.aws.functions.phones import bodies, register_phone
from tests.aws_servers import REGION, AwsServer
from tests.databases import SCHEMA
from tests.redis_servers import RedisServer
from tocsin.aws.packaging.dependencies import PROVIDED
from tocsin.aws.packaging.target import Platform, Target
from tocsin.cli.commands import app
from tocsin.store.pool import Pool
from tocsin.wire.streams.client_events import DEFAULT_STREAM

LARGEST = 10_000_000

INVOKE = """
import json, sys
sys.path[:0] = sys.argv[1:3]
from importlib import import_module
handler = import_module(sys.argv[3].rpartition(".")[0]).handler
print(json.dumps({"answer": handler(json.load(sys.stdin), None)}))
print(json.dumps({"loaded": sorted({name.partition(".")[0] for name in sys.modules})}))
"""


def package(output: Path, *options: str, ok: bool = True) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["functions", "package", "--output", str(output), "--json", *options])
    if not ok:
        return {"exit_code": result.exit_code, "output": result.output, "exception": str(result.exception)}
    assert result.exit_code == 0, result.output
    made: dict[str, Any] = json.loads(result.stdout)
    return made


@pytest.fixture(scope="session")
def lambda_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with the packages that Lambda's runtime has, and no others."""
    folder = tmp_path_factory.mktemp("runtime")
    for name in PROVIDED:
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        source = origin.parent if origin.name == "__init__.py" else origin
        (folder / source.name).symlink_to(source)
    return folder


@pytest.fixture
def invoke(tmp_path: Path, lambda_packages: Path) -> Callable[..., Any]:
    """Give a function that unpacks a package and invokes it in an interpreter without this environment."""

    async def run(made: dict[str, Any], *records: Any) -> tuple[dict[str, Any], set[str]]:
        folder = tmp_path / "unpacked"
        with zipfile.ZipFile(made["file"]) as archive:
            archive.extractall(folder)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", INVOKE, str(folder), str(lambda_packages), made["handler"]),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        out, err = await process.communicate(json.dumps({"Records": records}).encode())
        assert process.returncode == 0, err.decode()
        assert err == b""
        lines = [json.loads(line) for line in out.splitlines()]
        return lines[-2]["answer"], set(lines[-1]["loaded"])

    return run


@pytest.mark.usefixtures("mobile")
async def test_the_package_for_phones_runs_by_itself(
    tmp_path: Path,
    invoke: Callable[..., Any],
    pool: Pool,
    aws_server: AwsServer,
) -> None:
    phone = await register_phone(pool, aws_server, "ada")
    made = package(tmp_path / "mobile.zip")
    records = [queue_record(envelope("ada", body=text), "user-ada") for text in ("first", "second")]

    answer, loaded = await invoke(made, *records)

    assert failed(answer) == []
    assert bodies(phone) == ["first", "second"]
    assert loaded.isdisjoint(
        {"litestar", "asyncpg", "structlog", "redis", "cryptography", "typing_extensions"}
    )
    assert made["bytes"] == (tmp_path / "mobile.zip").stat().st_size < LARGEST
    assert made["packages"] == ["msgspec"]
    assert made["handler"] == "tocsin.aws.delivery_mobile.handler"


async def test_the_package_with_a_driver_reads_the_database(
    tmp_path: Path,
    invoke: Callable[..., Any],
    pool: Pool,
    database_url: str,
    aws_server: AwsServer,
    clean_environ: pytest.MonkeyPatch,
) -> None:
    phone = await register_phone(pool, aws_server, "ada")
    clean_environ.setenv("DELIVERY_DATABASE_URL", database_url)
    clean_environ.setenv("DELIVERY_SCHEMA", SCHEMA)
    clean_environ.setenv("AWS_ENDPOINT_URL", aws_server.url)
    clean_environ.setenv("AWS_DEFAULT_REGION", REGION)
    made = package(tmp_path / "mobile.zip", "--database")

    answer, loaded = await invoke(made, queue_record(envelope("ada"), "user-ada"))

    assert failed(answer) == []
    assert len(bodies(phone)) == 1
    assert "asyncpg" in loaded
    assert made["bytes"] < LARGEST


async def test_the_package_for_browsers_runs_by_itself(
    tmp_path: Path,
    invoke: Callable[..., Any],
    redis: Redis,
    redis_server: RedisServer,
    clean_environ: pytest.MonkeyPatch,
) -> None:
    clean_environ.setenv("DELIVERY_REDIS_URL", redis_server.url)
    made = package(tmp_path / "web.zip", "--function", "web")

    answer, _ = await invoke(made, queue_record(envelope("ada"), "user-ada"))

    assert failed(answer) == []
    assert await redis.xlen(DEFAULT_STREAM) == 1
    assert made["packages"] == ["msgspec", "redis"]
    assert made["bytes"] < LARGEST


def test_the_same_content_makes_the_same_bytes(tmp_path: Path) -> None:
    first, second = [package(tmp_path / name) for name in ("a.zip", "b.zip")]

    content = (tmp_path / "a.zip").read_bytes()
    assert content == (tmp_path / "b.zip").read_bytes()
    assert first["sha256"] == second["sha256"] == hashlib.sha256(content).hexdigest()
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        names = archive.namelist()
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert names == sorted(names)
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"msgspec", f"msgspec-{distribution('msgspec').version}.dist-info", "tocsin"}
    assert not any("/api/" in name or "/store/" in name or "packaging" in name for name in names)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "b.zip"]


def fake_wheel(folder: Path, tag: str) -> None:
    """Write a wheel of msgspec for another machine."""
    found = distribution("msgspec")
    name = f"msgspec-{found.version}"
    content = {
        "msgspec/__init__.py": f"built_for = {tag!r}\n",
        f"{name}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: msgspec\nVersion: {found.version}\n",
        f"{name}.dist-info/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n",
        f"{name}.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(folder / f"{name}-{tag}.whl", "w") as archive:
        for path, text in content.items():
            archive.writestr(path, text)


def test_wheels_of_another_machine_come_from_a_folder(tmp_path: Path) -> None:
    for tag in ("cp313-cp313-manylinux2014_aarch64", "cp313-cp313-manylinux2014_x86_64"):
        fake_wheel(tmp_path, tag)
    options = ["--platform", "manylinux2014_aarch64", "--python", "3.13", "--wheels", str(tmp_path)]

    made = package(tmp_path / "arm.zip", *options)

    with zipfile.ZipFile(tmp_path / "arm.zip") as archive:
        assert b"cp313-cp313-manylinux2014_aarch64" in archive.read("msgspec/__init__.py")
        assert not any(name.endswith("RECORD") for name in archive.namelist())
    assert (made["platform"], made["python"]) == ("manylinux2014_aarch64", "3.13")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--python", "3.13"], "not for Python 3.13"),
        (["--python", "3.10"], "is not a version"),
        (["--python", "three"], "is not a version"),
        (["--wheels", ".", "--download"], "not both"),
        (["--function", "web", "--database"], "Only the function for phones"),
        (["--python", "3.13", "--wheels", "EMPTY"], "pip has no wheels"),
    ],
)
def test_what_cannot_be_made_is_explained_and_leaves_nothing(
    tmp_path: Path, options: list[str], message: str
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    given = [str(empty) if option == "EMPTY" else option for option in options]

    result = package(tmp_path / "no.zip", *given, ok=False)

    assert result["exit_code"] != 0
    assert message in result["output"] + result["exception"]
    assert not (tmp_path / "no.zip").exists()


def test_a_folder_that_is_not_there_is_explained(tmp_path: Path) -> None:
    result = package(tmp_path / "missing" / "no.zip", ok=False)

    assert "cannot be written" in result["output"] + result["exception"]


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("kind", ["pipe", "loop"])
def test_what_is_no_file_is_not_replaced(tmp_path: Path, kind: str, *, linked: bool) -> None:
    output = tmp_path / kind
    if kind == "pipe":
        os.mkfifo(output)
    else:
        output.symlink_to(output)
    if linked:
        (tmp_path / "link").symlink_to(output)
    before = output.lstat().st_ino

    result = package(tmp_path / "link" if linked else output, ok=False)

    assert result["exit_code"] != 0
    assert "no regular file" in result["output"] + result["exception"]
    assert output.lstat().st_ino == before
    assert len(list(tmp_path.iterdir())) == 1 + linked


@pytest.mark.parametrize("exists", [True, False])
def test_the_file_that_a_link_leads_to_is_written(tmp_path: Path, *, exists: bool) -> None:
    file, link = tmp_path / "folder" / "real.zip", tmp_path / "link.zip"
    file.parent.mkdir()
    if exists:
        file.write_bytes(b"old")
    link.symlink_to(file)

    made = package(link)

    assert link.is_symlink()
    assert made["file"] == str(link)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == made["sha256"]
    assert [path.name for path in file.parent.iterdir()] == ["real.zip"]


@pytest.mark.parametrize(
    ("python", "tag", "runs"),
    [
        ((3, 12), "py3-none-any", True),
        ((3, 12), "cp312-cp312-manylinux2014_x86_64", True),
        ((3, 12), "cp312-cp312-manylinux_2_34_x86_64", True),
        ((3, 12), "cp312-cp312-manylinux_2_35_x86_64", False),
        ((3, 11), "cp311-cp311-manylinux_2_28_x86_64", False),
        ((3, 12), "cp312-cp312-manylinux2014_aarch64", False),
        ((3, 12), "cp312-cp312-musllinux_1_2_x86_64", False),
        ((3, 12), "cp312-cp312-linux_x86_64", False),
    ],
)
def test_what_runs_on_the_c_library_of_a_runtime(python: tuple[int, int], tag: str, *, runs: bool) -> None:
    assert Target(Platform.X86_64, python).runs([tag]) is runs
