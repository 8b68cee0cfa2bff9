"""Records of the generate stage, read by byte offsets from a file that grows, tears, breaks and is replaced."""

import json
import os
from pathlib import Path

import pytest
from agent_client import AgentClient
from sample_client import Client, line, record

from pipeline.host import sample_lines
from pipeline.host.errors import RequestError


@pytest.fixture
def generated(run_dir: Path) -> Path:
    path = run_dir / "data" / "generated"
    path.mkdir(parents=True)
    (run_dir / "settings.json").write_text('{"generate": {"output": "data/generated"}}')
    return path


@pytest.fixture
def ask(data_dir: Path) -> Client:
    return Client(data_dir)


def test_the_newest_and_its_neighbours(generated: Path, ask: Client) -> None:
    lines = [line(record(name)) for name in "abc"]
    (generated / "responses.jsonl").write_bytes(b"".join(lines))
    last = ask("last")
    assert (last["sample"]["id"], last["offset"], last["end"]) == ("c", len(lines[0] + lines[1]), len(b"".join(lines)))
    assert (last["size"], last["first"], last["last"], last["skipped_lines"]) == (last["end"], False, True, 0)
    middle = ask("previous", last["offset"])
    assert (middle["sample"]["id"], middle["first"], middle["last"]) == ("b", False, False)
    first = ask("previous", middle["offset"])
    assert (first["sample"]["id"], first["offset"], first["first"]) == ("a", 0, True)
    assert ask("first") == first and ask("next", first["end"]) == middle
    beyond = ask("previous", 0)
    assert (beyond["sample"], beyond["first"], beyond["last"]) == (None, True, False)
    beyond = ask("next", last["end"])
    assert (beyond["sample"], beyond["first"], beyond["last"], beyond["offset"]) == (None, False, True, last["end"])
    with (generated / "responses.jsonl").open("ab") as file:
        file.write(line(record("d")))
    assert ask("next", last["end"])["sample"]["id"] == "d"


def test_a_torn_last_line_is_not_there_yet(generated: Path, ask: Client) -> None:
    path, whole, torn = generated / "responses.jsonl", line(record("a")), line(record("b"))[:-1]
    path.write_bytes(whole + torn)
    assert ask("last")["sample"]["id"] == "a" and ask("last")["last"] is True
    assert ask("next", len(whole))["sample"] is None
    path.write_bytes(torn)
    assert ask.missing() == "no prompt has been answered yet"
    with pytest.raises(RequestError, match="no prompt"):
        ask("first")
    path.write_bytes(whole + torn + b"\n")
    assert ask("last")["sample"]["id"] == "b"


BROKEN = [
    b"\n",
    b"{torn\n",
    b"[1]\n",
    b"null\n",
    b"[" * 2000 + b"]" * 2000 + b"\n",
    b'{"a":' * 40 + b"1" + b"}" * 40 + b"\n",
    b"\xff\xfe\n",
    b"\0\n",
]


@pytest.mark.parametrize("chunk", [7, 64, 1 << 16])
def test_broken_lines_are_skipped_and_counted(generated: Path, ask: Client, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_lines, "CHUNK_BYTES", chunk)
    whole = [line(record(name)) for name in "abc"]
    (generated / "responses.jsonl").write_bytes(BROKEN[0] + whole[0] + b"".join(BROKEN) + whole[1] + whole[2] + b"".join(BROKEN))
    assert ask.walk("next") == ask.walk("previous") == ["a", "b", "c"]
    last = ask("last")
    assert (last["sample"]["id"], last["skipped_lines"]) == ("c", len(BROKEN))
    first = ask("first")
    assert (first["sample"]["id"], first["skipped_lines"], first["first"]) == ("a", 1, False)
    assert ask("next", first["end"])["skipped_lines"] == len(BROKEN)
    assert ask("previous", first["offset"]) == {**ask("previous", 1), "end": first["offset"]}


def test_only_so_much_is_read_and_a_line_that_is_too_long_is_passed_over(
    generated: Path, ask: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_lines, "CHUNK_BYTES", 256)
    monkeypatch.setattr(sample_lines, "MAX_READ_BYTES", 2048)
    whole = [line(record(name)) for name in "abc"]
    (generated / "responses.jsonl").write_bytes(whole[0] + line(record("long", content="x" * 9000)) + whole[1] + whole[2])
    read = 0
    real = os.pread

    def counted(fd: int, size: int, at: int) -> bytes:
        nonlocal read
        read += size
        return real(fd, size, at)

    monkeypatch.setattr(os, "pread", counted)
    for direction, start in (("next", "first"), ("previous", "last")):
        reply, ids, empty, skipped = ask(start), [], 0, 0
        while not reply["last" if direction == "next" else "first"]:
            ids += [reply["sample"]["id"]] if reply["sample"] else []
            empty, skipped = empty + (reply["sample"] is None), skipped + reply["skipped_lines"]
            read = 0
            reply = ask(direction, reply["end" if direction == "next" else "offset"])
            assert read <= 2048 + 256, "more than a request may read"
            assert empty < 20
        ids += [reply["sample"]["id"]]
        assert ids == (["a", "b", "c"] if direction == "next" else ["c", "b", "a"]) and empty >= 3
    assert ask("first")["sample"]["id"] == "a"


