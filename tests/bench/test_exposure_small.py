"""The benchmark of the exposure check runs end to end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_it_runs_and_resumes(new_database: Callable[..., str], tmp_path: Path) -> None:
    url = new_database(empty=True)
    command = [sys.executable, "-m", "benchmarks.exposure", "--small", "--synthetic", "--samples", "1"]
    command += ["--database-url", url, "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    report = json.loads((tmp_path / "clustered.json").read_text())
    assert report["vectors"] == 2_000 and len(report["callers"]) == 14
    written = {file.name for file in tmp_path.iterdir()}
    assert {"results.md", "recall.png", "random.json", "owned.json", "page.html"} <= written
    kept = {file: file.stat().st_mtime_ns for file in tmp_path.glob("*.json")}
    subprocess.run([*command, "--resume"], cwd=ROOT, check=True, capture_output=True)
    assert {file: file.stat().st_mtime_ns for file in tmp_path.glob("*.json")} == kept
