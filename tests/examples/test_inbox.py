import subprocess
from collections.abc import Callable
from signal import SIGINT

import httpx

from tests.waiting import LONGEST_WAIT


def test_the_page_its_component_and_the_inbox_have_one_origin(
    start: Callable[[str], subprocess.Popen[str]],
) -> None:
    with start("inbox") as process:
        assert process.stdout
        line = next(line for line in iter(process.stdout.readline, "") if line.startswith("Open "))
        with httpx.Client(base_url=line.split()[1], timeout=LONGEST_WAIT) as http:
            assert "<tocsin-inbox>" in http.get("/").text
            assert http.get("/v1/inbox/component/tocsin-inbox.js").status_code == 200
            token = http.post("/session/ada").json()["token"]
            headers = {"Authorization": f"Bearer {token}"}
            with http.stream("GET", "/v1/inbox/stream", headers=headers) as stream:
                assert any(text == ": ping" for text in stream.iter_lines())
                while not (items := http.get("/v1/inbox", headers=headers).json()["items"]):
                    pass
            assert [item["title"] for item in items] == ["Welcome"]
        process.send_signal(SIGINT)
        assert process.wait(60) == 1