def test_a_file_that_was_replaced(generated: Path, ask: Client) -> None:
    path = generated / "responses.jsonl"
    path.write_bytes(b"".join(line(record(name)) for name in "abcdef"))
    offset = ask("last")["offset"]
    path.write_bytes(line(record("x")) + line(record("y")))
    assert ask("next", offset)["sample"]["id"] == ask("previous", offset)["sample"]["id"] == "y"  # beyond its end: the last one
    inside = ask("next", 5)
    assert (inside["sample"]["id"], inside["skipped_lines"]) == ("y", 1)
    assert ask("previous", len(line(record("x"))) + 5)["sample"]["id"] == "x"
    path.write_bytes(b"torn " + line(record("tail")) + line(record("z")))
    assert ask("next", 5)["sample"]["id"] == "z", "the end of a line was taken for a line"
    path.write_bytes(b"")
    assert ask.missing() == "no prompt has been answered yet"


def test_what_is_sent_of_a_record(generated: Path, ask: Client) -> None:
    mismatch = {"part": "response", "position": 3, "server_id": 1, "template_id": 2, "more": ["x"]}
    full = record(
        "a", ids_match=False, mismatch=mismatch, temperature=0.5, latency_s=1.5, wall_s=2.0, attempt="t", model="m", reasoning="hm"
    )
    (generated / "responses.jsonl").write_bytes(line(full))
    shown = ask("last")["sample"]
    assert shown == {
        "id": "a", "split": "train", "finish_reason": "stop", "ids_match": False, "temperature": 0.5, "latency_s": 1.5, "wall_s": 2.0,
        "attempt": "t", "model": "m", "prompt_tokens": 3, "response_tokens": 2, "reasoning_chars": 2, "content_chars": 6,
        "mismatch": {name: mismatch[name] for name in ("part", "position", "server_id", "template_id")},
        "view": full["view"], "view_cut_chars": 0,
    }  # fmt: skip
    (generated / "failed.jsonl").write_bytes(line({"id": "b", "reason": "timeout", "detail": "d" * 9000, "tries": 6, "wall_s": 1.0}))
    failed = ask("last", which="failed")["sample"]
    assert (failed["reason"], failed["tries"], len(failed["detail"]), failed["view"]) == ("timeout", 6, 4096, [])


def test_long_and_hostile_records_fit_on_a_line(generated: Path, ask: Client) -> None:
    view = [
        ["prompt", "p" * 100_000],
        ["prompt_special", "\ud800" * 10],
        ["response", "\U0001f680" * 300_000],
        ["x" * 99, "y"],
        ["a"],
        3,
        ["b", 4],
    ]
    odd = {"split": ["list"], "finish_reason": {"a": 1}, "mismatch": "text", "content": 7, "messages": "x", "temperature": 0.25}
    hostile = line(record("a" * 9000, view=view, **odd)).replace(b"0.25", b"1e999")
    (generated / "responses.jsonl").write_bytes(hostile + line(record("b", view=[["response", "z"]] * 200_000)))
    reply = ask("first")
    shown = reply["sample"]
    assert len(json.dumps(reply)) < 4 << 20
    assert [(kind, len(text)) for kind, text in shown["view"]] == [("prompt", 65_536), ("response", 196_608)]
    assert shown["view_cut_chars"] == (100_000 - 65_536) + 10 + (300_000 - 196_608) + 1
    assert (len(shown["id"]), shown["split"], shown["finish_reason"], shown["content_chars"], shown["temperature"]) == (
        4096,
        None,
        None,
        None,
        None,
    )
    assert "mismatch" not in shown
    many = ask("next", reply["end"])
    assert len(json.dumps(many)) < 4 << 20 and many["sample"]["view_cut_chars"] == 200_000 - len(many["sample"]["view"])
    (generated / "responses.jsonl").write_bytes(line(record("c", view=None, messages=[{"role": "user", "content": "q" * 70_000}, 3])))
    bare = ask("last")["sample"]
    assert bare["view"] == [["prompt", "user: " + "q" * (65_536 - 6)]] and bare["view_cut_chars"] == 70_000 + 6 - 65_536


def test_nothing_there_is_told_in_words(generated: Path, run_dir: Path, ask: Client) -> None:
    assert ask.missing() == "no prompt has been answered yet"
    assert ask.missing(which="failed") == "no prompt was given up so far"
    assert "no held-out prompt" in ask.missing(which="holdout")
    assert ask.missing(run="other").startswith("no run 'other'")
    (run_dir / "settings.json").write_text("{}")
    assert "do not say where generate writes" in ask.missing()


def test_bad_requests_and_what_is_no_file(generated: Path, ask: Client) -> None:
    os.mkfifo(generated / "responses.jsonl")
    (generated / "failed.jsonl").mkdir()
    for fields, kind in [
        ({}, "failed"),
        ({"which": "failed"}, "failed"),
        ({"which": "../x"}, "usage"),
        ({"which": ["failed"]}, "usage"),
        ({"direction": "up"}, "usage"),
        ({"offset": -1}, "usage"),
        ({"offset": True}, "usage"),
        ({"offset": "1"}, "usage"),
        ({"run": "../x"}, "usage"),
        ({"run": None}, "usage"),
    ]:
        with pytest.raises(RequestError) as caught:
            ask(**{"direction": "last", **fields})
        assert caught.value.kind == kind, fields


def test_through_the_agent(agent: AgentClient, generated: Path) -> None:
    assert agent.refused("sample", run="demo", which="responses", direction="last", offset=None)["kind"] == "missing"
    ids = list(range(150_000))
    big = record("big", content="\ud83d", view=[["response", "\ud83d" * 1_000_000]], response_token_ids=ids, prompt_token_ids=ids)
    (generated / "responses.jsonl").write_bytes(line(big))
    reply = agent.ask("sample", run="demo", which="responses", direction="last", offset=None)
    shown = reply["sample"]
    assert (shown["response_tokens"], shown["view"][0][1], shown["view_cut_chars"]) == (150_000, "\ud83d" * 196_608, 1_000_000 - 196_608)
    assert agent.ask("ping")
