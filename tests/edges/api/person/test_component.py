"""The files of `<tocsin-inbox>` as browsers, bundlers and compilers get them."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.edges.edge import Edge
from tests.javascript.packages import package, program
from tocsin.api.person.component import FILES, FOLDER

SOURCES = Path(__file__).parents[4] / "src" / "tocsin" / "api" / "person" / "component"
USE = """
import { TocsinInbox, type InboxItem } from "./tocsin-inbox.js";

const element = document.querySelector("tocsin-inbox")!;
element.getToken = async () => "a token";
element.labels = { orders: "Orders" };
element.addEventListener("tocsin-count", ({ detail }) => (document.title = `${detail.unread}`));
element.addEventListener("tocsin-open", (event) => {
  const item: InboxItem = event.detail.item;
  if (item.type === "order_shipped" && event.detail.href !== null) event.preventDefault();
});
if (element instanceof TocsinInbox) element.show();
// @ts-expect-error the component counts by itself
element.unread = 3;
// @ts-expect-error a token is a text
element.getToken = async () => 42;
"""
LANGUAGES = """
import { TEXTS } from "FILE";
const shape = (texts) => Object.keys(texts).sort().join();
const faults = Object.entries(TEXTS).flatMap(([code, texts]) => {
  const forms = new Intl.PluralRules(code).resolvedOptions().pluralCategories;
  const missing = forms.filter((form) => texts.count[form] === undefined && form !== "one");
  return shape(texts) === shape(TEXTS.en) && missing.length === 0 ? [] : [`${code}: ${missing}`];
});
console.log(JSON.stringify({ codes: Object.keys(TEXTS), faults }));
"""
FRAMES = r"""
import { backoff, FrameReader } from "FILE";
const text =
  'retry: 3000\n\n: ping\nid: 1-1\n\nid: 1-2\ndata: {"a": "b: c"}\n\n' +
  'event: end\ndata: {"reason": "restart"}\n\ndata: cut off';
const whole = new FrameReader().feed(text);
const reader = new FrameReader();
const byCharacter = [...text].flatMap((character) => reader.feed(character));
const waits = [0, 1, 50].flatMap((failures) => [0, 1].map((random) => backoff(failures, 1000, () => random)));
console.log(JSON.stringify([whole, byCharacter, waits]));
"""


async def test_a_file_is_public_and_asked_for_again_without_being_sent_again(edge: Edge) -> None:
    answer = await edge.http.get(f"{FOLDER}/tocsin-inbox.js")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["cache-control"] == "public, no-cache"
    assert answer.content == (SOURCES / "tocsin-inbox.js").read_bytes()

    etag = answer.headers["etag"]
    for known in (etag, f'"another", W/{etag}'):
        again = await edge.http.get(f"{FOLDER}/tocsin-inbox.js", headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    other = await edge.http.get(f"{FOLDER}/tocsin-inbox.js", headers={"If-None-Match": '"another"'})
    assert other.status_code == 200


@pytest.mark.parametrize("name", ["__init__.py", "..%2Finbox.py", "nothing.js", "constructor"])
async def test_nothing_but_the_component_is_served(edge: Edge, name: str) -> None:
    answer = await edge.http.get(f"{FOLDER}/{name}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_every_import_of_the_component_is_served() -> None:
    imported = {
        name
        for file in FILES.values()
        for name in re.findall(r'^import .* from "\./([^"]+)";$', file.content.decode(), re.MULTILINE)
    }
    assert imported
    assert imported <= FILES.keys()


def test_the_types_hold_for_a_page_in_typescript(tmp_path: Path) -> None:
    node = program("node", "nodejs")
    tsc = package("typescript") / "bin" / "tsc"
    (tmp_path / "tocsin-inbox.d.ts").write_bytes(FILES["tocsin-inbox.d.ts"].content)
    (tmp_path / "use.ts").write_text(USE)
    options = ["--noEmit", "--strict", "--target", "es2022", "--module", "es2022"]
    result = subprocess.run(
        [node, tsc, *options, "--moduleResolution", "bundler", "--lib", "es2022,dom", tmp_path / "use.ts"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (result.returncode, result.stdout) == (0, "")


def evaluate(script: str, file: str) -> Any:
    """Run a script that imports a file of the component, and return what it prints as JSON."""
    result = subprocess.run(
        [program("node", "nodejs"), "--input-type=module", "--no-warnings"],
        input=script.replace("FILE", (SOURCES / file).as_uri()),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(result.stdout)


def test_frames_are_read_however_they_are_cut() -> None:
    whole, by_character, waits = evaluate(FRAMES, "live.js")
    assert whole == by_character
    assert whole == [
        {"event": "message", "data": None, "id": None, "retry": 3000},
        {"event": "message", "data": None, "id": "1-1", "retry": None},
        {"event": "message", "data": '{"a": "b: c"}', "id": "1-2", "retry": None},
        {"event": "end", "data": '{"reason": "restart"}', "id": None, "retry": None},
    ]
    # Half of each wait is random; it doubles up to a minute.
    assert waits == [500, 1000, 1000, 2000, 30_000, 60_000]


def test_ten_languages_have_every_text_and_plural() -> None:
    told = evaluate(LANGUAGES, "texts.js")
    assert sorted(told["codes"]) == ["ar", "de", "en", "es", "fa", "fr", "pt", "ru", "tr", "zh"]
    assert told["faults"] == []
