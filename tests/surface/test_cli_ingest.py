"""`ingest`: files, folders and JSON lines; what fails is reported, and the rest goes on."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from context_engine import ACL, PUBLIC, TRUSTED, Engine, Policy, document_id
from context_engine.access import normalise_acl
from context_engine.surfaces.cli import reading
from context_engine.surfaces.cli.ingest import _SHOWN

Folder = Callable[..., Path]


@pytest.fixture
def stored(new_engine: Callable[..., Engine], database_url: str) -> Engine:
    """An engine on the database that the commands work on."""
    return new_engine(database_url)


def names(engine: Engine) -> dict[str, str]:
    return {item.external_id: item.name for item in engine.list_documents(principals=TRUSTED)}


def acl_of(engine: Engine, source: str, external_id: str) -> Any:
    return normalise_acl(engine.get_acl(document_id(source, external_id)))


def lines(*documents: Any) -> str:
    return "".join(json.dumps(document) + "\n" for document in documents)


def test_a_folder_is_taken_whole(cli: Any, folder: Folder, stored: Engine) -> None:
    root = folder(
        {
            "guide.md": "# The guide\n\nFirst steps.",
            "deep/er/page.html": "<title>A page</title><p>Words.</p>",
            "deep/notes.txt": "plain notes",
            "deep/list.jsonl": lines({"id": "a", "title": "Line", "text": "one", "acl": ["x"]}),
            "photo.png": b"\x89PNG....",
            ".hidden/secret.md": "# Hidden",
            ".env.txt": "KEY=1",
        }
    )
    result = cli("ingest", root, "--source", "docs", "--acl", "group:staff")
    assert "4 documents: 4 created · 0 updated · 0 unchanged · 0 acl updated · 0 failed" in result.output
    assert "left out, not text: .png 1, hidden 1" in result.output
    assert "documents/s" in result.output
    assert names(stored) == {
        "guide.md": "The guide",
        "deep/er/page.html": "A page",
        "deep/notes.txt": "notes.txt",
        "a": "Line",
    }
    assert acl_of(stored, "docs", "guide.md") == normalise_acl(ACL(["group:staff"]))


def test_twice_costs_nothing_and_changes_are_counted(cli: Any, folder: Folder) -> None:
    root = folder({"a.md": "# A\n\none", "b.md": "# B\n\ntwo", "c.md": "# C\n\nthree"})
    cli("ingest", root, "--source", "s", "--acl", "group:a")
    assert "0 created · 0 updated · 3 unchanged" in cli("ingest", root, "--source", "s").output
    folder({"a.md": "# A\n\nchanged", "d.md": "# D\n\nfour"})
    (root / "b.md").unlink()
    (root / "c.md").unlink()
    assert "1 created · 1 updated" in cli("ingest", root, "--source", "s", "--acl", "group:a").output
    assert "2 acl updated" in cli("ingest", root, "--source", "s", "--public").output


def test_a_file_that_is_named_itself_keeps_its_name_as_id(cli: Any, folder: Folder, stored: Engine) -> None:
    root = folder({"deep/README": "read me", "deep/script.py": "print(1)"})
    cli("ingest", root / "deep/README", root / "deep/script.py", "--source", "s", "--public")
    assert names(stored) == {"README": "README", "script.py": "script.py"}


def test_what_cannot_be_read_fails_and_the_rest_goes_on(cli: Any, folder: Folder, stored: Engine) -> None:
    root = folder(
        {
            "good.md": "# Good\n\ntext",
            "binary.txt": bytes(range(256)) * 4,
            "really.txt": b"%PDF-1.7 ...",
            "broken.jsonl.gz": gzip.compress(
                lines(*({"id": str(n), "text": os.urandom(9).hex()} for n in range(99))).encode()
            )[:-40],
        }
    )
    result = cli("ingest", root, root / "gone", "--source", "s", "--public", exits=1)
    for reason in ("binary data", "found a PDF", "cannot be read", "no such file or folder"):
        assert reason in result.output
    assert "4 failed" in result.output
    assert names(stored)["good.md"] == "Good"
    assert len(names(stored)) > 1, "the lines before the damage are stored"


def test_an_unreadable_folder_is_a_failure(cli: Any, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder({"a.md": "# A", "closed/b.md": "# B"})
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    result = cli("ingest", root, "--source", "s", "--public", exits=1)
    assert "closed" in result.output and "Permission denied" in result.output
    assert "1 created" in result.output


def test_two_files_with_one_id_do_not_replace_each_other(cli: Any, folder: Folder, stored: Engine) -> None:
    first = folder({"README.md": "# First"}, "one")
    second = folder({"README.md": "# Second"}, "two")
    result = cli("ingest", first, second, "--source", "s", "--public", exits=1)
    assert "has the same id" in result.output
    assert names(stored) == {"README.md": "First"}


def test_links_out_of_the_folder_are_left_out(folder: Folder) -> None:
    secret = folder({"secret.md": "# Secret"}, "private")
    root = folder({"a.md": "# A"}, "public")
    (root / "out.md").symlink_to(secret / "secret.md")
    (root / "in.md").symlink_to(root / "a.md")
    found = reading.Reader([root], "s")
    assert [external_id for _, external_id in found.files] == ["a.md", "in.md"]
    assert found.left_out == {"links out of the folder": 1}


def test_acls_of_lines(cli: Any, folder: Folder, stored: Engine) -> None:
    stored.set_policy("board", ["group:board"])
    forms: dict[str, tuple[Any, Any]] = {
        "list": (["a", "b"], ACL(["a", "b"])),
        "nobody": ([], ACL([])),
        "rule": (
            {"allow": ["a"], "require": ["r"], "deny": ["d"]},
            ACL(["a"], ["r"], ["d"]),
        ),
        "public": ({"public": True}, ACL([PUBLIC])),
        "public but": ({"public": True, "deny": ["d"]}, ACL([PUBLIC], [], ["d"])),
        "policy": ({"policy": "board"}, Policy("board")),
    }
    root = folder(
        {
            "acls.jsonl": lines(
                *({"id": key, "text": key, "acl": acl} for key, (acl, _) in forms.items()),
                {"id": "default", "text": "the command's"},
            )
        }
    )
    options = ("--acl", "group:x", "--require", "r", "--deny", "d")
    cli("ingest", root / "acls.jsonl", "--source", "s", *options)
    for key, (_, acl) in forms.items():
        assert acl_of(stored, "s", key) == normalise_acl(acl), key
    assert acl_of(stored, "s", "default") == normalise_acl(ACL(["group:x"], ["r"], ["d"]))


def test_a_bad_line_fails_alone_with_file_and_line(
    cli: Any, folder: Folder, stored: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = {
        2: ('{"id": "b", "text": "x", "acl": "group:hr"}', "not a string"),
        3: ('{"id": "c", "text": "x", "acl": null}', "not null"),
        4: ('{"id": "d", "text": "x", "acl": {"policy": "nobody knows"}}', "no policy is named"),
        5: ('{"id": "e", "text": "", "acl": ["a"]}', "nothing to index"),
        7: ('{"id": "g", "text"', "not JSON"),
    }
    good = {1: '{"id": "a", "text": "x"}', 6: "", 8: '{"id": "h", "text": "x"}'}
    rows = {**good, **{number: line for number, (line, _) in bad.items()}}
    monkeypatch.chdir(folder({"lines.jsonl": "\n".join(rows[n] for n in sorted(rows))}))
    result = cli("ingest", "lines.jsonl", "--source", "s", "--public", exits=1)
    for number, (_, reason) in bad.items():
        [row] = [line for line in result.output.splitlines() if f"lines.jsonl:{number} " in line]
        assert reason in row
    assert "7 documents: 2 created · 0 updated · 0 unchanged · 0 acl updated · 5 failed" in result.output
    assert set(names(stored)) == {"a", "h"}


def test_fields_of_lines(cli: Any, folder: Folder, stored: Engine) -> None:
    document = {
        "id": 17,
        "title": "Räksmörgås",
        "text": "tasty",
        "acl": ["a"],
        "source": "other",
        "metadata": {"year": 2020, "tags": ["x"]},
        "owner": "ignored",
    }
    packed = gzip.compress(b"\xef\xbb\xbf" + lines(document).encode())
    root = folder({"lines.jsonl.gz": packed})
    cli("ingest", root, "--source", "s")
    [info] = stored.list_documents(principals=["a"])
    assert (info.source, info.external_id, info.name) == ("other", "17", "Räksmörgås")
    assert info.metadata == {"year": 2020, "tags": ["x"]}


def test_without_an_acl_new_documents_are_refused_and_stored_ones_keep_theirs(
    cli: Any, folder: Folder, stored: Engine
) -> None:
    root = folder({"a.md": "# A\n\none"})
    cli("ingest", root, "--source", "s", "--acl", "group:a")
    folder({"a.md": "# A\n\ntwo", "b.md": "# B\n\nnew"})
    result = cli("ingest", root, "--source", "s", exits=1)
    assert "1 updated" in result.output and "1 failed" in result.output
    assert "no --acl, --public or --policy was given" in result.output
    assert acl_of(stored, "s", "a.md") == normalise_acl(ACL(["group:a"]))


def test_a_long_list_of_failures_is_cut_and_can_be_had(cli: Any, folder: Folder) -> None:
    root = folder({"bad.jsonl": "nonsense\n" * (_SHOWN + 5)})
    result = cli("ingest", root, "--source", "s", "--public", exits=1)
    assert "… and 5 more" in result.output
    assert f"bad.jsonl:{_SHOWN + 1} " not in result.output
    result = cli("ingest", root, "--source", "s", "--public", "--all-failures", exits=1)
    assert f"bad.jsonl:{_SHOWN + 5} " in result.output


def test_one_line_that_is_too_long_does_not_fill_the_memory(
    cli: Any, folder: Folder, stored: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", 1000)
    monkeypatch.setattr(reading, "_BLOCK", 64)
    long = {"id": "long", "text": "x" * 5000}
    rows = lines({"id": "a", "text": "before"}, long, {"id": "b", "text": "after"})
    root = folder({"lines.jsonl": rows, "big.txt": "y" * 5000})
    result = cli("ingest", root, "--source", "s", "--public", exits=1)
    assert result.output.count("is larger than") == 2
    assert "lines.jsonl:2 " in result.output.replace("\n", "")  # a long folder is folded
    assert set(names(stored)) == {"a", "b"}


def test_remarks_are_told(cli: Any, folder: Folder) -> None:
    root = folder({"lines.jsonl": '{"id": "a", "text": "a\\u0000b"}\n'})
    result = cli("ingest", root, "--source", "s", "--public")
    assert "lines.jsonl:1: 1 characters that cannot be stored were replaced" in result.output


def test_names_cannot_steer_the_terminal(cli: Any, folder: Folder) -> None:
    root = folder({"lines.jsonl": '{"id": "a\\u001b[2Jb", "title": "\\u001b[31mred[bold]", "text": "x"}\n'})
    cli("ingest", root, "--source", "s", "--public")
    output = cli("documents", "--trusted").output + cli("search", "x", "--trusted").output
    assert "\x1b" not in output
    assert "red[bold]" in output


def test_the_count_is_known_before(folder: Folder) -> None:
    root = folder(
        {
            "a.md": "# A",
            "b.jsonl": "{}\n{}\n{}",
            "c.jsonl.gz": gzip.compress(b"{}\n{}\n"),
            "d.jsonl.gz": b"not gzip",
            "e.jsonl": "",
        }
    )
    assert reading.Reader([root], "s").count() == 1 + 3 + 2


def test_what_stops_an_ingest_says_how_far_it_came(cli: Any, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "ingest", interrupted)
    result = cli("ingest", folder({"a.md": "# A"}), "--source", "s", "--public", exits=130)
    assert "stopped after 0 documents" in result.output
